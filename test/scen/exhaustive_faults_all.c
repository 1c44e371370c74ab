/* exhaustive_faults_all - the second half of exhaustive_faults.h: the checks at the end of a run,
 * and the loop over all runs. Layer: test. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "scen/exhaustive_faults.h"
#include "scen/fast_mode.h"

static bool is_busy(const struct faults *f)
{
	for (uint32_t n = 0; n < f->nodes; n++)
		if (f->node[n].core->used[0] || f->node[n].core->used[1])
			return true;
	return false;
}

static void idle(struct faults *f)
{
	for (uint32_t n = 0; n < f->nodes; n++) {
		struct lend_core *c = f->node[n].core;

		for (uint32_t i = 0; i < c->cfg.sessions; i++) {
			const struct lend_sess *s = lend_sess_at(c, i);

			if (s->state == LEND_SESS_FREE)
				continue;
			if (s->unscheduled_used)
				faults_wrong(f, "a session's credit is not back");
			if (s->slots != (UINT64_C(1) << c->cfg.calls) - 1)
				faults_wrong(f, "a slot is not free");
			if (s->state == LEND_SESS_UP && s->half.in)
				faults_wrong(f, "a proven session counts as half open");
			if (s->orphans || s->waiting.n || s->calls)
				faults_wrong(f, "a session still has calls");
		}
		if (c->free_calls.free != c->records || c->used[0] || c->used[1])
			faults_wrong(f, "a call's record is not free");
	}
}

void faults_rest(struct faults *f, lend_ns since)
{
	while (is_busy(f) && faults_step(f, f->now + 5000 * LEND_MS))
		continue;
	if (!f->mask && f->now - since > 50 * LEND_MS)
		faults_wrong(f, "slow without any fault");
	idle(f);
}

static void over(struct faults *f, const struct faults_node *n)
{
	const struct lend_core *c = n->core;

	if (c->free_sess.free != c->cfg.sessions || c->timers || c->half.n)
		faults_wrong(f, "a session or its timer is left");
	if (c->free_calls.free != c->records || c->used[0] || c->used[1])
		faults_wrong(f, "a call's record is left");
	if (c->free_frags.free != c->free_frags.cap || c->free_wins.free != c->free_wins.cap)
		faults_wrong(f, "a reassembly or a window is left");
	if (c->ready.n || c->budget_queue.n || c->memory_queue[0].n + c->memory_queue[1].n ||
	    c->partials.n || c->ctl_n)
		faults_wrong(f, "a list is not empty");
	if (c->budget_used)
		faults_wrong(f, "the receive budget is not back");
	if (FAULTS_BUFS - 1 - n->n_free != c->supply_n)
		faults_wrong(f, "a buffer is not back");
}

void faults_over(struct faults *f)
{
	for (uint32_t n = 0; n < f->nodes; n++)
		over(f, &f->node[n]);
	if (f->wires)
		faults_wrong(f, "a datagram is left");
}

/* Datagram 0 is the highest digit of count, so that masks with a common beginning are
 * neighbours. */
static uint32_t mask_of(uint32_t count)
{
	uint32_t mask = 0;

	for (int i = 0; i < FAULTS; i++)
		mask |= (count >> (FAULTS - 1 - i) & 1) << i;
	return mask;
}

static void tell(struct faults *f, const char *name, void (*run)(struct faults *, const void *),
		 const void *plan)
{
	const char *wrong = f->wrong;

	fprintf(stderr, "%s, mask %04x: %s\n", name, f->mask, wrong);
	f->told = true;
	run(f, plan);
	cr_assert_fail("%s, mask %04x: %s", name, f->mask, wrong);
}

/* Sanitizers are slow: with them, and on the slow path, thirteen datagrams are lost, twelve
 * duplicated or late. */
static uint32_t faults_of(enum fault fault)
{
#ifndef LEND_SLOW_CHECKS
	if (fast_mode() == LEND_FAST_ALWAYS)
		return FAULTS;
#endif
	return fault == FAULT_LOST ? FAULTS - 3 : FAULTS - 4;
}

void faults_all(const char *name, enum fault fault, void (*run)(struct faults *, const void *),
		const void *plan)
{
	static const char *const faults[] = {"lost", "twice", "late", "stale", "full"};
	static struct faults f;
	uint32_t runs = 0, tried = faults_of(fault);

	memset(&f, 0, sizeof(f));
	f.fault = fault;
	for (uint32_t count = 0; count < 1u << tried; runs++) {
		f.mask = mask_of(count << (FAULTS - tried));
		run(&f, plan);
		if (f.wrong)
			tell(&f, name, run, plan);
		count = (count | ((1u << (tried - lend_min_u32(f.sent, tried))) - 1)) + 1;
	}
	printf(
	    "{\"exhaustive\":\"%s\",\"fault\":\"%s\",\"masks\":%u,\"runs\":%u,\"datagrams\":%llu,"
	    "\"longest_ms\":%.1f}\n",
	    name, faults[fault], 1u << tried, runs, (unsigned long long)f.carried,
	    (double)f.longest / 1e6);
	fflush(stdout);
}
