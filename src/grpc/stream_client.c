/* stream_client - streams that clients of .proto services open. */
#include <errno.h>
#include <stdlib.h>

#include "grpc/called_service.h"
#include "grpc/message_stream.h"

/* Ends the stream with a status of this end's. */
static void fail_stream(struct lend_pb_stream *s, enum lend_status status)
{
	s->failed = status;
	lend_stream_cancel(s->base.ep, &s->stream);
}

static void take_reply(struct lend_pb_stream *s, struct lend_buf *bytes)
{
	enum lend_status status = LEND_OK;

	if (!bytes)
		return;
	if (s->kind & LEND_PB_SERVER_STREAM)
		status = lend_pb_stream_hand(s, bytes);
	else if (s->reply)
		status = LEND_INVALID_ARGUMENT; /* one too many */
	else
		s->reply = bytes;
	if (s->reply != bytes)
		lend_buf_give(s->base.ep, bytes);
	if (status != LEND_OK) /* malformed: the server's mistake */
		fail_stream(s, status == LEND_INVALID_ARGUMENT ? LEND_INTERNAL : status);
}

static void hand_reply(struct lend_pb_stream *s, const ProtobufCMessage *message)
{
	s->closure(message, s->closure_data);
}

static void stream_ended(struct lend_stream *stream)
{
	struct lend_pb_stream *s = lend_pb_stream_of(stream);
	struct client *c = s->client;

	c->status = s->failed ? s->failed : stream->status;
	c->ended = stream;
	if (c->status != LEND_OK || s->kind & LEND_PB_SERVER_STREAM) {
		s->closure(NULL, s->closure_data);
	} else if (!s->reply || lend_pb_stream_hand(s, s->reply) != LEND_OK) {
		c->status = LEND_INTERNAL;
		s->closure(NULL, s->closure_data);
	}
	c->ended = NULL;
	if (s->events.ended)
		s->events.ended(s, s->events.arg);
	lend_buf_give(s->base.ep, s->reply);
	free(s);
	lend_pb_client_drop(c);
}

/* Opens the stream, with its first message or its only one. */
static int start_stream(struct lend_pb_stream *s, const struct called_method *m,
			const ProtobufCMessage *input)
{
	struct lend_call_head head = s->client->head;
	int rc;

	head.name = m->name;
	s->stream.method = m->number;
	s->stream.head = &head;
	s->stream.compress = head.compress;
	rc = lend_stream_open(s->base.ep, s->session, &s->stream);
	if (rc < 0)
		return rc;
	s->stream.head = NULL;
	rc = input ? lend_pb_send(s, input, NULL, NULL) : 0;
	if (!input && !(s->kind & LEND_PB_CLIENT_STREAM))
		rc = -EINVAL;
	if (rc < 0)
		fail_stream(s, lend_pb_status_of(rc));
	else if (!(s->kind & LEND_PB_CLIENT_STREAM))
		(void)lend_stream_finish(s->base.ep, &s->stream);
	return 0;
}

void lend_pb_open_stream(struct client *c, unsigned index, const ProtobufCMessage *input,
			 ProtobufCClosure closure, void *closure_data)
{
	struct called_method *m = &c->service->method[index];
	struct lend_pb_stream *s = calloc(1, sizeof(*s));
	int rc = -ENOMEM;

	c->calls++;
	if (s) {
		*s = (struct lend_pb_stream){.base = {.ep = c->service->ep, .streams = true},
					     .stream = {.readable = lend_pb_stream_readable,
							.writable = lend_pb_stream_writable,
							.ended = stream_ended,
							.timeout = c->timeout,
							.parent = c->parent,
							.priority = c->priority},
					     .session = c->session,
					     .kind = c->kinds[index],
					     .reads = m->output,
					     .writes = c->input ? c->input[index] : m->input,
					     .packed = &m->packed,
					     .memory = &c->service->memory,
					     .take = take_reply,
					     .handle = hand_reply,
					     .client = c,
					     .closure = closure,
					     .closure_data = closure_data};
		rc = start_stream(s, m, input);
	}
	c->opened = rc == 0 ? s : NULL;
	if (rc == 0)
		return;
	free(s);
	c->status = lend_pb_status_of(rc);
	closure(NULL, closure_data);
	lend_pb_client_drop(c);
}

void *lend_pb_opened(const ProtobufCService *client)
{
	return ((const struct client *)client)->opened;
}
