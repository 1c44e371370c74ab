/* reason - the head of a call's reply (wire/head.h): metadata, and the text that explains its
 * status. Layer: rpc. Threads: the endpoint's. */
#include <string.h>

#include "rpc/bufs.h"
#include "rpc/heads.h"
#include "util/bits.h"

/* Copies up to cap of the first bytes of a chain. Returns how many there were. */
static uint32_t copy_front(const struct lend_buf *chain, uint8_t *to, uint32_t cap)
{
	uint32_t n = 0, here;

	for (; chain && n < cap; chain = chain->next, n += here) {
		here = lend_min_u32(chain->len, cap - n);
		memcpy(to + n, chain->data, here);
	}
	return n;
}

/* Removes the first n bytes of a chain of len bytes: moves the others to the front, since memory of
 * the caller begins where it began. */
static void remove_front(struct lend_buf *chain, uint32_t n, uint64_t len)
{
	const struct lend_buf *from = chain;
	uint64_t left = len - n;
	uint32_t read = n, of = chain->len, here;

	for (struct lend_buf *to = chain; to; to = to->next) {
		uint32_t written = 0;

		for (; written < to->cap && left > 0; written += here, read += here, left -= here) {
			for (; read == of; of = from->len) {
				from = from->next;
				read = 0;
			}
			here = lend_min_u32(of - read, to->cap - written);
			here = (uint32_t)lend_min_u64(here, left);
			memmove((char *)to->data + written, (const char *)from->data + read, here);
		}
		to->len = written;
	}
}

/* Reads the head of a message of len bytes for a call. Its first n bytes are in ep->head. Returns
 * the head's length; 0: it is not valid. */
static uint32_t read_head(struct lend_ep *ep, struct lend_call *call, uint32_t flags, uint32_t n,
			  uint64_t len)
{
	uint32_t head_len = lend_head_length(ep->head, n, len);
	const char *encoding;

	if (!head_len || head_len > n || !lend_head_valid(ep->head, head_len))
		return 0;
	if (head_len > ep->config.head_max) {
		call->status = LEND_RESOURCE_EXHAUSTED;
		return head_len;
	}
	ep->head_of = call;
	encoding = lend_head_text(ep->head, LEND_HEAD_ENCODING);
	if (encoding && strcmp(encoding, "identity") != 0 && !(flags & LEND_CALL_ENCODED))
		call->status = LEND_INTERNAL;
	return head_len;
}

bool lend_reason_cut(struct lend_ep *ep, struct lend_call *call, uint32_t flags,
		     struct lend_event *ev)
{
	uint32_t n = lend_min_u32(ev->data_len, sizeof(ep->head)), len;

	ep->head_of = NULL;
	memcpy(ep->head, ev->data, n); /* a peer may change it */
	len = read_head(ep, call, flags, n, ev->data_len);
	if (!len)
		return false;
	ev->data = (const uint8_t *)ev->data + len;
	ev->data_len -= len;
	ev->len -= len;
	ev->head = 0;
	if (ev->data_len == 0)
		ev->data = NULL;
	return true;
}

void lend_reason_take(struct lend_ep *ep, struct lend_call *call, const struct lend_call_priv *p)
{
	uint32_t n = copy_front(call->reply, ep->head, sizeof(ep->head)), len;

	ep->head_of = NULL;
	if (n == 0) /* there was no memory for the reply */
		return;
	len = read_head(ep, call, p->flags, n, call->reply_len);
	if (!len) {
		call->status = LEND_INTERNAL;
		len = (uint32_t)call->reply_len;
	}
	remove_front(call->reply, len, call->reply_len);
	call->reply_len -= len;
	if (call->reply_len > 0 || p->landing || call->status == LEND_OK)
		return;
	if (ep->unkept == call->reply)
		ep->unkept = NULL;
	lend_bufs_give(ep->bufs, call->reply);
	call->reply = NULL;
}

void lend_call_pass_head(struct lend_ep *ep, const struct lend_call *from,
			 const struct lend_call *to)
{
	if (ep->head_of == from)
		ep->head_of = to;
}

const char *lend_call_text(struct lend_ep *ep, const struct lend_call *call, enum lend_text text)
{
	return ep->head_of == call ? lend_head_text(ep->head, (enum lend_head_kind)text) : NULL;
}

const char *lend_call_why(struct lend_ep *ep, const struct lend_call *call)
{
	const char *text =
	    call->status == LEND_OK ? NULL : lend_call_text(ep, call, LEND_TEXT_MESSAGE);

	return text ? text : "";
}

bool lend_call_metadata(struct lend_ep *ep, const struct lend_call *call, bool trailing,
			uint32_t *at, struct lend_pair *pair)
{
	return ep->head_of == call &&
	       lend_metadata_pair(ep->head, trailing ? LEND_HEAD_TRAILING : LEND_HEAD_INITIAL, at,
				  pair);
}
