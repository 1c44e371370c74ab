/* mem_bw - what mem-bw measures, and its threads.
 *
 * Each slot has one operation at a time. It has its own object and space on the node and its own
 * buffers here, so that concurrent operations never share a byte. It reads the two halves of its
 * object alternately into one buffer, and writes two buffers alternately to its space, so that
 * bytes which were not transferred are detected. Layer: apps. Threads: as many as asked for, each
 * with an endpoint; the caller's is the first of them. */
#ifndef APPS_BENCH_MEM_BW_H
#define APPS_BENCH_MEM_BW_H

#include "apps/common/memnode_bench.h"

enum bw_way { BW_READ, BW_WRITE, BW_WAYS };

struct bw_shape {
	uint64_t size;            /* bytes of an operation */
	unsigned window, threads; /* operations in flight per thread */
	lend_ns time;             /* duration of the measurement of each way */
};
/* Measures reads, then writes, on the node that m is a client of. The results are summed over the
 * threads. */
void app_bw_measure(const struct app_memory *m, const struct bw_shape *shape,
		    struct app_load sum[BW_WAYS]);

#endif
