/* lend-kill - kills processes at every store and at random moments, then counts what is left. One
 * supervisor process per carrier; its counters are in shared pages. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/option_table.h"
#include "kill/kill_round.h"
#include "kill/lent_role.h"
#include "sys/rand.h"

enum part { ALL_PARTS, LOOP, POINTS, LENT };
enum carrier { BOTH, SHM, UDP, POOL };
enum by { BOTH_WAYS, BY_CALLER, BY_NODE };

struct options {
	uint64_t ns, seed;
	int64_t round; /* -1: all */
	uint32_t workers;
	enum part part;
	enum carrier carrier;
	enum by by;
	bool json, verbose;
};

static const char doc[] =
    "Kills clients, servers and memory nodes, and counts exactly what is left.\v"
    "Examples:\n"
    "  lend-kill --seconds 90             both parts on shm and udp\n"
    "  lend-kill --part points --seconds 600   every store of every operation\n"
    "  lend-kill --carrier pool --seconds 60   clients that map pages, killed in their stores\n"
    "  lend-kill --part lent --by node    processes of a chain whose argument is put on a node\n"
    "  lend-kill --part loop --workers 2 --seconds 60   a node of two workers\n"
    "  lend-kill --seed 7 --part loop --carrier shm --round 41   one round, again and again\n";
static const struct lend_option options[] = {
    OPT_TIME(struct options, ns, "seconds", "Duration (default 10)", .key = 's'),
    OPT_NUMBER(struct options, seed, "seed", 0, UINT64_MAX,
	       "Histories (default: random, and printed)", .key = 'r'),
    OPT_CHOICE(struct options, part, "part", "PART",
	       ((const char *const[]){"loop", "points", "lent", NULL}),
	       "loop: random moments; points: store by store; lent: of calls with a long argument "
	       "(default all)",
	       .key = 'p', .min = LOOP),
    OPT_CHOICE(
	struct options, carrier, "carrier", "CARRIER",
	((const char *const[]){"shm", "udp", "pool", NULL}),
	"Only this one (default shm and udp, side by side; pool: shm, and clients map the pages)",
	.key = 'c', .min = SHM),
    OPT_CHOICE(
	struct options, by, "by", "WAY", ((const char *const[]){"caller", "node", NULL}),
	"lent: the argument stays in the caller's memory, or is put on a node (default both)",
	.min = BY_CALLER),
    OPT_NUMBER(struct options, round, "round", 0, INT64_MAX,
	       "loop: this round only, again and again", .key = 'n'),
    OPT_NUMBER(struct options, workers, "workers", 1, WORKERS_MAX, "Of the node (default 1)",
	       .key = 'w'),
    OPT_FLAG(struct options, verbose, "verbose", "A line for each round", .key = 'v'),
    OPT_FLAG(struct options, json, "json", "One JSON object instead of the table", .key = 'j'),
    {.name = NULL}};

/* Only references to a node use a pool. */
static void run_lent(const struct options *o, struct kill_page *page, bool udp, uint64_t from,
		     uint64_t until)
{
	enum by by = page->pool ? BY_NODE : o->by;

	if (by != BY_NODE)
		lent_run(page, udp, false, o->seed, by ? until : from + (until - from) / 2);
	if (by != BY_CALLER && !atomic_load(&page->bad))
		lent_run(page, udp, true, o->seed, until);
}

static void run_all(const struct options *o, struct kill_page *page, bool udp, uint64_t from)
{
	uint64_t all = o->ns;
	bool both = !o->part && FUSES;

	page->verbose = o->verbose;
	page->workers = o->workers;
	page->pool = o->carrier == POOL;
	if (!o->part || o->part == LENT)
		run_lent(o, page, udp, from, from + (o->part ? all : all / 8));
	if (!atomic_load(&page->bad) && FUSES && (!o->part || o->part == POINTS))
		points_run(page, udp, o->seed, from + (both ? all / 2 : all));
	if (!atomic_load(&page->bad) && (!o->part || o->part == LOOP))
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
		sum->early_reads += page[i].early_reads;
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
	    {"early_reads", "reads of bytes on their way to a node", sum.early_reads},
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
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	struct options o = {.ns = 10000 * MS, .round = -1, .workers = 1};
	struct kill_page *page = mmap(NULL, 2 * sizeof(*page), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char folder[] = "/tmp/lend-kill-XXXXXX";
	uint64_t start = kill_now();
	bool bad;
	int status;

	lend_random(&o.seed, 4);
	lend_cli_name_set("lend-kill", "");
	lend_options_read(&syntax, NULL, argc, argv, &o);
	if (page == MAP_FAILED || !mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		return 2;
	for (int udp = 0; udp < 2; udp++)
		if (o.carrier != (udp ? SHM : UDP) && !(udp && o.carrier == POOL) && fork() == 0)
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
