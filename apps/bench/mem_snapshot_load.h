/* mem_snapshot_load - snapshots per second of several threads with several snapshots in flight.
 *
 * A snapshot is sealed, mapped, written to through the map, read, and released. Each slot has a
 * space of its own, so that every first write copies a page. Layer: apps. Threads: as many as asked
 * for, each with an endpoint; the caller's is the first of them. */
#ifndef APPS_BENCH_MEM_SNAPSHOT_LOAD_H
#define APPS_BENCH_MEM_SNAPSHOT_LOAD_H

#include "apps/common/memnode_bench.h"

enum { APP_SNAPSHOT_THREADS_MAX = 64 };

/* Returns the bytes that a node needs for it. */
uint64_t app_snapshot_load_bytes(const struct app_load_args *args, unsigned threads);
/* Measures on the node that m is a client of; sum: the results of all threads. */
void app_snapshot_load(const struct app_memory *m, unsigned threads, struct app_load *sum);

#endif
