/* depot - batches of one class on their way from threads that free to threads that allocate.
 * Layer: alloc. Threads: any; one lock for bringing, another for taking. Ownership: the depot's
 * from bring to take.
 *
 * A ring of batches, oldest first. Where one thread frees the objects that another allocates, each
 * uses its own end of the ring and its own lock, so only the batch itself moves between their
 * caches. With one lock for both and a stack, the cache lines of the lock, the count and the
 * pointers moved too, and each thread waited for the other. The objects themselves are not read. */
#ifndef LEND_ALLOC_DEPOT_H
#define LEND_ALLOC_DEPOT_H

#include <stdbool.h>

#include "alloc/size_class.h"

/* Stores n objects, LEND_BATCH_MAX at most. Returns false and stores none if it is full. */
bool lend_depot_put(uint32_t class, void *const *obj, uint32_t n);
/* Moves the oldest batch to obj. Returns its number of objects, LEND_BATCH_MAX at most; 0: empty.
 */
uint32_t lend_depot_take(uint32_t class, void **obj);
/* Take and release the locks of all classes, for fork(). */
void lend_depots_lock(void);
void lend_depots_unlock(void);
/* Initializes the locks. Call it once, before any of these. */
void lend_depots_init(void);

#endif
