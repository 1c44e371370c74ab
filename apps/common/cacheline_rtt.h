/* cacheline_rtt - the current distance of two CPUs: the round-trip time of one cache line between
 * them.
 *
 * A hypervisor moves virtual CPUs between cores of one socket and of two. Every measurement that
 * uses two CPUs changes with their distance, so only runs at the same distance are comparable.
 * Layer: apps. Threads: starts and ends one. */
#ifndef APPS_COMMON_CACHELINE_RTT_H
#define APPS_COMMON_CACHELINE_RTT_H

/* Returns the round-trip time in nanoseconds, after 10 to 50 ms of measuring, or more on a busy
 * machine; 0 where there is only one CPU. During the call the calling thread is pinned to CPU a;
 * afterwards it may use all CPUs.
 */
double app_cacheline_ns(int a, int b);
/* Returns "near", "far", or "one CPU". */
const char *app_cacheline_name(double ns);

#endif
