/* serve - the server that lat, rate and bw call: echoes, or answers with a checksum.
 * Layer: apps. Threads: one. */
#include "apps/commands.h"
#include "apps/common/echo.h"
#include "apps/common/server.h"

struct args {
	struct app_server_args server;
	struct lend_config config;
};

enum { KEY_CALLS = 0x7301, KEY_SESSIONS, KEY_MESSAGE_MAX, KEY_BUDGET };

static const struct argp_option options[] = {
    {"calls", KEY_CALLS, "N", 0, "Calls in flight per session, at most", 0},
    {"sessions", KEY_SESSIONS, "N", 0, "Sessions, at most", 0},
    {"message-max", KEY_MESSAGE_MAX, "BYTES", 0, "The longest request", 0},
    {"receive-budget", KEY_BUDGET, "BYTES", 0, "Bytes on their way here at once", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->server;
		return 0;
	case KEY_CALLS:
		args->config.calls = (uint32_t)app_arg_u64("--calls", arg, 0, 1024);
		return 0;
	case KEY_SESSIONS:
		args->config.sessions = (uint32_t)app_arg_u64("--sessions", arg, 0, 1 << 20);
		return 0;
	case KEY_MESSAGE_MAX:
		args->config.message_max = app_arg_size("--message-max", arg, 0, 1 << 30);
		return 0;
	case KEY_BUDGET:
		args->config.receive_budget =
		    app_arg_size("--receive-budget", arg, 0, UINT64_C(1) << 40);
		return 0;
	case ARGP_KEY_END:
		if (!args->server.listen)
			app_bad("where to serve? give --listen shm:NAME or udp:HOST:PORT");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int app_serve(int argc, char **argv)
{
	static const struct argp_child children[] = {{&app_server_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
	    .options = options,
	    .parser = parse,
	    .children = children,
	    .doc = "Serves what lend lat, rate and bw call, until it is told to end.\v"
		   "  lend serve --listen udp:0.0.0.0:31850"};
	struct args args = {.server = APP_SERVER_ARGS_INIT, .config = LEND_CONFIG_INIT};
	struct app_server server;

	app_parse(&argp, argc, argv, &args);
	app_server_open(&server, &args.server, &args.config);
	app_echo_serve(server.ep);
	return app_server_run(&server);
}
