/* lent_run - the command `lent`: runs of seeds, the end of a run and its audit. Layer: test/sim. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lend/alloc.h"
#include "sim/command.h"
#include "sim/lent/lent.h"
#include "sim/sim_args.h"
#include "sys/ref_counts.h"
#include "util/check.h"

enum { SETTLE_MS = 120, JOBS_MAX = 16, RUNS_MANY = 100 };

struct lent *lent;
struct lent_sums lent_sums;
static bool traced;

void lent_trace(const char *format, ...)
{
	va_list args;

	if (!traced || !lent)
		return;
	va_start(args, format);
	fprintf(stderr, "%10.3f us  ", (double)lent->now / 1e3);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

void lent_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "lent seed %lu at %.3f us: ", (unsigned long)lent->seed,
		(double)lent->now / 1e3);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

/* The library's check of its users: replaces that of sys/panic.c, as sim.c does with lend_panic().
 */
_Noreturn void lend_misuse(const char *text)
{
	lent_fail("%s", text);
}

static uint32_t draw_ppm(uint32_t most)
{
	return lent_below(LENT_PLAN, 2) ? 0 : (uint32_t)lent_below(LENT_PLAN, most);
}

static void draw_plan(struct lent_plan *p)
{
	static const uint32_t udp_ppm[] = {0, 500000, 1000000};

	p->nodes = 2 + (uint32_t)lent_below(LENT_PLAN, LENT_NODES - 1);
	p->calls = 20 + (uint32_t)lent_below(LENT_PLAN, 60);
	p->len_max = lent_below(LENT_PLAN, 4) ? 16384 : LENT_LEN_MAX;
	p->udp_ppm = udp_ppm[lent_below(LENT_PLAN, 3)];
	p->loss_ppm = draw_ppm(100000);
	p->dup_ppm = draw_ppm(100000);
	p->late_ppm = draw_ppm(200000);
	p->full_ppm = draw_ppm(100000);
	p->delay = 1 + lent_below(LENT_PLAN, 50 * LENT_US);
	p->jitter = lent_below(LENT_PLAN, 2) * lent_below(LENT_PLAN, 50 * LENT_US);
	p->span = (5 + lent_below(LENT_PLAN, 30)) * LENT_MS;
	p->dma = lent_below(LENT_PLAN, 2) * (1 + lent_below(LENT_PLAN, 300 * LENT_US));
	p->crash = lent_below(LENT_PLAN, 2) * (1 + lent_below(LENT_PLAN, 10 * LENT_MS));
	p->pause = lent_below(LENT_PLAN, 2) * (1 + lent_below(LENT_PLAN, 10 * LENT_MS));
	p->cancel_ppm = draw_ppm(1000000);
	p->deadline_ppm = draw_ppm(1000000);
	p->race_ppm = draw_ppm(300000);
	p->result_ppm = (uint32_t)(lent_below(LENT_RESULT, 2) * lent_below(LENT_RESULT, 1000000));
}

static void open_run(uint64_t seed)
{
	lent = calloc(1, sizeof(*lent));
	LEND_CHECK(lent);
	lent->seed = seed;
	lent->now = UINT64_C(1000000000);
	for (uint64_t i = 0; i < LENT_STREAMS; i++)
		lend_rng_seed(&lent->rng[i], seed * UINT64_C(0x2545f4914f6cdd1d) + (i << 56) + i);
	draw_plan(&lent->plan);
	for (uint32_t i = 0; i < LENT_BLOCKS; i++) {
		struct lent_block *b = &lent->block[i];

		b->shared = i % 2;
		b->at = b->shared ? lend_malloc_shared(LENT_LEN_MAX) : lend_malloc(LENT_LEN_MAX);
		LEND_CHECK(b->at);
		memset(b->at, 0, LENT_LEN_MAX);
	}
	for (uint32_t i = 0; i < lent->plan.nodes; i++)
		lent_node_birth(i);
}

static void plan_events(void)
{
	const struct lent_plan *p = &lent->plan;

	for (uint32_t i = 0; i < p->calls; i++)
		lent_at(lent->now + lent_below(LENT_PLAN, p->span), LENT_CALL, 0, 0);
	if (p->crash)
		lent_at(lent->now + lent_below(LENT_FAULT, 2 * p->crash), LENT_CRASH,
			(uint32_t)lent_below(LENT_FAULT, p->nodes), 0);
	if (p->pause)
		lent_at(lent->now + lent_below(LENT_FAULT, 2 * p->pause), LENT_PAUSE,
			(uint32_t)lent_below(LENT_FAULT, p->nodes), 0);
}

static void run_for(lend_ns time)
{
	lend_ns until = lent->now + time;

	while (lent->now < until)
		lent_step(LENT_STEP);
}

/* Faults are over: every call and read ends, and so does every loan and pin. */
static void settle_run(void)
{
	lent->healing = true;
	lent_trace("faults are over");
	for (uint32_t i = 0; i < lent->plan.nodes; i++) {
		lent->node[i].paused = 0;
		if (!lent->node[i].ep)
			lent_node_birth(i);
	}
	run_for(SETTLE_MS * LENT_MS);
	LENT_CHECK(!lent_call_open(), "%u calls have not ended", lent_call_open());
	LENT_CHECK(!lent_serve_open_reads(), "%u reads have not ended", lent_serve_open_reads());
	LENT_CHECK(!lent->loans, "%u loans have not ended", lent->loans);
	for (uint32_t i = 0; i < lent->plan.nodes; i++)
		lent_node_close(i);
	LENT_CHECK(!lent->pins, "%ld pins are left", (long)lent->pins);
	LENT_CHECK(!lent->requests && !lent->loans, "a request or loan is left");
}

static void close_run(void)
{
	for (uint32_t i = 0; i < LENT_BLOCKS; i++)
		lend_free(lent->block[i].at);
	lent_net_close();
	free(lent->heap.e);
	lent_sums.runs++;
	lent_sums.relayed = lend_ref_counts.relayed;
	lent_sums.calls += lent->calls;
	free(lent);
	lent = NULL;
}

void lent_run_seed(uint64_t seed)
{
	open_run(seed);
	if (seed)
		plan_events();
	run_for(seed ? lent->plan.span : LENT_MS);
	settle_run();
	close_run();
}

/* Runs every jobs-th seed from first on, until a time in seconds. */
static void run_job(struct lent_sums *sums, unsigned long first, unsigned long last, uint32_t jobs,
		    time_t until)
{
	lent_run_seed(0);
	lent_sums = (struct lent_sums){.runs = 0};
	for (unsigned long seed = first; seed <= last && time(NULL) < until; seed += jobs)
		lent_run_seed(seed);
	*sums = lent_sums;
}

struct options {
	uint64_t first, last, seconds;
	uint32_t jobs;
	bool json;
};

static void take_trace(const struct lend_option *option, void *args, char *value)
{
	(void)option, (void)args, (void)value;
	traced = true;
}

static const struct lend_option options[] = {
    OPT_SEEDS(struct options, first, "Seeds to run (1..200)"),
    OPT_NUMBER(struct options, seconds, "seconds", 0, 86400, "Start no seed later (3600)"),
    OPT_NUMBER(struct options, jobs, "jobs", 1, JOBS_MAX, "Processes (1)"),
    OPT_TAKEN("trace", NULL, take_trace, "Print each step"),
    OPT_JSON(struct options, json),
    {.name = NULL}};

/* Prints the sums. Returns the number of violations: a sum that many runs did not reach is one. */
static unsigned print_sums(const struct lent_sums *s, unsigned violations, bool json)
{
	const char *const name[] = {
#define X(name, text) #name, text,
	    LENT_SUMS(X)
#undef X
	};
	const uint64_t *sum = (const uint64_t *)s;

	for (size_t i = 0; i < sizeof(*s) / 8; i++) {
		if (s->runs >= RUNS_MANY && !sum[i]) {
			fprintf(stderr, "lent: no run reached this: %s\n", name[2 * i + 1]);
			violations++;
		}
		if (json)
			printf("%s\"lent_%s\":%lu", i ? "," : "{", name[2 * i],
			       (unsigned long)sum[i]);
		else
			printf("%12lu %s\n", (unsigned long)sum[i], name[2 * i + 1]);
	}
	printf(json ? ",\"violations\":%u}\n" : "%12u violations\n", violations);
	return violations;
}

/* Runs all jobs, each in a process. Returns how many of them failed; leaks are a failure, too. */
static unsigned run_jobs(const struct options *o, struct lent_sums *sums)
{
	time_t until = time(NULL) + (time_t)o->seconds;
	unsigned failed = 0;
	int status;

	for (uint32_t i = 0; i < o->jobs; i++)
		if (fork() == 0) {
			run_job(&sums[i], o->first + i, o->last, o->jobs, until);
			exit(0);
		}
	while (wait(&status) > 0)
		failed += status != 0;
	return failed;
}

int sim_cmd_lent(int argc, char **argv)
{
	struct options o = {1, 200, 3600, 1, false};
	struct lent_sums all = {.runs = 0}, *sums;
	unsigned failed;

	lend_options_read(&(struct lend_syntax){.option = options}, NULL, argc, argv, &o);
	sums = mmap(NULL, JOBS_MAX * sizeof(*sums), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	LEND_CHECK(sums != MAP_FAILED);
	failed = run_jobs(&o, sums);
	for (uint32_t i = 0; i < o.jobs; i++)
		for (size_t k = 0; k < sizeof(all) / 8; k++)
			((uint64_t *)&all)[k] += ((const uint64_t *)&sums[i])[k];
	return print_sums(&all, failed, o.json) != 0;
}
