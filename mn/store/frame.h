/* frame - pages of bytes: shared by refcount, pinned by replies, zeroed when free.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_FRAME_H
#define MN_STORE_FRAME_H

#include "mn/store/store.h"

/* Takes a frame of zeros with one reference. A frame must be available. Before several takes, call
 * lend_free_expect(). */
uint32_t lend_frame_take(struct lend_store *s);
/* Drops one reference. Frame 0 is never counted. */
void lend_frame_drop(struct lend_store *s, uint32_t frame);
/* Zeros the page of a free frame, unless it is zero already. */
void lend_frame_zero(struct lend_store *s, uint32_t frame);
void lend_frame_pin(struct lend_store *s, uint32_t frame);
void lend_frame_unpin(struct lend_store *s, uint32_t frame);
/* Returns whether the frame has one reference and no pins: its bytes may change in place. */
static inline bool lend_frame_is_exclusive(const struct lend_store *s, uint32_t frame)
{
	return frame && lend_frame_at(s, frame)->refs == 1 && lend_frame_at(s, frame)->pins == 0;
}

#endif
