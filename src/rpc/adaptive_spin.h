/* adaptive_spin - duration of the spin before a sleep: twice the recent waits, if spins pay.
 *
 * A sleep costs both sides some microseconds and a spin costs a core. So a spin covers waits that
 * end within LEND_SPIN_MAX_NS. Longer waits get hardly any spin: a sleep adds little to them. One
 * wait that a spin would have covered is enough to spin again. It takes several long ones to stop,
 * because there is a pause between two bursts of calls, too.
 *
 * Waits of a server at medium load are short and long in random order: then most spins end with a
 * sleep. So spins have a credit of CPU time. A spin uses it up, and gains the cost of a sleep if
 * work ends it. Time for which a yield gives the core to others is free. Without credit a number of
 * waits spin for LEND_SPIN_MIN_NS only, then the credit is full again. The number doubles each
 * time, until a full credit lasts.
 *
 * A spin yields the core after LEND_SPIN_HARD_NS. Another endpoint that polls returns it as soon as
 * it has nothing to do, LEND_LOST_NS later at most: a service that forwards 1 MiB over udp works
 * for up to 1 ms. A thread that computes keeps it for its time slice, milliseconds, whereas a
 * thread that sleeps preempts it when it wakes. So after the core was lost, a number of waits spin
 * for LEND_SPIN_MIN_NS without a yield and then sleep. The wait that follows yields again; if it
 * loses the core, the number doubles. The number counts waits instead of time: with few calls, too,
 * at most one in LEND_SKIP_MAX waits for a time slice. Layer: rpc (pure). Lives by value in its
 * owner. */
#ifndef LEND_RPC_ADAPTIVE_SPIN_H
#define LEND_RPC_ADAPTIVE_SPIN_H

#include "util/bits.h"
#include "util/dgram.h"

enum {
	LEND_SPIN_MIN_NS = 5000,
	LEND_SPIN_NS = 30000, /* initial duration of a spin */
	LEND_SPIN_MAX_NS = 100000,
	LEND_SPIN_FORGET = 8, /* a shorter wait reduces the spin by 1/8 of the difference */
	/* Cost of a sleep: system calls and wake-ups of both sides, and the delay of the work. */
	LEND_SLEEP_COST_NS = 40000,
	/* Longest time from poll to poll that counts: the rest is of other threads. */
	LEND_POLL_NS = 1500,
	LEND_CREDIT_NS = 200000, /* full credit of spins beyond LEND_SPIN_MIN_NS */
	LEND_UNPAID_MIN = 8,     /* sleeps after a short spin once the credit is used up */
	LEND_UNPAID_MAX = 256,
	LEND_SPIN_HARD_NS = 2000, /* duration of a spin before its first yield */
	LEND_SKIP_MIN = 8,        /* waits without a yield after the core was lost */
	LEND_SKIP_MAX = 1024,
	LEND_LOST_NS =
	    1500000, /* between two polls: a thread that computes may have had the core */
};

/* Returns the next spin duration, after a wait that ended with work. */
static inline lend_ns lend_spin_adapt(lend_ns spin, lend_ns waited)
{
	lend_ns want = waited > LEND_SPIN_MAX_NS ? 0 : 2 * waited;

	want = lend_min_u64(lend_max_u64(want, LEND_SPIN_MIN_NS), LEND_SPIN_MAX_NS);
	return want >= spin ? want : spin - (spin - want + LEND_SPIN_FORGET - 1) / LEND_SPIN_FORGET;
}

/* Whether spins pay. */
struct lend_spin_credit {
	lend_ns left;
	uint32_t skip; /* number of next sleeps after a short spin */
	uint32_t next; /* skip after the credit is used up again */
};

static inline void lend_spin_credit_init(struct lend_spin_credit *c)
{
	*c = (struct lend_spin_credit){.left = LEND_CREDIT_NS, .next = LEND_UNPAID_MIN};
}

static inline void lend_spin_credit_charge(struct lend_spin_credit *c, lend_ns spun, lend_ns gain)
{
	lend_ns cost =
	    lend_min_u64(lend_max_u64(spun, LEND_SPIN_MIN_NS), LEND_SPIN_MAX_NS) - LEND_SPIN_MIN_NS;

	if (c->left + gain <= cost) {
		c->left = LEND_CREDIT_NS;
		c->skip = c->next;
		c->next = lend_min_u32(2 * c->next, LEND_UNPAID_MAX);
		return;
	}
	c->left = lend_min_u64(c->left + gain - cost, LEND_CREDIT_NS);
	if (gain && c->left == LEND_CREDIT_NS)
		c->next = LEND_UNPAID_MIN;
}

/* Returns the CPU time of a spin after its next poll, which came that much later. */
static inline lend_ns lend_spin_polled(lend_ns spun, lend_ns later)
{
	return spun + lend_min_u64(later, LEND_POLL_NS);
}

/* Notes that work ended a spin. spun: its CPU time. A short spin finds the work in any case. */
static inline void lend_spin_credit_worked(struct lend_spin_credit *c, lend_ns spun)
{
	if (!c->skip && spun > LEND_SPIN_MIN_NS)
		lend_spin_credit_charge(c, spun, LEND_SLEEP_COST_NS);
}

/* Notes that a sleep ended a spin. */
static inline void lend_spin_credit_slept(struct lend_spin_credit *c, lend_ns spun)
{
	if (c->skip)
		c->skip--;
	else
		lend_spin_credit_charge(c, spun, 0);
}

/* Whether other threads compete for this core. */
struct lend_contention {
	uint32_t skip; /* number of next waits that do not yield */
	uint32_t next; /* skip after the next loss of the core */
	long switches; /* involuntary context switches of the thread, as last counted */
};

static inline void lend_contention_init(struct lend_contention *c)
{
	*c = (struct lend_contention){.next = LEND_SKIP_MIN};
}

/* Notes that another thread had the core during a spin. */
static inline void lend_contention_lost(struct lend_contention *c)
{
	c->skip = c->next;
	c->next = lend_min_u32(2 * c->next, LEND_SKIP_MAX);
}

/* Returns whether another thread had the core since the last count of the thread's involuntary
 * context switches, and notes it. */
static inline bool lend_contention_switched(struct lend_contention *c, long switches)
{
	bool lost = switches != c->switches;

	c->switches = switches;
	if (lost)
		lend_contention_lost(c);
	return lost;
}

/* Notes the end of a wait longer than LEND_SPIN_HARD_NS that did not lose the core. */
static inline void lend_contention_waited(struct lend_contention *c)
{
	if (c->skip)
		c->skip--;
	else
		c->next = lend_max_u32(c->next - c->next / LEND_SPIN_FORGET, LEND_SKIP_MIN);
}

/* Returns how long to spin before a sleep. spin: the duration of lend_spin_adapt(). */
static inline lend_ns lend_spin_limit(const struct lend_contention *contention,
				      const struct lend_spin_credit *credit, lend_ns spin)
{
	return contention->skip || credit->skip ? LEND_SPIN_MIN_NS : spin;
}

#endif
