/* op_one_sided - gets, puts and writes whose bytes one device reads in the memory of the other end.
 *
 * A get asks the node, or the process that lends, to show the bytes, and then reads them. A put or
 * a write shows the caller's bytes, and the node reads them. Bytes that cannot be shown or read
 * travel in messages, as do the first transfers of a session, until its link is up.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_OP_ONE_SIDED_H
#define LEND_CN_OP_ONE_SIDED_H

#include "cn/client.h"

/* Chooses for the next call whether its bytes travel in messages. */
void cn_one_sided_choose(struct cn_op *op, struct lend_memop *say);
/* Shows the bytes of a put or write until hidden(op) runs. Returns the payload of the request;
 * NULL: the bytes must travel in messages. */
struct lend_buf *cn_one_sided_show(struct cn_op *op, void (*hidden)(void *op));
/* Ends that, after the call. */
void cn_one_sided_hide(struct cn_op *op);
/* Starts to read the bytes of a get, after the reply. ended(op) runs when that has ended, with
 * op->again set. False: the bytes must travel in messages. */
bool cn_one_sided_read(struct cn_op *op, const uint8_t *body, size_t len,
		       void (*ended)(struct cn_op *op));

#endif
