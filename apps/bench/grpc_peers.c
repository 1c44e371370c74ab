/* grpc_peers - calls between gRPC's ends and Lend's: which is how quick.
 *
 * Runs the programs of apps/peers, which check every reply. Layer: apps. Threads: one. */
#include <stdio.h>

#include "apps/bench/peer_program.h"
#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "apps/common/samples.h"
#include "apps/common/topology.h"

enum peer { NATIVE, GATEWAY, PRELOAD, PRELOAD_BOTH, GRPC_CXX, GRPC_TLS };
enum key { P50, P99, RATE, CPU, WRONG, KEYS };
enum { ROUNDS_MAX = 5, ROUND_NS = 200000000, WINDOW_MAX = 128 };
static const char *const keys[KEYS] = {"p50_us", "p99_us", "calls_per_s", "both_cpu_us_per_call",
				       "wrong_bytes"};
static const char *const peers[] = {"native",   "door",     "preload", "preload-both",
				    "grpc-cxx", "grpc-tls", NULL};
static const char *const kinds[] = {"unary", "stream", NULL};
static const char *const carriers[] = {"shm", "udp", NULL};

struct grpc_args {
	unsigned peer, kind, carrier, window;
	uint64_t size;
	lend_ns time;
	bool json;
};

#define ARGS struct grpc_args
static const struct lend_option options[] = {
    OPT_CHOICE(ARGS, peer, "peer", "PEER", peers,
	       "native: Lend at both ends (default); door: gRPC C++ calls a Lend server over "
	       "HTTP/2; preload, preload-both: gRPC C++ by lend grpc-run at one end or both; "
	       "grpc-cxx: gRPC C++ at both ends; grpc-tls: likewise, with TLS"),
    OPT_CHOICE(ARGS, kind, "kind", "KIND", kinds,
	       "unary: calls (default); stream: messages of one stream, each answered by one"),
    OPT_CHOICE(ARGS, carrier, "carrier", "C", carriers,
	       "Of native and preload: shm (default) or udp", .key = 'c'),
    OPT_SIZE(ARGS, size, "size", 8, APP_PATTERN_MAX, "Bytes in each message (64)", .key = 's'),
    OPT_NUMBER(ARGS, window, "window", 1, WINDOW_MAX, "Calls in flight (1)", .key = 'w'),
    OPT_TIME(ARGS, time, "seconds", "How long to measure, all in all (4)", .key = 't'),
    OPT_JSON(ARGS, json),
    {.name = NULL}};

static const char doc[] =
    "Round trips of protobuf messages between ends of Lend and of gRPC C++.\v"
    "Each peer is measured polling and sleeping, on chosen CPUs and free, in turns; the quickest "
    "of "
    "these is printed: by the median, or with many calls in flight by the rate. CPU time is that "
    "of both processes with all their threads. Every reply is checked.\n\n"
    "  lend bench grpc --peer door\n"
    "  lend bench grpc --peer grpc-cxx --kind stream --window 64 --json";

/* What runs for a peer; a blocking client has one call in flight, and always sleeps. */
static const struct ends {
	enum peer peer;
	unsigned kind;
	bool blocking;
	const char *program, *name, *path;
} ends[] = {
    {NATIVE, 0, false, "lend_messages", "", NULL},
    {NATIVE, 1, false, "lend_messages", "-stream", NULL},
    {GATEWAY, 0, false, "grpc", "gateway-tcp", "http2"},
    {GATEWAY, 1, false, "grpc", "gateway-talk-tcp", "http2"},
    {PRELOAD, 0, false, "grpc", "-native", NULL},
    {PRELOAD, 0, true, "grpc", "-native-unary", NULL},
    {PRELOAD, 1, false, "grpc", "-native-talk", NULL},
    {PRELOAD_BOTH, 0, false, "grpc", "async-tcp", "shm"},
    {PRELOAD_BOTH, 0, true, "grpc", "unary-tcp", "shm"},
    {PRELOAD_BOTH, 1, false, "grpc", "talk-tcp", "shm"},
    {PRELOAD_BOTH, 1, true, "grpc", "stream-tcp", "shm"},
    {GRPC_CXX, 0, false, "grpc", "async-tcp", "http2"},
    {GRPC_CXX, 0, true, "grpc", "unary-tcp", "http2"},
    {GRPC_CXX, 1, false, "grpc", "talk-tcp", "http2"},
    {GRPC_CXX, 1, true, "grpc", "stream-tcp", "http2"},
    {GRPC_TLS, 0, false, "grpc", "async-tls", "http2"},
    {GRPC_TLS, 1, false, "grpc", "talk-tls", "http2"},
};
static const struct mode {
	bool sleeps, pinned;
	const char *options;
} modes[] = {{false, true, ""},
	     {false, false, "--free"},
	     {true, true, "--sleep"},
	     {true, false, "--sleep --free"}};
enum { ENDS = sizeof(ends) / sizeof(ends[0]), MODES = sizeof(modes) / sizeof(modes[0]) };

/* One way to run them. */
struct way {
	const struct ends *ends;
	const struct mode *mode;
	double figure[KEYS][ROUNDS_MAX];
};
static struct way ways[ENDS * MODES];
static unsigned n_ways, rounds = 1; /* more if there is time */

static void choose_ways(const ARGS *args)
{
	for (const struct ends *e = ends; e < ends + ENDS; e++)
		for (const struct mode *mode = modes; mode < modes + MODES; mode++)
			if (e->peer == args->peer && e->kind == args->kind &&
			    (!e->blocking || (args->window == 1 && mode->sleeps)))
				ways[n_ways++] = (struct way){.ends = e, .mode = mode};
	if (!n_ways)
		app_bad("--peer %s: not in this build", peers[args->peer]);
}

static void run_way(const ARGS *args, struct way *way, double seconds, unsigned round)
{
	const char *carrier = way->ends->path ? "" : carriers[args->carrier];
	char path[APP_PEER_PATH], line[APP_PEER_LINE], text[256];

	if (!app_peer_find(way->ends->program, path))
		app_bad("--peer %s: not in this build: scripts/deps.sh peers, and build the "
			"release preset again",
			peers[args->peer]);
	(void)snprintf(text, sizeof(text),
		       "--lane %s%s --request %llu --window %u --seconds %.3f %s", carrier,
		       way->ends->name, (unsigned long long)args->size, args->window, seconds,
		       way->mode->options);
	app_peer_run(path, text, line);
	for (unsigned k = 0; k < KEYS; k++)
		way->figure[k][round] = app_peer_figure(line, keys[k]);
}

static void measure_ways(const ARGS *args)
{
	lend_ns began = app_now();
	unsigned done = 0;
	double seconds;

	while (rounds < ROUNDS_MAX && args->time / (n_ways * (rounds + 1)) >= ROUND_NS)
		rounds++;
	seconds = (double)args->time / 1e9 / (n_ways * rounds);
	for (unsigned round = 0; round < rounds; round++)
		for (struct way *way = ways; way < ways + n_ways; way++) {
			run_way(args, way, seconds, round);
			app_progress(began, ++done, n_ways * rounds);
		}
}

static double median_of(struct way *way, enum key key)
{
	return app_median(way->figure[key], rounds);
}

static struct way *best_way(const ARGS *args)
{
	struct way *best = ways;

	for (struct way *way = ways + 1; way < ways + n_ways; way++)
		if (args->window == 1 ? median_of(way, P50) < median_of(best, P50)
				      : median_of(way, RATE) > median_of(best, RATE))
			best = way;
	return best;
}

static void write_report(const ARGS *args, struct way *best)
{
	struct app_report r;

	app_report_begin(&r, args->json, "grpc: calls between ends of gRPC and Lend");
	app_report_num(&r, "p50_us", median_of(best, P50), 3,
		       "us, half of the calls took no longer");
	app_report_num(&r, "p99_us", median_of(best, P99), 3, "us, 99 % took no longer");
	app_report_num(&r, "calls_per_s", median_of(best, RATE), 1, "");
	app_report_num(&r, "cpu_us_per_call", median_of(best, CPU), 3, "us of CPU time, both ends");
	app_report_int(&r, "wrong_bytes", (uint64_t)median_of(best, WRONG), "that arrived damaged");
	app_report_text(&r, "peer", peers[args->peer], "");
	app_report_text(&r, "path", best->ends->path ? best->ends->path : carriers[args->carrier],
			"what the calls went over");
	app_report_text(&r, "level",
			args->peer == GRPC_TLS ? "TLS"
			: best->ends->path     ? "none"
					   : app_carrier_level(args->carrier ? APP_UDP : APP_SHM),
			"protection of what it carries");
	app_report_bool(&r, "pinned", best->mode->pinned, "each end on a CPU of its own");
	app_report_bool(&r, "sleep", best->mode->sleeps, "ends sleep while they wait");
	app_report_text(&r, "kind", kinds[args->kind], "");
	app_report_int(&r, "size", args->size, "bytes in each message");
	app_report_int(&r, "window", args->window, "calls in flight");
	app_report_int(&r, "rounds", rounds, "of all ways in turns");
	app_report_end(&r);
}

int app_grpc_peers(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	ARGS args = {.size = 64, .window = 1, .time = 4000000000ull};

	app_options_read(&syntax, argc, argv, &args);
	choose_ways(&args);
	if (args.peer == PRELOAD || args.peer == PRELOAD_BOTH)
		app_grpc_preload();
	measure_ways(&args);
	write_report(&args, best_way(&args));
	return APP_EXIT_OK; /* a program that found a wrong byte has failed */
}
