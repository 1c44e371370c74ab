/* stream_calls - the calls of a stream: its messages, half-close and credit, and the answer to its
 * opening call. Part of stream_table.h. Layer: rpc. Threads: the endpoint's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/heads.h"
#include "rpc/stream_table.h"
#include "util/utf8.h"

void lend_stream_explain(struct lend_stream_rec *s, const char *text)
{
	size_t len = strnlen(text, LEND_HEAD_REASON + 1);

	if (len > LEND_HEAD_REASON)
		len = lend_utf8_cut(text, LEND_HEAD_REASON);
	memcpy(s->why, text, len);
	s->why[len] = 0;
}

void lend_stream_drop(struct lend_stream_rec *s)
{
	uint64_t tag;

	while (lend_duplex_drop(&s->duplex, &tag))
		lend_buf_give(s->ep, (struct lend_buf *)(uintptr_t)tag);
}

static enum lend_call_result result_of(const struct lend_call *call, uint64_t *taken)
{
	if (call->status == LEND_OK && call->reply->len == sizeof(*taken)) {
		memcpy(taken, call->reply->data, sizeof(*taken));
		return LEND_CALL_OK;
	}
	if ((call->status == LEND_RESOURCE_EXHAUSTED || call->status == LEND_NOT_FOUND) &&
	    call->request)
		return LEND_CALL_AGAIN;
	return LEND_CALL_LOST;
}

static void give_request(struct lend_stream_rec *s, struct lend_call *call)
{
	lend_buf_give(s->ep, call->request);
	call->request = NULL;
}

/* done of all calls but the opening one. When the session ends, the end of the opening call
 * follows. */
static void call_ended(struct lend_call *call)
{
	struct lend_stream_call *of = (struct lend_stream_call *)call;
	struct lend_stream_rec *s = of->stream;
	uint32_t i = (uint32_t)(of - s->call);
	uint64_t taken = 0;
	enum lend_call_result result = result_of(call, &taken);

	if (call->status == LEND_UNAVAILABLE || call->status == LEND_CANCELLED)
		lend_duplex_close(&s->duplex);
	if (result != LEND_CALL_AGAIN || i >= LEND_STREAM_WINDOW)
		give_request(s, call);
	lend_duplex_call_ended(&s->duplex, s->ep->now, i, result, taken);
	lend_stream_advance(s);
}

/* Starts a call that the stream wants to make. The request of a message is set; its first bytes are
 * for the note. */
static void start_call(struct lend_stream_rec *s, uint32_t i, struct lend_note *note)
{
	bool first = note->kind == LEND_NOTE_MESSAGE && note->at == 0;
	const struct lend_call_head head = {.metadata = first ? s->initial : NULL,
					    .compress = s->compress >> i & 1};
	struct lend_call *call = &s->call[i].call;
	int rc = -ENOMEM;

	note->stream = s->number;
	note->to_opener = !s->opener;
	if (i >= LEND_STREAM_WINDOW && (call->request = lend_buf_take(s->ep, sizeof(*note))))
		call->request->len = sizeof(*note);
	if (call->request) {
		memcpy(call->request->data, note, sizeof(*note));
		call->method = LEND_METHOD_STREAM;
		call->priority = s->user->priority;
		call->timeout = LEND_NEVER;
		call->queue = 1;
		call->in_place = 1;
		call->reply = NULL;
		call->done = call_ended;
		if (head.metadata || head.compress)
			call->head = &head;
		rc = lend_call_start(s->ep, s->session, call);
		call->head = NULL;
	}
	if (rc == 0)
		return;
	if (i >= LEND_STREAM_WINDOW)
		give_request(s, call);
	if (rc == -ESTALE)
		lend_duplex_close(&s->duplex);
	lend_duplex_call_ended(&s->duplex, lend_ep_now(s->ep), i, LEND_CALL_AGAIN, 0);
}

/* Answers the opening call, which ends the stream. */
static void answer_opening(struct lend_stream_rec *s)
{
	struct lend_req *req = lend_serve_find(s->ep, s->request);

	s->over = true;
	s->user->status = s->status;
	lend_duplex_close(&s->duplex);
	if (req)
		req->handler = NULL;
	if (s->answer)
		(void)lend_reply_flags(s->ep, s->request, s->status, LEND_REPLY_HEAD | s->unrun,
				       s->answer);
	else if (s->why[0])
		(void)lend_reply_why(s->ep, s->request, s->status, s->why);
	else
		(void)lend_reply(s->ep, s->request, s->status, NULL);
	s->answer = NULL;
}

static void cancel_calls(struct lend_stream_rec *s)
{
	for (uint32_t left = s->duplex.flying; left; left &= left - 1)
		lend_call_cancel(s->ep, &s->call[__builtin_ctz(left)].call);
}

void lend_stream_abort(struct lend_stream_rec *s, enum lend_status status)
{
	lend_duplex_close(&s->duplex);
	lend_stream_drop(s);
	cancel_calls(s);
	if (s->over)
		return;
	s->status = status;
	if (s->opener)
		lend_call_cancel(s->ep, &s->opening);
	else
		answer_opening(s);
}

void lend_stream_push(struct lend_stream_rec *s)
{
	struct lend_note note;
	uint32_t i;

	while ((i = lend_duplex_next(&s->duplex, lend_ep_now(s->ep), &note)) < LEND_STREAM_CALLS)
		start_call(s, i, &note);
	if (s->duplex.broken && !s->duplex.closed)
		lend_stream_abort(s, LEND_INTERNAL);
	if (s->ending && !s->over && lend_duplex_all_sent(&s->duplex))
		answer_opening(s);
	lend_streams_wake(s->ep->streams, lend_duplex_wake(&s->duplex));
}

void lend_stream_advance(struct lend_stream_rec *s)
{
	lend_stream_push(s);
	if (s->pinned)
		return;
	if (lend_duplex_unblock(&s->duplex) && s->user->writable) {
		s->pinned = true;
		s->user->writable(s->user);
		s->pinned = false;
		lend_stream_push(s);
	}
	lend_stream_settle(s);
}

/* Keeps the head of the answer until the stream ends. */
static void keep_head(struct lend_stream_rec *s, const struct lend_call *call)
{
	const uint8_t *head = s->ep->head;
	uint32_t len;

	if (s->ep->head_of != call)
		return;
	len = lend_head_length(head, LEND_HEAD_MAX, LEND_HEAD_MAX);
	s->head = malloc(len);
	if (s->head)
		memcpy(s->head, head, len);
	else
		s->status = LEND_RESOURCE_EXHAUSTED;
}

void lend_stream_opening_ended(struct lend_call *call)
{
	struct lend_stream_rec *s =
	    (struct lend_stream_rec *)((char *)call - offsetof(struct lend_stream_rec, opening));

	lend_buf_give(s->ep, call->request);
	s->over = true;
	if (!s->cancelled)
		s->status = call->status;
	keep_head(s, call);
	lend_stream_explain(s, lend_call_why(s->ep, call));
	s->user->ran = call->ran;
	s->user->status = s->status;
	lend_duplex_end(&s->duplex);
	cancel_calls(s);
	s->pinned = true;
	if (!s->cancelled && s->user->readable)
		s->user->readable(s->user);
	s->pinned = false;
	lend_stream_settle(s);
}
