/* demo_service - a .proto service for lend serve --demo: demo.proto, with each kind of method.
 * Layer: apps. Threads: the endpoint's. One per process. */
#ifndef APPS_GRPC_DEMO_SERVICE_H
#define APPS_GRPC_DEMO_SERVICE_H

#include "apps/common/bench_server.h"

/* Serves the service, and prints its counters when the server ends, as JSON if its args want that.
 * NULL: not in this build. */
void app_demo_service(struct app_server *server) __attribute__((weak));

#endif
