/* wakeup_busy - the latency of calls while threads that compute use the same CPUs.
 * Layer: apps. Threads: the main one. */
#ifndef APPS_BENCH_WAKEUP_BUSY_H
#define APPS_BENCH_WAKEUP_BUSY_H

#include "apps/common/options.h"

enum { APP_BUSY_MAX = 64 };

/* Measures calls at a low rate while busy threads compute, half of them on each end's CPU. The
 * calls alternate with round trips of two threads that sleep on eventfds. Reports both. Returns the
 * exit code. */
int app_wait_busy(const struct app_load_args *args, unsigned busy);

#endif
