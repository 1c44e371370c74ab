/* exchange_headers - what the headers of a request mean.
 *
 * A client's requests mostly have the same headers, but for path and timeout. nghttp2 gives those
 * as the same counted strings, so a request compares its headers with those of the connection's
 * last new list, and shares that. Only a header that differs is read and checked: nghttp2's own
 * checks of each header are off.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_EXCHANGE_HEADERS_H
#define LEND_GATEWAY_EXCHANGE_HEADERS_H

#include <nghttp2/nghttp2.h>

#include "gateway/gateway.h"

struct exchange;
enum { HEADER_LIST_KEPT = 24 }; /* headers of a list that is shared */

struct header_list {
	unsigned refs;
	unsigned n;    /* headers; those beyond HEADER_LIST_KEPT are not kept */
	unsigned seen; /* bits of header names that are allowed once */
	bool post, grpc;
	bool gzip_in, accepts_gzip, bad_encoding; /* as of an exchange */
	int64_t content_length;                   /* -1: none */
	unsigned path_at, timeout_at; /* indices of headers that requests have of their own */
	const char *authority;
	struct lend_metadata *metadata;
	enum lend_status status; /* why no request with these headers can run */
	const char *why;
	struct {
		nghttp2_rcbuf *name, *value;
	} kept[HEADER_LIST_KEPT];
};

/* Reads a header of a request. Returns false if the request is malformed, or without memory. */
bool exchange_header(struct exchange *x, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
/* Reads the headers as a whole, after the last one. Returns the same. */
bool exchange_headers_end(struct exchange *x);
/* Returns false if a request with this trailer is malformed. */
bool exchange_trailer(nghttp2_rcbuf *name);
/* Gives back a list, unless it is NULL. */
void header_list_give(struct header_list *list);

#endif
