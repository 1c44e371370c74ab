/* burst - how many sessions of one burst come up, and how soon. Layer: apps. */
#ifndef APPS_BURST_H
#define APPS_BURST_H

#include "apps/common/args.h"

/* Opens so many sessions in each of so many processes at once, with a call in each; prints how many
 * came up. Returns the exit code. */
int app_burst(const struct app_load_args *args, unsigned sessions, unsigned processes);

#endif
