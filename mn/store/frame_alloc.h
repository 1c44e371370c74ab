/* frame_alloc - frames that can be taken, those that rest first, and which one is next: what is
 * long lies in few runs, what is small in the holes that are left. Layer: mn/store (pure), private
 * to it. */
#ifndef MN_STORE_FRAME_ALLOC_H
#define MN_STORE_FRAME_ALLOC_H

#include "mn/store/store.h"

/* Where it lies in the arena for so many frames; where that ends. */
uint64_t lend_free_lay_out(struct lend_free *f, uint32_t frames, uint64_t at);
/* Frames from first on can be taken, and no other. */
void lend_free_init(struct lend_store *s, uint32_t first);
/* So many are going to be taken, beside that frame if they can; 0: anywhere. */
void lend_free_want(struct lend_store *s, uint64_t n, uint32_t beside);
/* The next one. Where no other is left one that rests, the longest first; 0: none. */
uint32_t lend_free_take(struct lend_store *s);
/* A frame that is in use, or was never counted, can be taken from now on, or rests first. */
void lend_free_add(struct lend_store *s, uint32_t frame);
void lend_free_rest(struct lend_store *s, uint32_t frame);
/* Lets a bounded number go of those that have rested for the quarantine. */
void lend_free_wake(struct lend_store *s, lend_ns now);
/* It is not in use. */
bool lend_free_has(const struct lend_store *s, uint32_t frame);
/* Its sets agree with each other. */
bool lend_free_is_sound(const struct lend_store *s);

#endif
