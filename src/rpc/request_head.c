/* request_head - heads of requests that arrive here.
 * Layer: rpc. Threads: the endpoint's, unless a function states otherwise. Ownership: a request
 * owns its head until it is answered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/heads.h"
#include "rpc/remotes.h"
#include "rpc/call_spans.h"
#include "stream/duplex.h"
#include "sys/last_error.h"
#include "util/utf8.h"

/* Removes a head of len bytes from the front. What is left looks like a request of one datagram. */
static void cut_front(struct lend_req *req, struct lend_event *ev, uint32_t len)
{
	struct lend_buf *bytes = req->bytes;

	bytes->data = (char *)bytes->data + len;
	bytes->len -= len;
	bytes->cap -= len;
	ev->len -= len;
	ev->buf = 0;
	ev->data = bytes->data;
	ev->data_len = bytes->len;
	if (bytes != &req->view)
		req->view =
		    (struct lend_buf){.data = bytes->data, .len = bytes->len, .cap = bytes->len};
}

/* Returns the method that a request with this name, or without, calls; NULL: none. *any: by any
 * name. others: serves names without a handler. */
static const struct lend_method *find_method(const struct lend_method *numbered,
					     const struct lend_method *others, const char *name,
					     uint32_t number, bool *any)
{
	if (numbered && numbered->handler &&
	    (!name || (numbered->name && !strcmp(numbered->name, name))))
		return numbered;
	if (!others->handler)
		return NULL;
	if (!name) /* the number is its name's alone */
		return numbered && numbered->name ? others : NULL;
	*any = true;
	return lend_method_number(name) == number ? others : NULL;
}

static bool keep_head(struct lend_ep *ep, struct lend_req *req, const uint8_t *bytes, uint32_t len,
		      bool any)
{
	struct lend_req_head *head = malloc(sizeof(*head) + len);

	if (!head)
		return false;
	head->any = any;
	head->span = 0;
	memcpy(head->bytes, bytes, len);
	head->next = ep->heads;
	head->link = &ep->heads;
	if (head->next)
		head->next->link = &head->next;
	ep->heads = head;
	req->head = head;
	return true;
}

enum lend_status lend_req_head_differs(bool opens, char *why)
{
	(void)snprintf(why, LEND_WHY_ROOM, "%s",
		       opens ? "this method takes one message: call it without a stream"
			     : "this method takes a stream of messages: open one");
	return LEND_UNIMPLEMENTED;
}

static enum lend_status check_head(struct lend_ep *ep, const uint8_t *head, uint32_t number,
				   const struct lend_route *route,
				   const struct lend_method **method, bool *any, char *why)
{
	const void *first[LEND_HEAD_KINDS] = {NULL};
	const char *name, *encoding;
	struct lend_head_entry e;
	bool opens;
	const struct lend_method *call = route ? &route->any : &ep->any,
				 *stream = route ? &route->any_stream : &ep->any_stream;

	for (uint32_t at = 0; lend_head_next(head, &at, &e);)
		first[e.kind] = first[e.kind] ? first[e.kind] : e.value;
	name = first[LEND_HEAD_METHOD];
	encoding = first[LEND_HEAD_ENCODING];
	opens = first[LEND_HEAD_STREAM];
	*method = find_method(*method, opens ? stream : call, name, number, any);
	if (!*method && name)
		(void)snprintf(why, LEND_WHY_ROOM, "no handler for method %s", name);
	if (!*method)
		return LEND_UNIMPLEMENTED;
	if (opens != !!((*method)->flags & LEND_OPENS_STREAMS))
		return lend_req_head_differs(opens, why);
	if (!encoding || !strcmp(encoding, "identity") || (*method)->flags & LEND_ANY_ENCODING)
		return LEND_OK;
	(void)snprintf(why, LEND_WHY_ROOM, "this server does not decode %s", encoding);
	return LEND_UNIMPLEMENTED;
}

enum lend_status lend_req_head_take(struct lend_ep *ep, struct lend_req *req, struct lend_event *ev,
				    const struct lend_route *route,
				    const struct lend_method **method, char *why)
{
	uint8_t head[LEND_HEAD_MAX];
	enum lend_status refusal;
	bool any = false;
	uint32_t n, len;

	n = req->bytes->len < sizeof(head) ? req->bytes->len : sizeof(head);
	memcpy(head, req->bytes->data, n); /* a peer may change it */
	len = lend_head_length(head, n, req->bytes->len);
	if (len > ep->config.head_max) {
		(void)snprintf(why, LEND_WHY_ROOM,
			       "a head of %u bytes; this server reads at most %u", len,
			       ep->config.head_max);
		return LEND_RESOURCE_EXHAUSTED;
	}
	if (!lend_head_valid(head, len)) {
		(void)snprintf(why, LEND_WHY_ROOM, "the head of the request is malformed");
		return LEND_INVALID_ARGUMENT;
	}
	cut_front(req, ev, len);
	if (ev->len > ep->config.message_max +
			  (ev->method == LEND_METHOD_STREAM ? sizeof(struct lend_note) : 0)) {
		(void)snprintf(
		    why, LEND_WHY_ROOM, "a request of %llu bytes; this server takes at most %llu",
		    (unsigned long long)ev->len, (unsigned long long)ep->config.message_max);
		return LEND_RESOURCE_EXHAUSTED;
	}
	refusal = check_head(ep, head, ev->method, route, method, &any, why);
	if (refusal == LEND_OK && !keep_head(ep, req, head, len, any))
		refusal = LEND_RESOURCE_EXHAUSTED;
	if (refusal == LEND_OK && ev->method != LEND_METHOD_STREAM)
		lend_trace_request(ep, req->head,
				   (*method)->name ? (*method)->name
						   : lend_head_text(head, LEND_HEAD_METHOD),
				   ev->method);
	return refusal;
}

static void free_head(struct lend_req_head *head)
{
	*head->link = head->next;
	if (head->next)
		head->next->link = head->link;
	free(head);
}

void lend_req_heads_close(struct lend_ep *ep)
{
	while (ep->heads)
		free_head(ep->heads);
}

struct lend_head_writer lend_req_head_begin(struct lend_buf *buf, uint32_t cap, bool any)
{
	struct lend_head_writer w = lend_head_begin(buf->data, cap);

	if (any)
		lend_head_add(&w, LEND_HEAD_METHOD, NULL, "", 0);
	return w;
}

struct lend_buf *lend_req_head_end(struct lend_ep *ep, struct lend_req *req,
				   enum lend_status *status, struct lend_buf *reply)
{
	bool add = req->head->any && !(*status & (LEND_REPLY_HEAD | LEND_REPLY_NOT_RUN));
	struct lend_buf *buf = add ? lend_bufs_take(ep->bufs, 16) : NULL;

	if (req->head->span)
		lend_trace_end(ep, req->head->span, req->head,
			       (enum lend_status)(*status & LEND_REPLY_STATUS));
	free_head(req->head);
	req->head = NULL;
	if (!add)
		return reply;
	if (buf) {
		struct lend_head_writer w = lend_req_head_begin(buf, 16, true);

		buf->len = lend_head_end(&w);
		buf->next = reply;
		*status |= LEND_REPLY_HEAD;
		return buf;
	}
	lend_bufs_give(ep->bufs, reply);
	*status = LEND_RESOURCE_EXHAUSTED;
	return NULL;
}

struct lend_buf *lend_req_head_cut(struct lend_ep *ep, struct lend_buf *reply)
{
	uint32_t len = lend_head_length(reply->data, reply->len, reply->len);
	struct lend_buf *rest = reply->next;

	if (len < reply->len) { /* fit_reply() made one segment of all */
		reply->data = (char *)reply->data + len;
		reply->len -= len;
		reply->cap -= len;
		return reply;
	}
	reply->next = NULL;
	lend_bufs_give(ep->bufs, reply);
	return rest;
}

/* Writes a text as the message of a status, cut at LEND_HEAD_REASON bytes. */
static void put_reason(struct lend_head_writer *w, const char *text)
{
	size_t len = strnlen(text, LEND_HEAD_REASON + 1);

	if (len > LEND_HEAD_REASON)
		len = lend_utf8_cut(text, LEND_HEAD_REASON);
	lend_head_add(w, LEND_HEAD_MESSAGE, NULL, text, len);
}

bool lend_req_head_reason(struct lend_buf *buf, bool any, const char *text)
{
	struct lend_head_writer w;

	if (!buf)
		return false;
	w = lend_req_head_begin(buf, LEND_REASON_ROOM, any);
	put_reason(&w, text);
	buf->len = lend_head_end(&w);
	return buf->len > 0;
}
