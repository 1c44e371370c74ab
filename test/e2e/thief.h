/* thief - a client of a memory node that builds its operations itself. Layer: test. */
#ifndef TEST_E2E_THIEF_H
#define TEST_E2E_THIEF_H

#include "lend/rpc.h"
#include "wire/memop.h"

struct thief {
	struct lend_ep *ep;
	lend_session session;
	uint8_t reply[LEND_MEMOP_REPLY_MAX]; /* reply of the last operation */
	size_t len;                          /* length of reply */
};

/* Opens an endpoint of its own and a session to the node at this address. */
void thief_open(struct thief *t, const char *address);
/* Sends an operation, with 'x' as the bytes of its payload. Returns the reply's status. */
enum lend_status thief_say(struct thief *t, const struct lend_memop *op);

#endif
