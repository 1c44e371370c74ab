/* explore_canon - maps all histories with the same future to the same bytes.
 *
 * A core, or a store, is changed in place so that its bytes are its state and nothing else:
 * - Times are shifted so that now is EX_NOW. Times are only ever compared with other times.
 * - Unused and stale data is zeroed: free records, entries of ended numbers, unused ends of stacks.
 * - Round-trip times are frozen at their least value. Every sample reads as zero, so timeouts are
 * the first one (5 ms), then the least one (1 ms), doubling. Only this is inexact: a timeout may
 * come before or after any delivery anyway, but other ratios between timers are not explored.
 * Numbers, session ids and generations are unchanged: histories with more retransmissions stay
 * distinct, which costs states but loses none.
 *
 * Layer: test, over the private headers of core and mn/store. Threads: none. */
#ifndef SIM_EXPLORE_EXPLORE_CANON_H
#define SIM_EXPLORE_EXPLORE_CANON_H

#include "core/core.h"
#include "mn/store/exec.h"

#define EX_NOW (UINT64_C(1) << 40)

struct ex_extent {
	void *at;
	uint32_t len;
};

/* now becomes EX_NOW. No event and no datagram may be pending. */
void ex_core_canon(struct lend_core *core);
/* Puts its timers onto an empty wheel. They are no part of the state's bytes, because a timer's
 * position on the wheel depends on the time when it was set. */
void ex_core_timers(struct lend_core *core);
/* Lists the bytes of the state; returns the number of extents. A session sends fewer than
 * EX_NUMBERS datagrams. */
enum { EX_NUMBERS = 96, EX_EXTENTS = 24 };
uint32_t ex_core_extents(struct lend_core *core, struct ex_extent e[EX_EXTENTS]);
/* Returns NULL, or the ledger of the core that is wrong. */
const char *ex_core_audit(struct lend_core *core);
/* quiet: all pools except the sessions are full again. clean: the sessions, too. */
bool ex_core_quiet(struct lend_core *core);
bool ex_core_clean(struct lend_core *core);

/* now: the node's time, which becomes EX_NOW. */
void ex_store_canon(struct lend_store *store, lend_ns now);
/* Bytes at the start of a page that the explorer's operations write. */
enum { EX_PAGE_USED = 64 };
uint32_t ex_store_extents(struct lend_store *store, struct ex_extent e[EX_EXTENTS]);

#endif
