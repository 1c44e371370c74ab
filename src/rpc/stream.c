/* rpc/stream - the functions of lend/stream.h for both ends. Part of stream_table.h. Layer: rpc.
 * Threads: the endpoint's. */
#include <errno.h>
#include <string.h>

#include "rpc/heads.h"
#include "rpc/stream_table.h"
#include "sys/last_error.h"
#include "util/check.h"

enum { COPIED = 488 }; /* bytes of a message that are copied behind the note */
enum { SPARE = 16 };   /* calls of a session that streams leave to messages, or an eighth */

/* Returns how many streams may be opened on a session with this limit of calls. */
static uint32_t streams_max(uint32_t calls)
{
	return calls - lend_min_u32(SPARE, calls / 8 + 1);
}

static int start_opening(struct lend_stream_rec *s, lend_session session)
{
	const struct lend_note note = {.stream = s->number, .kind = LEND_NOTE_OPEN};
	const struct lend_call_head none = {.name = NULL};
	struct lend_stream *user = s->user;
	struct lend_call_head head = user->head ? *user->head : none;
	struct lend_call *call = &s->opening;
	int rc;

	*call = (struct lend_call){.method = user->method,
				   .priority = user->priority,
				   .timeout = user->timeout ? user->timeout : LEND_NEVER,
				   .parent = user->parent,
				   .queue = 1,
				   .in_place = 1,
				   .head = &head,
				   .done = lend_stream_opening_ended};
	head.opens_stream = true;
	call->request = lend_buf_take(s->ep, sizeof(note));
	if (!call->request)
		return lend_fail(ENOMEM, "no buffer to open a stream");
	memcpy(call->request->data, &note, sizeof(note));
	call->request->len = sizeof(note);
	rc = lend_call_start(s->ep, session, call);
	call->head = NULL;
	if (rc < 0)
		lend_buf_give(s->ep, call->request);
	return rc;
}

int lend_stream_open(struct lend_ep *ep, lend_session session, struct lend_stream *stream)
{
	struct lend_streams *all = lend_streams_of(ep);
	const struct lend_session_rec *rec = lend_sessions_find(ep, session);
	struct lend_stream_rec *s;
	int rc;

	if (!all)
		return lend_fail(ENOMEM, "no memory for streams");
	if (stream->state)
		return lend_fail(EALREADY, "this stream is open: use a new zeroed one");
	if (rec && rec->streams >= streams_max(lend_session_calls(ep, session)))
		return lend_fail(EAGAIN, "too many streams of this session: raise config.calls of "
					 "both ends");
	s = lend_streams_add(all, session, ++all->opened, stream, true);
	if (!s)
		return -ENOMEM;
	rc = start_opening(s, session);
	if (rc < 0)
		lend_streams_remove(s);
	return rc;
}

static int stream_ended(void)
{
	return lend_fail(EPIPE, "the stream is over, or this direction of it");
}

/* Puts room for a note in front of a message: copies a short one behind it. NULL: no buffer. */
static struct lend_buf *frame_message(struct lend_ep *ep, struct lend_buf *message, uint32_t len)
{
	bool copied = len <= COPIED && !(message && message->next);
	uint32_t room = (uint32_t)sizeof(struct lend_note);
	struct lend_buf *head = lend_buf_take(ep, room + (copied ? len : 0));

	if (!head)
		return NULL;
	head->len = room;
	if (!copied) {
		head->next = message;
		return head;
	}
	if (len)
		memcpy((char *)head->data + room, message->data, len);
	head->len += len;
	lend_buf_give(ep, message);
	return head;
}

int lend_stream_check(struct lend_ep *ep, struct lend_stream *stream)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);
	enum lend_put may = s ? lend_duplex_check(&s->duplex) : LEND_PUT_CLOSED;

	(void)ep;
	return may == LEND_PUT_CLOSED ? stream_ended() : may == LEND_PUT_FULL ? -EAGAIN : 0;
}

int lend_stream_write(struct lend_ep *ep, struct lend_stream *stream, struct lend_buf *message)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);
	uint64_t len = lend_msg_len(message), most;
	int rc = lend_stream_check(ep, stream);
	struct lend_buf *framed;
	uint32_t call = 0;

	if (rc < 0)
		return rc;
	most = lend_session_message_max(ep, s->session);
	if (most == 0) /* the session has ended, and so will the stream */
		return stream_ended();
	if (len > most)
		return lend_fail(EMSGSIZE, "a message of %llu bytes is longer than the peer takes",
				 (unsigned long long)len);
	framed = frame_message(ep, message, (uint32_t)len);
	if (!framed)
		return lend_fail(ENOMEM, "no buffer for a message: give some back");
	LEND_CHECK(lend_duplex_put(&s->duplex, (uint32_t)len, &call) == LEND_PUT_TAKEN);
	s->call[call].call.request = framed;
	s->compress &= (uint16_t) ~(1u << call);
	s->compress |= (uint16_t)(stream->compress << call);
	lend_stream_push(s);
	return 0;
}

int lend_stream_finish(struct lend_ep *ep, struct lend_stream *stream)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);

	(void)ep;
	if (s && !s->opener)
		return lend_fail(EINVAL, "a server ends a stream with lend_stream_end()");
	if (!s || s->over || s->cancelled)
		return stream_ended();
	lend_duplex_finish(&s->duplex, true);
	lend_stream_push(s);
	return 0;
}

int lend_stream_read(struct lend_ep *ep, struct lend_stream *stream, struct lend_buf **message)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);
	uint64_t tag = 0;
	bool compressed;

	if (!s)
		return -ENODATA;
	compressed = s->compressed >> s->duplex.next % LEND_STREAM_WINDOW & 1;
	switch (lend_duplex_take(&s->duplex, &tag)) {
	case LEND_TAKING_NONE:
		return -EAGAIN;
	case LEND_TAKING_END:
		return -ENODATA;
	case LEND_TAKING_MESSAGE:
		break;
	}
	*message = (struct lend_buf *)(uintptr_t)tag;
	stream->compressed = compressed;
	lend_stream_push(s); /* its credit */
	if (s->over && lend_duplex_peek(&s->duplex) == LEND_TAKING_END)
		lend_streams_wake(ep->streams, lend_ep_now(ep));
	return 0;
}

/* Returns 0 if this end may end the stream with a status. */
static int check_ending(const struct lend_stream_rec *s)
{
	if (s && s->opener)
		return lend_fail(EINVAL, "the server ends a stream: finish or cancel it");
	return !s || s->over || s->ending ? stream_ended() : 0;
}

static void end_with(struct lend_stream_rec *s, enum lend_status status)
{
	s->status = status;
	s->ending = true;
	lend_duplex_finish(&s->duplex, false);
	lend_stream_drop(s);
	lend_stream_push(s);
	if (s->over)
		lend_streams_wake(s->ep->streams, lend_ep_now(s->ep));
}

/* Makes the head to answer with. Initial metadata that no message took go with it. */
static int make_answer(struct lend_stream_rec *s, const struct lend_reply_head *head)
{
	struct lend_reply_head all = *head;

	if (!all.initial && !s->duplex.sent)
		all.initial = s->initial;
	return lend_reply_head_make(s->ep, s->request, &all, &s->answer);
}

int lend_stream_end_with(struct lend_ep *ep, struct lend_stream *stream, enum lend_status status,
			 const struct lend_reply_head *head)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);
	int rc = check_ending(s);

	(void)ep;
	if (rc == 0)
		rc = make_answer(s, head);
	if (rc < 0)
		return rc;
	lend_stream_explain(s, head->message ? head->message : "");
	end_with(s, status);
	return 0;
}

void lend_stream_unrun(struct lend_stream *stream, bool maybe)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);

	if (s)
		s->unrun = maybe ? LEND_REPLY_MAYBE : LEND_REPLY_NOT_RUN;
}

int lend_stream_end(struct lend_ep *ep, struct lend_stream *stream, enum lend_status status,
		    const char *why)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);
	int rc = check_ending(s);

	(void)ep;
	if (rc < 0)
		return rc;
	if (s->initial && !s->duplex.sent) {
		rc = make_answer(s, &(struct lend_reply_head){.message = why});
		if (rc == -EINVAL) /* a text that is not UTF-8 */
			rc = make_answer(s, &(struct lend_reply_head){.message = NULL});
		if (rc < 0)
			status = LEND_RESOURCE_EXHAUSTED;
	}
	lend_stream_explain(s, why ? why : "");
	end_with(s, status);
	return 0;
}

int lend_stream_begin(struct lend_ep *ep, struct lend_stream *stream,
		      const struct lend_metadata *initial)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);
	int rc = check_ending(s);
	struct lend_pair pair;

	(void)ep;
	if (rc < 0)
		return rc;
	if (s->initial || s->duplex.sent)
		return lend_fail(EALREADY, "initial metadata go before the first message, once");
	s->initial = lend_metadata_new();
	rc = s->initial ? 0 : -ENOMEM;
	for (uint32_t at = 0; rc == 0 && lend_metadata_next(initial, &at, &pair);)
		rc = lend_metadata_add(s->initial, pair.key, pair.value, pair.len);
	return rc;
}

bool lend_stream_metadata(const struct lend_stream *stream, bool trailing, uint32_t *at,
			  struct lend_pair *pair)
{
	const uint8_t *head =
	    !trailing && stream->head_of_first ? stream->head_of_first : stream->head_of_reply;

	return head && lend_metadata_pair(head, trailing ? LEND_HEAD_TRAILING : LEND_HEAD_INITIAL,
					  at, pair);
}

void lend_stream_cancel(struct lend_ep *ep, struct lend_stream *stream)
{
	struct lend_stream_rec *s = lend_stream_rec(stream);

	if (!s || s->cancelled)
		return;
	s->cancelled = !s->over;
	lend_stream_abort(s, LEND_CANCELLED);
	lend_streams_wake(ep->streams, lend_ep_now(ep));
}
