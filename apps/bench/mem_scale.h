/* mem_scale - operations on a few references of a node, and among very many.
 * Layer: apps. Threads: one. */
#ifndef APPS_BENCH_MEM_SCALE_H
#define APPS_BENCH_MEM_SCALE_H

#include "apps/common/memnode_bench.h"

enum { APP_SCALE_FEW = 1000, APP_SCALE_OPS = 3, APP_SCALE_MAX = 1000000 };
struct app_scale {
	uint32_t n; /* references held at once at the end, above APP_SCALE_FEW; 0: not measured */
	struct lend_hist few[APP_SCALE_OPS], many[APP_SCALE_OPS]; /* ns: get, release, seal */
};
/* Returns the bytes that a node needs for n references. */
uint64_t app_scale_bytes(uint32_t n);
/* Makes a->n references to one page and releases them. */
void app_scale_measure(struct app_memory *m, struct app_scale *a);
void app_scale_report(const struct app_scale *a, struct app_report *report);

#endif
