/* describe - an endpoint's counters, sessions and application numbers, for tools outside of the
 * process. Layer: rpc. Threads: the endpoint's. */
#ifndef LEND_RPC_DESCRIBE_H
#define LEND_RPC_DESCRIBE_H

#include "io/io.h"

/* Writes what a carrier asks for: as lend_io_config.describe, with an endpoint. */
void lend_ep_describe(void *ep, enum lend_io_topic topic, uint32_t from, uint32_t most,
		      struct lend_io_sink *sink);

#endif
