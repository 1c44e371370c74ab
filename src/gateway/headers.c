/* headers - lists of HTTP/2 headers of gRPC. See headers.h. */
#include "gateway/headers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/connection.h"
#include "gateway/grpc_text.h"
#include "util/check.h"

/* flags: NGHTTP2_NV_FLAG_*, for constants. */
static void add_header(struct h2_headers *h, const char *name, const void *value, size_t len,
		       uint8_t flags)
{
	LEND_CHECK(h->n < H2_HEADERS_MAX);
	h->list[h->n++] = (nghttp2_nv){.name = (uint8_t *)name,
				       .namelen = strlen(name),
				       .value = (uint8_t *)value,
				       .valuelen = len,
				       .flags = flags};
}

void h2_headers_add(struct h2_headers *h, const char *name, const char *value)
{
	add_header(h, name, value, strlen(value),
		   NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

void h2_headers_add_text(struct h2_headers *h, const char *name, const char *value)
{
	add_header(h, name, value, strlen(value), NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

/* Returns whether a key ends in "-bin". */
static bool is_binary(const char *key)
{
	size_t len = strlen(key);

	return len >= 4 && memcmp(key + len - 4, "-bin", 4) == 0;
}

/* Takes len bytes of text. */
static char *take_text(struct h2_headers *h, size_t len)
{
	char *at = h->text + h->used;

	LEND_CHECK(len <= H2_TEXT_MAX - h->used);
	h->used += len;
	return at;
}

void h2_headers_add_pair(struct h2_headers *h, const struct lend_pair *pair)
{
	size_t len = grpc_base64_len(pair->len);
	char *text;

	if (!is_binary(pair->key)) {
		add_header(h, pair->key, pair->value, pair->len, 0);
		return;
	}
	text = take_text(h, len);
	grpc_base64_write(pair->value, pair->len, text);
	add_header(h, pair->key, text, len, 0);
}

void h2_headers_add_status(struct h2_headers *h, enum lend_status status, const char *message)
{
	static const char *const digits[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
					     "9", "10", "11", "12", "13", "14", "15", "16"};
	size_t len = strlen(message);
	char *text;

	h2_headers_add(h, "grpc-status",
		       digits[status <= LEND_UNAUTHENTICATED ? status : LEND_UNKNOWN]);
	if (!len)
		return;
	text = take_text(h, 3 * len);
	add_header(h, "grpc-message", text, grpc_percent_encode(message, len, text),
		   NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

struct h2_kept_headers *h2_headers_keep(const struct h2_headers *h)
{
	struct h2_kept_headers *kept;
	size_t size = sizeof(*kept) + h->n * sizeof(nghttp2_nv);
	uint8_t *at;

	for (size_t i = 0; i < h->n; i++)
		size += h->list[i].namelen + h->list[i].valuelen;
	kept = host->malloc(size);
	if (!kept)
		return NULL;
	kept->n = h->n;
	at = (uint8_t *)(kept->list + h->n);
	for (size_t i = 0; i < h->n; i++) {
		kept->list[i] = h->list[i];
		kept->list[i].flags = NGHTTP2_NV_FLAG_NONE;
		kept->list[i].name = memcpy(at, h->list[i].name, h->list[i].namelen);
		at += h->list[i].namelen;
		kept->list[i].value = memcpy(at, h->list[i].value, h->list[i].valuelen);
		at += h->list[i].valuelen;
	}
	return kept;
}

/* Adds one value of base64. */
static int add_binary(struct lend_metadata *metadata, const char *name, const uint8_t *value,
		      size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	ptrdiff_t n = bytes ? grpc_base64_read(value, len, bytes) : 0;
	int rc = !bytes ? -ENOMEM : n < 0 ? -EINVAL : 0;

	if (!rc)
		rc = host->metadata_add(metadata, name, bytes, (size_t)n);
	free(bytes);
	return rc;
}

int h2_metadata_add(struct lend_metadata *metadata, const char *name, const uint8_t *value,
		    size_t len)
{
	int rc = 0;

	if (!is_binary(name))
		return host->metadata_add(metadata, name, value, len);
	while (!rc) {
		const uint8_t *comma = memchr(value, ',', len);
		size_t n = comma ? (size_t)(comma - value) : len;

		rc = add_binary(metadata, name, value, n);
		if (!comma)
			break;
		value += n + 1;
		len -= n + 1;
	}
	return rc;
}
