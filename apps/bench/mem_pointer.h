/* mem_pointer - a snapshot as ordinary memory, compared with a get of it.
 * Layer: apps. Threads: one. */
#ifndef APPS_BENCH_MEM_POINTER_H
#define APPS_BENCH_MEM_POINTER_H

#include "apps/common/memnode_bench.h"

/* app_pointer_measure() measures an object of 1 MiB for time; app_pattern must be at least as long.
 * It counts the wrong bytes in wrong_bytes. app_pointer_report() reports the results, or only that
 * pointers are not offered, where the machine and the carrier support none. */
enum { APP_POINTER_SIZE = 1 << 20 };
struct app_pointer {
	bool offered;
	uint64_t rounds, wrong_bytes;
	/* Counted by lend_mem_cache_stat during the run. */
	uint64_t pool_views, pool_fetched, pool_gets, pool_gets_sent;
	struct lend_hist get, touch, read, plain; /* ns */
	struct lend_hist store, fault;            /* ns for all pages of the object */
};
void app_pointer_measure(struct app_memory *m, lend_ns time, struct app_pointer *p);
void app_pointer_report(const struct app_pointer *p, struct app_report *report);

#endif
