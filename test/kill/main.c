/* lend-kill - kills processes at every store and at random moments, then counts what is left. One
 * supervisor process per carrier; its counters are in shared pages. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kill/kill_round.h"
#include "kill/lent_role.h"
#include "sys/rand.h"

struct options {
	double seconds;
	uint64_t seed;
	int64_t round;
	uint32_t workers;
	const char *part, *carrier;
	bool json, verbose, pool;
};

static const char doc[] =
    "Kills clients, servers and memory nodes, and counts exactly what is left.\v"
    "Examples:\n"
    "  lend-kill --seconds 90             both parts on shm and udp\n"
    "  lend-kill --part points --seconds 600   every store of every operation\n"
    "  lend-kill --carrier pool --seconds 60   clients that map pages, killed in their stores\n"
    "  lend-kill --part loop --workers 2 --seconds 60   a node of two workers\n"
    "  lend-kill --seed 7 --part loop --carrier shm --round 41   one round, again and again\n";
static const struct argp_option argp_options[] = {
    {"seconds", 's', "N", 0, "Duration (default 10)", 0},
    {"seed", 'r', "N", 0, "Histories (default: random, and printed)", 0},
    {"part", 'p', "loop|points|lent", 0,
     "Random moments, store by store, or of calls that lend their arguments (default all)", 0},
    {"carrier", 'c', "shm|udp|pool", 0,
     "Only this one (default shm and udp, side by side; pool: shm, and clients map the pages)", 0},
    {"round", 'n', "N", 0, "loop: this round only, again and again", 0},
    {"workers", 'w', "N", 0, "Of the node, up to 8 (default 1)", 0},
    {"verbose", 'v', NULL, 0, "A line for each round", 0},
    {"json", 'j', NULL, 0, "One JSON object instead of the table", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 's':
		o->seconds = atof(arg);
		return 0;
	case 'r':
		o->seed = strtoull(arg, NULL, 0);
		return 0;
	case 'p':
		o->part = arg;
		return strcmp(arg, "loop") && strcmp(arg, "points") && strcmp(arg, "lent") ? EINVAL
											   : 0;
	case 'c':
		o->carrier = arg;
		o->pool = !strcmp(arg, "pool");
		return !o->pool && strcmp(arg, "shm") && strcmp(arg, "udp") ? EINVAL : 0;
	case 'n':
		o->round = atoll(arg);
		return 0;
	case 'w':
		o->workers = (uint32_t)atoi(arg);
		return o->workers < 1 || o->workers > WORKERS_MAX ? EINVAL : 0;
	case 'j':
		o->json = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool has_choice(const char *choice, const char *one)
{
	return !choice || !strcmp(choice, one);
}

static void run_all(const struct options *o, struct kill_page *page, bool udp, uint64_t from)
{
	uint64_t all = (uint64_t)(o->seconds * 1e9);
	uint64_t lent = o->part || o->pool ? 0 : all / 8;
	bool both = !o->part && FUSES;

	if (lent || (o->part && !strcmp(o->part, "lent")))
		lent_run(page, udp, o->seed, from + (lent ? lent : all));

	page->verbose = o->verbose;
	page->workers = o->workers;
	page->pool = o->pool;
	if (FUSES && has_choice(o->part, "points"))
		points_run(page, udp, o->seed, from + (both ? all / 2 : all));
	if (!atomic_load(&page->bad) && has_choice(o->part, "loop"))
		loop_run(page, udp, o->seed, from + all, o->round);
	_exit(0);
}

static void sum_up(const struct options *o, const struct kill_page page[2], struct kill_page *sum)
{
	for (int i = 0; i < 2; i++) {
		sum->kills += page[i].kills;
		sum->audits += page[i].audits;
		sum->points += page[i].points;
		sum->stores += page[i].stores;
		sum->ops += page[i].ops;
		sum->victim_ops += page[i].victim_ops;
		sum->fenced += page[i].fenced;
		sum->stalls += page[i].stalls;
		sum->bad += page[i].bad != 0;
		if (page[i].bad)
			fprintf(stderr,
				"violation: %s\nreplay: lend-kill --seed %" PRIu64
				" --carrier %s --seconds 60\n",
				page[i].why, o->seed,
				page[i].udp    ? "udp"
				: page[i].pool ? "pool"
					       : "shm");
	}
}

static void print_report(const struct options *o, const struct kill_page page[2], uint64_t ns)
{
	struct kill_page sum = {.udp = false};

	sum_up(o, page, &sum);
	const struct {
		const char *key, *text;
		uint64_t value;
	} row[] = {
	    {"kills", "kills", sum.kills},
	    {"audits", "exact audits", sum.audits},
	    {"fault_points", "of the kills, at a chosen store", sum.points},
	    {"fault_points_known", "stores in all operations", sum.stores},
	    {"survivor_ops", "operations of survivors", sum.ops},
	    {"victim_ops", "operations of the victims", sum.victim_ops},
	    {"fenced", "lives that leases ended", sum.fenced},
	    {"stalls", "survivors' operations cut off (udp)", sum.stalls},
	    {"violations", "violations", sum.bad},
	    {"seed", "seed", o->seed},
	    {"milliseconds", "milliseconds", ns / MS},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (o->json)
			printf("%s\"%s\":%" PRIu64, i ? "," : "{", row[i].key, row[i].value);
		else
			printf("%-36s %12" PRIu64 "\n", row[i].text, row[i].value);
	if (o->json)
		puts("}");
}

/* All names of all processes are in one folder: an entry left there is a leak. */
static bool is_empty(const char *folder)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/lend/.lock", folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/lend", folder);
	(void)rmdir(path);
	return rmdir(folder) == 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {argp_options, parse_option, NULL, doc, NULL, NULL, NULL};
	struct options o = {.seconds = 10, .round = -1, .workers = 1};
	struct kill_page *page = mmap(NULL, 2 * sizeof(*page), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char folder[] = "/tmp/lend-kill-XXXXXX";
	uint64_t start = kill_now();
	bool bad;
	int status;

	lend_random(&o.seed, 4);
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (page == MAP_FAILED || !mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		return 2;
	for (int udp = 0; udp < 2; udp++)
		if ((o.pool ? !udp : has_choice(o.carrier, udp ? "udp" : "shm")) && fork() == 0)
			run_all(&o, &page[udp], udp, start);
	while (wait(&status) > 0)
		if (status)
			kill_bad(&page[0], "a supervisor ended with %x", status);
	bad = atomic_load(&page[0].bad) || atomic_load(&page[1].bad);
	if (!is_empty(folder) && !bad)
		kill_bad(&page[0], "files are left in %s", folder);
	print_report(&o, page, kill_now() - start);
	return atomic_load(&page[0].bad) || atomic_load(&page[1].bad);
}
