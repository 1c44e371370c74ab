/* ring_read - takes datagrams out of a peer's ring and lends them in place.
 *
 * Layer: io. One thread's.
 */
#ifndef LEND_IO_SHM_RING_READ_H
#define LEND_IO_SHM_RING_READ_H

#include "io/shm/peers.h"

/* Lends up to cap datagrams of a ring until lend_ring_done(). Returns how many. */
uint32_t lend_shm_read_ring(struct lend_shm *s, struct lend_shm_peer *p, struct lend_ring_rx *rx,
			    struct lend_in *in, uint32_t cap);

#endif
