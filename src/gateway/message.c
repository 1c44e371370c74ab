/* message - messages with gRPC's prefix. See message.h. */
#include "gateway/message.h"

#include <string.h>

#include "gateway/connection.h"
#include "util/bits.h"

enum { SEGMENT = 64 << 10 }; /* first memory of a longer message */

/* Copies bytes of the message to its last segment, or to a new one. */
static enum message_state add_bytes(struct message_in *in, struct lend_ep *ep, const uint8_t *bytes,
				    size_t len, size_t *taken)
{
	struct lend_buf *buf = in->last;
	size_t n = lend_min_u64(len, in->left);

	if (!buf || buf->len == buf->cap) {
		uint64_t grown = lend_max_u64(SEGMENT, in->received);

		buf = host->buf_take(ep, (uint32_t)lend_min_u64(in->left, grown));
		if (!buf)
			return MESSAGE_NO_MEMORY;
		*(in->last ? &in->last->next : &in->first) = buf;
		in->last = buf;
	}
	n = lend_min_u64(n, buf->cap - buf->len);
	memcpy((uint8_t *)buf->data + buf->len, bytes, n);
	buf->len += (uint32_t)n;
	in->received += n;
	in->left -= (uint32_t)n;
	*taken += n;
	return MESSAGE_OPEN;
}

enum message_state message_receive(struct message_in *in, struct lend_ep *ep, uint64_t max,
				   const uint8_t *bytes, size_t len, size_t *taken)
{
	enum message_state state = MESSAGE_OPEN;

	*taken = 0;
	while (in->prefix_len < GRPC_PREFIX && *taken < len) {
		in->prefix[in->prefix_len++] = bytes[(*taken)++];
		for (unsigned i = 1; in->prefix_len == GRPC_PREFIX && i < GRPC_PREFIX; i++)
			in->left = in->left << 8 | in->prefix[i];
	}
	if (in->prefix_len < GRPC_PREFIX)
		return MESSAGE_OPEN;
	if (in->left > max)
		return MESSAGE_TOO_LONG;
	while (in->left && *taken < len && state == MESSAGE_OPEN)
		state = add_bytes(in, ep, bytes + *taken, len - *taken, taken);
	return state == MESSAGE_OPEN && !in->left ? MESSAGE_COMPLETE : state;
}

void message_send(struct message_out *out, struct lend_buf *buf, uint64_t len, bool compressed)
{
	*out = (struct message_out){
	    .prefix = {compressed}, .buf = buf, .at = buf, .len = len, .some = true};
	for (unsigned i = 1; i < GRPC_PREFIX; i++)
		out->prefix[i] = (uint8_t)(len >> 8 * (GRPC_PREFIX - 1 - i));
}

size_t message_next(struct message_out *out, struct lend_ep *ep, uint8_t *to, size_t cap)
{
	size_t n = lend_min_u64(cap, GRPC_PREFIX - out->prefix_sent);

	memcpy(to, out->prefix + out->prefix_sent, n);
	out->prefix_sent += (unsigned)n;
	while (out->at && (n < cap || !out->at->len)) {
		uint32_t part = (uint32_t)lend_min_u64(cap - n, out->at->len);

		if (part)
			memcpy(to + n, out->at->data, part);
		n += part;
		out->at->data = (uint8_t *)out->at->data + part;
		out->at->len -= part;
		if (!out->at->len)
			out->at = out->at->next;
	}
	if (!out->at && out->prefix_sent == GRPC_PREFIX) {
		host->buf_give(ep, out->buf);
		*out = (struct message_out){0};
	}
	return n;
}
