/* lend/alloc.h - memory that every carrier can send from.
 *
 * A heap separate from malloc()'s. It consists of few large regions, so that a device registers
 * each region once, and the registration key of an address is found in a few nanoseconds. Endpoints
 * register the regions with their carriers automatically. A message buffer that lend_buf_wrap()
 * makes of this memory is sent without a copy, also by devices that require registered memory.
 *
 * Any thread may call any of these functions, and may free memory that another thread allocated.
 * Signal handlers must not call them. The child of a fork has a copy of lend_malloc()'s memory: it
 * may use and free it, which changes nothing in the parent. Objects in the caches of the parent's
 * other threads are lost to the child. Memory of lend_malloc_shared() is not mapped in the child:
 * an access raises SIGSEGV. */
#ifndef LEND_ALLOC_H
#define LEND_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Allocates len bytes, at least 64, aligned to 64: no other object shares their cache lines. The
 * memory is not zeroed. Returns NULL when there is no memory or len exceeds 64 TiB; lend_why()
 * gives the reason. Ownership: the caller's until lend_free(). */
void *lend_malloc(size_t len);
/* Allocates as lend_malloc(), aligned to align: a power of two, at most 2 MiB; otherwise NULL. */
void *lend_aligned(size_t align, size_t len);
/* Allocates len bytes in whole tiles of 16 KiB, from a part of the heap that shm peers map for
 * reading. A message buffer that lend_buf_wrap() makes of this memory is read in place by its
 * receiver, as one of lend_buf_take() is. Every peer can read this whole part of the heap, so use
 * it for messages only. The child of a fork must not access or free what its parent allocated.
 * Returns NULL when this process has no such memory (ulimit -v, ulimit -f) or no room in it; memory
 * of lend_malloc() works as well, and is copied. */
void *lend_malloc_shared(size_t len);
/* Frees p; NULL does nothing. Ends the program with a line on stderr when p is not the start of an
 * object of this heap, or is detected to be free already. */
void lend_free(void *p);
/* Returns the usable bytes of an object: the bytes that were requested, or more. p is as for
 * lend_free(), but not NULL. */
size_t lend_usable(const void *p);

/* Returns free memory to the system: what this thread and the heap cache for the next allocations.
 * The caches of other threads stay. Without this call the heap returns free memory beyond 64
 * MiB. */
void lend_alloc_trim(void);

/* Bytes of the heap, as of the moment of the call. */
struct lend_alloc_stat {
	size_t mapped; /* mapped from the system */
	size_t
	    huge; /* of those, on pages of a huge page pool (hugetlbfs); others may be huge, too */
	size_t used;    /* allocated or cached, rounded up */
	size_t regions; /* number of regions that make up mapped */
};
void lend_alloc_stat(struct lend_alloc_stat *stat);

/* Callbacks for devices of the application: grow runs for each region before any memory in it is
 * allocated, shrink before the region is unmapped. They run in the thread that makes the heap grow
 * or shrink, and must not use the heap. grow returns 0 and sets *key to the device's key of the
 * region; otherwise the region has no key for this watch (memory that a device refuses can still be
 * copied). shrink runs only for regions that have a key. */
struct lend_alloc_watch {
	int (*grow)(void *arg, void *memory, size_t len, uint64_t *key);
	void (*shrink)(void *arg, void *memory, size_t len, uint64_t key);
	void *arg;
};
/* Calls grow for each existing region, then for each new one. watch is copied. Returns the number
 * of the watch, or -ENOSPC: there are 8 already. */
int lend_alloc_watch(const struct lend_alloc_watch *watch);
/* Ends a watch: calls shrink for each region that has a key; neither callback runs afterwards. */
void lend_alloc_unwatch(int watch);
/* Finds the key of the region that contains p, which may be any address. Returns false when no
 * region contains p, or the region has no key for this watch. */
bool lend_alloc_key(int watch, const void *p, uint64_t *key);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
