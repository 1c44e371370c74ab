/* wait_busy - what waiting costs on CPUs that busy threads share.
 * Layer: apps. Threads: the main one. */
#ifndef APPS_WAIT_BUSY_H
#define APPS_WAIT_BUSY_H

#include "apps/common/args.h"

/* Calls at a low rate while so many threads compute, half of them on each end's CPU, in turns with
 * a round trip of two threads that sleep on eventfds; reports both. The exit status. */
int app_wait_busy(const struct app_load_args *args, unsigned busy);

#endif
