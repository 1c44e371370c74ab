/* frame - pages of bytes: shared by refcount, pinned by replies, zeroed after use.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_FRAME_H
#define MN_STORE_FRAME_H

#include "mn/store/store.h"

/* Takes a frame with one reference, for a page of which the caller overwrites [from, to); the rest
 * is zeros. A frame must be available. Before several takes, call lend_free_expect(). */
uint32_t lend_frame_take(struct lend_store *s, uint32_t from, uint32_t to);
/* Drops one reference. Frame 0 is never counted. */
void lend_frame_drop(struct lend_store *s, uint32_t frame);
/* Zeros the page of a free frame, unless it is zero already. */
void lend_frame_zero(struct lend_store *s, uint32_t frame);
/* Zeros some of the free pages that have old bytes, at lend_frame_clean_deadline() (0: at once). */
void lend_frame_clean(struct lend_store *s, lend_ns now);
lend_ns lend_frame_clean_deadline(const struct lend_store *s);
void lend_frame_pin(struct lend_store *s, uint32_t frame);
void lend_frame_unpin(struct lend_store *s, uint32_t frame);
/* Returns whether the frame has one reference and no pins: its bytes may change in place. */
static inline bool lend_frame_is_exclusive(const struct lend_store *s, uint32_t frame)
{
	return frame && lend_frame_at(s, frame)->refs == 1 && lend_frame_at(s, frame)->pins == 0;
}

#endif
