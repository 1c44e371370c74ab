/* op_many - the call that reads several references: its request, and the statuses of its reply.
 *
 * The request lists the parts. The reply has a status for each of them, then the bytes of all,
 * which are received into the caller's memory. Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include "util/bits.h"

void cn_many_encode(const struct cn_op *op, struct lend_buf *head)
{
	for (uint32_t i = 0; i < op->n; i++) {
		const struct lend_get_part *part = &cn_op_many(op)[i];

		lend_mempart_encode((const uint8_t *)&part->ref, part->offset, part->len,
				    (uint8_t *)head->data + head->len);
		head->len += LEND_MEMPART_LEN;
	}
}

enum lend_status cn_many_status(const struct cn_op *op)
{
	for (uint32_t i = 0; i < op->n; i++)
		if (cn_op_many(op)[i].status != LEND_OK)
			return cn_op_many(op)[i].status;
	return LEND_OK;
}

enum lend_status cn_many_after(struct cn_op *op, const uint8_t *body, size_t len)
{
	uint64_t want = 4 * (uint64_t)op->n;

	for (uint32_t i = 0; i < op->n; i++)
		want += cn_op_many(op)[i].len;
	if (len != want)
		return LEND_INTERNAL;
	for (; op->at < op->n; op->at++) {
		uint32_t status = lend_load_u32(body + 4 * op->at);

		cn_op_many(op)[op->at].status =
		    status > LEND_UNAUTHENTICATED ? LEND_INTERNAL : (enum lend_status)status;
	}
	return cn_many_status(op);
}

void cn_many_end(struct cn_op *op, enum lend_status status)
{
	for (; op->at < op->n; op->at++)
		cn_op_many(op)[op->at].status = status;
}
