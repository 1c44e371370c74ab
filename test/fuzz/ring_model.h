/* ring_model - decodes a shared-memory ring a second time, to compare deliveries with. */
#ifndef TEST_FUZZ_RING_MODEL_H
#define TEST_FUZZ_RING_MODEL_H

#include "io/shm/peers.h"

/* Returns whether a delivered datagram is the next valid one in this peer's ring from number *next
 * on, byte for byte in the places that the ring names. Increments *bad for each invalid one before
 * it. */
bool ring_model_matches(const struct lend_shm_peer *p, uint32_t *next, const struct lend_in *in,
			uint64_t *bad);

#endif
