/* malloc_heap - the heaps that lend_malloc() is compared with: those installed on the machine,
 * loaded without replacing malloc(). Layer: apps. Threads: open from the main one before others
 * start. */
#ifndef APPS_BENCH_MALLOC_HEAP_H
#define APPS_BENCH_MALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

enum app_heap_kind {
	APP_HEAP_BARE, /* returns the same few objects, never touched: cost of loop and queue */
	APP_HEAP_NONE, /* returns the same few objects, which are touched: cost of the measurement
			  itself */
	APP_HEAP_LEND,
	APP_HEAP_GLIBC,
	APP_HEAP_MIMALLOC,
	APP_HEAP_JEMALLOC,
	APP_HEAP_HOOKED, /* jemalloc with extent hooks, by which it too can register its mappings */
	APP_HEAP_RTE,
	APP_HEAPS,
};

struct app_heap {
	const char *name; /* key in the report; constant */
	const char *fix;  /* command that installs it; for heaps with give NULL */
	void *(*take)(size_t len);
	void (*give)(void *p); /* NULL: not installed */
	void (*enter)(void);   /* called by each thread before it uses the heap; may be NULL */
	bool is_bare;          /* its objects must not be written */
};

/* Fills in all heaps; heaps that are not installed have give NULL. Executes this program again,
 * once, so that it has space for the thread-local memory of libraries that are loaded later. */
void app_heaps_open(struct app_heap heaps[APP_HEAPS], char **argv);

#endif
