/* op_encode - the first buffer of a request, and references and replies as plain bytes.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <stdlib.h>
#include <string.h>

#include "util/bits.h"

struct lend_buf *cn_op_encode(struct lend_mem *mem, const struct lend_memop *say)
{
	struct lend_buf *buf =
	    lend_buf_take(mem->ep, LEND_MEMOP_FIXED_MAX + say->n * LEND_MEMPART_LEN);

	if (!buf)
		return NULL;
	buf->len = lend_memop_encode(say, buf->data);
	buf->next = NULL;
	return buf;
}

void cn_ref_in(struct lend_memref *out, const struct lend_ref *ref)
{
	if (!lend_memref_decode((const uint8_t *)ref, out))
		memset(out, 0, sizeof(*out));
}

size_t cn_buf_read(const struct lend_buf *buf, void *out, size_t cap)
{
	size_t len = 0;

	for (; buf; buf = buf->next) {
		if (len < cap && buf->len)
			memcpy((char *)out + len, buf->data, lend_min_u64(buf->len, cap - len));
		len += buf->len;
	}
	return len;
}

/* Copies the references of this part into the head, and into the slot for a repetition. */
bool cn_release_note(struct cn_op *op, struct cn_slot *slot, struct lend_buf *head)
{
	const struct lend_ref *ref = op->n > 1 ? op->data : &cn_op_outer(op)->ref;
	size_t len = (size_t)op->part * LEND_MEMREF_LEN;

	slot->refs = op->part > 1 ? malloc(len) : slot->one;
	if (!slot->refs)
		return false;
	slot->kind = LEND_MEMOP_RELEASE;
	slot->n = (uint32_t)op->part;
	memcpy(slot->refs, &ref[op->at], len);
	memcpy((char *)head->data + head->len, slot->refs, len);
	head->len += (uint32_t)len;
	return true;
}
