/* exchange - one HTTP/2 stream, carried as a call. See exchange.h. */
#include "gateway/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/grpc_text.h"
#include "util/bits.h"
#include "util/check.h"

enum {
	PREFIX = 5,         /* bytes before a message: whether it is compressed, and its length */
	SEGMENT = 64 << 10, /* least memory for a message of unknown sender, grows as it arrives */
	NAME_MAX_BYTES = 1024
};

struct exchange {
	struct lend_ep *ep;
	struct h2_client *client; /* NULL: the HTTP/2 stream is gone */
	struct exchange *next, *prev;
	int32_t stream;
	/* Request. */
	struct lend_call call;
	struct lend_call_head head;
	char *path, *authority;
	struct lend_metadata *metadata;
	int64_t timeout;         /* nanoseconds; 0: none */
	const char *http;        /* status other than 200; NULL: 200 */
	enum lend_status status; /* why the request cannot run; OK: it can */
	const char *why;
	bool post, grpc, answered, running;
	/* Its message. */
	uint8_t prefix[PREFIX];
	unsigned prefix_len, messages;
	uint32_t left; /* bytes of the message that have not arrived */
	uint64_t received;
	struct lend_buf *message, *last;
	/* Reply. */
	struct lend_buf *reply, *at; /* at: the segment that is sent next */
	uint8_t reply_prefix[PREFIX];
	unsigned prefix_sent;
	struct h2_kept_headers *trailers; /* NULL: status OK, nothing else */
};

static struct lend_gateway *gateway_of(const struct exchange *x)
{
	return x->client->gateway;
}

static void free_exchange(struct exchange *x)
{
	host->buf_give(x->ep, x->message);
	host->buf_give(x->ep, x->reply);
	host->metadata_free(x->metadata);
	free(x->trailers);
	free(x->path);
	free(x->authority);
	free(x);
}

/* The request cannot run: the first reason counts. */
static void fail_request(struct exchange *x, enum lend_status status, const char *why)
{
	if (x->status != LEND_OK)
		return;
	x->status = status;
	x->why = why;
}

/* Unlinks an exchange from its connection. */
static void leave_client(struct exchange *x)
{
	struct h2_client *client = x->client;

	*(x->prev ? &x->prev->next : &client->first) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	client->connection.open--;
	x->client = NULL;
}

void exchange_drop(struct exchange *x)
{
	leave_client(x);
	if (x->running)
		host->call_cancel(x->ep, &x->call);
	else
		free_exchange(x);
}

/* Answers with headers and no message. */
static void answer_status(struct exchange *x, enum lend_status status, const char *message)
{
	struct lend_gateway *g = gateway_of(x);
	struct h2_connection *c = &x->client->connection;
	struct h2_headers *h = &g->headers;

	x->answered = true;
	g->counters.calls++;
	g->counters.errors++;
	h->n = h->used = 0;
	h2_headers_add(h, ":status", "200");
	h2_headers_add(h, "content-type", "application/grpc");
	h2_headers_add_status(h, status, message);
	if (nghttp2_submit_response(c->session, x->stream, h->list, h->n, NULL) < 0)
		c->over = true;
}

static ssize_t read_text(nghttp2_session *session, int32_t stream, uint8_t *out, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	const char *text = source->ptr;
	size_t n = lend_min_u64(cap, strlen(text));

	(void)session;
	(void)stream;
	(void)arg;
	memcpy(out, text, n);
	source->ptr = (void *)(text + n);
	*flags |= text[n] ? 0 : NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* Answers a request that is not of gRPC. */
static void answer_http(struct exchange *x)
{
	static const char text[] = "This server answers gRPC: POST, application/grpc.\n";
	struct lend_gateway *g = gateway_of(x);
	struct h2_connection *c = &x->client->connection;
	nghttp2_data_provider source = {.source.ptr = (void *)text, .read_callback = read_text};

	x->answered = true;
	g->counters.calls++;
	g->counters.errors++;
	g->headers.n = g->headers.used = 0;
	h2_headers_add(&g->headers, ":status", x->http);
	h2_headers_add(&g->headers, "content-type", "text/plain");
	if (nghttp2_submit_response(c->session, x->stream, g->headers.list, g->headers.n, &source) <
	    0)
		c->over = true;
}

/* Copies the next bytes of the reply. */
static ssize_t read_reply(nghttp2_session *session, int32_t stream, uint8_t *out, size_t cap,
			  uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct exchange *x = source->ptr;
	static const nghttp2_nv ok = {(uint8_t *)"grpc-status", (uint8_t *)"0", 11, 1,
				      NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
	size_t n = lend_min_u64(cap, PREFIX - x->prefix_sent);

	(void)arg;
	memcpy(out, x->reply_prefix + x->prefix_sent, n);
	x->prefix_sent += (unsigned)n;
	while (x->at && n < cap) {
		uint32_t part = (uint32_t)lend_min_u64(cap - n, x->at->len);

		memcpy(out + n, x->at->data, part);
		n += part;
		x->at->data = (uint8_t *)x->at->data + part;
		x->at->len -= part;
		if (!x->at->len)
			x->at = x->at->next;
	}
	if (x->at || x->prefix_sent < PREFIX)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (nghttp2_submit_trailer(session, stream, x->trailers ? x->trailers->list : &ok,
				   x->trailers ? x->trailers->n : 1) < 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return (ssize_t)n;
}

/* Appends the metadata of the reply. Returns whether there are any. */
static bool add_metadata(struct h2_headers *h, const struct exchange *x, bool trailing)
{
	struct lend_pair pair;
	uint32_t at = 0;
	bool any = false;

	for (; host->call_metadata(x->ep, &x->call, trailing, &at, &pair); any = true)
		h2_headers_add_pair(h, &pair);
	return any;
}

/* Sends the reply of a call that ended with OK. Returns 0 or -ENOMEM. */
static int answer_ok(struct exchange *x)
{
	struct lend_gateway *g = gateway_of(x);
	struct h2_connection *c = &x->client->connection;
	struct h2_headers *h = &g->headers;
	const char *encoding = host->call_text(x->ep, &x->call, LEND_TEXT_ENCODING);
	nghttp2_data_provider source = {.source.ptr = x, .read_callback = read_reply};

	h->n = h->used = 0;
	h2_headers_add_status(h, LEND_OK, "");
	if (add_metadata(h, x, true)) {
		x->trailers = h2_headers_keep(h);
		if (!x->trailers)
			return -ENOMEM;
	}
	h->n = h->used = 0;
	h2_headers_add(h, ":status", "200");
	h2_headers_add(h, "content-type", "application/grpc");
	(void)add_metadata(h, x, false);
	x->reply = x->at = x->call.reply;
	x->call.reply = NULL;
	x->reply_prefix[0] = encoding && strcmp(encoding, "identity") != 0;
	for (unsigned i = 0; i < 4; i++)
		x->reply_prefix[1 + i] = (uint8_t)(x->call.reply_len >> (24 - 8 * i));
	while (x->at && !x->at->len)
		x->at = x->at->next;
	x->answered = true;
	g->counters.calls++;
	if (nghttp2_submit_response(c->session, x->stream, h->list, h->n, &source) < 0)
		c->over = true;
	return 0;
}

/* Answers a call that ended with another status; its metadata follow it. */
static void answer_error(struct exchange *x)
{
	struct lend_gateway *g = gateway_of(x);
	struct h2_connection *c = &x->client->connection;
	struct h2_headers *h = &g->headers;
	const char *why = host->call_why(x->ep, &x->call);
	nghttp2_nv *trailers;
	int rc;

	x->answered = true;
	g->counters.calls++;
	g->counters.errors++;
	h->n = h->used = 0;
	h2_headers_add(h, ":status", "200");
	h2_headers_add(h, "content-type", "application/grpc");
	trailers = h->list + h->n;
	if (add_metadata(h, x, false)) { /* the trailers get a frame of their own */
		rc = nghttp2_submit_headers(c->session, 0, x->stream, NULL, h->list, h->n, NULL);
		trailers = h->list + h->n;
	} else {
		trailers = h->list;
		rc = 0;
	}
	h2_headers_add_status(h, x->call.status, why);
	(void)add_metadata(h, x, true);
	rc |= nghttp2_submit_headers(c->session, NGHTTP2_FLAG_END_STREAM, x->stream, NULL, trailers,
				     (size_t)(h->list + h->n - trailers), NULL);
	if (rc)
		c->over = true;
}

static void call_done(struct lend_call *call)
{
	struct exchange *x = (void *)((char *)call - offsetof(struct exchange, call));

	x->running = false;
	if (x->client && call->status == LEND_OK && answer_ok(x) < 0)
		answer_status(x, LEND_RESOURCE_EXHAUSTED, "no memory for the trailers");
	else if (x->client && call->status != LEND_OK)
		answer_error(x);
	host->buf_give(x->ep, call->request);
	host->buf_give(x->ep, call->reply);
	call->request = call->reply = NULL;
	if (x->client)
		h2_connection_send(&x->client->connection); /* may free the exchange */
	else
		free_exchange(x);
}

/* Starts the call; the request has arrived. */
static void start_call(struct exchange *x)
{
	struct lend_gateway *g = gateway_of(x);
	int rc;

	x->head = (struct lend_call_head){.name = x->path,
					  .authority = x->authority,
					  .metadata = x->metadata,
					  .any_encoding = true};
	x->call = (struct lend_call){.head = &x->head,
				     .queue = 1,
				     .timeout = x->timeout ? (lend_ns)x->timeout : LEND_NEVER,
				     .request = x->message,
				     .done = call_done};
	rc = host->call_start(g->ep, g->to, &x->call);
	if (rc == -ESTALE && host->connect(g->ep, g->address, &g->to) == 0)
		rc = host->call_start(g->ep, g->to, &x->call);
	x->running = rc == 0;
	if (x->running)
		x->message = x->last = NULL;
	else if (rc == -ESTALE)
		answer_status(x, LEND_UNAVAILABLE, host->why());
	else
		answer_status(x, rc == -EINVAL ? LEND_INVALID_ARGUMENT : LEND_RESOURCE_EXHAUSTED,
			      host->why());
}

/* The client has ended its direction. */
static void end_request(struct exchange *x)
{
	if (x->http && !x->answered)
		answer_http(x);
	if (x->left || x->prefix_len)
		fail_request(x, LEND_INTERNAL, "the request ends inside of a message");
	else if (x->messages != 1)
		fail_request(x, LEND_UNIMPLEMENTED, "the method takes one message");
	if (x->answered)
		return;
	if (x->status != LEND_OK)
		answer_status(x, x->status, x->why);
	else
		start_call(x);
}

/* The prefix of a message is complete. */
static void begin_message(struct exchange *x)
{
	struct lend_gateway *g = gateway_of(x);
	uint32_t len = 0;

	for (unsigned i = 1; i < PREFIX; i++)
		len = len << 8 | x->prefix[i];
	x->prefix_len = 0;
	x->left = len;
	if (x->prefix[0] > 1)
		fail_request(x, LEND_INTERNAL, "a message begins with neither 0 nor 1");
	else if (x->prefix[0] && !x->head.encoding)
		fail_request(x, LEND_INTERNAL, "a compressed message without grpc-encoding");
	else if (++x->messages > 1)
		fail_request(x, LEND_UNIMPLEMENTED, "the method takes one message");
	else if (len > host->session_message_max(g->ep, g->to))
		fail_request(x, LEND_RESOURCE_EXHAUSTED,
			     "the message is longer than the server takes");
}

/* Copies bytes of the message. Memory grows with what has arrived, at most twofold. Returns the
 * bytes that were taken. */
static size_t add_bytes(struct exchange *x, const uint8_t *bytes, size_t len)
{
	struct lend_buf *buf = x->last;
	size_t n = lend_min_u64(len, x->left);

	if (x->status != LEND_OK) {
		x->left -= (uint32_t)n;
		return n;
	}
	if (!buf || buf->len == buf->cap) {
		uint64_t grown = lend_max_u64(SEGMENT, x->received);

		buf = host->buf_take(x->ep, (uint32_t)lend_min_u64(x->left, grown));
		if (!buf) {
			fail_request(x, LEND_RESOURCE_EXHAUSTED, "no memory for the message");
			return 0;
		}
		*(x->last ? &x->last->next : &x->message) = buf;
		x->last = buf;
	}
	n = lend_min_u64(n, buf->cap - buf->len);
	memcpy((uint8_t *)buf->data + buf->len, bytes, n);
	buf->len += (uint32_t)n;
	x->received += n;
	x->left -= (uint32_t)n;
	return n;
}

static int data_arrived(nghttp2_session *session, uint8_t flags, int32_t stream,
			const uint8_t *bytes, size_t len, void *arg)
{
	struct exchange *x = nghttp2_session_get_stream_user_data(session, stream);

	(void)flags;
	(void)arg;
	while (x && !x->answered && !x->http && len > 0) {
		size_t n = 1;

		if (x->left) {
			n = add_bytes(x, bytes, len);
		} else {
			x->prefix[x->prefix_len++] = *bytes;
			if (x->prefix_len == PREFIX)
				begin_message(x);
		}
		bytes += n;
		len -= n;
	}
	if (x && !x->answered && !x->http && x->status != LEND_OK)
		answer_status(x, x->status, x->why);
	return 0;
}

/* Takes the path or the authority. */
static void take_header(struct exchange *x, char **to, const nghttp2_vec *value)
{
	if (value->len > NAME_MAX_BYTES) {
		fail_request(x, LEND_UNIMPLEMENTED, "no method has so long a name");
		return;
	}
	if (!*to)
		*to = strndup((const char *)value->base, value->len);
	if (!*to)
		fail_request(x, LEND_RESOURCE_EXHAUSTED, "no memory for a header");
}

static bool header_is(const nghttp2_vec *text, const char *other)
{
	return text->len == strlen(other) && memcmp(text->base, other, text->len) == 0;
}

/* Reads a header whose name begins with "grpc-". */
static void read_grpc_header(struct exchange *x, const nghttp2_vec *name, const nghttp2_vec *value)
{
	if (header_is(name, "grpc-timeout")) {
		x->timeout = grpc_timeout_read(value->base, value->len);
		if (x->timeout < 0)
			fail_request(x, LEND_INTERNAL, "malformed grpc-timeout");
		else if (!x->timeout)
			x->timeout = 1;
	} else if (header_is(name, "grpc-encoding") && !header_is(value, "identity")) {
		fail_request(x, LEND_UNIMPLEMENTED, "grpc-encoding: only identity");
	}
}

/* Reads a header that gRPC gives to the application. */
static void read_metadata(struct exchange *x, const nghttp2_vec *name, const nghttp2_vec *value)
{
	int rc;

	if (!x->metadata)
		x->metadata = host->metadata_new();
	rc = !x->metadata
		 ? -ENOMEM
		 : h2_metadata_add(x->metadata, (const char *)name->base, value->base, value->len);
	if (rc == -E2BIG || rc == -ENOMEM)
		fail_request(x, LEND_RESOURCE_EXHAUSTED, "more than 8 KiB of metadata");
	else if (rc < 0)
		fail_request(x, LEND_INTERNAL, "malformed metadata");
}

static int header_arrived(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
			  nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	struct exchange *x = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);

	(void)flags;
	(void)arg;
	if (!x || x->answered || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (header_is(&n, ":method"))
		x->post = header_is(&v, "POST");
	else if (header_is(&n, ":path"))
		take_header(x, &x->path, &v);
	else if (header_is(&n, ":authority"))
		take_header(x, &x->authority, &v);
	else if (header_is(&n, "content-type"))
		x->grpc = grpc_content_type(v.base, v.len);
	else if (n.len > 5 && memcmp(n.base, "grpc-", 5) == 0)
		read_grpc_header(x, &n, &v);
	else if (n.len && n.base[0] != ':' && !(n.len == 2 && header_is(&v, "trailers")))
		read_metadata(x, &n, &v);
	return 0;
}

/* The headers of a request are complete. */
static void headers_arrived(struct exchange *x)
{
	x->client->waits = false;
	if (!x->post)
		x->http = "405";
	else if (!x->grpc)
		x->http = "415";
	if (!x->http && x->status != LEND_OK)
		answer_status(x, x->status, x->why);
}

static int frame_arrived(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct exchange *x = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	(void)arg;
	if (!x)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST &&
	    !x->answered)
		headers_arrived(x);
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && ends)
		end_request(x);
	return 0;
}

/* Ends a connection whose client opens a stream below an earlier one, which nghttp2 ignores. */
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
	x = calloc(1, sizeof(*x));
	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	x->ep = client->gateway->ep;
	x->client = client;
	x->stream = frame->hd.stream_id;
	x->next = client->first;
	if (x->next)
		x->next->prev = x;
	client->first = x;
	client->connection.open++;
	client->waits = true;
	client->since = host->now(x->ep);
	(void)nghttp2_session_set_stream_user_data(session, x->stream, x);
	return 0;
}

/* Ends a stream that was answered before its request ended: the rest is not wanted. */
static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	(void)arg;
	if (frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
	    nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		(void)nghttp2_submit_rst_stream(session, 0, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

static int stream_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct exchange *x = nghttp2_session_get_stream_user_data(session, stream);

	(void)code;
	(void)arg;
	if (x)
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
