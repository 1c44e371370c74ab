/* burst - how many sessions that begin at once come up, and how soon. Layer: apps. */
#ifndef APPS_BENCH_BURST_H
#define APPS_BENCH_BURST_H

#include "apps/common/options.h"

/* Opens sessions in each of that many processes at once, with one call per session; prints how many
 * came up. Returns the exit code. */
int app_burst(const struct app_load_args *args, unsigned sessions, unsigned processes);

#endif
