/* cache - a thread's own objects, so that most allocations take no lock.
 * Layer: alloc. Threads: each has its own, and gives it up when it ends. Ownership: the thread's.
 *
 * An object goes to the cache of who frees it, whoever allocated it. A bin has two halves: what is
 * handed out comes from one, what is freed goes to the other, and they change places when the first
 * is empty. So neither waits for the other's count to be stored and loaded again, which was a
 * quarter of the time of a pair of calls. Whole halves come from the slabs and go to them. Halves
 * are arrays, not lists through the objects: to hand out one that another thread freed, its memory
 * need not be read, which would be a cache miss to wait for.
 */
#ifndef LEND_ALLOC_CACHE_H
#define LEND_ALLOC_CACHE_H

#include "alloc/slab.h"
#include "util/check.h"

struct lend_bin {
	uint32_t n;          /* in take */
	uint32_t back;       /* in give */
	uint32_t batch;      /* that either holds; 0 before the thread's first allocation */
	uint32_t magic;      /* lend_class_magic() */
	void **take, **give; /* the halves of obj */
	void *obj[2 * LEND_BATCH_MAX];
};
_Static_assert(sizeof(struct lend_bin) == 512, "found by a shift");
struct lend_cache {
	struct lend_bin bin[LEND_CLASSES];
	uint64_t secret; /* the process's: see lend_cache_mark() */
};

extern _Thread_local struct lend_cache *lend_cache_self __attribute__((tls_model("initial-exec")));

/* The thread's bin of a class with an object in it, or with room for one more. NULL: no memory;
 * lend_why_text() says so. */
struct lend_bin *lend_cache_filled(uint32_t class);
struct lend_bin *lend_cache_emptied(uint32_t class);
/* Gives all of this thread's objects back to the slabs. */
void lend_cache_flush(void);

/* What the first word of a free object holds: nobody else knows the secret, so who frees an object
 * that has it frees it twice. */
static inline uint64_t lend_cache_mark(const struct lend_cache *cache, const void *obj)
{
	return cache->secret ^ (uintptr_t)obj;
}

#endif
