/* cacheline_rtt - how far apart two CPUs are now: the round trip of one cache line between them.
 *
 * Virtual CPUs wander between cores of one and of two sockets, and every figure that two CPUs make
 * together wanders with them: runs are comparable only at the same distance. Layer: apps. Threads:
 * starts and ends one.
 */
#ifndef APPS_COMMON_CACHELINE_RTT_H
#define APPS_COMMON_CACHELINE_RTT_H

/* Nanoseconds of a round trip, about 10 ms of measuring; 0 where there is only one CPU. The caller
 * is on CPU a meanwhile, and may use all of them after. */
double app_line_ns(int a, int b);
/* "near", "far", or "one CPU". */
const char *app_line_name(double ns);

#endif
