/* mem_bw - what mem-bw measures, and its threads.
 *
 * Each lane, one operation at a time, has an object and a space of its own on the node and buffers
 * of its own here, so that no two operations under way share a byte. It reads one and the other
 * half of its object by turns into one buffer, and writes one and the other to its space, so that
 * bytes which did not move are seen. Layer: apps. Threads: as many as asked for, with an endpoint
 * each; the caller's is the first of them. */
#ifndef APPS_BENCH_MEM_BW_H
#define APPS_BENCH_MEM_BW_H

#include "apps/common/memnode_bench.h"

enum bw_way { BW_READ, BW_WRITE, BW_WAYS };

struct bw_shape {
	uint64_t size;            /* bytes of an operation */
	unsigned window, threads; /* operations in flight per thread */
	lend_ns time;             /* for each way */
};
/* Reads, then writes, of the node that m has a client of; summed over the threads. */
void app_bw_measure(const struct app_memory *m, const struct bw_shape *shape,
		    struct app_load sum[BW_WAYS]);

#endif
