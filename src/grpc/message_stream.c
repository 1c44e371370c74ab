#include "grpc/message_stream.h"

#include <errno.h>

#include "pb/field_option.h"

void lend_pb_stream_read(struct lend_pb_stream *s)
{
	struct lend_buf *bytes;
	int rc = -EAGAIN;

	if (s->reading)
		return;
	s->reading = true;
	while (!s->paused && !s->eof &&
	       (rc = lend_stream_read(s->base.ep, &s->stream, &bytes)) == 0)
		s->take(s, bytes);
	if (rc == -ENODATA) {
		s->eof = true;
		s->take(s, NULL);
	}
	s->reading = false;
}

void lend_pb_stream_readable(struct lend_stream *stream)
{
	struct lend_pb_stream *s = lend_pb_stream_of(stream);

	lend_pb_stream_read(s);
}

void lend_pb_stream_writable(struct lend_stream *stream)
{
	struct lend_pb_stream *s = lend_pb_stream_of(stream);

	if (s->events.writable)
		s->events.writable(s, s->events.arg);
}

enum lend_status lend_pb_stream_hand(struct lend_pb_stream *s, const struct lend_buf *bytes)
{
	struct lend_pb_heap own, *heap = lend_pb_heap_begin(s->memory, &own);
	ProtobufCMessage *message;
	enum lend_status status = lend_pb_from_buffers(s->reads, bytes, heap, &message);

	if (status == LEND_OK)
		s->handle(s, message);
	lend_pb_heap_end(heap, &own);
	return status;
}

int lend_pb_send(void *stream, const ProtobufCMessage *message, void (*release)(void *arg),
		 void *arg)
{
	struct lend_pb_stream *s = stream;
	struct lend_pb_sending how = {
	    .ep = s->base.ep, .session = s->session, .copies = !release, .packed = s->packed};
	struct lend_pb_lent *lent = NULL;
	int rc = lend_stream_check(s->base.ep, &s->stream);
	enum lend_status status;
	struct lend_buf *chain;

	if (rc < 0)
		return rc;
	if (s->base.head && s->base.head->initial) /* with the first message */
		(void)lend_stream_begin(s->base.ep, &s->stream, s->base.head->initial);
	if (release && !(lent = lend_pb_lent_begin(&how, release, arg)))
		return -ENOMEM;
	chain = lend_pb_to_buffers(&how, s->writes, message, &status);
	rc = status == LEND_INVALID_ARGUMENT ? -EINVAL : -ENOMEM;
	if (chain)
		rc = lend_stream_write(s->base.ep, &s->stream, chain);
	if (rc < 0)
		lend_pb_lent_keep(lent);
	if (rc < 0)
		lend_buf_give(s->base.ep, chain);
	lend_pb_lent_end(lent, how.wraps);
	return rc;
}

void lend_pb_pause(void *stream, bool paused)
{
	struct lend_pb_stream *s = stream;

	s->paused = paused;
	if (!paused && !s->over)
		s->stream.readable(&s->stream);
}

int lend_pb_check(void *stream)
{
	struct lend_pb_stream *s = stream;

	return lend_stream_check(s->base.ep, &s->stream);
}

int lend_pb_finish(void *stream)
{
	struct lend_pb_stream *s = stream;

	return lend_stream_finish(s->base.ep, &s->stream);
}

void lend_pb_cancel(void *stream)
{
	struct lend_pb_stream *s = stream;

	lend_stream_cancel(s->base.ep, &s->stream);
}

void lend_pb_compress(void *stream, bool compress)
{
	((struct lend_pb_stream *)stream)->stream.compress = compress;
}

void lend_pb_on(void *stream, const struct lend_pb_events *events)
{
	((struct lend_pb_stream *)stream)->events = *events;
}

int lend_pb_kinds(const ProtobufCServiceDescriptor *descriptor, const void *set, size_t len,
		  enum lend_pb_kind *kinds)
{
	for (unsigned i = 0; i < descriptor->n_methods; i++) {
		int kind =
		    lend_pb_method_kind(set, len, descriptor->name, descriptor->methods[i].name);

		if (kind < 0)
			return -ENOENT;
		kinds[i] = (enum lend_pb_kind)kind;
	}
	return 0;
}
