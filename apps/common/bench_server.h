/* bench_server - a server process that a measuring command starts: opens an endpoint, reports that
 * it is ready, and serves until a signal stops it.
 *
 *	app_options_read(&app_server_syntax, argc, argv, &args);
 *	app_server_open(&server, &args, NULL);
 *	lend_serve(server.ep, ...);
 *	return app_server_run(&server);
 *
 * Layer: apps. Threads: one server per process, in the thread that opened it. */
#ifndef APPS_COMMON_BENCH_SERVER_H
#define APPS_COMMON_BENCH_SERVER_H

#include <stdbool.h>

#include "cli/option_table.h"
#include "lend/rpc.h"

/* Reserved method numbers of benchmark servers. images and demo use those from APP_METHOD_IMAGES
 * on. */
enum {
	APP_METHOD_ECHO = LEND_METHOD_RESERVED_FIRST + 0x81,
	APP_METHOD_SINK,
	APP_METHOD_CHAIN,
	APP_METHOD_ENDS,
	APP_METHOD_WORK,
	APP_METHOD_LOAN,
	APP_METHOD_STORE_GET,
	APP_METHOD_FUNCTION,
	APP_METHOD_TRAINING,
	APP_METHOD_IMAGES = LEND_METHOD_RESERVED_FIRST + 0x90
};

/* Ends the program with a line that names the fix if status means that the server at address is not
 * a benchmark server. */
void app_bench_serves(const char *address, enum lend_status status);

struct app_server_args {
	const char *listen; /* addresses to listen at; NULL: the process only makes calls */
	const char *eal;
	int ready_fd; /* -1: the ready line goes to stdout */
	int cpu;      /* APP_ANY_CPU: not pinned */
	bool spin;    /* polls all the time instead of sleeping when idle */
	bool json;    /* prints its counters when it ends, and on request */
	/* As in lend_config; 0: its default. */
	uint32_t calls, sessions, workers;
	uint64_t message_max, receive_budget;
	uint32_t drain; /* seconds for requests in progress at SIGTERM */
	enum lend_schedule schedule;
};
#define APP_SERVER_ARGS_INIT                                                                       \
	{                                                                                          \
		.ready_fd = -1, .cpu = -1                                                          \
	}
extern const struct lend_syntax app_server_syntax;

struct app_server {
	struct lend_ep *ep;
	struct app_server_args args;
	void (*closing)(void *arg); /* NULL, or set after open: runs before the endpoint closes, for
				       example to close a lend_mem */
	void (*counting)(void *arg); /* NULL, or set after open: writes counters of its own, on
					request */
	void *arg;
};

/* Opens the endpoint, pins the thread, and installs handlers for SIGTERM, SIGINT and SIGUSR1.
 * config NULL: defaults; values that args sets override config. app_die() with lend_why() when the
 * endpoint does not open. */
void app_server_open(struct app_server *server, const struct app_server_args *args,
		     const struct lend_config *config);
/* Prints "ready ADDRESS", serves until SIGTERM or SIGINT, then closes the endpoint. Returns the
 * exit code. */
int app_server_run(struct app_server *server);

#endif
