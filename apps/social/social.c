/* social - the command line of the social network.
 * Layer: apps. Threads: one. */
#include "apps/common/options.h"
#include "apps/social/deploy.h"
#include "apps/social/graph.h"

static const char *const by_names[] = {"value", "ref", "auto", NULL};
static const char *const store_names[] = {"lmdb", "real", NULL};

static const struct lend_option options[] = {
    APP_CARRIER(struct social_args, carrier, "Carrier of all calls: shm or udp (shm)"),
    OPT_CHOICE(struct social_args, by, "by", "HOW", by_names,
	       "How texts and media travel: value, ref or auto (auto)"),
    OPT_CHOICE(struct social_args, workload, "workload", "W", social_workload_names,
	       "embedded, original, articles, photos or dmrpc (embedded)"),
    OPT_TEXT(struct social_args, mix, "mix", "H/U/C",
	     "Percent of home timelines, user timelines and composes (the workload's)"),
    OPT_NUMBER(struct social_args, rate, "rate", 1, 1000000, "Requests per second offered (500)"),
    OPT_TIME(struct social_args, time, "seconds", "How long to load (2)", .key = 't'),
    OPT_FLAG(
	struct social_args, ramp, "ramp",
	"Raise the rate until it saturates; CPU time, bytes and times of each process are only "
	"of runs without this"),
    OPT_FLAG(struct social_args, pool, "pool", "Readers map the memory node's pages"),
    OPT_FLAG(struct social_args, apart, "apart", "Each role in a process of its own"),
    OPT_NUMBER(struct social_args, users, "users", 10, 10000, "Users of the graph (962)"),
    OPT_TEXT(struct social_args, graph, "graph", "PATH", "Graph of PATH.nodes and PATH.edges"),
    OPT_TEXT(struct social_args, photo, "photo", "FILE",
	     "JPEG of each compose of photos (of mate-backgrounds, 512 KB)"),
    OPT_TEXT(struct social_args, get_photo, "get-photo", "FILE",
	     "JPEG that photos read (of mate-backgrounds, 64 KB)"),
    OPT_CHOICE(struct social_args, stores, "stores", "KIND", store_names,
	       "lmdb, or real: redis and memcached"),
    OPT_TEXT(struct social_args, roles, "role", "A,B", "Serve these roles in this process"),
    OPT_TEXT(struct social_args, dir, "dir", "DIR",
	     "Of --role: folder with the addresses and the stores"),
    OPT_TEXT(struct social_args, node, "node", "ADDR", "Of --role: address of the memory node"),
    OPT_TEXT(struct social_args, http, "http", "HOST:PORT",
	     "Where the gateway listens (a port that DIR/addr/gateway has)"),
    OPT_TEXT(struct social_args, metrics, "metrics", "HOST:PORT",
	     "Counters for Prometheus at http://HOST:PORT/metrics; a gateway has them at its own. "
	     "Without --role, of each process: the node at PORT, the others behind it, or 0: any; "
	     "their URLs are printed"),
    OPT_SIZE(struct social_args, body_max, "body-max", 1 << 10, 64 << 20,
	     "The longest form that the gateway takes (8M)"),
    OPT_FLAG(struct social_args, embed, "embed", "Posts contain their media"),
    {.name = NULL}};

static const char doc[] =
    "A social network of twelve services: the application of DeathStarBench.\v"
    "Without --role it starts a memory node, the services and a gateway, fills the network, loads "
    "it, and reports. With --role it is one process of a network, until a signal ends it. The "
    "roles are unique-id, text, url-shorten, user-mention, user, media, compose-post, "
    "post-storage, "
    "user-timeline, home-timeline, social-graph, gateway (HTTP), web and balancer. All processes "
    "of a network have the same --dir.\n\n"
    "  lend social --by ref --carrier udp\n"
    "  lend social --workload original --ramp --json\n"
    "  lend social --role user,text --dir /srv/social --listen udp:0.0.0.0:0\n\n"
    "A network by hand:\n\n"
    "  lend-mn --listen shm:mn --size 1G\n"
    "  lend social --role user,text,... --dir /tmp/n --node shm:mn\n"
    "  lend social --role gateway --dir /tmp/n --node shm:mn --http 127.0.0.1:8080\n"
    "  curl '127.0.0.1:8080/wrk2-api/user-timeline/read?user_id=1&start=0&stop=10'";

int social_main(int argc, char **argv, const struct social_transport *transport)
{
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_server_syntax,
						  .some = "listen cpu ready-fd json",
						  .doc = doc};
	struct social_args args = {.server = APP_SERVER_ARGS_INIT,
				   .by = SOCIAL_BY_AUTO,
				   .http = "127.0.0.1:0",
				   .body_max = 8 << 20,
				   .carrier = APP_SHM,
				   .users = GRAPH_USERS,
				   .rate = 500,
				   .time = 2000000000};

	lend_cli_name_set("lend ", "social");
	app_options_read(&syntax, argc, argv, &args);
	social.transport = transport;
	social.dir = args.dir;
	social.by = args.by;
	social.embed = args.embed;
	social.stores = args.stores;
	if (!args.roles && (args.dir || args.node))
		app_bad("--dir and --node are options of one process: give --role, too");
	if (!args.roles)
		return social_launch(&args);
	if (!args.dir)
		app_bad("--role needs --dir, the folder that all processes of a network share");
	return social_process(&args);
}
