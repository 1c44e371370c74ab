/* in_place - reads lent memory where the carrier maps the caller's shared memory: without a
 * message, if the caller's table is known and the bytes are in that memory.
 *
 * Otherwise one GET with LEND_MEMOP_IN_PLACE asks for the table's offset, and the caller copies the
 * bytes to its shared memory. If they are still not there, the caller sends them.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_LENT_IN_PLACE_H
#define LEND_CN_LENT_IN_PLACE_H

#include "cn/client.h"

/* Prepares the next call of a read of lent memory. Returns CN_GO, with op->placing set if the call
 * asks for the table's offset; or the status that the read ends with, without a call. */
int cn_in_place_before(struct cn_op *op);
/* Evaluates the reply to that call. Returns true if another call or read follows. */
bool cn_in_place_after(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len);

#endif
