/* explore_canon - one set of bytes for all histories that lead to the same future.
 *
 * A core, or a store, is changed in place so that its bytes are its state and nothing else:
 *   - times are moved so that now is EX_NOW: nothing looks at a time but to compare it with
 * another;
 *   - what is free, stale or of no more interest is zeroed: records, entries of finished numbers,
 *     the unused ends of stacks;
 *   - round trips are frozen at their least value: every sample reads as zero, so timeouts are the
 *     first one (5 ms) and then the least one (1 ms), doubling. This is the only step that is not
 *     exact: a timeout may come before or after any delivery anyway, but ratios between timers
 *     other than these are not seen.
 * Numbers, session ids and generations stay as they are: histories with more repeats stay apart,
 * which costs states and loses nothing.
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

/* now becomes EX_NOW. No event and no datagram may wait. */
void ex_core_canon(struct lend_core *core);
/* Puts its timers onto an empty wheel: they are no part of the bytes below, for where somebody
 * stands on it depends on when he was put there. */
void ex_core_timers(struct lend_core *core);
/* The bytes that are its state: n extents. A session sends fewer than EX_NUMBERS datagrams. */
enum { EX_NUMBERS = 96, EX_EXTENTS = 24 };
uint32_t ex_core_extents(struct lend_core *core, struct ex_extent e[EX_EXTENTS]);
/* NULL, or which of the core's ledgers is wrong. */
const char *ex_core_audit(struct lend_core *core);
/* Its pools are full again but for sessions; and those. */
bool ex_core_quiet(struct lend_core *core);
bool ex_core_clean(struct lend_core *core);

/* now is the node's time, which becomes EX_NOW. */
void ex_store_canon(struct lend_store *store, lend_ns now);
/* Bytes at the start of a page that the explorer's operations write. */
enum { EX_PAGE_USED = 64 };
uint32_t ex_store_extents(struct lend_store *store, struct ex_extent e[EX_EXTENTS]);

#endif
