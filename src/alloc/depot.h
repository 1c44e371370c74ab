/* depot - batches of one class on their way from threads that free to threads that allocate.
 * Layer: alloc. Threads: any; a lock for who brings, another for who takes. Ownership: its objects
 * are nobody's until they are taken.
 *
 * A ring of batches, oldest first. Where one thread frees what another allocates, each has its end
 * of the ring and a lock that nobody else asks for: what moves between their caches is the batch
 * itself. With one lock for both, and a stack, it was the lock's line, the count's and the
 * pointers', and each waited for the other. No object is looked at.
 */
#ifndef LEND_ALLOC_DEPOT_H
#define LEND_ALLOC_DEPOT_H

#include <stdbool.h>

#include "alloc/size_class.h"

/* n objects, LEND_BATCH_MAX at most, or none of them: it is full. */
bool lend_depot_bring(uint32_t class, void *const *obj, uint32_t n);
/* How many objects of the oldest batch obj has now, LEND_BATCH_MAX at most; 0: it is empty. */
uint32_t lend_depot_take(uint32_t class, void **obj);
/* All classes, for fork(). */
void lend_depots_lock(void);
void lend_depots_unlock(void);
/* Once, before any of these. */
void lend_depots_init(void);

#endif
