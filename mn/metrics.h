/* metrics - counters as Prometheus text over HTTP.
 * Layer: mn. Threads: one of its own, libmicrohttpd's. Owner: lend_mn.c. */
#ifndef MN_METRICS_H
#define MN_METRICS_H

#include <stdint.h>

struct mn_metrics;
struct mn_worker;

/* Serves http://AT/metrics for workers that must outlive it. at is "PORT" or "IP:PORT" (default
 * 127.0.0.1; port 0 picks a free one); url receives the address. Returns 0, or -errno with
 * lend_why(). */
int mn_metrics_open(struct mn_worker *worker, uint32_t workers, const char *at, char url[64],
		    struct mn_metrics **out);
/* Stops serving; NULL is ignored. */
void mn_metrics_close(struct mn_metrics *metrics);

#endif
