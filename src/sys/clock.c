#include "sys/clock.h"

#include <stdatomic.h>
#include <time.h>

/* The cycle counter only interpolates between two reads of the system's clock. Each thread keeps
 * one anchor, a counter value and its time, and takes a new one after a millisecond. The rate comes
 * from the last two anchors, so a wrong rate lasts for one anchor only, and a counter that jumps
 * (another core, a suspended guest) only costs a new anchor. */
struct anchor {
	uint64_t cycles;
	lend_ns ns;
	lend_ns last;     /* time that was returned last: never go below it */
	uint64_t ns_mult; /* nanoseconds per cycle, 32 bits of fraction; 0: not known yet */
	uint64_t span;    /* cycles that an anchor is good for */
};

static lend_ns system_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (lend_ns)ts.tv_sec * 1000000000 + (lend_ns)ts.tv_nsec;
}

#if defined(__x86_64__)
enum { ANCHOR_NS = 1000000, APART_CYCLES = 20000 };

static _Thread_local struct anchor anchor;

static lend_ns never_back(struct anchor *a, lend_ns now)
{
	if (now < a->last)
		return a->last;
	a->last = now;
	return now;
}

/* Takes a new anchor once the old one is old enough to compute the rate from. */
static __attribute__((noinline)) lend_ns anchor_now(struct anchor *a)
{
	uint64_t cycles = lend_clock_cycles();
	lend_ns ns = system_now();
	uint64_t dc = cycles - a->cycles, dns = ns - a->ns;

	/* The thread was interrupted between the two reads, so they do not belong together. */
	if (lend_clock_cycles() - cycles > APART_CYCLES) {
		a->ns_mult = 0;
		a->ns = 0;
		return never_back(a, ns);
	}
	if (dns < ANCHOR_NS && dc < UINT64_C(1) << 32 && a->ns != 0)
		return never_back(a, ns);
	a->ns_mult = 0;
	/* A usable counter has 1/8 to 16 cycles per nanosecond; the span is less than 2^32 ns. */
	if (a->ns != 0 && dns >= ANCHOR_NS && dc > dns / 8 && dc < dns * 16 &&
	    dns < UINT64_C(1) << 32) {
		a->ns_mult = (dns << 32) / dc;
		a->span = dc * ANCHOR_NS / dns;
	}
	a->cycles = cycles;
	a->ns = ns;
	return never_back(a, ns);
}

lend_ns lend_clock_now(void)
{
	struct anchor *a = &anchor;
	uint64_t passed = lend_clock_cycles() - a->cycles;

	if (a->ns_mult == 0 || passed > a->span)
		return anchor_now(a);
	return never_back(a, a->ns + (passed * a->ns_mult >> 32));
}
#else
lend_ns lend_clock_now(void)
{
	return system_now();
}
#endif

uint64_t lend_clock_cycles_per_second(void)
{
	static _Atomic uint64_t rate;
	uint64_t known = atomic_load_explicit(&rate, memory_order_relaxed);

	if (known != 0)
		return known;
	lend_ns t0 = system_now(), t1 = t0;
	uint64_t c0 = lend_clock_cycles();

	while (t1 - t0 < 2000000)
		t1 = system_now();
	known = (lend_clock_cycles() - c0) * 1000000000 / (t1 - t0);
	atomic_store_explicit(&rate, known, memory_order_relaxed);
	return known;
}
