/* spin - how long to look before a sleep: twice as long as waits were of late, if that is worth it.
 *
 * A sleep costs both sides some microseconds and a spin costs a core, so waits that end within
 * SPIN_MAX are spun through, and before longer ones hardly anything is spun: a sleep adds little to
 * them. One wait that a spin would have covered is enough to spin again; several long ones are
 * needed to stop, for between two bursts of calls there is a pause too.
 * Layer: rpc (pure). Lives by value in its owner. */
#ifndef LEND_RPC_SPIN_H
#define LEND_RPC_SPIN_H

#include "util/bits.h"
#include "util/dgram.h"

enum {
	LEND_SPIN_MIN_NS = 5000,
	LEND_SPIN_NS = 30000, /* to begin with */
	LEND_SPIN_MAX_NS = 100000,
	LEND_SPIN_FORGET = 8, /* part of the way down that one wait goes */
};

/* The spin to come, after a wait that ended with work. */
static inline lend_ns lend_spin_learn(lend_ns spin, lend_ns waited)
{
	lend_ns want = waited > LEND_SPIN_MAX_NS ? 0 : 2 * waited;

	want = lend_min_u64(lend_max_u64(want, LEND_SPIN_MIN_NS), LEND_SPIN_MAX_NS);
	return want >= spin ? want : spin - (spin - want + LEND_SPIN_FORGET - 1) / LEND_SPIN_FORGET;
}

#endif
