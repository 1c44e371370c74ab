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

enum { KEY_ROLE = 0x7501, KEY_NEXT, KEY_NODE };

static const struct argp_option options[] = {
    {"role", KEY_ROLE, "ROLE", 0, "firewall, balancer, server or worker", 0},
    {"next", KEY_NEXT, "ADDR", 0, "A tier to pass requests on to; at most two, in turn", 0},
    {"node", KEY_NODE, "ADDR", 0, "A worker's memory node, for results and pixels there", 0},
    {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->server;
		return 0;
	case KEY_ROLE:
		if (!images_role_parse(arg, &args->role))
			app_bad("--role %s: give firewall, balancer, server or worker", arg);
		return 0;
	case KEY_NEXT:
		if (args->nexts == 2)
			app_bad("--next %s: two are enough", arg);
		args->next[args->nexts++] = arg;
		return 0;
	case KEY_NODE:
		args->node = arg;
		return 0;
	case ARGP_KEY_END:
		if (args->role != IMAGES_WORKER && !args->nexts)
			app_bad("next address missing; give all tiers but workers --next");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void stop_tier(void *arg)
{
	images_tier_stop(arg);
}

int app_tier(int argc, char **argv)
{
	static const struct argp_child children[] = {{&app_server_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {.options = options,
					 .parser = parse_option,
					 .children = children,
					 .doc = "One tier of the image service."};
	struct args args = {.server = APP_SERVER_ARGS_INIT, .role = IMAGES_FIREWALL};
	struct lend_config config = LEND_CONFIG_INIT;
	struct app_server server;
	struct images_tier tier;
	int rc;

	app_parse(&argp, argc, argv, &args);
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
