/* burst - how many of the sessions that start at the same time come up, and how soon. Layer: apps.
 */
#ifndef APPS_BENCH_BURST_H
#define APPS_BENCH_BURST_H

#include "apps/common/options.h"

/* Opens `sessions` sessions in each of `processes` processes at once, with one call per session.
 * Prints how many came up. Returns the exit code. */
int app_burst(const struct app_load_args *args, unsigned sessions, unsigned processes);

#endif
