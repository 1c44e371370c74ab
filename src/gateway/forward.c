/* forward - calls and streams of Lend as HTTP/2 requests. See remote.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/grpc_text.h"
#include "gateway/gzip.h"
#include "gateway/remote.h"

void forward_free(struct forward *f)
{
	struct exchange *x = &f->x;

	host->buf_give(x->ep, x->in.first);
	host->buf_give(x->ep, x->out.buf);
	host->buf_give(x->ep, x->unsent);
	host->metadata_free(x->metadata);
	host->metadata_free(f->trailing);
	free(x->backlog);
	free(f->message);
	free(f);
}

void forward_leave(struct forward *f, uint32_t reset)
{
	nghttp2_session *session = f->x.peer->connection.session;

	exchange_leave(&f->x);
	if (!session)
		return;
	(void)nghttp2_session_set_stream_user_data(session, f->x.id, NULL);
	if (reset != NGHTTP2_NO_ERROR ||
	    nghttp2_session_get_stream_local_close(session, f->x.id) == 0)
		(void)nghttp2_submit_rst_stream(session, 0, f->x.id, reset);
}

/* Ends the stream towards its opener. */
static void end_stream(struct forward *f, enum lend_status status,
		       const struct lend_reply_head *head)
{
	int rc = host->stream_end_with(f->x.ep, &f->x.stream, status, head);

	if (rc == -E2BIG || rc == -EINVAL || rc == -ENOMEM)
		(void)host->stream_end_with(
		    f->x.ep, &f->x.stream, LEND_INTERNAL,
		    &(struct lend_reply_head){.message = "the server's metadata do not fit"});
}

static void count_end(struct forward *f, enum lend_status status)
{
	f->over = true;
	f->remote->counters.calls++;
	f->remote->counters.errors += status != LEND_OK;
}

void forward_fail(struct forward *f, enum lend_status status, const char *why, bool maybe)
{
	const struct lend_reply_head head = {.message = why};
	struct exchange *x = &f->x;

	count_end(f, status);
	if (x->running) {
		host->stream_unrun(&x->stream, maybe);
		end_stream(f, status, &head);
	} else {
		host->forward(x->ep, f->request, NULL, NULL);
		(void)host->reply_without(x->ep, f->request, status, maybe, &head);
		forward_free(f);
	}
}

void forward_end(struct forward *f, enum lend_status status, const char *why)
{
	struct exchange *x = &f->x;
	const struct lend_reply_head head = {.initial = x->metadata,
					     .trailing = f->trailing,
					     .message = *why ? why : NULL,
					     .compress = x->head.compress};
	struct lend_buf *reply = status == LEND_OK ? x->in.first : NULL;

	count_end(f, status);
	if (x->running) {
		end_stream(
		    f, status,
		    &(struct lend_reply_head){.trailing = f->trailing, .message = head.message});
		return;
	}
	if (reply)
		x->in.first = x->in.last = NULL;
	host->forward(x->ep, f->request, NULL, NULL);
	(void)host->reply_with(x->ep, f->request, status, reply, &head);
}

/* The opener gave up: its call was cancelled, or is past its deadline. */
static void call_cancelled(void *arg)
{
	struct forward *f = arg;
	struct h2_peer *peer = f->x.peer;

	if (f->waits)
		remote_forget(f->remote, f);
	else
		forward_leave(f, NGHTTP2_CANCEL);
	forward_fail(f, LEND_CANCELLED, "", true);
	if (peer)
		h2_connection_send(&peer->connection);
}

static ssize_t read_messages(nghttp2_session *session, int32_t stream, uint8_t *out, size_t cap,
			     uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct forward *f = nghttp2_session_get_stream_user_data(session, stream);
	size_t n = f ? exchange_send(&f->x, out, cap) : 0;

	(void)source;
	(void)arg;
	if (!f || (f->x.last && !f->x.out.some))
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (!n)
		return NGHTTP2_ERR_DEFERRED;
	return (ssize_t)n;
}

/* Headers that are not metadata: they are HTTP's, or gRPC's own. */
static bool is_reserved(const char *key)
{
	static const char *const names[] = {"connection", "content-type",      "host",
					    "te",         "transfer-encoding", "upgrade"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(key, names[i]) == 0)
			return true;
	return strncmp(key, "grpc-", 5) == 0;
}

static const char *request_text(const struct forward *f, enum lend_text text, const char *otherwise)
{
	const char *found = host->request_text(f->x.ep, f->request, text);

	return found ? found : otherwise;
}

/* Makes the headers of a request in the remote's list. timeout: as of grpc_timeout_write(). */
static void make_headers(struct forward *f, char *timeout)
{
	struct h2_headers *h = &f->remote->headers;
	lend_ns left = host->request_left(f->x.ep, f->request);
	struct lend_pair pair;
	bool agent = false;

	h->n = h->used = 0;
	h2_headers_add(h, ":method", "POST");
	h2_headers_add(h, ":scheme", f->remote->tls ? "https" : "http");
	h2_headers_add_text(h, ":path", request_text(f, LEND_TEXT_METHOD, "/"));
	h2_headers_add_text(h, ":authority",
			    request_text(f, LEND_TEXT_AUTHORITY, f->remote->server));
	h2_headers_add(h, "te", "trailers");
	h2_headers_add(h, "content-type", "application/grpc");
	h2_headers_add(h, "grpc-accept-encoding", GZIP_ACCEPTED);
	if (f->x.accepts_gzip)
		h2_headers_add(h, "grpc-encoding", "gzip");
	if (left != LEND_NEVER) {
		grpc_timeout_write(left, timeout);
		h2_headers_add_text(h, "grpc-timeout", timeout);
	}
	for (uint32_t at = 0; host->request_metadata(f->x.ep, f->request, &at, &pair);) {
		if (is_reserved(pair.key))
			continue;
		agent |= strcmp(pair.key, "user-agent") == 0;
		h2_headers_add_pair(h, &pair);
	}
	if (!agent)
		h2_headers_add(h, "user-agent", "grpc-c-lend");
}

void forward_submit(struct forward *f, struct remote_link *link)
{
	nghttp2_data_provider source = {.read_callback = read_messages};
	struct h2_headers *h = &f->remote->headers;
	char timeout[GRPC_TIMEOUT_MAX];
	int32_t id;

	make_headers(f, timeout);
	id = nghttp2_submit_request(link->peer.connection.session, NULL, h->list, h->n, &source, f);
	if (id < 0) { /* no memory, or the numbers are used up: then the connection is replaced */
		forward_fail(f, LEND_UNAVAILABLE, "the request could not be sent", false);
		if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE)
			remote_leave(link);
		return;
	}
	f->x.id = id;
	link->peer.to = host->request_session(f->x.ep, f->request);
	exchange_join(&f->x, &link->peer);
}

static struct forward *make_forward(struct lend_remote *r, lend_request request)
{
	struct forward *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->x.ep = r->ep;
	f->remote = r;
	f->request = request;
	f->grpc_status = -1;
	f->x.accepts_gzip = host->request_text(r->ep, request, LEND_TEXT_COMPRESSED);
	return f;
}

/* Refuses a request before there is anything of it. */
static void refuse_request(struct lend_remote *r, lend_request request, const char *why)
{
	(void)host->reply_without(r->ep, request, LEND_RESOURCE_EXHAUSTED, false,
				  &(struct lend_reply_head){.message = why});
}

/* Returns whether a request has credentials that would go in clear, and refuses it then. */
static bool refuse_credentials(struct lend_remote *r, lend_request request)
{
	static const struct lend_reply_head head = {
	    .message = "authorization metadata go over TLS only: http2:HOST:PORT?tls"};
	struct lend_pair pair;

	for (uint32_t at = 0; !r->tls && host->request_metadata(r->ep, request, &at, &pair);) {
		if (strcmp(pair.key, "authorization") != 0)
			continue;
		(void)host->reply_without(r->ep, request, LEND_UNAUTHENTICATED, false, &head);
		return true;
	}
	return false;
}

void forward_call(lend_request request, const struct lend_buf *bytes, void *remote)
{
	struct lend_remote *r = remote;
	struct lend_buf *message;
	struct forward *f;
	uint32_t len = bytes->len;

	if (refuse_credentials(r, request))
		return;
	f = make_forward(r, request);
	message = f && len ? host->request_take(r->ep, request) : NULL;
	if (!f || (len && !message)) {
		free(f);
		refuse_request(r, request, "no memory to forward a call");
		return;
	}
	exchange_send_message(&f->x, message, len, f->x.accepts_gzip);
	f->x.last = true;
	host->forward(r->ep, request, call_cancelled, f);
	remote_launch(r, f);
}

static struct forward *forward_of(struct lend_stream *stream)
{
	return (void *)((char *)stream - offsetof(struct forward, x.stream));
}

static void stream_readable(struct lend_stream *stream)
{
	struct forward *f = forward_of(stream);

	if (!f->x.peer || f->x.out.some)
		return; /* read when that is sent */
	(void)nghttp2_session_resume_data(f->x.peer->connection.session, f->x.id);
	h2_connection_send(&f->x.peer->connection);
}

static void stream_writable(struct lend_stream *stream)
{
	struct forward *f = forward_of(stream);
	struct h2_peer *peer = f->x.peer;

	if (!peer)
		return;
	exchange_resume(&f->x);
	forward_conclude(f);
	h2_connection_send(&peer->connection);
}

static void stream_ended(struct lend_stream *stream)
{
	struct forward *f = forward_of(stream);
	struct h2_peer *peer = f->x.peer;

	f->x.running = false;
	if (!f->over)
		count_end(f, stream->status);
	if (f->waits)
		remote_forget(f->remote, f);
	if (peer)
		forward_leave(f, NGHTTP2_CANCEL);
	forward_free(f);
	if (peer)
		h2_connection_send(&peer->connection);
}

void forward_stream(lend_request request, void *remote)
{
	struct lend_remote *r = remote;
	struct forward *f;

	if (refuse_credentials(r, request))
		return;
	f = make_forward(r, request);
	if (!f) {
		refuse_request(r, request, "no memory to forward a stream");
		return;
	}
	f->x.stream = (struct lend_stream){
	    .readable = stream_readable, .writable = stream_writable, .ended = stream_ended};
	if (host->stream_accept(r->ep, request, &f->x.stream) < 0) {
		free(f);
		return; /* the runtime refuses it */
	}
	f->x.streams = f->x.running = f->x.forwards = true;
	remote_launch(r, f);
}
