/* exchange_headers - see exchange_headers.h. */
#include "gateway/exchange_headers.h"

#include <errno.h>
#include <string.h>

#include "gateway/exchange.h"
#include "gateway/grpc_text.h"

enum {
	NAME_MAX_BYTES = 1024,
	/* header_list.seen */
	METHOD = 1,
	SCHEME = 2,
	PATH = 4,
	AUTHORITY = 8,
	HOST = 16,
	LENGTH = 32,
	REGULAR = 64, /* any header of another kind than the first four */
	REQUIRED = METHOD | SCHEME | PATH
};

static bool text_is(const nghttp2_vec *text, const char *other)
{
	return text->len == strlen(other) && memcmp(text->base, other, text->len) == 0;
}

static void fail_list(struct header_list *l, enum lend_status status, const char *why)
{
	if (l->status != LEND_OK)
		return;
	l->status = status;
	l->why = why;
}

/* Keeps a string of the request's own in place of another one. */
static void keep_own(nghttp2_rcbuf **to, nghttp2_rcbuf *value)
{
	nghttp2_rcbuf_incref(value);
	if (*to)
		nghttp2_rcbuf_decref(*to);
	*to = value;
}

void header_list_give(struct header_list *l)
{
	if (!l || --l->refs)
		return;
	for (unsigned i = 0; i < l->n && i < HEADER_LIST_KEPT; i++) {
		nghttp2_rcbuf_decref(l->kept[i].name);
		nghttp2_rcbuf_decref(l->kept[i].value);
	}
	host->metadata_free(l->metadata);
	host->free(l);
}

static int check_path(const uint8_t *value, size_t len)
{
	return (value[0] == '/' || value[0] == '*') && nghttp2_check_path(value, len);
}

/* Reads a header with a colon. Each occurs once, and before all others. */
static bool read_pseudo(struct exchange *x, struct header_list *l, const nghttp2_vec *name,
			nghttp2_rcbuf *text)
{
	static const struct {
		const char *name;
		unsigned bit;
		int (*check)(const uint8_t *value, size_t len);
	} known[] = {{":method", METHOD, nghttp2_check_method},
		     {":scheme", SCHEME, nghttp2_check_method},
		     {":path", PATH, check_path},
		     {":authority", AUTHORITY, nghttp2_check_authority}};
	nghttp2_vec value = nghttp2_rcbuf_get_buf(text);
	unsigned i = 0;

	while (i < 4 && !text_is(name, known[i].name))
		i++;
	if (i == 4 || l->seen & (known[i].bit | REGULAR) || !value.len ||
	    !known[i].check(value.base, value.len))
		return false;
	l->seen |= known[i].bit;
	if (known[i].bit == METHOD)
		l->post = text_is(&value, "POST");
	else if (known[i].bit == PATH)
		l->path_at = l->n - 1;
	else if (known[i].bit == AUTHORITY)
		l->authority = (const char *)value.base;
	if (known[i].bit == PATH)
		keep_own(&x->path, text);
	if (value.len > NAME_MAX_BYTES && known[i].bit & (PATH | AUTHORITY))
		fail_list(l, LEND_UNIMPLEMENTED, "no method has so long a name");
	return true;
}

/* Reads a header that gRPC gives to the application. */
static void read_metadata(struct header_list *l, const nghttp2_vec *name, const nghttp2_vec *value)
{
	int rc;

	if (!l->metadata)
		l->metadata = host->metadata_new();
	rc = !l->metadata
		 ? -ENOMEM
		 : h2_metadata_add(l->metadata, (const char *)name->base, value->base, value->len);
	if (rc == -E2BIG || rc == -ENOMEM)
		fail_list(l, LEND_RESOURCE_EXHAUSTED, "more than 8 KiB of metadata");
	else if (rc < 0)
		fail_list(l, LEND_INTERNAL, "malformed metadata");
}

/* Reads a "grpc-" header. */
static void read_grpc_header(struct exchange *x, struct header_list *l, const nghttp2_vec *name,
			     nghttp2_rcbuf *text)
{
	nghttp2_vec value = nghttp2_rcbuf_get_buf(text);

	if (text_is(name, "grpc-timeout")) {
		keep_own(&x->timeout_text, text);
		l->timeout_at = l->n - 1;
	} else if (text_is(name, "grpc-accept-encoding")) {
		l->accepts_gzip = memmem(value.base, value.len, "gzip", 4);
	} else if (text_is(name, "grpc-encoding") && !text_is(&value, "identity")) {
		l->gzip_in = text_is(&value, "gzip");
		l->bad_encoding = !l->gzip_in;
	}
}

static bool read_length(struct header_list *l, const nghttp2_vec *value)
{
	if (l->seen & LENGTH || !value->len || value->len > 18)
		return false;
	l->seen |= LENGTH;
	l->content_length = 0;
	for (size_t i = 0; i < value->len; i++) {
		if (value->base[i] < '0' || value->base[i] > '9')
			return false;
		l->content_length = 10 * l->content_length + value->base[i] - '0';
	}
	return true;
}

/* Returns whether the name is one of HTTP/1's that HTTP/2 forbids. */
static bool is_forbidden(const nghttp2_vec *name)
{
	return text_is(name, "connection") || text_is(name, "keep-alive") ||
	       text_is(name, "proxy-connection") || text_is(name, "transfer-encoding") ||
	       text_is(name, "upgrade");
}

static bool read_regular(struct exchange *x, struct header_list *l, const nghttp2_vec *name,
			 nghttp2_rcbuf *text)
{
	nghttp2_vec value = nghttp2_rcbuf_get_buf(text);

	l->seen |= REGULAR;
	if (!nghttp2_check_header_value_rfc9113(value.base, value.len))
		return true; /* ignored, as by nghttp2 */
	if (text_is(name, "te"))
		return text_is(&value, "trailers");
	if (text_is(name, "content-length"))
		return read_length(l, &value);
	if (is_forbidden(name) || (text_is(name, "host") && l->seen & HOST))
		return false;
	l->seen |= text_is(name, "host") ? HOST : 0;
	if (text_is(name, "content-type"))
		l->grpc = grpc_content_type(value.base, value.len);
	else if (name->len > 5 && memcmp(name->base, "grpc-", 5) == 0)
		read_grpc_header(x, l, name, text);
	else
		read_metadata(l, name, &value);
	return true;
}

/* Returns whether a name that HTTP does not permit is only ignored. */
static bool is_ignored(const nghttp2_vec *name)
{
	if (name->len && name->base[0] == ':')
		return false;
	for (size_t i = 0; i < name->len; i++)
		if (name->base[i] >= 'A' && name->base[i] <= 'Z')
			return false;
	return true;
}

bool exchange_trailer(nghttp2_rcbuf *text)
{
	nghttp2_vec name = nghttp2_rcbuf_get_buf(text);

	return is_ignored(&name);
}

static bool read_header(struct exchange *x, struct header_list *l, nghttp2_rcbuf *text,
			nghttp2_rcbuf *value)
{
	nghttp2_vec name = nghttp2_rcbuf_get_buf(text);

	if (l->n < HEADER_LIST_KEPT) {
		nghttp2_rcbuf_incref(text);
		nghttp2_rcbuf_incref(value);
		l->kept[l->n].name = text;
		l->kept[l->n].value = value;
	}
	l->n++;
	if (!nghttp2_check_header_name(name.base, name.len)) {
		l->seen |= REGULAR;
		return is_ignored(&name);
	}
	return name.base[0] == ':' ? read_pseudo(x, l, &name, value)
				   : read_regular(x, l, &name, value);
}

/* Begins a list of the exchange's own, with the headers that it shared so far. */
static bool begin_list(struct exchange *x)
{
	struct header_list *shared = x->headers, *l = h2_allocate(sizeof(*l));
	bool good = l;

	x->shares = false;
	x->headers = l;
	if (l) {
		l->refs = 1;
		l->content_length = -1;
		l->path_at = l->timeout_at = HEADER_LIST_KEPT;
	}
	for (unsigned i = 0; good && i < x->shared; i++)
		good = read_header(x, l, shared->kept[i].name,
				   i == shared->path_at      ? x->path
				   : i == shared->timeout_at ? x->timeout_text
							     : shared->kept[i].value);
	header_list_give(shared);
	return good;
}

static inline bool same_text(nghttp2_rcbuf *a, nghttp2_rcbuf *b)
{
	nghttp2_vec one, two;

	if (a == b)
		return true;
	one = nghttp2_rcbuf_get_buf(a);
	two = nghttp2_rcbuf_get_buf(b);
	return one.len == two.len && memcmp(one.base, two.base, one.len) == 0;
}

/* Returns whether the header is the next one of the shared list, but for its own value. */
static bool share_header(struct exchange *x, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
	const struct header_list *l = x->headers;
	unsigned i = x->shared;
	bool same;

	if (i == l->n || !same_text(name, l->kept[i].name))
		return false;
	same = same_text(value, l->kept[i].value);
	if (!same && i == l->path_at) {
		nghttp2_vec path = nghttp2_rcbuf_get_buf(value);

		same = path.len && path.len <= NAME_MAX_BYTES && check_path(path.base, path.len);
	}
	if (!same && i != l->timeout_at)
		return false;
	if (i == l->path_at)
		keep_own(&x->path, value);
	else if (i == l->timeout_at)
		keep_own(&x->timeout_text, value);
	x->shared++;
	return true;
}

bool exchange_header(struct exchange *x, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
	if (x->shares && share_header(x, name, value))
		return true;
	if ((x->shares || !x->headers) && !begin_list(x))
		return false;
	return read_header(x, x->headers, name, value);
}

static void read_timeout(struct exchange *x)
{
	nghttp2_vec text;

	if (!x->timeout_text)
		return;
	text = nghttp2_rcbuf_get_buf(x->timeout_text);
	x->timeout = grpc_timeout_read(text.base, text.len);
	if (x->timeout < 0)
		exchange_fail(x, LEND_INTERNAL, "malformed grpc-timeout");
	else if (!x->timeout)
		x->timeout = 1;
}

bool exchange_headers_end(struct exchange *x)
{
	struct h2_client *client = (struct h2_client *)x->peer;
	struct header_list *l = x->headers;

	if (!l || (x->shares && x->shared < l->n)) {
		if (!begin_list(x))
			return false;
		l = x->headers;
	}
	if ((l->seen & REQUIRED) != REQUIRED || !(l->seen & (AUTHORITY | HOST)))
		return false;
	x->head = (struct lend_call_head){.name = (char *)nghttp2_rcbuf_get_buf(x->path).base,
					  .authority = l->authority,
					  .metadata = l->metadata,
					  .any_encoding = true,
					  .compress = l->gzip_in};
	x->grpc = l->grpc;
	x->gzip_in = l->gzip_in;
	x->accepts_gzip = l->accepts_gzip;
	x->gzip_out = l->gzip_in && l->accepts_gzip;
	if (l->status != LEND_OK)
		exchange_fail(x, l->status, l->why);
	read_timeout(x);
	if (l->bad_encoding)
		exchange_fail(x, LEND_UNIMPLEMENTED, "grpc-encoding: only identity and gzip");
	if (!x->shares && l->n <= HEADER_LIST_KEPT && l->status == LEND_OK) {
		header_list_give(client->headers);
		client->headers = l;
		l->refs++;
	}
	return true;
}
