/* poll - selects the rings that one event-loop turn polls, lends datagrams from them, and goes to
 * sleep.
 *
 * Layer: io. One thread's. The rules of polling, bell and sleep are in peers.h.
 */
#ifndef LEND_IO_SHM_POLL_H
#define LEND_IO_SHM_POLL_H

#include "io/shm/peers.h"

/* As the carrier's operations of these names. */
uint32_t lend_shm_rx(struct lend_shm *s, struct lend_in *in, uint32_t cap);
void lend_shm_rx_done(struct lend_shm *s);
bool lend_shm_arm(struct lend_shm *s);
/* Drops peers after their end was reported to the user; only while nothing is lent. */
void lend_shm_drop_gone(struct lend_shm *s);

#endif
