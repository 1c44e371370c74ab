/* rate_threads - calls per second of 1 to N threads, each with a client and a server of its own.
 * Layer: apps. Threads: the main one; starts N and joins them. */
#ifndef APPS_BENCH_RATE_THREADS_H
#define APPS_BENCH_RATE_THREADS_H

#include "apps/common/options.h"

enum { APP_RATE_THREADS_MAX = 32 };

/* Measures 1, 2, 4, ... and `threads` threads and reports them. args->count is for each thread.
 * Returns the exit code: a wrong byte is a failure. */
int app_rate_threads(const struct app_load_args *args, unsigned threads);

#endif
