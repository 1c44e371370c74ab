#include "sim/plan_run.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/command.h"
#include "sim/sim_args.h"

enum {
	TWICE_EVERY = 100,
	SEED_SECONDS = 60, /* limit of CPU time */
	SHRINK_SECONDS = 60,
	FAILURES_MAX = 8,
	MARKS_FROM = 4000
};

/* One per worker, written by that worker only. */
struct desk {
	_Alignas(64) uint64_t seed; /* being run */
	uint64_t seeds, twice;
	struct sim_count count;
	struct sim_marks marks;
};
struct board {
	_Atomic uint64_t next;
	_Atomic uint32_t failures;
	struct sim_failure failure[FAILURES_MAX];
	struct desk desk[SIM_JOBS_MAX];
};
struct options {
	uint64_t first, last, step;
	double minutes;
	uint32_t jobs;
	bool json, quiet, no_shrink, twice;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void note_failure(struct board *b, uint64_t seed, const char *why)
{
	uint32_t i = atomic_fetch_add(&b->failures, 1);

	if (i >= FAILURES_MAX)
		return;
	b->failure[i].plan = sim_plan_draw(seed);
	snprintf(b->failure[i].why, SIM_WHY, "%s", why);
}

static void add_sums(uint64_t *sum, const uint64_t *more, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] += more[i];
}

#define ADD(sum_workers, more)                                                                     \
	add_sums((uint64_t *)(sum_workers), (const uint64_t *)(more), sizeof(*(sum_workers)) / 8)

static bool one_seed(struct desk *d, struct sim *sim, bool twice, char why[SIM_WHY])
{
	struct sim_plan plan = sim_plan_draw(d->seed);
	uint64_t hash;

	if (!sim_run(sim, &plan)) {
		memcpy(why, sim->why, SIM_WHY);
		return false;
	}
	d->seeds++;
	ADD(&d->count, &sim->count);
	ADD(&d->marks, &sim->marks);
	if (!twice && d->seed % TWICE_EVERY != 0)
		return true;
	d->twice++;
	hash = sim->hash;
	if (sim_run(sim, &plan) && sim->hash == hash)
		return true;
	snprintf(why, SIM_WHY, "the same plan runs in two ways");
	return false;
}

static void run_worker(struct board *b, struct desk *d, const struct options *o, double end)
{
	static struct sim sim;
	char why[SIM_WHY];

	while (now_s() < end && atomic_load(&b->failures) < FAILURES_MAX) {
		d->seed = atomic_fetch_add(&b->next, o->step);
		if (d->seed > o->last)
			return;
		sim_limit(SEED_SECONDS);
		if (!one_seed(d, &sim, o->twice, why))
			note_failure(b, d->seed, why);
	}
}

static void sum_workers(const struct board *b, struct desk *all)
{
	memset(all, 0, sizeof(*all));
	for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
		all->seeds += b->desk[i].seeds;
		all->twice += b->desk[i].twice;
		ADD(&all->count, &b->desk[i].count);
		ADD(&all->marks, &b->desk[i].marks);
	}
}

static void print_progress(const struct board *b, double since)
{
	struct desk all;

	sum_workers(b, &all);
	fprintf(stderr, "%.0f s: %llu seeds, %.1f million datagrams, %u violations\n",
		now_s() - since, (unsigned long long)all.seeds, (double)all.count.datagrams / 1e6,
		atomic_load(&b->failures));
}

static void start_worker(struct board *b, uint32_t i, const struct options *o, double end,
			 pid_t *child)
{
	fflush(NULL);
	child[i] = fork();
	LEND_CHECK(child[i] >= 0);
	if (child[i] == 0) {
		run_worker(b, &b->desk[i], o, end);
		exit(0); /* not _exit(): a coverage build writes its counters */
	}
}

/* Reports the seed of a worker that died, and starts another worker. */
static void reap_worker(struct board *b, const struct options *o, double end, pid_t *child)
{
	uint32_t left = o->jobs;
	double since = now_s(), told = since;

	while (left > 0) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		char why[SIM_WHY];

		if (pid == 0) {
			nanosleep(&(struct timespec){0, 20000000}, NULL);
			if (!o->quiet && now_s() - told >= 5) {
				print_progress(b, since);
				told = now_s();
			}
			continue;
		}
		for (uint32_t i = 0; i < o->jobs; i++) {
			if (child[i] != pid)
				continue;
			left--;
			if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
				continue;
			sim_died(status, why);
			note_failure(b, b->desk[i].seed, why);
			start_worker(b, i, o, end, child);
			left++;
		}
	}
}

enum form { SILENT, TEXT, JSON };
static uint32_t print_missing(const struct desk *all, enum form form)
{
	const uint64_t *hit = (const uint64_t *)&all->marks;
	const char *text, *name;
	uint32_t n = 0;

	for (size_t i = 0; (name = sim_marks_name(i, &text)) != NULL; i++)
		if (!hit[i]) {
			if (form == JSON)
				printf("%s\"%s\"", n ? "," : "", name);
			else if (form == TEXT)
				printf("  %s: %s\n", name, text);
			n++;
		}
	return n;
}

static void print_json(const struct desk *all, const struct board *b, double seconds, uint32_t jobs)
{
	printf("{\"seeds\":%llu,\"datagrams\":%llu,\"faults\":%llu,\"hostile\":%llu,"
	       "\"violations\":%u,\"calls\":%llu,\"memops\":%llu,\"crashes\":%llu,"
	       "\"audits\":%llu,\"twice\":%llu,\"seconds\":%.1f,\"seed_datagrams_per_s\":%.0f,"
	       "\"marks\":%u,\"marks_missing\":[",
	       (unsigned long long)all->seeds, (unsigned long long)all->count.datagrams,
	       (unsigned long long)all->count.faults, (unsigned long long)all->count.hostile,
	       atomic_load(&b->failures), (unsigned long long)all->count.calls,
	       (unsigned long long)all->count.memops, (unsigned long long)all->count.crashes,
	       (unsigned long long)all->count.audits, (unsigned long long)all->twice, seconds,
	       (double)all->count.datagrams / seconds / jobs, (unsigned)SIM_MARKS_N);
	print_missing(all, JSON);
	printf("]}\n");
}

static void print_text(const struct desk *all, const struct board *b, double seconds, uint32_t jobs)
{
	printf("%llu seeds (%llu twice), %llu datagrams, %llu calls, %llu faults, %llu hostile, "
	       "%u violations; %.1f s, %.0f datagrams per second and core\n",
	       (unsigned long long)all->seeds, (unsigned long long)all->twice,
	       (unsigned long long)all->count.datagrams, (unsigned long long)all->count.calls,
	       (unsigned long long)all->count.faults, (unsigned long long)all->count.hostile,
	       atomic_load(&b->failures), seconds, (double)all->count.datagrams / seconds / jobs);
	if (all->seeds < MARKS_FROM)
		return;
	if (print_missing(all, SILENT))
		printf("never seen, and a run of %u seeds should have:\n", (unsigned)MARKS_FROM);
	print_missing(all, TEXT);
}

static void print_failures(struct board *b, const struct options *o)
{
	uint32_t n = atomic_load(&b->failures);

	for (uint32_t i = 0; i < n && i < FAILURES_MAX; i++) {
		fprintf(stderr,
			"VIOLATION, seed %llu: ", (unsigned long long)b->failure[i].plan.seed);
		sim_print_failure(&b->failure[i]);
	}
	if (!n || o->no_shrink)
		return;
	sim_shrink(&b->failure[0], SHRINK_SECONDS);
	fprintf(stderr, "the first one, shrunk: ");
	sim_print_failure(&b->failure[0]);
	sim_print_trace(&b->failure[0]);
}

static void take_minutes(const struct lend_option *option, void *args, char *value)
{
	double *minutes = &((struct options *)args)->minutes;

	if (sscanf(value, "%lf", minutes) != 1 || *minutes <= 0)
		lend_cli_bad("--%s %s: give a number above zero", option->name, value);
}

static const struct lend_option options[] = {
    OPT_SEEDS(struct options, first, "Plans to run (1..200)"),
    OPT_NUMBER(struct options, step, "step", 1, UINT64_MAX, "Run one seed in N"),
    OPT_TAKEN("minutes", "M", take_minutes, "Run new seeds until then"),
    OPT_NUMBER(struct options, jobs, "jobs", 1, SIM_JOBS_MAX, "Processes (1)"),
    OPT_FLAG(struct options, quiet, "quiet", "No progress"),
    OPT_FLAG(struct options, no_shrink, "no-shrink", "Leave the first failed plan as it is"),
    OPT_FLAG(struct options, twice, "twice", "Run each seed twice and compare"),
    OPT_JSON(struct options, json),
    {.name = NULL}};

int sim_cmd_run(int argc, char **argv)
{
	struct options o = {.first = 1, .last = 200, .step = 1, .jobs = 1};
	double since = now_s();
	struct board *b;
	struct desk all;
	pid_t child[SIM_JOBS_MAX];

	lend_options_read(&(struct lend_syntax){.option = options}, NULL, argc, argv, &o);
	if (o.minutes > 0 && o.first == 1 && o.last == 200)
		o.last = UINT64_MAX;
	b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	LEND_CHECK(b != MAP_FAILED);
	atomic_store(&b->next, o.first);
	for (uint32_t i = 0; i < o.jobs; i++)
		start_worker(b, i, &o, o.minutes > 0 ? since + o.minutes * 60 : 1e18, child);
	reap_worker(b, &o, o.minutes > 0 ? since + o.minutes * 60 : 1e18, child);
	sum_workers(b, &all);
	(o.json ? print_json : print_text)(&all, b, now_s() - since, o.jobs);
	fflush(stdout);
	print_failures(b, &o);
	return atomic_load(&b->failures) ||
	       (all.seeds >= MARKS_FROM && print_missing(&all, SILENT));
}
