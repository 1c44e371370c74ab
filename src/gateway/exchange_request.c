/* exchange_request - the requests of exchanges. See exchange.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/exchange.h"
#include "gateway/grpc_text.h"

struct exchange *exchange_find(struct h2_peer *peer, int32_t id)
{
	if (!peer->recent || peer->recent->id != id)
		peer->recent = nghttp2_session_get_stream_user_data(peer->connection.session, id);
	return peer->recent;
}

void exchange_free(struct exchange *x)
{
	host->buf_give(x->ep, x->in.first);
	host->buf_give(x->ep, x->out.buf);
	host->buf_give(x->ep, x->unsent);
	free(x->backlog);
	host->free(x->trailers);
	header_list_give(x->headers);
	if (x->path)
		nghttp2_rcbuf_decref(x->path);
	if (x->timeout_text)
		nghttp2_rcbuf_decref(x->timeout_text);
	host->free(x);
}

void exchange_drop(struct exchange *x)
{
	exchange_count_nothing(x);
	host->alarm_set(x->ep, &x->late, LEND_NEVER);
	exchange_leave(x);
	if (!x->running)
		exchange_free(x);
	else if (x->streams)
		host->stream_cancel(x->ep, &x->stream);
	else
		host->call_cancel(x->ep, &x->call);
}

/* Ends a request that cannot run, or cannot go on. */
static void refuse_request(struct exchange *x)
{
	if (x->running)
		host->stream_cancel(x->ep, &x->stream); /* it answers when it has ended */
	else
		exchange_answer_status(x, x->status, x->why);
}

void exchange_end_request(struct exchange *x)
{
	bool whole = x->streams ? !x->in.prefix_len : !x->in.prefix_len || x->messages == 1;

	if (x->http && !x->answered)
		exchange_answer_http(x);
	if (x->answered)
		return;
	if (x->streams && (x->unsent || x->backlog_len))
		return; /* goes on when there is credit */
	if (!whole)
		exchange_fail(x, LEND_INTERNAL, "the request ends inside of a message");
	else if (!x->streams && x->messages != 1)
		exchange_fail(x, LEND_UNIMPLEMENTED, "the method takes one message");
	if (x->status != LEND_OK)
		refuse_request(x);
	else if (x->streams)
		exchange_stream_finish(x);
	else
		exchange_start_call(x);
}

/* Takes bytes of messages. Returns those that it took; the others wait for credit. */
static size_t take_bytes(struct exchange *x, const uint8_t *bytes, size_t len)
{
	size_t n;

	if (x->answered || x->http || x->status != LEND_OK)
		return len;
	n = exchange_receive(x, bytes, len);
	if (x->status != LEND_OK && !x->answered)
		refuse_request(x);
	return n;
}

static int data_arrived(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
			size_t len, void *arg)
{
	struct exchange *x = exchange_find(arg, id);
	size_t n = x ? take_bytes(x, bytes, len) : len;

	(void)flags;
	if (x) {
		x->body += len;
		exchange_count_bytes(x);
	}
	exchange_relieve(((struct h2_client *)arg)->gateway); /* may free the exchange */
	return n ? nghttp2_session_consume(session, id, n) : 0;
}

/* Resets a stream whose request is not HTTP's. */
static void reset_malformed(struct exchange *x)
{
	struct h2_client *client = (struct h2_client *)x->peer;
	nghttp2_session *session = client->peer.connection.session;

	(void)nghttp2_session_set_stream_user_data(session, x->id, NULL);
	if (nghttp2_submit_rst_stream(session, 0, x->id, NGHTTP2_PROTOCOL_ERROR) < 0)
		client->peer.connection.over = true;
	exchange_drop(x);
	exchange_count_reset(client);
}

static int header_arrived(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
			  nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	struct exchange *x = exchange_find(arg, frame->hd.stream_id);

	(void)session;
	(void)flags;
	if (x && !(frame->headers.cat == NGHTTP2_HCAT_REQUEST ? exchange_header(x, name, value)
							      : exchange_trailer(name)))
		reset_malformed(x);
	return 0;
}

/* The headers of a request are complete. */
static void headers_arrived(struct exchange *x)
{
	x->peer->connection.waits = false;
	if (!x->headers->post)
		x->http = "405";
	else if (!x->grpc)
		x->http = "415";
	else if (x->status == LEND_OK)
		x->serves = host->serves(x->ep, x->head.name, &x->method);
	if (x->http)
		return;
	if (x->status != LEND_OK)
		exchange_answer_status(x, x->status, x->why);
	else if (!x->serves)
		exchange_answer_status(x, LEND_UNIMPLEMENTED, "no handler for this method");
	else if (x->serves == LEND_GATEWAY_STREAM)
		exchange_open_stream(x);
	else if (x->timeout)
		exchange_start_deadline(x);
}

/* Returns false if HTTP does not permit a request's frame of headers or data. */
static bool take_frame(struct exchange *x, const nghttp2_frame *frame)
{
	bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat != NGHTTP2_HCAT_REQUEST &&
	    !ends)
		return false;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
		if (!exchange_headers_end(x))
			return false;
		headers_arrived(x);
	}
	if (!ends)
		return true;
	if (x->headers->content_length >= 0 && (uint64_t)x->headers->content_length != x->body)
		return false;
	x->ended = true;
	exchange_end_request(x);
	return true;
}

static int frame_arrived(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_client *client = arg;
	struct exchange *x = exchange_find(&client->peer, frame->hd.stream_id);

	(void)session;
	if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK)
		exchange_pong(client, &frame->ping);
	else if (frame->hd.type == NGHTTP2_PING)
		h2_ping_count(&client->peer.connection, &client->gateway->keepalive,
			      &client->pings);
	if (x && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    !take_frame(x, frame))
		reset_malformed(x);
	return 0;
}

/* Ends a connection on a stream number below an earlier one, which nghttp2 would ignore. */
static int frame_begins(nghttp2_session *session, const nghttp2_frame_hd *head, void *arg)
{
	(void)arg;
	if (head->type != NGHTTP2_HEADERS || head->stream_id % 2 == 0 ||
	    head->stream_id > nghttp2_session_get_last_proc_stream_id(session) ||
	    nghttp2_session_find_stream(session, head->stream_id))
		return 0;
	return nghttp2_session_terminate_session(session, NGHTTP2_PROTOCOL_ERROR);
}

static int headers_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_client *client = arg;
	struct exchange *x;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	x = h2_allocate(sizeof(*x));
	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	x->ep = client->gateway->ep;
	x->id = frame->hd.stream_id;
	x->late.at = LEND_NEVER;
	exchange_join(x, &client->peer);
	exchange_count_bytes(x);
	client->peer.connection.waits = true;
	client->peer.connection.since = host->now(x->ep);
	x->headers = client->headers;
	x->shares = x->headers;
	if (x->shares)
		x->headers->refs++;
	(void)nghttp2_session_set_stream_user_data(session, x->id, x);
	client->peer.recent = x;
	return 0;
}

/* Ends a stream that was answered before its request ended: the rest is not wanted. */
static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)
		((struct h2_client *)arg)->pings = (struct h2_pings){0};
	if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		(void)nghttp2_submit_rst_stream(session, 0, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

static int stream_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct exchange *x = exchange_find(arg, stream);

	(void)session;
	if (!x)
		return 0;
	if (code && !x->answered)
		exchange_count_reset(arg);
	exchange_drop(x);
	return 0;
}

void exchange_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, frame_begins);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, headers_begin);
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, header_arrived);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_arrived);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_arrived);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
}
