/* poll - which rings a turn looks at, what it lends from them, and how it goes to sleep.
 *
 * Layer: io. One thread's. The rules of polling, bell and sleep stand in peers.h.
 */
#ifndef LEND_IO_SHM_POLL_H
#define LEND_IO_SHM_POLL_H

#include "io/shm/peers.h"

/* As the carrier's operations of these names. */
uint32_t lend_shm_rx(struct lend_shm *s, struct lend_in *in, uint32_t cap);
void lend_shm_rx_done(struct lend_shm *s);
bool lend_shm_arm(struct lend_shm *s);
/* Forgets peers whose end was told; only while nothing is lent. */
void lend_shm_drop_gone(struct lend_shm *s);

#endif
