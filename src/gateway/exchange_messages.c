/* exchange_messages - messages of exchanges in both directions. See exchange.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/exchange.h"
#include "gateway/gzip.h"

void exchange_join(struct exchange *x, struct h2_peer *peer)
{
	x->peer = peer;
	x->next = peer->first;
	if (x->next)
		x->next->prev = x;
	peer->first = x;
	peer->connection.open++;
}

void exchange_leave(struct exchange *x)
{
	struct h2_peer *peer = x->peer;

	*(x->prev ? &x->prev->next : &peer->first) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	x->next = x->prev = NULL;
	peer->connection.open--;
	if (peer->recent == x)
		peer->recent = NULL;
	x->peer = NULL;
}

void exchange_fail(struct exchange *x, enum lend_status status, const char *why)
{
	if (x->status != LEND_OK)
		return;
	x->status = status;
	x->why = why;
}

/* Writes the message that has arrived to the stream. */
static void write_message(struct exchange *x)
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

static void note_fault(struct exchange *x, enum message_state state)
{
	if (state == MESSAGE_TOO_LONG)
		exchange_fail(x, LEND_RESOURCE_EXHAUSTED,
			      "the message is longer than the server takes");
	else if (state == MESSAGE_NO_MEMORY)
		exchange_fail(x, LEND_RESOURCE_EXHAUSTED, "no memory for the message");
	else if (state == MESSAGE_MALFORMED)
		exchange_fail(x, LEND_INTERNAL, "a compressed message is not gzip's");
}

static void message_arrived(struct exchange *x, uint64_t max)
{
	x->messages++;
	if (x->in.prefix[0] > 1)
		exchange_fail(x, LEND_INTERNAL, "a message begins with neither 0 nor 1");
	else if (x->in.prefix[0] && !x->gzip_in)
		exchange_fail(x, LEND_INTERNAL, "a compressed message without grpc-encoding");
	else if (x->in.prefix[0])
		note_fault(x, gzip_inflate(&x->in, x->ep, max));
	x->head.compress = x->stream.compress = x->in.prefix[0];
	if (x->streams && x->status == LEND_OK)
		write_message(x);
}

/* Handles bytes of messages. Returns how many; fewer than len: the stream has no credit. */
static size_t read_bytes(struct exchange *x, const uint8_t *bytes, size_t len)
{
	uint64_t max = host->session_message_max(x->ep, x->peer->to);
	size_t done = 0;

	while (done < len && x->status == LEND_OK && !x->answered && !x->unsent) {
		size_t taken = 0;
		enum message_state state = MESSAGE_OPEN;

		if (!x->streams && x->messages == 1)
			exchange_fail(x, LEND_UNIMPLEMENTED, "there is more than one message");
		else
			state =
			    message_receive(&x->in, x->ep, max, bytes + done, len - done, &taken);
		done += taken;
		if (state == MESSAGE_COMPLETE)
			message_arrived(x, max);
		else
			note_fault(x, state);
	}
	return x->unsent ? done : len;
}

/* Keeps bytes that have no credit. Returns 0 or -ENOMEM. */
static int keep_bytes(struct exchange *x, const uint8_t *bytes, size_t len)
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

size_t exchange_receive(struct exchange *x, const uint8_t *bytes, size_t len)
{
	size_t n = x->unsent || x->backlog_len ? 0 : read_bytes(x, bytes, len);

	if (n < len && keep_bytes(x, bytes + n, len - n) < 0)
		exchange_fail(x, LEND_RESOURCE_EXHAUSTED, "no memory for a message");
	return n;
}

void exchange_resume(struct exchange *x)
{
	size_t n, len = x->backlog_len;

	if (x->unsent)
		write_message(x);
	if (x->unsent || !len)
		return;
	n = read_bytes(x, x->backlog, len);
	x->backlog_len = len - n;
	memmove(x->backlog, x->backlog + n, x->backlog_len);
	(void)nghttp2_session_consume(x->peer->connection.session, x->id, n);
}

void exchange_read(struct exchange *x)
{
	struct lend_buf *message;
	uint64_t len = 0;
	int rc = x->running ? host->stream_read(x->ep, &x->stream, &message) : -EAGAIN;

	if (rc == -ENODATA && x->forwards)
		x->last = true;
	if (rc < 0)
		return;
	for (struct lend_buf *buf = message; buf; buf = buf->next)
		len += buf->len;
	exchange_send_message(x, message, len,
			      x->gzip_out || (x->stream.compressed && x->accepts_gzip));
}

void exchange_send_message(struct exchange *x, struct lend_buf *message, uint64_t len, bool gzip)
{
	struct lend_buf *shorter = gzip ? gzip_deflate(x->ep, message, &len) : NULL;

	if (shorter)
		host->buf_give(x->ep, message);
	message_send(&x->out, shorter ? shorter : message, len, shorter);
}

size_t exchange_send(struct exchange *x, uint8_t *out, size_t cap)
{
	size_t n = 0;

	while (n < cap) {
		if (!x->out.some && x->streams && !x->last)
			exchange_read(x);
		if (!x->out.some)
			break;
		n += message_next(&x->out, x->ep, out + n, cap - n);
	}
	return n;
}
