/* mem_pointer - a snapshot as ordinary memory, beside a get of it.
 * Layer: apps. Threads: one. */
#ifndef APPS_BENCH_MEM_POINTER_H
#define APPS_BENCH_MEM_POINTER_H

#include "apps/common/memnode_bench.h"

/* Measures with an object of 1 MiB for that time. app_pattern must have as much. Returns how many
 * bytes were wrong, and reports what it took; only that there are no pointers where neither the
 * machine nor the carrier has any. */
enum { APP_POINTER_SIZE = 1 << 20 };
struct app_pointer {
	bool offered;
	uint64_t rounds, wrong_bytes;
	uint64_t pool_views, pool_fetched; /* as lend_mem_cache_stat counts them, meanwhile */
	struct lend_hist get, touch, read; /* ns */
	struct lend_hist store, fault;     /* ns for all pages of the object */
};
void app_pointer_measure(struct app_memory *m, lend_ns time, struct app_pointer *p);
void app_pointer_report(const struct app_pointer *p, struct app_report *report);

#endif
