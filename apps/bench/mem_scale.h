/* mem_scale - operations on a few references of a node, and among very many.
 * Layer: apps. Threads: one. */
#ifndef APPS_BENCH_MEM_SCALE_H
#define APPS_BENCH_MEM_SCALE_H

#include "apps/common/memnode_bench.h"

enum { APP_AMONG_FEW = 1000, APP_AMONG_OPS = 3, APP_AMONG_MAX = 1000000 };
struct app_among {
	uint32_t n; /* references held at once at the end, above APP_AMONG_FEW; 0: not measured */
	struct lend_hist few[APP_AMONG_OPS], many[APP_AMONG_OPS]; /* ns: get, release, seal */
};
/* Returns the bytes that a node needs for n references. */
uint64_t app_among_bytes(uint32_t n);
/* Makes a->n references to one page and releases them. */
void app_among_measure(struct app_memory *m, struct app_among *a);
void app_among_report(const struct app_among *a, struct app_report *report);

#endif
