/* undo_log - a node that is killed in the middle of an operation has not run it, as the next start
 * sees.
 *
 * What a store needs to know is little: which objects live and the trees under them, who holds
 * what, grants, clients, records. All else (counts of names, free lists, hash chains, the heap)
 * says the same once more and is built anew by lend_store_recover(). So only changes of the former
 * are kept in order. Trees: a page or node is filled, then linked; unlinked, then freed. The rest:
 * before an operation changes a word, the word goes into a log; emptying the log is the one store
 * that makes the operation have happened. Objects that it ends are let go after that, for their
 * pages are zeroed. A client that goes is marked first, and whatever is left of it is then
 * nobody's.
 *
 * A killed process's stores are seen in program order, so fences are for the compiler only.
 * Considered: a copy of what changes (twice the memory traffic), replay of requests (their bytes
 * are with the carrier), two versions of each table (every reader pays).
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_UNDO_LOG_H
#define MN_STORE_UNDO_LOG_H

#include <stdatomic.h>
#include <string.h>

#include "mn/store/store.h"
#include "util/check.h"

/* One word of the arena, and what it was. */
struct lend_undo {
	uint64_t at, was;
};
enum { LEND_UNDO_SPARE = 64, LEND_UNDO_STEP = 8 }; /* one release takes no more than a step */

static inline void lend_undo_fence(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

static inline struct lend_undo *lend_undo_at(const struct lend_store *s, uint32_t i)
{
	return (struct lend_undo *)lend_at(s, s->undo) + i;
}

/* The 8 bytes at word are about to change; it need not be aligned. */
static inline void lend_undo_note(struct lend_store *s, const void *word)
{
	struct lend_undo *u = lend_undo_at(s, s->undo_n);

	LEND_CHECK(s->undo_n < s->undo_cap);
	u->at = (uint64_t)((const uint8_t *)word - (const uint8_t *)s);
	memcpy(&u->was, word, sizeof(u->was));
	lend_undo_fence();
	s->undo_n++;
	lend_undo_fence();
}

/* What was noted has happened; what it ended is let go. */
void lend_undo_commit(struct lend_store *s);

#endif
