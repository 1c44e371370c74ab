/* lend/alloc.h - memory that every carrier can send from.
 *
 * A heap separate from malloc()'s. It consists of few large regions, so that a device registers
 * each region once. The registration key of an address is found by a table lookup. Endpoints
 * register the regions with their carriers automatically. A message buffer that lend_buf_wrap()
 * makes of this memory is sent without a copy, also by devices that require registered memory.
 *
 * The child of a fork has a copy of lend_malloc()'s memory: it may use and free it, which changes
 * nothing in the parent. Objects in the caches of the parent's other threads are lost to the child.
 * Memory of lend_malloc_shared() is not mapped in the child: an access raises SIGSEGV.
 *
 * Threads: any, unless a function states otherwise. Any thread may free memory that another thread
 * allocated. Signal handlers must not call any of these functions. */
#ifndef LEND_ALLOC_H
#define LEND_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Allocates memory that is not zeroed, aligned to 64 bytes: no other object shares its cache lines.
 * len is in bytes; an object has at least 64.
 * Returns: the object; NULL: no memory, or len exceeds 64 TiB.
 * Ownership: the object is the caller's until lend_free(). */
void *lend_malloc(size_t len);
/* Allocates as lend_malloc(), aligned to align bytes: a power of two, at most 2 MiB.
 * Returns: the object; NULL: no memory, or such an alignment is not possible.
 * Ownership: the object is the caller's until lend_free(). */
void *lend_aligned(size_t align, size_t len);
/* Allocates len bytes in whole tiles of 16 KiB, from a part of the heap that shm peers map for
 * reading. A message buffer that lend_buf_wrap() makes of this memory is read in place by its
 * receiver, as one of lend_buf_take() is. Every peer can read this whole part of the heap, so use
 * it for messages only.
 * Returns: the object; NULL: no room, or this process has no such memory (ulimit -v, ulimit -f).
 * Then memory of lend_malloc() works as well, and is copied.
 * Ownership: the object is the caller's until lend_free(). The child of a fork must not access or
 * free it. */
void *lend_malloc_shared(size_t len);
/* Checks whether shm peers can read the memory at p, which may be any address: memory of
 * lend_malloc_shared(), of lend_buf_take() or of a loan.
 * Returns: true: a message buffer of it is read in place.
 * Ownership: does not access p. */
bool lend_is_shared(const void *p);
/* Frees an object; NULL does nothing. Ends the program with a line on stderr when p is not the
 * start of an object of this heap, or is free already.
 * Ownership: takes p. */
void lend_free(void *p);
/* Returns the usable bytes of an object: the bytes that were requested, or more.
 * Returns: bytes, at least 64.
 * Ownership: borrows p: the start of an object of this heap, not NULL. */
size_t lend_usable(const void *p);
/* Returns free memory to the system: what this thread and the heap cache for the next allocations.
 * The caches of other threads stay. Without this call the heap returns free memory beyond
 * 64 MiB. */
void lend_alloc_trim(void);

/* Counts the heap's memory at the moment of a call. */
struct lend_alloc_stat {
	size_t mapped;  /* bytes mapped from the system */
	size_t huge;    /* bytes of mapped that are on pages of a huge page pool (hugetlbfs) */
	size_t used;    /* bytes allocated or cached, in tiles of 16 KiB */
	size_t regions; /* number of regions that make up mapped */
};
/* Reads the heap's statistics.
 * Ownership: borrows stat. */
void lend_alloc_stat_get(struct lend_alloc_stat *stat);

/* lend_alloc_watch(3) - register the heap's memory with a device.
 *
 * Endpoints register the heap with their own carriers. A watch is for a device that the application
 * drives itself.
 *
 * Threads: any. */

/* Callbacks for a device of the application. They run in the thread that makes the heap grow or
 * shrink, under the heap's lock: they must not use the heap or start or end a watch. */
struct lend_alloc_watch {
	/* Runs for each region that exists, and for each new one before any memory in it is
	 * allocated. Returns 0 and sets *key to the device's key of the region; a negative value:
	 * the region has no key for this watch. */
	int (*grow)(void *arg, void *memory, size_t len, uint64_t *key);
	/* Runs for each region with a key before it is unmapped, or when the watch ends. */
	void (*shrink)(void *arg, void *memory, size_t len, uint64_t key);
	void *arg; /* argument of both callbacks */
};
/* Starts a watch: calls grow for each existing region, then for each new one.
 * Returns: the number of the watch, 0 or higher; -ENOSPC: there are 8 already.
 * Ownership: copies watch; borrows watch->arg until lend_alloc_watch_remove() returns. */
int lend_alloc_watch_add(const struct lend_alloc_watch *watch);
/* Ends a watch: calls shrink for each region that has a key. Neither callback runs afterwards. Ends
 * the program when there is no such watch. */
void lend_alloc_watch_remove(int watch);
/* Finds the key of the region that contains p, which may be any address.
 * Returns: true, with the key in *key; false: no region contains p, or it has no key for this
 * watch.
 * Ownership: borrows key; does not access p. */
bool lend_alloc_key(int watch, const void *p, uint64_t *key);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
