/* messages - calls of a .proto service: Lend, the same calls with copies, and gRPC C++, in turns.
 *
 * Runs the programs of apps/peers, which check every reply. Layer: apps. Threads: one. */
#include <stdio.h>

#include "apps/bench/peer_program.h"
#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "apps/common/topology.h"
#include "apps/common/samples.h"

enum {
	ROUNDS_MAX = 5,
	ROUND_NS = 200000000,
	WINDOW_MAX = 128,
	SESSIONS_MAX = 1024,
	FOLLOWERS_MAX = 16
};
enum key { P50, P99, RATE, CPU, WRONG, KEYS };
static const char *const keys[KEYS] = {"p50_us", "p99_us", "calls_per_s", "both_cpu_us_per_call",
				       "wrong_bytes"};

/* A way to make the calls: a program and its options. */
enum side { LEND, COPIED, POLLING, SLEEPING };
static const struct way {
	enum side side;
	bool one;    /* one call at a time only */
	bool stream; /* messages of one stream, not calls */
	const char *program, *carrier, *options, *name;
} ways[] = {
    {LEND, false, false, "lend_messages", "", "", "lend"},
    {COPIED, false, false, "lend_messages", "-copied", "", "copied"},
    {POLLING, false, false, "grpc", "async-tcp", "", "polling, pinned"},
    {POLLING, false, false, "grpc", "async-tcp", "--free", "polling, free"},
    {SLEEPING, false, false, "grpc", "async-tcp", "--sleep", "sleeping, pinned"},
    {SLEEPING, false, false, "grpc", "async-tcp", "--sleep --free", "sleeping, free"},
    {SLEEPING, true, false, "grpc", "unary-tcp", "--sleep", "blocking, pinned"},
    {SLEEPING, true, false, "grpc", "unary-tcp", "--sleep --free", "blocking, free"},
    {LEND, false, true, "lend_messages", "-stream", "", "lend"},
    {POLLING, false, true, "grpc", "talk-tcp", "", "polling, pinned"},
    {POLLING, false, true, "grpc", "talk-tcp", "--free", "polling, free"},
    {SLEEPING, false, true, "grpc", "talk-tcp", "--sleep", "sleeping, pinned"},
    {SLEEPING, false, true, "grpc", "talk-tcp", "--sleep --free", "sleeping, free"},
    {SLEEPING, false, true, "grpc", "stream-tcp", "--sleep", "blocking, pinned"},
    {SLEEPING, false, true, "grpc", "stream-tcp", "--sleep --free", "blocking, free"},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
static bool absent[WAYS];
static unsigned rounds = 1; /* more if there is time */
static double figures[WAYS][KEYS][ROUNDS_MAX];

struct messages_args {
	unsigned kind, carrier;
	uint64_t size, reply;
	unsigned window, sessions, followers;
	lend_ns time;
	bool one_thread, sleep, no_grpc, json;
};

static const char *const kinds[] = {"unary", "stream", NULL};
static const char *const carriers[] = {"shm", "udp", NULL};

#define ARGS struct messages_args
static const struct lend_option options[] = {
    OPT_CHOICE(ARGS, kind, "kind", "KIND", kinds,
	       "unary: calls (default); stream: messages of one stream, each answered by one"),
    OPT_CHOICE(ARGS, carrier, "carrier", "C", carriers, "Of Lend: shm (default) or udp",
	       .key = 'c'),
    OPT_SIZE(ARGS, size, "size", 8, APP_PATTERN_MAX, "Bytes in the request's message (64)",
	     .key = 's'),
    OPT_SIZE(ARGS, reply, "reply", 8, APP_PATTERN_MAX,
	     "Bytes in the reply's message: as many, or 8, a checksum"),
    OPT_NUMBER(ARGS, window, "window", 1, WINDOW_MAX, "Calls in flight (1)", .key = 'w'),
    OPT_NUMBER(ARGS, sessions, "sessions", 1, SESSIONS_MAX,
	       "Sessions of Lend that calls use in turns (1)", .key = 'n'),
    OPT_NUMBER(ARGS, followers, "followers", 1, FOLLOWERS_MAX,
	       "Each message goes to so many sessions, encoded once or for each; without gRPC"),
    OPT_TIME(ARGS, time, "seconds", "How long to measure, all in all (8)", .key = 't'),
    OPT_FLAG(ARGS, one_thread, "one-thread",
	     "Both ends in one thread, whose CPU time counts: without gRPC"),
    OPT_FLAG(ARGS, sleep, "sleep", "Ends of Lend sleep while they wait"),
    OPT_FLAG(ARGS, no_grpc, "no-grpc", "Without gRPC"),
    OPT_JSON(ARGS, json),
    {.name = NULL}};

static const char doc[] =
    "Round trips of protobuf messages of one .proto service: over Lend with protoc-c's stubs, the "
    "same with a copy at each step (protobuf-c packs and unpacks), and over gRPC C++ and TCP, in "
    "turns.\v"
    "gRPC polls and sleeps, on chosen CPUs and free; grpc_cxx_ is the best of these. CPU time is "
    "that of both processes with all their threads. Every reply is checked.\n\n"
    "  lend bench messages --carrier udp --size 1K\n"
    "  lend bench messages --window 64 --json\n"
    "  lend bench messages --kind stream\n"
    "  lend bench messages --size 64K --no-grpc\n"
    "  lend bench messages --size 64K --followers 8 --one-thread";

/* Returns whether the way is one of this run. */
static bool is_used(const ARGS *args, const struct way *way)
{
	if (absent[way - ways] || (way->one && args->window > 1) || way->stream != args->kind)
		return false;
	return way->side < POLLING || !args->no_grpc;
}

/* Returns the way that the others are compared with. */
static const struct way *own_way(const ARGS *args)
{
	const struct way *way = ways;

	while (way->stream != args->kind)
		way++;
	return way;
}

/* Finds the programs. Returns the number of ways to measure. */
static unsigned find_programs(const ARGS *args)
{
	char path[APP_PEER_PATH];
	unsigned n = 0;

	for (const struct way *way = ways; way < ways + WAYS; way++) {
		absent[way - ways] = !app_peer_find(way->program, path);
		n += is_used(args, way);
	}
	if (absent[LEND])
		app_bad("not in this build: install libprotobuf-c-dev and protobuf-c-compiler, and "
			"build the release preset again");
	if (!args->no_grpc && absent[WAYS - 1])
		app_note("no gRPC C++ to compare: scripts/deps.sh peers, and build again");
	return n;
}

static void run_program(const ARGS *args, const struct way *way, double seconds,
			char line[APP_PEER_LINE])
{
	bool is_lend = way->side < POLLING;
	char path[APP_PEER_PATH], text[512];

	(void)app_peer_find(way->program, path);
	(void)snprintf(text, sizeof(text),
		       "--lane %s%s%s%s --request %llu --reply %llu --window %u "
		       "--sessions %u --seconds %.3f %s %s",
		       is_lend ? carriers[args->carrier] : "", args->one_thread ? "-one" : "",
		       args->followers ? "-all" : "", way->carrier, (unsigned long long)args->size,
		       (unsigned long long)args->reply, args->window, is_lend ? args->sessions : 1,
		       seconds, way->options, is_lend && args->sleep ? "--sleep" : "");
	app_peer_run(path, text, line);
}

static void measure_ways(const ARGS *args, unsigned n)
{
	double seconds;
	lend_ns began = app_now();
	char line[APP_PEER_LINE];
	unsigned done = 0;

	while (rounds < ROUNDS_MAX && args->time / (n * (rounds + 1)) >= ROUND_NS)
		rounds++;
	seconds = (double)args->time / 1e9 / (n * rounds);
	for (unsigned round = 0; round < rounds; round++)
		for (const struct way *way = ways; way < ways + WAYS; way++) {
			if (!is_used(args, way))
				continue;
			run_program(args, way, seconds, line);
			for (unsigned k = 0; k < KEYS; k++)
				figures[way - ways][k][round] = app_peer_figure(line, keys[k]);
			app_progress(began, ++done, n * rounds);
		}
}

/* Returns the time of one call in a round: with many in flight, what the rate gives; in one thread,
 * its CPU time. */
static double call_time(const ARGS *args, const struct way *way, unsigned round)
{
	if (args->one_thread)
		return figures[way - ways][CPU][round];
	return args->window > 1 ? 1e6 / figures[way - ways][RATE][round]
				: figures[way - ways][P50][round];
}

static double median_time(const ARGS *args, const struct way *way)
{
	double time[ROUNDS_MAX];

	for (unsigned i = 0; i < rounds; i++)
		time[i] = call_time(args, way, i);
	return app_median(time, rounds);
}

/* Returns the median ratio of a way's time to lend's. */
static double times_lend(const ARGS *args, const struct way *way)
{
	double ratio[ROUNDS_MAX];

	for (unsigned i = 0; i < rounds; i++)
		ratio[i] = call_time(args, way, i) / call_time(args, own_way(args), i);
	return app_median(ratio, rounds);
}

/* Returns the quickest way of these sides; NULL: none was measured. */
static const struct way *best_of(const ARGS *args, enum side first, enum side last)
{
	const struct way *best = NULL;

	for (const struct way *way = ways; way < ways + WAYS; way++)
		if (is_used(args, way) && way->side >= first && way->side <= last &&
		    (!best || median_time(args, way) < median_time(args, best)))
			best = way;
	return best;
}

static void report_way(struct app_report *r, const struct way *way)
{
	app_report_num(r, "p50_us", app_median(figures[way - ways][P50], rounds), 3,
		       "us, half of the calls took no longer");
	app_report_num(r, "p99_us", app_median(figures[way - ways][P99], rounds), 3,
		       "us, 99 % took no longer");
	app_report_num(r, "calls_per_s", app_median(figures[way - ways][RATE], rounds), 1, "");
	app_report_num(r, "cpu_us_per_call", app_median(figures[way - ways][CPU], rounds), 3,
		       "us of CPU time, both ends");
	app_report_int(r, "wrong_bytes", (uint64_t)app_median(figures[way - ways][WRONG], rounds),
		       "that arrived damaged");
}

static void report_grpc(struct app_report *r, const ARGS *args)
{
	const struct way *polling = best_of(args, POLLING, POLLING);
	const struct way *sleeping = best_of(args, SLEEPING, SLEEPING);
	const struct way *best = best_of(args, POLLING, SLEEPING);

	if (!best)
		return;
	r->prefix = "grpc_cxx_";
	report_way(r, best);
	app_report_text(r, "way", best->name, "the quickest way of gRPC's");
	app_report_num(r, "polling_p50_us", app_median(figures[polling - ways][P50], rounds), 3,
		       "us, of the quickest that polls");
	app_report_num(r, "sleeping_p50_us", app_median(figures[sleeping - ways][P50], rounds), 3,
		       "us, of the quickest that sleeps");
	app_report_num(r, "polling_times", times_lend(args, polling), 2,
		       "times lend's: p50, or with many in flight time per call");
	app_report_num(r, "sleeping_times", times_lend(args, sleeping), 2, "the same");
}

static void write_report(const ARGS *args)
{
	struct app_report r;

	app_report_begin(&r, args->json, "messages: calls of a .proto service");
	report_way(&r, own_way(args));
	if (is_used(args, &ways[COPIED])) {
		r.prefix = "copied_";
		report_way(&r, &ways[COPIED]);
		app_report_num(&r, "ratio", 1 / times_lend(args, &ways[COPIED]), 3,
			       "lend's p50, time per call or CPU time over this one's");
	}
	report_grpc(&r, args);
	r.prefix = "";
	app_report_text(&r, "kind", kinds[args->kind], "");
	app_report_carrier(&r, args->carrier ? APP_UDP : APP_SHM);
	app_report_int(&r, "size", args->size, "bytes in the request's message");
	app_report_int(&r, "reply", args->reply, "bytes in the reply's");
	app_report_int(&r, "window", args->window, "calls in flight");
	app_report_int(&r, "sessions", args->sessions, "of lend");
	app_report_int(&r, "followers", args->followers, "sessions that get each message; 0: one");
	app_report_int(&r, "rounds", rounds, "of all ways in turns");
	app_report_end(&r);
}

int app_messages(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	ARGS args = {.size = 64, .window = 1, .sessions = 1, .time = 8000000000ull};

	app_options_read(&syntax, argc, argv, &args);
	args.reply = args.reply ? args.reply : args.size;
	if (args.reply != args.size && args.reply != 8)
		app_bad("--reply: give 8, or as many bytes as --size");
	if (args.followers && args.one_thread && args.carrier)
		app_bad("--followers in one thread: over shm only");
	if (args.kind && (args.followers || args.one_thread || args.sessions > 1))
		app_bad("--kind stream: one stream between two threads");
	args.no_grpc |= args.one_thread || args.followers;
	if (args.followers) {
		args.sessions = args.followers;
		args.reply = 8;
	}
	measure_ways(&args, find_programs(&args));
	write_report(&args);
	return APP_EXIT_OK; /* a program that found a wrong byte has failed */
}
