/* undo_log - makes each operation atomic over a kill: after a restart, an interrupted operation has
 * not run.
 *
 * The essential state of a store is small: the live objects and their trees, holds, grants,
 * clients, records. All other state (refcounts, free lists, hash chains, the heap) is derived;
 * lend_store_recover() rebuilds it. So only changes of essential state are ordered. Trees: a page
 * or node is filled, then linked; unlinked, then freed. The rest: before an operation changes a
 * field, it logs the old value. The one store that empties the log commits the operation. Objects
 * that the operation ends are freed after the commit, because that takes several steps. A client
 * that is closed is first marked as not live; recovery drops everything that still refers to it.
 *
 * A killed process's stores are seen in program order, so the fences are for the compiler only.
 * Alternatives considered: a copy of the data that changes (twice the memory traffic), replay of
 * requests (the carrier owns their bytes), two versions of each table (every reader pays).
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_UNDO_LOG_H
#define MN_STORE_UNDO_LOG_H

#include <stdatomic.h>
#include <string.h>

#include "mn/store/store.h"
#include "util/check.h"

/* The offset and the old value of 8 bytes in the arena. */
struct lend_undo {
	uint64_t at, was;
};
enum { LEND_UNDO_SPARE = 64, LEND_UNDO_STEP = 8 }; /* STEP: the most words that one release logs */

static inline void lend_undo_fence(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

static inline struct lend_undo *lend_undo_at(const struct lend_store *s, uint32_t i)
{
	return (struct lend_undo *)lend_at(s, s->undo) + i;
}

/* Logs the 8 bytes at word, which are about to change. word need not be aligned. */
static inline void lend_undo_log(struct lend_store *s, const void *word)
{
	struct lend_undo *u = lend_undo_at(s, s->undo_n);

	LEND_CHECK(s->undo_n < s->undo_cap);
	u->at = (uint64_t)((const uint8_t *)word - (const uint8_t *)s);
	memcpy(&u->was, word, sizeof(u->was));
	lend_undo_fence();
	s->undo_n++;
	lend_undo_fence();
}

/* Commits the operation: empties the log, then frees the objects that the operation ended. */
void lend_undo_commit(struct lend_store *s);

#endif
