/* ring_read - datagrams out of a peer's ring, lent where they lie.
 *
 * Layer: io. One thread's.
 */
#ifndef LEND_IO_SHM_RING_READ_H
#define LEND_IO_SHM_RING_READ_H

#include "io/shm/peers.h"

/* Lends what a ring holds, up to cap datagrams, until lend_ring_done(); how many. */
uint32_t lend_shm_fetch(struct lend_shm *s, struct lend_shm_peer *p, struct lend_ring_rx *rx,
			struct lend_in *in, uint32_t cap);

#endif
