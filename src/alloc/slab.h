/* slab - objects of one class: threads get them in batches and bring them back.
 * Layer: alloc. Threads: any; a lock for each class. Ownership: the thread that takes an object
 * owns it.
 *
 * In front there is a depot of pointers, so that a batch from one thread goes to the next that
 * asks, and its objects are not read. Behind it are slabs: runs of tiles, with a bit for each free
 * object. A slab with no object in use is freed. No object is written to, so a stray store into one
 * never hits a pointer of the heap. */
#ifndef LEND_ALLOC_SLAB_H
#define LEND_ALLOC_SLAB_H

#include "alloc/run.h"

/* Takes n objects or fewer and returns how many; 0: no memory, with lend_why_text() set. */
uint32_t lend_slabs_take(uint32_t class, void **obj, uint32_t n);
void lend_slabs_give(uint32_t class, void *const *obj, uint32_t n);
/* Returns the objects in the depots to their slabs, and frees empty slabs. */
void lend_slabs_trim(void);
/* Take and release the locks of all classes, for fork(). */
void lend_slabs_lock(void);
void lend_slabs_unlock(void);
/* Initializes the locks. Call it once, before any of these. */
void lend_slabs_init(void);
/* Returns whether every slab's count matches its bits, and every list has the right slabs; for
 * tests, at any time, slow. */
bool lend_slabs_audit(void);

#endif
