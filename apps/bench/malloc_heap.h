/* malloc_heap - heaps to measure lend_malloc() beside: what the machine has of them, loaded without
 * taking the place of malloc(). Layer: apps. Threads: open from the main one before others start.
 */
#ifndef APPS_BENCH_MALLOC_HEAP_H
#define APPS_BENCH_MALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

enum app_heap_kind {
	APP_HEAP_BARE, /* hands out the same few objects, which nobody touches: loop and queue */
	APP_HEAP_NONE, /* the same, touched: what the measuring itself costs */
	APP_HEAP_LEND,
	APP_HEAP_GLIBC,
	APP_HEAP_MIMALLOC,
	APP_HEAP_JEMALLOC,
	APP_HEAP_HOOKED, /* jemalloc with extent hooks: it too can register what it maps */
	APP_HEAP_RTE,
	APP_HEAPS,
};

struct app_heap {
	const char *name; /* key of the report; constant */
	const char *mend; /* what installs it; where give may be NULL */
	void *(*take)(size_t len);
	void (*give)(void *p); /* NULL: it is not here */
	void (*enter)(void);   /* by each thread before it uses the heap; may be NULL */
	bool is_bare;          /* its objects are not to be written to */
};

/* Fills in all; those that are missing have give NULL. Starts this program anew, once, with room
 * for the thread-local memory of libraries that are loaded late. */
void app_heaps_open(struct app_heap heaps[APP_HEAPS], char **argv);

#endif
