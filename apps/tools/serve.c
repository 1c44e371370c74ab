/* serve - the server that measurements call: replies with the request, or with a checksum.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <time.h>

#include "apps/commands.h"
#include "apps/common/echo.h"
#include "apps/common/closed_loop.h"
#include "apps/common/bench_server.h"
#include "apps/grpc/demo_service.h"
#include "util/bits.h"

enum { SECOND = 1000000000, DRAIN = 10 /* seconds */ };

struct serve_args {
	struct app_server_args server;
	bool demo;
};

static const struct lend_option options[] = {
    OPT_WORD(struct serve_args, server.listen),
    OPT_FLAG(struct serve_args, demo, "demo",
	     "Serve demo.Demo, a .proto service for any client; count its calls"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct serve_args *args = input;

	if (!args->server.listen)
		app_bad("where to serve? give shm:NAME or udp:HOST:PORT");
	if (args->demo && !app_demo_service)
		app_bad("--demo: not in this build: install libprotobuf-c-dev "
			"protobuf-c-compiler and build again");
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
	    .option = options,
	    .child = &app_server_syntax,
	    .words = "ADDR[,ADDR...]",
	    .check = check_args,
	    .doc = "Serves the calls of lend bench --connect, until a signal ends it.\v"
		   "It prints \"ready ADDRESS\" when it can be called. With --demo it also serves "
		   "a .proto service with each kind of method, which grpcurl describes.\n\n"
		   "  lend serve udp:0.0.0.0:31850\n"
		   "  lend serve shm:demo,http2:127.0.0.1:50051 --demo"};
	struct serve_args args = {.server = APP_SERVER_ARGS_INIT};
	struct app_server server;

	args.server.drain = DRAIN;
	app_options_read(&syntax, argc, argv, &args);
	app_server_open(&server, &args.server, NULL);
	app_echo_serve(server.ep);
	if (args.demo)
		app_demo_service(&server);
	if (args.server.workers && lend_serve(server.ep, APP_METHOD_WORK, serve_work, server.ep,
					      LEND_SLOW | LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	return app_server_run(&server);
}
