/* reason - the text that explains the status of a call: the head of its reply (wire/head.h).
 * Layer: rpc. Threads: lend_reason_write(): any; the others: the endpoint's. */
#include <stdlib.h>
#include <string.h>

#include "rpc/bufs.h"
#include "rpc/endpoint.h"
#include "util/bits.h"
#include "util/utf8.h"
#include "wire/head.h"

uint32_t lend_reason_write(void *to, uint32_t cap, const char *text)
{
	struct lend_head_writer w = lend_head_begin(to, cap);
	size_t len = strnlen(text, LEND_HEAD_REASON + 1);

	if (len > LEND_HEAD_REASON)
		len = lend_utf8_cut(text, LEND_HEAD_REASON);
	lend_head_add(&w, LEND_HEAD_MESSAGE, NULL, text, len);
	return lend_head_end(&w);
}

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

/* Reads the head of a message of len bytes, and keeps its text as the reason of a call. head: a
 * copy of the first n bytes. Returns the head's length; 0: it is not valid. */
static uint32_t read_head(struct lend_ep *ep, const struct lend_call *call, const uint8_t *head,
			  uint32_t n, uint64_t len)
{
	uint32_t head_len = lend_head_length(head, n, len);
	const char *text;
	size_t most;

	if (!head_len || !lend_head_valid(head, head_len))
		return 0;
	text = lend_head_text(head, LEND_HEAD_MESSAGE);
	if (!text || call->status == LEND_OK)
		return head_len;
	if (!ep->reason)
		ep->reason = malloc(LEND_HEAD_REASON + 1);
	if (!ep->reason)
		return head_len;
	most = strlen(text);
	if (most > LEND_HEAD_REASON)
		most = lend_utf8_cut(text, LEND_HEAD_REASON);
	memcpy(ep->reason, text, most);
	ep->reason[most] = '\0';
	ep->reason_of = call;
	return head_len;
}

bool lend_reason_cut(struct lend_ep *ep, struct lend_call *call, struct lend_event *ev)
{
	uint8_t head[LEND_HEAD_MAX];
	uint32_t n = lend_min_u32(ev->data_len, sizeof(head)), len;

	memcpy(head, ev->data, n); /* a peer may change it */
	len = read_head(ep, call, head, n, ev->data_len);
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

void lend_reason_take(struct lend_ep *ep, struct lend_call *call, bool landed)
{
	uint8_t head[LEND_HEAD_MAX];
	uint32_t n = copy_front(call->reply, head, sizeof(head)), len;

	if (n == 0) /* there was no memory for the reply */
		return;
	len = read_head(ep, call, head, n, call->reply_len);
	if (!len) {
		call->status = LEND_INTERNAL;
		len = (uint32_t)call->reply_len;
	}
	remove_front(call->reply, len, call->reply_len);
	call->reply_len -= len;
	if (call->reply_len > 0 || landed || call->status == LEND_OK)
		return;
	if (ep->unkept == call->reply)
		ep->unkept = NULL;
	lend_bufs_give(ep->bufs, call->reply);
	call->reply = NULL;
}

const char *lend_call_why(struct lend_ep *ep, const struct lend_call *call)
{
	return ep->reason_of == call ? ep->reason : "";
}
