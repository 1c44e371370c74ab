/* slab - objects of one class: where threads get them in batches and bring them back.
 * Layer: alloc. Threads: any; a lock for each class. Ownership: an object is who took it's.
 *
 * In front stands a stack of pointers, so that a batch that one thread gave goes to the next that
 * asks without a look at its objects. Behind it are slabs, runs of tiles whose free objects are
 * bits; one with none in use goes back. No object is written to, so what a stray store hits is
 * never a pointer of ours. */
#ifndef LEND_ALLOC_SLAB_H
#define LEND_ALLOC_SLAB_H

#include "alloc/run.h"

/* n objects, or fewer: 0 when there is no memory, and lend_why_text() says so. */
uint32_t lend_slabs_take(uint32_t class, void **obj, uint32_t n);
void lend_slabs_give(uint32_t class, void *const *obj, uint32_t n);
/* What the stacks hold goes back to its slabs. */
void lend_slabs_trim(void);
/* All classes, for fork(). */
void lend_slabs_lock(void);
void lend_slabs_unlock(void);
/* Once, before any of these. */
void lend_slabs_init(void);
/* Whether every slab's count is that of its bits, and every list has what belongs on it; for tests,
 * any time, slow. */
bool lend_slabs_audit(void);

#endif
