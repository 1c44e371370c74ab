/* social - the command line of the social network.
 * Layer: apps. Threads: one. */
#include "apps/common/options.h"
#include "apps/social/deploy.h"

static const char *const by_names[] = {"value", "ref", "auto", NULL};

static const struct lend_option options[] = {
    OPT_TEXT(struct social_args, roles, "role", "A,B", "Serve these roles in this process"),
    OPT_TEXT(struct social_args, dir, "dir", "DIR", "Folder with the addresses and the stores"),
    OPT_TEXT(struct social_args, node, "node", "ADDR", "Address of the memory node"),
    OPT_TEXT(struct social_args, http, "http", "HOST:PORT", "Where the gateway listens"),
    OPT_SIZE(struct social_args, body_max, "body-max", 1 << 10, 64 << 20,
	     "The longest form that the gateway takes (8M)"),
    OPT_CHOICE(struct social_args, by, "by", "HOW", by_names,
	       "How texts and media travel: value, ref or auto"),
    OPT_FLAG(struct social_args, embed, "embed", "Posts contain their media"),
    {.name = NULL}};

int social_main(int argc, char **argv, const struct social_transport *transport)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .child = &app_server_syntax,
	    .some = "listen cpu ready-fd json",
	    .doc = "A social network of twelve services: the application of DeathStarBench."};
	struct social_args args = {.server = APP_SERVER_ARGS_INIT,
				   .by = SOCIAL_BY_AUTO,
				   .http = "127.0.0.1:0",
				   .body_max = 8 << 20};

	lend_cli_name_set("lend ", "social");
	app_options_read(&syntax, argc, argv, &args);
	social.transport = transport;
	social.dir = args.dir;
	social.by = args.by;
	social.embed = args.embed;
	social.real_stores = args.real_stores;
	if (!args.roles || !args.dir)
		app_bad("which process? give --role and --dir");
	return social_process(&args);
}
