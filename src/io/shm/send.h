/* send - carrier operations that do not depend on how the two sides made contact.
 *
 * Received datagrams are lent in their ring slots. Sent datagrams are copied into slots, except for
 * pieces of shared memory that the peer can map: it reads those in place, and flush() waits for it.
 * Layer: io. The carrier begins with a struct lend_shm. One thread's.
 */
#ifndef LEND_IO_SHM_SEND_H
#define LEND_IO_SHM_SEND_H

#include "io/io.h"

uint32_t lend_shm_op_rx(struct lend_io *io, struct lend_in *in, uint32_t cap);
void lend_shm_op_rx_done(struct lend_io *io);
void lend_shm_op_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
bool lend_shm_op_flush(struct lend_io *io, uint32_t buf);
void lend_shm_op_pin(struct lend_io *io, uint32_t peer, bool kept);

#endif
