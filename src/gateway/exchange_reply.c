/* exchange_reply - answers of exchanges. See exchange.h. */
#include <string.h>

#include "gateway/exchange.h"
#include "gateway/gzip.h"
#include "util/bits.h"

static struct h2_headers *first_headers(struct exchange *x, const char *status, const char *type)
{
	struct h2_headers *h = &exchange_gateway(x)->headers;

	h->n = h->used = 0;
	h2_headers_add(h, ":status", status);
	h2_headers_add(h, "content-type", type);
	return h;
}

/* Begins the headers of an answer with messages. */
static struct h2_headers *message_headers(struct exchange *x, const char *encoding)
{
	struct h2_headers *h = first_headers(x, "200", "application/grpc");

	if (encoding)
		h2_headers_add_text(h, "grpc-encoding", encoding);
	if (x->gzip_in)
		h2_headers_add(h, "grpc-accept-encoding", GZIP_ACCEPTED);
	return h;
}

static void count_answer(struct exchange *x, bool ok)
{
	struct lend_gateway *g = exchange_gateway(x);

	x->answered = true;
	g->counters.calls++;
	g->counters.errors += !ok;
}

/* Submits headers, and then data of a source. The connection is over if that fails. */
static void submit_answer(struct exchange *x, const nghttp2_data_provider *source)
{
	struct h2_headers *h = &exchange_gateway(x)->headers;
	struct h2_connection *c = &x->peer->connection;

	if (nghttp2_submit_response(c->session, x->id, h->list, h->n, source) < 0)
		c->over = true;
}

void exchange_answer_status(struct exchange *x, enum lend_status status, const char *message)
{
	struct h2_headers *h = first_headers(x, "200", "application/grpc");

	count_answer(x, false);
	if (x->headers->bad_encoding)
		h2_headers_add(h, "grpc-accept-encoding", GZIP_ACCEPTED);
	h2_headers_add_status(h, status, message);
	submit_answer(x, NULL);
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

void exchange_answer_http(struct exchange *x)
{
	static const char text[] = "This server answers gRPC: POST, application/grpc.\n";
	nghttp2_data_provider source = {.source.ptr = (void *)text, .read_callback = read_text};

	count_answer(x, false);
	(void)first_headers(x, x->http, "text/plain");
	submit_answer(x, &source);
}

/* Copies bytes of messages, and submits the trailers behind the last one. */
static ssize_t read_messages(nghttp2_session *session, int32_t stream, uint8_t *out, size_t cap,
			     uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	static const nghttp2_nv ok = {(uint8_t *)"grpc-status", (uint8_t *)"0", 11, 1,
				      NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
	struct exchange *x = exchange_find(arg, stream);
	size_t n;

	(void)source;
	if (!x)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = exchange_send(x, out, cap);
	exchange_count_bytes(x);
	if (x->out.some || (!x->last && n > 0))
		return (ssize_t)n;
	if (!x->last)
		return NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (nghttp2_submit_trailer(session, stream, x->trailers ? x->trailers->list : &ok,
				   x->trailers ? x->trailers->n : 1) < 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return (ssize_t)n;
}

static void submit_messages(struct exchange *x)
{
	nghttp2_data_provider source = {.read_callback = read_messages};

	submit_answer(x, &source);
}

static bool next_pair(const struct exchange *x, bool trailing, uint32_t *at, struct lend_pair *pair)
{
	return x->streams ? host->stream_metadata(&x->stream, trailing, at, pair)
			  : host->call_metadata(x->ep, &x->call, trailing, at, pair);
}

/* Appends the metadata of the reply. Returns whether there are any. */
static bool add_metadata(struct h2_headers *h, const struct exchange *x, bool trailing)
{
	struct lend_pair pair;
	uint32_t at = 0;
	bool any = false;

	for (; next_pair(x, trailing, &at, &pair); any = true)
		h2_headers_add_pair(h, &pair);
	return any;
}

/* Answers with a status and metadata, and no message. */
static void answer_end(struct exchange *x, enum lend_status status, const char *why)
{
	struct h2_connection *c = &x->peer->connection;
	struct h2_headers *h = first_headers(x, "200", "application/grpc");
	nghttp2_nv *trailers = h->list;
	int rc = 0;

	if (add_metadata(h, x, false)) { /* the trailers get a frame of their own */
		rc = nghttp2_submit_headers(c->session, 0, x->id, NULL, h->list, h->n, NULL);
		trailers = h->list + h->n;
	}
	h2_headers_add_status(h, status, why);
	(void)add_metadata(h, x, true);
	rc |= nghttp2_submit_headers(c->session, NGHTTP2_FLAG_END_STREAM, x->id, NULL, trailers,
				     (size_t)(h->list + h->n - trailers), NULL);
	if (rc)
		c->over = true;
}

/* Keeps the trailers until the messages are sent. Returns false without memory. */
static bool keep_trailers(struct exchange *x, enum lend_status status, const char *why)
{
	struct h2_headers *h = &exchange_gateway(x)->headers;

	h->n = h->used = 0;
	h2_headers_add_status(h, status, why);
	if (!add_metadata(h, x, true) && status == LEND_OK && !*why)
		return true;
	x->trailers = h2_headers_keep(h);
	return x->trailers;
}

void exchange_answer_call(struct exchange *x)
{
	const char *encoding;
	bool gzip = x->gzip_out;

	if (x->call.status != LEND_OK) {
		count_answer(x, false);
		answer_end(x, x->call.status, host->call_why(x->ep, &x->call));
		return;
	}
	if (!keep_trailers(x, LEND_OK, "")) {
		exchange_answer_status(x, LEND_RESOURCE_EXHAUSTED, "no memory for the trailers");
		return;
	}
	count_answer(x, true);
	encoding = host->call_text(x->ep, &x->call, LEND_TEXT_ENCODING);
	if (encoding && strcmp(encoding, "identity") != 0) {
		message_send(&x->out, x->call.reply, x->call.reply_len, true);
	} else {
		gzip |= x->accepts_gzip && host->call_text(x->ep, &x->call, LEND_TEXT_COMPRESSED);
		encoding = gzip ? "gzip" : NULL;
		exchange_send_message(x, x->call.reply, x->call.reply_len, gzip);
	}
	x->call.reply = NULL;
	x->last = true;
	(void)add_metadata(message_headers(x, encoding), x, false);
	submit_messages(x);
}

void exchange_answer_stream(struct exchange *x)
{
	(void)add_metadata(message_headers(x, x->accepts_gzip ? "gzip" : NULL), x, false);
	x->headers_sent = true;
	submit_messages(x);
}

void exchange_end_stream(struct exchange *x)
{
	bool refused = x->status != LEND_OK;
	enum lend_status status = refused ? x->status : x->stream.status;
	const char *why = refused ? x->why : x->stream.why ? x->stream.why : "";

	count_answer(x, status == LEND_OK);
	if (!x->headers_sent) {
		answer_end(x, status, why);
		return;
	}
	x->last = true;
	if (!keep_trailers(x, status, why))
		x->peer->connection.over = true; /* the status must not become OK */
	else
		(void)nghttp2_session_resume_data(x->peer->connection.session, x->id);
}
