/* lent_run - a run of a seed, its end and its audit. Layer: test/sim. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lend/alloc.h"
#include "sim/command.h"
#include "sim/lent/lent.h"
#include "sim/lent/lent_command.h"
#include "sys/ref_counts.h"
#include "util/check.h"

enum { SETTLE_MS = 120 };

struct lent *lent;
struct lent_sums lent_sums;
bool lent_traced;

void lent_trace(const char *format, ...)
{
	va_list args;

	if (!lent_traced || !lent)
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
	fprintf(stderr, "%s seed %lu at %.3f us: ", lent->work ? lent->work->name : "lent",
		(unsigned long)lent->seed, (double)lent->now / 1e3);
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
	p->probe = 5 * LENT_MS;
	p->dead = 25 * LENT_MS;
	p->result_ppm = (uint32_t)(lent_below(LENT_RESULT, 2) * lent_below(LENT_RESULT, 1000000));
}

static void open_run(uint64_t seed, const struct lent_work *work)
{
	lent = calloc(1, sizeof(*lent));
	LEND_CHECK(lent);
	lent->seed = seed;
	lent->work = work;
	lent->now = UINT64_C(1000000000);
	for (uint64_t i = 0; i < LENT_STREAMS; i++)
		lend_rng_seed(&lent->rng[i], seed * UINT64_C(0x2545f4914f6cdd1d) + (i << 56) + i);
	draw_plan(&lent->plan);
	if (work)
		work->plan();
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
	if (lent->work)
		lent->work->heal();
	for (uint32_t i = 0; i < lent->plan.nodes; i++) {
		lent->node[i].paused = 0;
		if (!lent->node[i].ep)
			lent_node_birth(i);
	}
	run_for(SETTLE_MS * LENT_MS);
	LENT_CHECK(!lent_call_open(), "%u calls have not ended", lent_call_open());
	LENT_CHECK(!lent_serve_open_reads(), "%u reads have not ended", lent_serve_open_reads());
	LENT_CHECK(!lent->loans, "%u loans have not ended", lent->loans);
	if (lent->work)
		lent->work->settled();
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
	if (lent->work)
		lent->work->close();
	lent_sums.runs++;
	lent_sums.relayed = lend_ref_counts.relayed;
	lent_sums.calls += lent->calls;
	free(lent);
	lent = NULL;
}

void lent_run_work(uint64_t seed, const struct lent_work *work)
{
	open_run(seed, work);
	if (seed)
		plan_events();
	run_for(seed ? lent->plan.span : LENT_MS);
	settle_run();
	close_run();
}

void lent_run_seed(uint64_t seed)
{
	lent_run_work(seed, NULL);
}

int sim_cmd_lent(int argc, char **argv)
{
	static const char *const text[] = {
#define X(name, text) #name, text,
	    LENT_SUMS(X)
#undef X
	};
	const struct lent_command command = {.name = "lent",
					     .run_seed = lent_run_seed,
					     .text = text,
					     .sum = (uint64_t *)&lent_sums,
					     .n = sizeof(lent_sums) / sizeof(uint64_t)};

	return lent_command_run(&command, argc, argv);
}
