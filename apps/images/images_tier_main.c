/* images_tier_main - `lend tier`: one tier of the image service as a process. images starts them.
 * Layer: apps. Threads: one. */
#include <string.h>

#include "apps/commands.h"
#include "apps/images/images.h"

struct args {
	struct app_server_args server;
	enum images_role role;
	const char *next[2], *node;
	unsigned nexts;
};

static void take_next(const struct lend_option *option, void *input, char *value)
{
	struct args *args = input;

	if (args->nexts == 2)
		app_bad("--%s %s: two are enough", option->name, value);
	args->next[args->nexts++] = value;
}

static const struct lend_option options[] = {
    OPT_CHOICE(struct args, role, "role", "ROLE", images_role_names,
	       "firewall, balancer, server or worker"),
    OPT_TAKEN("next", "ADDR", take_next, "A tier to pass requests on to; at most two, in turn"),
    OPT_TEXT(struct args, node, "node", "ADDR",
	     "A worker's memory node, for results and pixels there"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct args *args = input;

	if (args->role != IMAGES_WORKER && !args->nexts)
		app_bad("next address missing; give all tiers but workers --next");
}

static void stop_tier(void *arg)
{
	images_tier_stop(arg);
}

int app_tier(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_server_syntax,
						  .child_at = offsetof(struct args, server),
						  .check = check_args,
						  .doc = "One tier of the image service."};
	struct args args = {.server = APP_SERVER_ARGS_INIT, .role = IMAGES_FIREWALL};
	struct lend_config config = LEND_CONFIG_INIT;
	struct app_server server;
	struct images_tier tier;
	int rc;

	app_options_read(&syntax, argc, argv, &args);
	images_config(&config);
	app_server_open(&server, &args.server, &config);
	if (images_tier_open(&tier, server.ep, args.role, args.next, args.nexts, args.node) < 0)
		app_die("%s", lend_why());
	server.closing = stop_tier;
	server.arg = &tier;
	rc = app_server_run(&server);
	images_tier_close(&tier);
	return rc;
}
