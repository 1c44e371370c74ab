/* adaptive_spin - duration of the spin before a sleep: twice the recent waits, if a spin is
 * worthwhile.
 *
 * A sleep costs both sides some microseconds and a spin costs a core. So a spin covers waits that
 * end within LEND_SPIN_MAX_NS. Longer waits get hardly any spin: a sleep adds little to them. One
 * wait that a spin would have covered is enough to spin again. It takes several long ones to stop,
 * because there is a pause between two bursts of calls, too.
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
	LEND_SPIN_FORGET = 8,     /* a shorter wait reduces the spin by 1/8 of the difference */
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
static inline lend_ns lend_contention_spin(const struct lend_contention *c, lend_ns spin)
{
	return c->skip ? LEND_SPIN_MIN_NS : spin;
}

#endif
