/* main - lend and its subcommands.
 * Layer: apps. Threads: one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"

/* Groups of lend --help. The commands of BENCH are listed by lend bench --help; their names without
 * the word bench are aliases. */
enum group { USE, OPERATE, MEASURE, BENCH, HIDDEN };

/* The subcommands in the order of --help. run is NULL for a subcommand that this build does not
 * contain; main prints how to get it. */
static const struct command {
	enum group group;
	const char *name, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
    {USE, "put", "copies a file to a memory node; prints a reference", app_put},
    {USE, "get", "writes the bytes behind a reference", app_get},
    {USE, "call", "calls one method of a server; prints the reply", app_call},
    {USE, "protoc", "makes C of a .proto file, by protoc", app_protoc},
    {USE, "grpc-run", "runs a gRPC C++ program whose calls Lend carries", app_grpc_run},
    {USE, "grpc-bridge", "forwards calls between gRPC over HTTP/2 and Lend", app_grpc_bridge},
    {USE, "ping", "time to connect to an endpoint, and round trips", app_ping},
    {USE, "doctor", "what this machine offers, and the fix for each lack", app_doctor},
    {OPERATE, "mem", "what a memory node holds; ends objects and clients", app_mem},
    {OPERATE, "top", "rates, round trips and queues of endpoints", app_top},
    {OPERATE, "trace", "the calls of one request over all its services", app_trace},
    {OPERATE, "keygen", "makes a file with a key that endpoints prove to peers", app_keygen},
    {OPERATE, "decap", "decrypts a capture of sealed sessions", app_decap},
    {OPERATE, "flood", "forged CONNECTs for a server on this machine", app_flood},
    {OPERATE, "serve", "the server that lend bench calls with --connect", app_serve},
    {MEASURE, "bench", "measures one thing; lend bench --help lists what", NULL},
    {MEASURE, "social", "runs DeathStarBench's social network, and loads it", app_social},
    {MEASURE, "demo", "measures all, with a report as one HTML page", app_demo},
    {BENCH, "lat", "round-trip time of one call at a time", app_lat},
    {BENCH, "rate", "calls per second with many in flight", app_rate},
    {BENCH, "load", "latency and losses at a given rate of calls, also overload", app_offered},
    {BENCH, "bw", "payload per second with long requests", app_bw},
    {BENCH, "priority", "an urgent call behind a bulk transfer of one session", app_priority},
    {BENCH, "deadlines", "calls that end too late, by deadline and in FIFO order", app_deadlines},
    {BENCH, "training", "a worker and a parameter server, priority by layer", app_training},
    {BENCH, "wait", "cost of sleeping, spinning and idle sessions", app_wait},
    {BENCH, "start", "from the start of a program to its first reply", app_start},
    {BENCH, "elastic", "workers and functions started for a load spike", app_elastic},
    {BENCH, "connect", "sessions opened on an open endpoint", app_connect},
    {BENCH, "chain", "a chain of services, data by value or by reference", app_chain},
    {BENCH, "loan", "a loan passed as an argument, of which a word is read", app_loan},
    {BENCH, "images", "the same with image services and photographs", app_images},
    {BENCH, "mem-lat", "put, get, release, write and read, one at a time", app_mem_lat},
    {BENCH, "mem-bw", "bytes per second into and out of a memory node", app_mem_bw},
    {BENCH, "mem-fault", "spaces as memory: touches, scans, the cache", app_mem_fault},
    {BENCH, "snapshot-speed", "seal, map and release from 4 KiB to 1 GiB", app_snapshot},
    {BENCH, "cow", "an object with some pages changed: copy on write, or a full copy", app_cow},
    {BENCH, "translate", "page lookups of a memory node and of a hash map", app_translate},
    {BENCH, "serialize", "protobuf messages, next to other libraries", app_serialize},
    {BENCH, "messages", "calls of a .proto service, next to copies and gRPC C++", app_messages},
    {BENCH, "grpc", "ends of gRPC C++ and of Lend, in each combination", app_grpc_peers},
    {BENCH, "malloc", "lend_malloc() and other heaps", app_malloc},
    {HIDDEN, "elastic-worker", NULL, app_elastic_worker},
    {HIDDEN, "elastic-function", NULL, app_elastic_function},
    {HIDDEN, "social-page", NULL, app_social_page},
    {HIDDEN, "hop", NULL, app_hop},
    {HIDDEN, "loan-server", NULL, app_loan_server},
    {HIDDEN, "training-server", NULL, app_training_server},
    {HIDDEN, "tier", NULL, app_tier},
    {HIDDEN, NULL, NULL, NULL},
};

static void list(FILE *out, enum group group)
{
	for (const struct command *c = commands; c->name; c++)
		if (c->group == group)
			fprintf(out, "  %-15s %s%s\n", c->name, c->summary,
				c->run || c->group == MEASURE ? "" : " (not in this build)");
}

static void print_help(FILE *out)
{
	fputs("usage: lend COMMAND [OPTION...]     lend COMMAND --help tells more\n"
	      "       lend --version\n"
	      "\nUse\n",
	      out);
	list(out, USE);
	fputs("\nOperate (memory nodes and brokers are lend-mn(8) and lend-broker(8))\n", out);
	list(out, OPERATE);
	fputs("\nMeasure (lend lat and the like are still lend bench lat, until release 0.3)\n",
	      out);
	list(out, MEASURE);
	fputs("\nexample: ref=$(lend put photo.jpg shm:mn0) && lend get $ref -o copy.jpg\n", out);
}

static void help_bench(FILE *out)
{
	fputs("usage: lend bench NAME [OPTION...]     lend bench NAME --help tells more\n\n", out);
	list(out, BENCH);
	fputs("\nexample: lend bench lat --carrier udp --size 64 --seconds 2\n", out);
}

static bool asks_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

static const struct command *find(const char *name)
{
	const struct command *c = commands;

	while (c->name && strcmp(c->name, name))
		c++;
	return c;
}

static int run(const struct command *c, const char *program, int argc, char **argv)
{
	lend_cli_name_set(program, c->name);
	if (!c->run)
		app_bad("not in this build: install libturbojpeg0-dev and build again");
	return c->run(argc, argv);
}

static int run_bench(int argc, char **argv)
{
	const struct command *c;

	lend_cli_name_set("lend ", "bench");
	if (argc < 2 || asks_help(argv[1])) {
		help_bench(argc < 2 ? stderr : stdout);
		return argc < 2 ? LEND_EXIT_USAGE : APP_EXIT_OK;
	}
	c = find(argv[1]);
	if (!c->name || c->group != BENCH)
		app_bad("%s: no such measurement; see lend bench --help", argv[1]);
	return run(c, "lend bench ", argc - 1, argv + 1);
}

static int run_command(const char *name, int argc, char **argv)
{
	const struct command *c = find(name);

	if (!strcmp(name, "bench"))
		return run_bench(argc, argv);
	if (!c->name)
		app_bad("%s: no such command; see lend --help", name);
	return run(c, "lend ", argc, argv);
}

int main(int argc, char **argv)
{
	const char *word = argv[argc > 1];

	if (argc < 2 && getenv(APP_PROTOC_PLUGIN))
		return app_protoc_plugin();
	if (argc < 2) {
		print_help(stderr);
		return LEND_EXIT_USAGE;
	}
	if (!strcmp(word, "help") && argc > 2)
		return run_command(argv[2], 2, (char *[]){argv[2], (char *)"--help", NULL});
	if (asks_help(word)) {
		print_help(stdout);
		return APP_EXIT_OK;
	}
	if (!strcmp(word, "--version")) {
		puts("lend " LEND_VERSION);
		return APP_EXIT_OK;
	}
	return run_command(word, argc - 1, argv + 1);
}
