/* stream_server - streaming methods of .proto services on an endpoint.
 *
 * A stream's record is freed when the stream is over and its function has answered, or
 * events.ended has run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grpc/message_stream.h"
#include "util/utf8.h"

struct lend_reply_head lend_pb_head_of(const struct lend_pb_answer *answer, const char *why,
				       char text[LEND_PB_WHY_MAX + 1])
{
	struct lend_reply_head head = *answer->head;
	size_t len = strnlen(why, LEND_PB_WHY_MAX + 1);

	len = len > LEND_PB_WHY_MAX ? lend_utf8_cut(why, LEND_PB_WHY_MAX) : len;
	len = lend_utf8_valid((const uint8_t *)why, len) ? len : 0;
	memcpy(text, why, len);
	text[len] = 0;
	head.message = text;
	return head;
}

static void free_stream(struct lend_pb_stream *s)
{
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	free(s);
}

static void let_go(struct lend_pb_stream *s)
{
	if (--s->holds == 0 && s->over && (s->answered || s->told))
		free_stream(s);
}

void lend_pb_stream_end(void *stream, enum lend_status status, const char *why)
{
	struct lend_pb_stream *s = stream;
	char text[LEND_PB_WHY_MAX + 1];
	struct lend_reply_head head;
	int rc = -E2BIG;

	if (s->answered)
		return;
	s->holds++;
	s->answered = true;
	if (s->base.head) {
		head = lend_pb_head_of(&s->base, why, text);
		rc = lend_stream_end_with(s->base.ep, &s->stream, status, &head);
		status = rc == -E2BIG || rc == -EINVAL ? LEND_INTERNAL : LEND_RESOURCE_EXHAUSTED;
	}
	if (!s->base.head || (rc < 0 && rc != -EPIPE))
		(void)lend_stream_end(s->base.ep, &s->stream, status, why);
	let_go(s);
}

void lend_pb_stream_reply(void *stream, const ProtobufCMessage *reply, void (*release)(void *arg),
			  void *arg)
{
	struct lend_pb_stream *s = stream;
	bool many = s->kind & LEND_PB_SERVER_STREAM;
	int rc = reply ? lend_pb_send(s, reply, release, arg) : 0;

	if (release && (rc < 0 || !reply))
		release(arg);
	if (!reply)
		lend_pb_stream_end(s, many ? LEND_OK : LEND_INTERNAL, "");
	else if (rc == -EAGAIN)
		lend_pb_stream_end(s, LEND_RESOURCE_EXHAUSTED, "the client reads too slowly");
	else if (rc < 0 && rc != -EPIPE)
		lend_pb_stream_end(s, rc == -EINVAL ? LEND_INTERNAL : LEND_RESOURCE_EXHAUSTED, "");
	else if (!many)
		lend_pb_stream_end(s, LEND_OK, "");
}

/* The closure of every stream. */
static void answer_stream(const ProtobufCMessage *reply, void *stream)
{
	lend_pb_stream_reply(stream, reply, NULL, NULL);
}

static void run_function(struct lend_pb_stream *s, const ProtobufCMessage *message)
{
	ProtobufCService *service = s->method->service;

	service->invoke(service, s->method->index, message, answer_stream, s);
}

static void end_badly(struct lend_pb_stream *s, enum lend_status status)
{
	lend_pb_stream_end(s, status,
			   status == LEND_INVALID_ARGUMENT
			       ? "a message is malformed, missing, or one too many"
			       : "no memory for a message");
}

static void take_message(struct lend_pb_stream *s, struct lend_buf *bytes)
{
	bool many = s->kind & LEND_PB_CLIENT_STREAM;
	enum lend_status status = LEND_OK;

	if (s->answered || (!bytes && lend_stream_check(s->base.ep, &s->stream) == -EPIPE))
		goto out; /* nothing waits for it, or the stream was cancelled */
	if (!many && (bytes ? s->count > 0 : s->count == 0))
		status = LEND_INVALID_ARGUMENT;
	else if (bytes)
		status = lend_pb_stream_hand(s, bytes);
	else if (many)
		run_function(s, NULL);
	s->count++;
	if (status != LEND_OK)
		end_badly(s, status);
out:
	lend_buf_give(s->base.ep, bytes);
}

static void stream_readable(struct lend_stream *stream)
{
	struct lend_pb_stream *s = lend_pb_stream_of(stream);

	s->holds++;
	lend_pb_stream_read(s);
	let_go(s);
}

static void stream_ended(struct lend_stream *stream)
{
	struct lend_pb_stream *s = lend_pb_stream_of(stream);

	s->holds++;
	s->over = true;
	if (s->events.ended) {
		s->told = true;
		s->events.ended(s, s->events.arg);
	}
	let_go(s);
}

void lend_pb_accept(lend_request request, void *method)
{
	struct served_method *m = method;
	struct lend_pb_stream *s = calloc(1, sizeof(*s));

	if (s)
		*s = (struct lend_pb_stream){
		    .base = {.ep = m->ep, .request = request, .streams = true},
		    .stream = {.readable = stream_readable,
			       .writable = lend_pb_stream_writable,
			       .ended = stream_ended},
		    .session = lend_request_session(m->ep, request),
		    .kind = m->kind,
		    .reads = m->input,
		    .writes = m->output,
		    .packed = &m->packed,
		    .memory = &m->memory,
		    .take = take_message,
		    .handle = run_function,
		    .method = m,
		    .next = m->streams,
		    .link = &m->streams};
	if (!s || lend_stream_accept(m->ep, request, &s->stream) < 0) {
		free(s);
		(void)lend_refuse(m->ep, request, LEND_RESOURCE_EXHAUSTED);
		return;
	}
	if (s->next)
		s->next->link = &s->next;
	m->streams = s;
}

void lend_pb_streams_free(struct served_method *method)
{
	while (method->streams)
		free_stream(method->streams);
}
