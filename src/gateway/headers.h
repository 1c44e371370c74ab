/* headers - lists of HTTP/2 headers of gRPC: metadata, status, message.
 *
 * Layer: gateway. Threads: one at a time. */
#ifndef LEND_GATEWAY_HEADERS_H
#define LEND_GATEWAY_HEADERS_H

#include <nghttp2/nghttp2.h>

#include "gateway/gateway.h"

/* Limits for metadata of 8 KiB and a few more headers. */
enum { H2_HEADERS_MAX = 2048, H2_TEXT_MAX = 64 << 10 };

/* Headers to send. Short-lived: names and values are borrowed, or in text. */
struct h2_headers {
	nghttp2_nv list[H2_HEADERS_MAX];
	size_t n;
	size_t used; /* bytes of text */
	char text[H2_TEXT_MAX];
};

/* Appends a header of two constants. */
void h2_headers_add(struct h2_headers *h, const char *name, const char *value);
/* Appends a header of a constant name and a value, which is borrowed. */
void h2_headers_add_text(struct h2_headers *h, const char *name, const char *value);
/* Appends a pair of metadata; a binary value in base64. */
void h2_headers_add_pair(struct h2_headers *h, const struct lend_pair *pair);
/* Appends grpc-status, and grpc-message if message is not "". */
void h2_headers_add_status(struct h2_headers *h, enum lend_status status, const char *message);

/* Headers that are kept for later, in one allocation. */
struct h2_kept_headers {
	size_t n;
	nghttp2_nv list[];
};
/* Returns a copy, for host->free(); NULL: no memory. */
struct h2_kept_headers *h2_headers_keep(const struct h2_headers *h);

/* Adds a received header to metadata: binary values are decoded, also of several in one header.
 * Returns 0, or an error of lend_metadata_add(). */
int h2_metadata_add(struct lend_metadata *metadata, const char *name, const uint8_t *value,
		    size_t len);

#endif
