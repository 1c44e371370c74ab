/* frame_alloc - the frames that can be taken, those in quarantine, and the choice of the next. Long
 * allocations get few runs, small ones fill the holes between them.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_FRAME_ALLOC_H
#define MN_STORE_FRAME_ALLOC_H

#include "mn/store/store.h"

/* Places the sets for this many frames at an offset in the arena. Returns where they end. */
uint64_t lend_free_lay_out(struct lend_free *f, uint32_t frames, uint64_t at);
/* Empty the sets; make the frames from first on free, when the sets are empty. */
void lend_free_clear(struct lend_store *s);
void lend_free_init(struct lend_store *s, uint32_t first);
/* Frames that are going to be taken. */
struct lend_expected {
	uint64_t n;
	uint32_t beside;      /* preferably next to this frame; 0: anywhere */
	uint32_t space, page; /* for a space (0: none), from this page on */
	uint64_t more;        /* pages of the space after these, to be written later */
};
/* Announces frames. Those of one space are next to each other, also if other spaces are written at
 * the same time. */
void lend_free_expect(struct lend_store *s, const struct lend_expected *e);
/* Returns the next free frame. If there is none, one from quarantine, from the older set first; 0:
 * none. */
uint32_t lend_free_take(struct lend_store *s);
/* Make a frame available that was in use, or never counted: at once (add), or after the quarantine
 * (rest). */
void lend_free_add(struct lend_store *s, uint32_t frame);
void lend_free_quarantine(struct lend_store *s, uint32_t frame);
/* Ends the quarantine of a bounded number of frames that have been in it long enough. */
void lend_free_end_quarantine(struct lend_store *s, lend_ns now);
/* Returns whether the frame is not in use. */
bool lend_free_has(const struct lend_store *s, uint32_t frame);
/* Returns whether its sets agree with each other. */
bool lend_free_is_sound(const struct lend_store *s);

#endif
