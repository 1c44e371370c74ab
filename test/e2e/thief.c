#include "e2e/thief.h"

#include <criterion/criterion.h>
#include <string.h>

#include "e2e/mem_node.h"

void thief_open(struct thief *t, const char *address)
{
	cr_assert_eq(lend_open(NULL, &t->ep), 0);
	cr_assert_eq(lend_connect(t->ep, address, &t->session), 0);
}

enum lend_status thief_say(struct thief *t, const struct lend_memop *op)
{
	struct lend_call call = {.method = LEND_MEM_METHOD, .timeout = 5 * SECOND};
	uint64_t payload = lend_memop_payload(op);

	call.request = lend_buf_take(t->ep, LEND_MEMOP_FIXED_MAX + (uint32_t)payload);
	call.request->len = lend_memop_encode(op, call.request->data);
	memset((char *)call.request->data + call.request->len, 'x', payload);
	call.request->len += (uint32_t)payload;
	cr_assert_eq(lend_call_sync(t->ep, t->session, &call), 0);
	t->len = call.reply ? call.reply->len : 0;
	cr_assert_leq(t->len, sizeof(t->reply));
	if (call.reply) {
		memcpy(t->reply, call.reply->data, t->len);
		lend_buf_give(t->ep, call.reply);
	}
	lend_buf_give(t->ep, call.request);
	return call.status;
}
