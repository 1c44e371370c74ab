/* ref_counts - how this process's arguments by reference travelled: in place, or by a copy that a
 * fallback made. Counted by the client of memory nodes, reported by the statistics of endpoints.
 * Layer: sys. Threads: any. */
#ifndef LEND_SYS_REF_COUNTS_H
#define LEND_SYS_REF_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

struct lend_ref_counts {
	_Atomic uint64_t in_place; /* read where they are */
	_Atomic uint64_t copied;   /* fetched, although this host has them */
	_Atomic uint64_t by_value; /* sent in the message: no way by reference */
	_Atomic uint64_t relayed;  /* bytes read for callees that could not reach the lender */
	_Atomic uint64_t expired;  /* loans and results that their ttl ended */
};
extern struct lend_ref_counts lend_ref_counts;

static inline void lend_ref_count(_Atomic uint64_t *count)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

#endif
