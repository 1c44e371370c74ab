/* clock - monotonic time, cheap enough to read once per turn.
 *
 * Layer: sys. Threads: each keeps its own anchor, so the times of two threads may differ by some
 * tens of nanoseconds; within a thread time never goes back. The origin is CLOCK_MONOTONIC's, so a
 * time may be handed to a timerfd.
 */
#ifndef LEND_SYS_CLOCK_H
#define LEND_SYS_CLOCK_H

#include <stdint.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "util/dgram.h"

/* Returns nanoseconds of CLOCK_MONOTONIC. On x86 it reads the cycle counter, which is synchronised
 * with the system's clock every millisecond; elsewhere it calls clock_gettime(). */
lend_ns lend_clock_now(void);

/* Returns a counter that runs at a fixed rate near the processor's: for measurements, and for cheap
 * tests whether something happened recently. */
static inline uint64_t lend_clock_cycles(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return lend_clock_now();
#endif
}

/* Returns how many of lend_clock_cycles() make a second. Measured once per process over 2 ms, so
 * the first call is slow. */
uint64_t lend_clock_cycles_per_second(void);

#endif
