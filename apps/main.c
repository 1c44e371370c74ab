/* main - lend and its subcommands.
 * Layer: apps. Threads: one. */
#include <stdio.h>
#include <string.h>

#include "apps/commands.h"

/* The subcommands. run is NULL for a subcommand that this build does not contain; main prints how
 * to get it. */
static const struct app_command commands[] = {
    {"lat", "round-trip time of one call at a time", app_lat},
    {"rate", "calls per second with many in flight", app_rate},
    {"load", "latency and losses at a given rate of calls, also beyond the peak", app_offered},
    {"bw", "payload per second with long requests", app_bw},
    {"priority", "an urgent call behind a bulk transfer of the same session", app_priority},
    {"deadlines", "calls that end too late, by deadline and as they come", app_deadlines},
    {"wait", "what sleeping, spinning and idle sessions cost", app_wait},
    {"start", "from the start of a program to its first reply", app_start},
    {"connect", "sessions made on an endpoint that is open", app_connect},
    {"chain", "a chain of services that passes data by value or by reference", app_chain},
    {"images", "the same with image services and real photographs", app_images},
    {"demo", "all of it, with a report as one HTML page", app_demo},
    {"mem", "what a memory node holds", app_mem},
    {"mem-lat", "put, get, release, write and read, one at a time", app_mem_lat},
    {"mem-bw", "bytes per second into and out of a memory node", app_mem_bw},
    {"snapshot-speed", "seal, map and release from 4 KiB to 1 GiB", app_snapshot},
    {"cow", "a few pages of an object changed: copy on write, or a full copy", app_cow},
    {"mem-fault", "spaces as memory: touches, scans, the cache", app_mem_fault},
    {"translate", "how quickly a memory node finds pages, beside a hash map", app_translate},
    {"malloc", "lend_malloc() beside other heaps", app_malloc},
    {"put", "a file to a memory node; prints the reference", app_put},
    {"get", "the bytes behind a reference", app_get},
    {"keygen", "a new key that endpoints prove to each other, in a file", app_keygen},
    {"top", "what endpoints and their sessions are doing", app_top},
    {"doctor", "what this machine offers, and the mend for each lack", app_doctor},
    {"serve", "the server that lat, rate and bw call", app_serve},
    {"hop", NULL, app_hop},
    {"tier", NULL, app_tier},
    {NULL, NULL, NULL},
};

static void help(FILE *out)
{
	fputs("usage: lend COMMAND [OPTION...]     lend COMMAND --help tells more\n"
	      "       lend --version\n\n",
	      out);
	for (const struct app_command *c = commands; c->name; c++)
		if (c->summary)
			fprintf(out, "  %-15s %s%s\n", c->name, c->summary,
				c->run ? "" : " (not in this build)");
	fputs("\nexample: lend lat --carrier udp --size 64 --seconds 2\n", out);
}

static int run(const char *name, int argc, char **argv)
{
	const struct app_command *c = commands;

	while (c->name && strcmp(c->name, name))
		c++;
	if (!c->name)
		app_bad("%s: no such command; see lend --help", name);
	app_name_set("lend ", c->name);
	if (!c->run)
		app_bad("not in this build: install libturbojpeg0-dev and build again");
	return c->run(argc, argv);
}

int main(int argc, char **argv)
{
	const char *word = argv[argc > 1];

	if (argc < 2) {
		help(stderr);
		return APP_EXIT_USAGE;
	}
	if (!strcmp(word, "help") && argc > 2)
		return run(argv[2], 2, (char *[]){argv[2], (char *)"--help", NULL});
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		help(stdout);
		return APP_EXIT_OK;
	}
	if (!strcmp(word, "--version")) {
		puts("lend " LEND_VERSION);
		return APP_EXIT_OK;
	}
	return run(word, argc - 1, argv + 1);
}
