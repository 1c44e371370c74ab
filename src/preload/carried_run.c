/* carried_run - the call or stream of Lend behind a call of the program. See carried.h. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/carried.h"

#define BIT(op) (1u << (op))

static bool next_of_call(struct carried *c, bool trailing, uint32_t *at, struct lend_pair *pair)
{
	return c->state == CARRIED_CALL
		   ? lend_call_metadata(channel_engine.ep, &c->lend_call, trailing, at, pair)
		   : lend_stream_metadata(&c->lend_stream, trailing, at, pair);
}

static void copy_pairs(struct carried *c, bool trailing, struct pairs *to)
{
	struct lend_pair pair;
	uint32_t at = 0;

	while (next_of_call(c, trailing, &at, &pair))
		pairs_add(to, &pair);
}

static void take_initial(struct carried *c)
{
	if (c->got_initial)
		return;
	c->got_initial = true;
	copy_pairs(c, false, &c->initial);
}

static void set_status(struct carried *c, enum lend_status status, const char *details)
{
	if (c->cancel_status != GRPC_STATUS_OK && status == LEND_CANCELLED) {
		c->status = c->cancel_status;
		c->details = strdup(c->cancel_details);
		return;
	}
	if ((!details || !*details) && status == LEND_DEADLINE_EXCEEDED)
		details = "Deadline Exceeded";
	if ((!details || !*details) && status == LEND_CANCELLED)
		details = "CANCELLED";
	c->status = (grpc_status_code)status;
	c->details = details && *details ? strdup(details) : NULL;
}

/* Takes a message; one that is longer than the channel permits ends the call. */
static bool take_message(struct carried *c, const struct lend_buf *buf)
{
	size_t len = 0;
	char text[96];

	for (const struct lend_buf *b = buf; b; b = b->next)
		len += b->len;
	if (c->channel->receive_max < 0 || len <= (size_t)c->channel->receive_max) {
		c->inbox = bytes_to_grpc(buf);
		return true;
	}
	(void)snprintf(text, sizeof(text), "Received message larger than max (%zu vs. %d)", len,
		       c->channel->receive_max);
	if (c->cancel_status == GRPC_STATUS_OK) {
		c->cancel_status = GRPC_STATUS_RESOURCE_EXHAUSTED;
		c->cancel_details = strdup(text);
	}
	return false;
}

static void give_initial(struct carried *c)
{
	struct batch *b = c->recv_initial;

	c->recv_initial = NULL;
	for (size_t i = 0; i < b->n; i++)
		if (b->op[i].op == GRPC_OP_RECV_INITIAL_METADATA)
			pairs_give(&c->initial,
				   b->op[i].data.recv_initial_metadata.recv_initial_metadata);
	carried_end(c, b, BIT(GRPC_OP_RECV_INITIAL_METADATA), true);
}

static void give_message(struct carried *c)
{
	struct batch *b = c->recv_message;

	*c->recv_message_op->data.recv_message.recv_message = c->inbox;
	c->failed_before_message = !c->inbox && c->state == CARRIED_ENDED && c->status;
	c->inbox = NULL;
	c->recv_message = NULL;
	carried_end(c, b, BIT(GRPC_OP_RECV_MESSAGE), true);
}

static void give_status(struct carried *c)
{
	struct batch *b = c->recv_status;

	c->recv_status = NULL;
	for (size_t i = 0; i < b->n; i++) {
		const grpc_op *op = &b->op[i];

		if (op->op != GRPC_OP_RECV_STATUS_ON_CLIENT)
			continue;
		*op->data.recv_status_on_client.status = c->status;
		*op->data.recv_status_on_client.status_details =
		    c->details ? slice_of_text(c->details) : grpc_empty_slice();
		if (op->data.recv_status_on_client.error_string)
			*op->data.recv_status_on_client.error_string = NULL;
		pairs_give(&c->trailing, op->data.recv_status_on_client.trailing_metadata);
	}
	carried_end(c, b, BIT(GRPC_OP_RECV_STATUS_ON_CLIENT), true);
}

/* Ends the operations that send, when the call is over. */
static void end_sends(struct carried *c, bool ok)
{
	struct batch *b;

	if ((b = c->message)) {
		c->message = NULL;
		carried_end(c, b, BIT(GRPC_OP_SEND_MESSAGE), ok);
	}
	if ((b = c->close)) {
		c->close = NULL;
		carried_end(c, b, BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT), true);
	}
}

/* Copies the operation of a stream's first batch, if it is the only one there, and so ends before
 * the stream has run. */
static bool copy_initial(struct carried *c, const struct batch *b)
{
	const grpc_op *from = b->op;
	size_t n = from->data.send_initial_metadata.count;
	grpc_metadata *pairs;

	if (c->state != CARRIED_STREAM || b->n > 1)
		return false;
	c->initial_copy = malloc(sizeof(*from) + n * sizeof(*pairs));
	if (!c->initial_copy)
		return false;
	*c->initial_copy = *from;
	pairs = (grpc_metadata *)(c->initial_copy + 1);
	c->initial_copy->data.send_initial_metadata.metadata = pairs;
	for (size_t i = 0; i < n; i++) {
		pairs[i] = from->data.send_initial_metadata.metadata[i];
		(void)grpc_slice_ref(pairs[i].key);
		(void)grpc_slice_ref(pairs[i].value);
	}
	return true;
}

/* Ends the first operation. */
static void end_initial(struct carried *c)
{
	struct batch *b = c->batches;

	for (c->initial_op = NULL; b; b = b->earlier)
		if (b->left & BIT(GRPC_OP_SEND_INITIAL_METADATA)) {
			bool copied = copy_initial(c, b);

			carried_end(c, b, BIT(GRPC_OP_SEND_INITIAL_METADATA), true);
			c->sent -= copied;
			return;
		}
}

/* Writes the pending message and the end, as far as there is credit. */
static void write_stream(struct carried *c)
{
	struct lend_ep *ep = channel_engine.ep;
	struct lend_buf *buf;
	struct batch *b = c->message;
	int rc = b ? lend_stream_check(ep, &c->lend_stream) : 0;

	if (rc == -EAGAIN)
		return;
	if (b) {
		buf = rc < 0 ? NULL
			     : bytes_to_lend(ep, c->message_op->data.send_message.send_message);
		rc = buf ? lend_stream_write(ep, &c->lend_stream, buf) : -ENOMEM;
		if (rc < 0)
			lend_buf_give(ep, buf);
		c->message = NULL;
		carried_end(c, b, BIT(GRPC_OP_SEND_MESSAGE), rc == 0);
	}
	if ((b = c->close)) {
		c->close = NULL;
		(void)lend_stream_finish(ep, &c->lend_stream);
		carried_end(c, b, BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT), true);
	}
}

/* Reads one message, if it is asked for, or if only the end of messages is waited for. */
static void read_stream(struct carried *c)
{
	struct lend_buf *buf;
	int rc;

	if (c->inbox || c->got_end || !(c->recv_initial || c->recv_message || c->recv_status))
		return;
	rc = lend_stream_read(channel_engine.ep, &c->lend_stream, &buf);
	if (rc == -ENODATA)
		c->got_end = true;
	if (rc < 0)
		return;
	take_initial(c);
	if (!take_message(c, buf))
		lend_stream_cancel(channel_engine.ep, &c->lend_stream);
	lend_buf_give(channel_engine.ep, buf);
}

void carried_advance(struct carried *c)
{
	if (c->state == CARRIED_STREAM) {
		write_stream(c);
		read_stream(c);
	}
	if (c->state == CARRIED_ENDED)
		end_sends(c, false);
	if (c->recv_initial && (c->got_initial || c->state == CARRIED_ENDED))
		give_initial(c);
	if (c->recv_message && (c->inbox || c->got_end || c->state == CARRIED_ENDED))
		give_message(c);
	if (c->state == CARRIED_STREAM && c->recv_message)
		read_stream(c);
	if (c->recv_message && c->inbox)
		give_message(c);
	if (c->recv_status && c->state == CARRIED_ENDED)
		give_status(c);
}

/* The call is over. */
static void finish_call(struct carried *c)
{
	end_initial(c);
	c->state = CARRIED_ENDED;
	carried_advance(c);
}

/* The native path failed before the call ran: gRPC carries it, if no operation has ended. */
static bool must_move(const struct carried *c, enum lend_status status, enum lend_ran ran)
{
	return status == LEND_UNAVAILABLE && ran == LEND_RAN_NO && !c->sent;
}

static void end_unused(struct carried *c)
{
	c->active = false;
	if (!c->refs) {
		c->undelivered++;
		carried_delivered(c);
	}
}

static void call_done(struct lend_call *call)
{
	struct carried *c = (void *)((char *)call - offsetof(struct carried, lend_call));
	const char *text = lend_call_text(channel_engine.ep, call, LEND_TEXT_MESSAGE);
	enum lend_status status = call->status;

	lend_buf_give(channel_engine.ep, call->request);
	call->request = NULL;
	if (must_move(c, status, call->ran)) {
		carried_move(c);
	} else {
		copy_pairs(c, false, &c->initial);
		copy_pairs(c, true, &c->trailing);
		if (status == LEND_OK && !take_message(c, call->reply))
			status = LEND_CANCELLED;
		set_status(c, status, text ? text : lend_call_why(channel_engine.ep, call));
		end_sends(c, true);
		finish_call(c);
	}
	end_unused(c);
}

static struct carried *carried_of(struct lend_stream *stream)
{
	return (void *)((char *)stream - offsetof(struct carried, lend_stream));
}

static void stream_ready(struct lend_stream *stream)
{
	carried_advance(carried_of(stream));
}

static void stream_ended(struct lend_stream *stream)
{
	struct carried *c = carried_of(stream);

	if (must_move(c, stream->status, stream->ran)) {
		carried_move(c);
	} else {
		take_initial(c);
		copy_pairs(c, true, &c->trailing);
		set_status(c, stream->status, stream->why);
		finish_call(c);
	}
	end_unused(c);
}

static lend_ns time_left(const struct carried *c)
{
	lend_ns now = engine_now();

	return c->deadline == LEND_NEVER ? LEND_NEVER : c->deadline > now ? c->deadline - now : 1;
}

static int start_call(struct carried *c, lend_session session, const struct lend_call_head *head)
{
	struct lend_ep *ep = channel_engine.ep;
	int rc;

	c->lend_call = (struct lend_call){
	    .head = head,
	    .queue = 1,
	    .in_place = LEND_CHAIN,
	    .timeout = time_left(c),
	    .done = call_done,
	    .request = bytes_to_lend(ep, c->message_op->data.send_message.send_message)};
	rc = c->lend_call.request ? lend_call_start(ep, session, &c->lend_call) : -ENOMEM;
	if (rc < 0)
		lend_buf_give(ep, c->lend_call.request);
	return rc;
}

static int open_stream(struct carried *c, lend_session session, const struct lend_call_head *head)
{
	lend_ns left = time_left(c);

	c->lend_stream = (struct lend_stream){.head = head,
					      .readable = stream_ready,
					      .writable = stream_ready,
					      .ended = stream_ended,
					      .timeout = left == LEND_NEVER ? 0 : left};
	return lend_stream_open(channel_engine.ep, session, &c->lend_stream);
}

/* A call that was cancelled before it was opened. */
static int end_cancelled(struct carried *c)
{
	set_status(c, LEND_CANCELLED, NULL);
	finish_call(c);
	return 0;
}

static bool is_too_long(const struct carried *c)
{
	return c->message && c->channel->send_max >= 0 &&
	       grpc_byte_buffer_length(c->message_op->data.send_message.send_message) >
		   (size_t)c->channel->send_max;
}

int carried_open(struct carried *c, bool unary)
{
	struct lend_call_head head = {.name = c->method, .authority = c->authority};
	struct lend_metadata *metadata;
	lend_session session;
	int rc;

	if (c->cancel_status != GRPC_STATUS_OK)
		return end_cancelled(c);
	if (is_too_long(c) || !channel_session(c->channel, &session))
		return -ENOTCONN;
	rc = metadata_to_lend(c->initial_op->data.send_initial_metadata.metadata,
			      c->initial_op->data.send_initial_metadata.count, &metadata);
	if (rc < 0)
		return rc;
	head.metadata = metadata;
	c->state = unary ? CARRIED_CALL : CARRIED_STREAM;
	rc = unary ? start_call(c, session, &head) : open_stream(c, session, &head);
	lend_metadata_free(metadata);
	c->active = rc == 0;
	if (rc == 0 && !unary)
		end_initial(c);
	return rc;
}
