/* lend/stats.h - what an endpoint counts. Monotonic since lend_open(); read from the endpoint's
 * thread. */
#ifndef LEND_STATS_H
#define LEND_STATS_H

#include "lend/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Bytes and datagrams are those handed to, or received from, the carriers: heads and trailers
 * included. */
struct lend_stats {
	uint64_t tx_bytes, rx_bytes, tx_datagrams, rx_datagrams;
	uint64_t calls_started, calls_ended, requests, replies;
	uint64_t sessions; /* up now */
	uint64_t sleeps;   /* times that a turn slept */
	uint64_t
	    buf_bytes; /* of message buffers out of the pool, those that wait to receive included */
};
void lend_stats(struct lend_ep *ep, struct lend_stats *stats);

/* Every counter by name, drop counters of core and carriers included, in a fixed order: the i-th
 * one's name, one-line meaning and value; false past the last. */
bool lend_stats_each(struct lend_ep *ep, unsigned i, const char **name, const char **meaning,
		     uint64_t *value);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
