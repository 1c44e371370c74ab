/* cache - a thread's own objects, so that most allocations take no lock.
 * Layer: alloc. Threads: each has its own, and frees it when the thread ends. Ownership: the
 * thread's.
 *
 * An object goes to the cache of the thread that frees it, whichever thread allocated it. A bin has
 * two halves: allocations take from one, frees put into the other, and they are swapped when the
 * first is empty. So an allocation and a free do not wait for each other's count to be stored and
 * loaded again, which was a quarter of the time of a pair of calls. Whole halves come from the
 * slabs and go back to them. Halves are arrays, not lists through the objects: to allocate an
 * object that another thread freed, its memory need not be read, which would be a cache miss. */
#ifndef LEND_ALLOC_CACHE_H
#define LEND_ALLOC_CACHE_H

#include "alloc/slab.h"
#include "util/check.h"

struct lend_bin {
	uint32_t n;          /* objects in `take` */
	uint32_t back;       /* objects in `give` */
	uint32_t batch;      /* capacity of each half; 0 before the thread's first allocation */
	uint32_t magic;      /* lend_class_magic() of the bin's class */
	void **take, **give; /* the halves of obj */
	void *obj[2 * LEND_BATCH_MAX];
};
_Static_assert(sizeof(struct lend_bin) == 512, "found by a shift");
struct lend_cache {
	struct lend_bin bin[LEND_CLASSES];
	uint64_t secret; /* secret of the process, see lend_cache_mark() */
};

extern _Thread_local struct lend_cache *lend_cache_self __attribute__((tls_model("initial-exec")));

/* Returns the thread's bin of a class, with an object in it (filled) or with room for one more
 * (emptied). NULL: no memory, with lend_why_text() set. */
struct lend_bin *lend_cache_filled(uint32_t class);
struct lend_bin *lend_cache_emptied(uint32_t class);
/* Gives all of this thread's objects back to the slabs. */
void lend_cache_flush(void);

/* Returns the mark of a free object, which its first 8 bytes contain. The secret is known to the
 * heap only, so an object that has this mark when it is freed is freed twice. */
static inline uint64_t lend_cache_mark(const struct lend_cache *cache, const void *obj)
{
	return cache->secret ^ (uintptr_t)obj;
}

#endif
