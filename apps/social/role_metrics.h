/* role_metrics - counters of a process as Prometheus text, at /metrics.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_ROLE_METRICS_H
#define APPS_SOCIAL_ROLE_METRICS_H

#include "apps/social/http.h"

/* Replies with the counters of the endpoint, and of the roles that this process serves. */
void metrics_reply(struct http_request *http);
/* Serves only /metrics, in a process without a gateway. address becomes "http://HOST:PORT". */
void metrics_open(const char *listen, char *address, size_t cap);

#endif
