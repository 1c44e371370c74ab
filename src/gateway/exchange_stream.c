/* exchange_stream - exchanges that are streams. See exchange.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/exchange.h"

static struct exchange *exchange_of(struct lend_stream *stream)
{
	return (void *)((char *)stream - offsetof(struct exchange, stream));
}

void exchange_stream_read(struct exchange *x)
{
	struct lend_buf *message;
	uint64_t len = 0;

	if (!x->running || host->stream_read(x->ep, &x->stream, &message) < 0)
		return;
	for (struct lend_buf *buf = message; buf; buf = buf->next)
		len += buf->len;
	message_send(&x->out, message, len, false);
}

static void stream_readable(struct lend_stream *stream)
{
	struct exchange *x = exchange_of(stream);

	if (!x->client || x->out.some)
		return; /* read when that is sent */
	if (!x->headers_sent) {
		exchange_stream_read(x);
		if (!x->out.some)
			return;
		exchange_answer_stream(x);
	} else {
		(void)nghttp2_session_resume_data(x->client->connection.session, x->id);
	}
	h2_connection_send(&x->client->connection);
}

void exchange_stream_message(struct exchange *x)
{
	struct lend_buf *message = x->unsent ? x->unsent : x->in.first;
	int rc;

	if (!x->unsent)
		x->in = (struct message_in){0};
	x->unsent = NULL;
	if (!message)
		message = host->buf_take(x->ep, 1);
	rc = message ? host->stream_write(x->ep, &x->stream, message) : -ENOMEM;
	if (rc == -EAGAIN) {
		x->unsent = message;
		return;
	}
	if (rc < 0)
		host->buf_give(x->ep, message);
	if (rc < 0 && rc != -EPIPE) /* after its end a stream takes no more */
		exchange_fail(x, exchange_status(rc), host->why());
}

int exchange_stream_backlog(struct exchange *x, const uint8_t *bytes, size_t len)
{
	if (x->backlog_len + len > x->backlog_cap) {
		size_t cap = 2 * (x->backlog_len + len);
		uint8_t *more = realloc(x->backlog, cap);

		if (!more)
			return -ENOMEM;
		x->backlog = more;
		x->backlog_cap = cap;
	}
	memcpy(x->backlog + x->backlog_len, bytes, len);
	x->backlog_len += len;
	return 0;
}

void exchange_stream_finish(struct exchange *x)
{
	if (x->finished)
		return;
	x->finished = true;
	(void)host->stream_finish(x->ep, &x->stream);
}

static void stream_writable(struct lend_stream *stream)
{
	struct exchange *x = exchange_of(stream);
	size_t n = 0;

	if (!x->client)
		return;
	if (x->unsent)
		exchange_stream_message(x);
	if (!x->unsent && x->backlog_len) {
		size_t len = x->backlog_len;

		n = exchange_bytes(x, x->backlog, len);
		x->backlog_len = len - n;
		memmove(x->backlog, x->backlog + n, x->backlog_len);
		(void)nghttp2_session_consume(x->client->connection.session, x->id, n);
	}
	if (x->status != LEND_OK) {
		host->stream_cancel(x->ep, stream);
		return;
	}
	if (x->ended)
		exchange_end_request(x);
	h2_connection_send(&x->client->connection);
}

static void stream_ended(struct lend_stream *stream)
{
	struct exchange *x = exchange_of(stream);

	x->running = false;
	if (!x->client) {
		exchange_free(x);
		return;
	}
	exchange_end_stream(x);
	h2_connection_send(&x->client->connection); /* may free the exchange */
}

void exchange_open_stream(struct exchange *x)
{
	int rc;

	x->stream = (struct lend_stream){.readable = stream_readable,
					 .writable = stream_writable,
					 .ended = stream_ended,
					 .timeout = (lend_ns)x->timeout,
					 .head = &x->head};
	rc = host->stream_open(x->ep, x->client->to, &x->stream);
	if (exchange_reconnect(x, rc))
		rc = host->stream_open(x->ep, x->client->to, &x->stream);
	x->streams = x->running = rc == 0;
	if (rc < 0)
		exchange_answer_status(x, exchange_status(rc), host->why());
}
