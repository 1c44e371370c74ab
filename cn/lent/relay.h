/* lent/relay - reads of lent memory for callees that cannot reach the lender.
 *
 * A call that passes a reference to lent memory on is listed while it is in flight. Its callee may
 * ask for bytes of that reference, and of no other, on the session of the call. They are read as
 * for the request that the reference came with, which may be relayed again. The memory of reads
 * under way is limited. Layer: cn. Threads: the endpoint's. Owned by the lender.
 */
#ifndef LEND_CN_LENT_RELAY_H
#define LEND_CN_LENT_RELAY_H

#include "cn/args/args.h"

struct cn_relays {
	LIST_HEAD(, cn_args) passes; /* calls in flight that pass references on */
	uint64_t bytes;              /* memory of reads under way, and of replies in flight */
};

/* Starts the read that a request asks for, and answers the request when it has ended. Returns
 * false, without an answer: no call passes the reference on. ref: its bytes as received. */
bool cn_relay_serve(struct cn_relays *relays, struct lend_ep *ep, lend_request request,
		    const struct lend_memop *say, const uint8_t *ref);

#endif
