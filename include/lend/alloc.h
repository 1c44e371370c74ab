/* lend/alloc.h - memory that every carrier can send from.
 *
 * A heap of its own beside malloc()'s, of few large regions, so that devices register each region
 * once and an address leads to its key in a few nanoseconds. Endpoints register the regions with
 * their carriers by themselves: what lies here and goes into lend_buf_wrap() is sent from where it
 * is, also by devices that must know memory beforehand.
 *
 * Any thread may call any of these, and free what another allocated. Not in signal handlers. A
 * fork's child has a copy of lend_malloc()'s memory, which it may use and free, and which changes
 * nothing of its parent's; what other threads had in their caches is lost to it. Memory of
 * lend_malloc_shared() it does not have: a touch of its parent's raises SIGSEGV.
 */
#ifndef LEND_ALLOC_H
#define LEND_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* len bytes, the caller's until lend_free(); 64 at least, at a multiple of 64 (a cache line that it
 * shares with no other object); not zeroed. NULL: no memory, or more than 64 TiB; lend_why() says
 * which. */
void *lend_malloc(size_t len);
/* The same at a multiple of align: a power of two, 2 MiB at most; else NULL. */
void *lend_aligned(size_t align, size_t len);
/* len bytes in whole tiles of 16 KiB, of a part of the heap that peers over shm map to read: what
 * lies here and goes into lend_buf_wrap() is read by its receiver where it is, as what
 * lend_buf_take() gave. Every peer sees all of that part, so it is for messages only. A fork's
 * child can neither touch nor free what its parent allocated. NULL: this process has no such memory
 * (ulimit -v, ulimit -f) or no room there; lend_malloc()'s does as well, and is copied. */
void *lend_malloc_shared(size_t len);
/* Gives it back; NULL is nothing. Ends the program with a line on stderr when p is not the start of
 * an object of this heap, or is seen to be free already. */
void lend_free(void *p);
/* Bytes that may be used of an object; as many as were asked for, or more. p is one, as for
 * lend_free(), and not NULL. */
size_t lend_usable(const void *p);

/* Gives back to the system what nobody uses: what this thread and the heap keep for the next
 * allocations. Other threads' caches stay. The heap does so by itself beyond 64 MiB. */
void lend_alloc_trim(void);

/* Bytes of the heap; they are a moment's. */
struct lend_alloc_stat {
	size_t mapped;  /* from the system */
	size_t huge;    /* of those, on pages of a pool (hugetlbfs); others may be huge, too */
	size_t used;    /* handed out or cached, rounded up */
	size_t regions; /* how many pieces mapped is */
};
void lend_alloc_stat(struct lend_alloc_stat *stat);

/* For devices of one's own: to hear of each region before anything in it is handed out, and before
 * it goes. They run in whatever thread makes the heap grow or shrink, and must not use the heap.
 * grow: 0 and *key, whatever the device knows the region by; else the region has no key for this
 * watch (memory that a device refuses can still be copied). shrink: only for those that have one.
 */
struct lend_alloc_watch {
	int (*grow)(void *arg, void *memory, size_t len, uint64_t *key);
	void (*shrink)(void *arg, void *memory, size_t len, uint64_t key);
	void *arg;
};
/* Tells grow of each region there is, then of each new one. watch is copied; the number to name it
 * by, or -ENOSPC: 8 watch already. */
int lend_alloc_watch(const struct lend_alloc_watch *watch);
/* Tells shrink of each region that has a key, and no more from then on. */
void lend_alloc_unwatch(int watch);
/* The key of the region that p lies in, of any address; false: it lies in none, or that has none.
 */
bool lend_alloc_key(int watch, const void *p, uint64_t *key);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
