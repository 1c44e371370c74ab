/* forward_reply - responses of stock gRPC servers. See remote.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/grpc_text.h"
#include "gateway/remote.h"

/* Returns the status that gRPC gives to a response of HTTP without one. */
static enum lend_status status_of_http(int http)
{
	switch (http) {
	case 400:
		return LEND_INTERNAL;
	case 401:
		return LEND_UNAUTHENTICATED;
	case 403:
		return LEND_PERMISSION_DENIED;
	case 404:
		return LEND_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return LEND_UNAVAILABLE;
	default:
		return LEND_UNKNOWN;
	}
}

static enum lend_status status_of_reset(uint32_t code)
{
	switch (code) {
	case NGHTTP2_REFUSED_STREAM:
		return LEND_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return LEND_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return LEND_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return LEND_PERMISSION_DENIED;
	case NGHTTP2_STREAM_CLOSED:
	case NGHTTP2_HTTP_1_1_REQUIRED:
		return LEND_UNKNOWN;
	default:
		return LEND_INTERNAL;
	}
}

/* Finds the status of a response that has ended. */
static enum lend_status conclude_status(struct forward *f, char *why, size_t cap)
{
	struct exchange *x = &f->x;

	why[0] = '\0';
	if (x->status != LEND_OK) {
		(void)snprintf(why, cap, "%s", x->why);
		return x->status;
	}
	if (f->grpc_status >= 0) {
		(void)snprintf(why, cap, "%s", f->message ? f->message : "");
		if (f->grpc_status > LEND_UNAUTHENTICATED)
			return LEND_UNKNOWN;
		if (f->grpc_status != LEND_OK)
			return (enum lend_status)f->grpc_status;
		if (x->streams ? !x->in.prefix_len : x->messages == 1)
			return LEND_OK;
		(void)snprintf(why, cap, "the response ends %s",
			       x->in.prefix_len ? "inside of a message" : "without a message");
		return LEND_INTERNAL;
	}
	if (f->cut) {
		(void)snprintf(why, cap, "the server reset the stream: %s",
			       nghttp2_http2_strerror(f->code));
		return status_of_reset(f->code);
	}
	(void)snprintf(why, cap, "the response has no grpc-status; HTTP status %d", f->http_status);
	return status_of_http(f->http_status);
}

void forward_conclude(struct forward *f)
{
	struct exchange *x = &f->x;
	enum lend_status status;
	char why[1024];

	if (x->status == LEND_OK && (!x->ended || x->unsent || x->backlog_len))
		return;
	status = conclude_status(f, why, sizeof(why));
	/* The server closed its direction, or what it sends is not wanted any more. */
	forward_leave(f, x->ended ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
	if (f->cut && f->grpc_status < 0 && (!f->sent || f->code == NGHTTP2_REFUSED_STREAM)) {
		forward_fail(f, LEND_UNAVAILABLE, "the server refused the request before it ran",
			     false);
		return;
	}
	forward_end(f, status, why);
	if (!x->running)
		forward_free(f);
}

static int data_arrived(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
			size_t len, void *arg)
{
	struct forward *f = nghttp2_session_get_stream_user_data(session, id);
	size_t n = len;

	(void)flags;
	(void)arg;
	if (f && f->responded && f->x.status == LEND_OK && f->http_status == 200) {
		n = exchange_receive(&f->x, bytes, len);
		if (f->x.status != LEND_OK)
			forward_conclude(f);
	}
	return n ? nghttp2_session_consume(session, id, n) : 0;
}

static bool header_is(const nghttp2_vec *text, const char *other)
{
	return text->len == strlen(other) && memcmp(text->base, other, text->len) == 0;
}

/* Reads a decimal number of at most 9 digits; others are 2, UNKNOWN. */
static int64_t read_number(const nghttp2_vec *text)
{
	int64_t n = 0;

	if (!text->len || text->len > 9)
		return LEND_UNKNOWN;
	for (size_t i = 0; i < text->len; i++) {
		if (text->base[i] < '0' || text->base[i] > '9')
			return LEND_UNKNOWN;
		n = 10 * n + text->base[i] - '0';
	}
	return n;
}

static void read_message(struct forward *f, const nghttp2_vec *value)
{
	free(f->message);
	f->message = malloc(value->len + 1);
	if (f->message)
		(void)grpc_percent_decode(value->base, value->len, f->message);
}

static void read_metadata(struct forward *f, struct lend_metadata **to, const nghttp2_vec *name,
			  const nghttp2_vec *value)
{
	int rc;

	if (!*to)
		*to = host->metadata_new();
	rc =
	    *to ? h2_metadata_add(*to, (const char *)name->base, value->base, value->len) : -ENOMEM;
	if (rc == -E2BIG || rc == -ENOMEM)
		exchange_fail(&f->x, LEND_RESOURCE_EXHAUSTED, "more than 8 KiB of metadata");
	else if (rc < 0)
		exchange_fail(&f->x, LEND_INTERNAL, "malformed metadata of the server");
}

static int header_arrived(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
			  nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	struct forward *f = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);
	bool trailing = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	(void)flags;
	(void)arg;
	if (!f || frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	if (header_is(&n, ":status"))
		f->http_status = (int)read_number(&v);
	else if (header_is(&n, "content-type") && !f->responded && !f->x.grpc)
		f->x.grpc = grpc_content_type(v.base, v.len);
	else if (header_is(&n, "grpc-status"))
		f->grpc_status = read_number(&v);
	else if (header_is(&n, "grpc-message"))
		read_message(f, &v);
	else if (header_is(&n, "grpc-encoding") && header_is(&v, "gzip"))
		f->x.gzip_in = true;
	else if (header_is(&n, "grpc-encoding") && !header_is(&v, "identity"))
		exchange_fail(&f->x, LEND_INTERNAL, "the response has an unknown compression");
	else if (n.len && n.base[0] != ':' && !(n.len > 5 && memcmp(n.base, "grpc-", 5) == 0) &&
		 !header_is(&n, "content-type"))
		read_metadata(f, trailing ? &f->trailing : &f->x.metadata, &n, &v);
	return 0;
}

/* The headers of a response are complete. */
static void headers_arrived(struct forward *f)
{
	if (f->http_status >= 100 && f->http_status < 200)
		return;
	f->responded = true;
	if (f->http_status == 200 && !f->x.grpc)
		exchange_fail(&f->x, LEND_UNKNOWN, "the response is not of gRPC's content-type");
	else if (f->x.streams && f->x.metadata && f->x.running)
		(void)host->stream_begin(f->x.ep, &f->x.stream, f->x.metadata);
}

static void goaway_arrived(struct remote_link *link, const nghttp2_goaway *goaway)
{
	if (goaway->error_code == NGHTTP2_ENHANCE_YOUR_CALM &&
	    goaway->opaque_data_len == strlen(H2_TOO_MANY_PINGS) &&
	    memcmp(goaway->opaque_data, H2_TOO_MANY_PINGS, strlen(H2_TOO_MANY_PINGS)) == 0)
		remote_calm(link->remote);
	remote_leave(link);
}

static int frame_arrived(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct forward *f = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
		remote_ready(arg);
	if (frame->hd.type == NGHTTP2_GOAWAY)
		goaway_arrived(arg, &frame->goaway);
	if (!f || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && !f->responded)
		headers_arrived(f);
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		f->x.ended = true;
	forward_conclude(f);
	return 0;
}

static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct forward *f = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)arg;
	if (f && frame->hd.type == NGHTTP2_HEADERS)
		f->sent = true;
	return 0;
}

/* Ends what the server cut, and a connection that takes no more requests after its last one. */
static int stream_closed(nghttp2_session *session, int32_t stream, uint32_t code, void *arg)
{
	struct forward *f = nghttp2_session_get_stream_user_data(session, stream);
	struct remote_link *link = arg;

	if (f) {
		f->cut = !f->x.ended;
		f->code = code;
		f->x.ended = true;
		f->x.backlog_len = f->cut ? 0 : f->x.backlog_len;
		forward_conclude(f);
	}
	if (link->leaving && !link->peer.first)
		link->peer.connection.over = true;
	return 0;
}

void forward_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_header_callback2(callbacks, header_arrived);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_arrived);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_arrived);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
}
