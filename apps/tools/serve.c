/* serve - the server that measurements call: replies with the request, or with a checksum.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <time.h>

#include "apps/commands.h"
#include "apps/common/echo.h"
#include "apps/common/closed_loop.h"
#include "apps/common/bench_server.h"
#include "util/bits.h"

enum { SECOND = 1000000000 };

static void check_args(void *input)
{
	const struct app_server_args *args = input;

	if (!args->listen)
		app_bad("where to serve? give --listen shm:NAME or --listen udp:HOST:PORT");
}

/* Blocks its worker for as many nanoseconds as the request contains, at most a second. It sleeps
 * instead of computing, so that a measurement of scheduling orders does not depend on other
 * processes' CPU use. */
static void serve_work(lend_request request, const struct lend_buf *bytes, void *ep)
{
	uint64_t ns = bytes->len >= 8 ? lend_load_u64(bytes->data) : 0;
	lend_ns end = app_now() + lend_min_u64(ns, SECOND);
	struct timespec until = {.tv_sec = (time_t)(end / SECOND), .tv_nsec = (long)(end % SECOND)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		continue;
	(void)lend_reply(ep, request, LEND_OK, NULL);
}

int app_serve(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .child = &app_server_syntax,
	    .check = check_args,
	    .doc = "Serves the calls of lend bench --connect, until a signal ends it.\v"
		   "It prints \"ready ADDRESS\" when it can be called.\n\n"
		   "  lend serve --listen udp:0.0.0.0:31850"};
	struct app_server_args args = APP_SERVER_ARGS_INIT;
	struct app_server server;

	app_options_read(&syntax, argc, argv, &args);
	app_server_open(&server, &args, NULL);
	app_echo_serve(server.ep);
	if (args.workers && lend_serve(server.ep, APP_METHOD_WORK, serve_work, server.ep,
				       LEND_SLOW | LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	return app_server_run(&server);
}
