/* reply_head - replies with heads, and the names and metadata of requests for their handlers.
 * Layer: rpc. Threads: the endpoint's, and a worker's. */
#include <errno.h>
#include <string.h>

#include "rpc/heads.h"
#include "sys/last_error.h"

/* Returns whether the caller of a request has to name the method again. */
static bool is_any(struct lend_ep *ep, lend_request request)
{
	const struct lend_req *req = lend_serve_find(ep, request);

	return req && req->head && req->head->any;
}

int lend_reply_why(struct lend_ep *ep, lend_request request, enum lend_status status,
		   const char *text)
{
	struct lend_buf *head = lend_buf_take(ep, LEND_REASON_ROOM);

	if (lend_req_head_reason(head, is_any(ep, request), text))
		return lend_reply_flags(ep, request, status, LEND_REPLY_HEAD, head);
	lend_buf_give(ep, head);
	return lend_reply(ep, request, status, NULL);
}

/* Writes a head into a buffer. False: it is too long, or a text is not UTF-8. */
static bool put_head(struct lend_buf *buf, const struct lend_reply_head *head, uint32_t most,
		     bool any)
{
	uint32_t cap = buf->cap < most ? buf->cap : most;
	struct lend_head_writer w = lend_req_head_begin(buf, cap, any);

	if (head->message)
		lend_head_add(&w, LEND_HEAD_MESSAGE, NULL, head->message, strlen(head->message));
	if (head->encoding)
		lend_head_add(&w, LEND_HEAD_ENCODING, NULL, head->encoding, strlen(head->encoding));
	if (head->compress)
		lend_head_add(&w, LEND_HEAD_COMPRESSED, NULL, NULL, 0);
	lend_metadata_put(&w, LEND_HEAD_INITIAL, head->initial);
	lend_metadata_put(&w, LEND_HEAD_TRAILING, head->trailing);
	buf->len = lend_head_end(&w);
	return buf->len > 0;
}

int lend_reply_head_make(struct lend_ep *ep, lend_request request,
			 const struct lend_reply_head *head, struct lend_buf **made)
{
	uint32_t room = (1 + head->compress) * lend_head_text_room("") +
			lend_head_text_room(head->message) + lend_head_text_room(head->encoding) +
			(head->initial ? head->initial->w.len : 4) +
			(head->trailing ? head->trailing->w.len : 0);
	struct lend_buf *buf = lend_buf_take(ep, room);

	if (!buf)
		return lend_fail(ENOMEM, "no buffer for a head of %u bytes", room);
	if (!put_head(buf, head, ep->config.head_max, is_any(ep, request))) {
		lend_buf_give(ep, buf);
		return lend_head_refused(ep, room);
	}
	*made = buf;
	return 0;
}

int lend_reply_with(struct lend_ep *ep, lend_request request, enum lend_status status,
		    struct lend_buf *reply, const struct lend_reply_head *head)
{
	struct lend_buf *buf = NULL;
	int rc = lend_reply_head_make(ep, request, head, &buf);

	if (rc == 0) {
		buf->next = reply;
		return lend_reply_flags(ep, request, status, LEND_REPLY_HEAD, buf);
	}
	lend_buf_give(ep, reply);
	(void)lend_reply(ep, request, rc == -ENOMEM ? LEND_RESOURCE_EXHAUSTED : LEND_INTERNAL,
			 NULL);
	return rc;
}

int lend_reply_unrun(struct lend_ep *ep, lend_request request, enum lend_status status, bool maybe,
		     const struct lend_reply_head *head)
{
	unsigned flags = maybe ? LEND_REPLY_MAYBE : LEND_REPLY_NOT_RUN;
	struct lend_buf *made = NULL;

	if (lend_reply_head_make(ep, request, head, &made) == 0)
		return lend_reply_flags(ep, request, status, flags | LEND_REPLY_HEAD, made);
	return maybe ? lend_reply(ep, request, status, NULL)
		     : lend_reply_flags(ep, request, status, flags, NULL);
}

/* Finds a request; in a slow handler also by the worker's own endpoint. */
static struct lend_req *find_request(struct lend_ep *ep, lend_request request)
{
	return lend_serve_find(ep->home ? ep->home : ep, request);
}

const char *lend_request_text(struct lend_ep *ep, lend_request request, enum lend_text text)
{
	struct lend_req *req = find_request(ep, request);
	const struct lend_method *method;
	const char *found;

	if (!req)
		return NULL;
	found = req->head ? lend_head_text(req->head->bytes, (enum lend_head_kind)text) : NULL;
	if (found || text != LEND_TEXT_METHOD)
		return found;
	if (req->slow) /* the table is the endpoint's thread's */
		return req->name;
	method = lend_methods_find(&ep->methods, req->method);
	return method ? method->name : NULL;
}

bool lend_request_metadata(struct lend_ep *ep, lend_request request, uint32_t *at,
			   struct lend_pair *pair)
{
	const struct lend_req *req = find_request(ep, request);

	return req && req->head &&
	       lend_metadata_pair(req->head->bytes, LEND_HEAD_INITIAL, at, pair);
}
