/* exchange_stream - exchanges that are streams. See exchange.h. */
#include "gateway/exchange.h"

static struct exchange *exchange_of(struct lend_stream *stream)
{
	return (void *)((char *)stream - offsetof(struct exchange, stream));
}

static void stream_readable(struct lend_stream *stream)
{
	struct exchange *x = exchange_of(stream);

	if (!x->peer || x->out.some)
		return; /* read when that is sent */
	if (!x->headers_sent) {
		exchange_read(x);
		if (!x->out.some)
			return;
		exchange_answer_stream(x);
	} else {
		(void)nghttp2_session_resume_data(x->peer->connection.session, x->id);
	}
	h2_connection_send(&x->peer->connection);
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

	if (!x->peer)
		return;
	exchange_resume(x);
	if (x->status != LEND_OK) {
		host->stream_cancel(x->ep, stream);
		return;
	}
	if (x->ended)
		exchange_end_request(x);
	h2_connection_send(&x->peer->connection);
}

static void stream_ended(struct lend_stream *stream)
{
	struct exchange *x = exchange_of(stream);

	x->running = false;
	if (!x->peer) {
		exchange_free(x);
		return;
	}
	exchange_end_stream(x);
	h2_connection_send(&x->peer->connection); /* may free the exchange */
}

void exchange_open_stream(struct exchange *x)
{
	int rc;

	x->stream = (struct lend_stream){.readable = stream_readable,
					 .writable = stream_writable,
					 .ended = stream_ended,
					 .timeout = (lend_ns)x->timeout,
					 .head = &x->head};
	rc = host->stream_open(x->ep, x->peer->to, &x->stream);
	if (exchange_reconnect(x, rc))
		rc = host->stream_open(x->ep, x->peer->to, &x->stream);
	x->streams = x->running = rc == 0;
	if (rc < 0)
		exchange_answer_status(x, exchange_status(rc), host->why());
}
