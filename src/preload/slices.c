/* slices - see slices.h. */
#include "preload/slices.h"

#include <errno.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

struct lend_buf *bytes_to_lend(struct lend_ep *ep, grpc_byte_buffer *buffer)
{
	size_t len = grpc_byte_buffer_length(buffer);
	struct lend_buf *buf =
	    len <= UINT32_MAX ? lend_buf_take(ep, (uint32_t)(len ? len : 1)) : NULL;
	grpc_byte_buffer_reader reader;
	grpc_slice *slice;

	if (!buf || !grpc_byte_buffer_reader_init(&reader, buffer)) {
		lend_buf_give(ep, buf);
		return NULL;
	}
	while (grpc_byte_buffer_reader_peek(&reader, &slice)) {
		memcpy((char *)buf->data + buf->len, GRPC_SLICE_START_PTR(*slice),
		       GRPC_SLICE_LENGTH(*slice));
		buf->len += (uint32_t)GRPC_SLICE_LENGTH(*slice);
	}
	grpc_byte_buffer_reader_destroy(&reader);
	return buf;
}

grpc_byte_buffer *bytes_to_grpc(const struct lend_buf *buf)
{
	grpc_byte_buffer *buffer;
	grpc_slice slice;
	size_t len = 0;
	uint8_t *at;

	for (const struct lend_buf *b = buf; b; b = b->next)
		len += b->len;
	slice = grpc_slice_malloc(len);
	at = GRPC_SLICE_START_PTR(slice);
	for (; buf; buf = buf->next) {
		memcpy(at, buf->data, buf->len);
		at += buf->len;
	}
	buffer = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return buffer;
}

grpc_slice slice_of_text(const char *text)
{
	return grpc_slice_from_copied_buffer(text, strlen(text));
}

char *text_of_slice(grpc_slice slice)
{
	return strndup((const char *)GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

static int add_pair(struct lend_metadata *to, const grpc_metadata *pair)
{
	char *key = text_of_slice(pair->key);
	int rc = key ? lend_metadata_add(to, key, GRPC_SLICE_START_PTR(pair->value),
					 GRPC_SLICE_LENGTH(pair->value))
		     : -ENOMEM;

	free(key);
	return rc;
}

int metadata_to_lend(const grpc_metadata *at, size_t n, struct lend_metadata **made)
{
	int rc = 0;

	*made = n ? lend_metadata_new() : NULL;
	if (n && !*made)
		return -ENOMEM;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add_pair(*made, &at[i]);
	if (rc < 0) {
		lend_metadata_free(*made);
		*made = NULL;
	}
	return rc;
}

void pairs_add(struct pairs *pairs, const struct lend_pair *pair)
{
	grpc_metadata *more = realloc(pairs->at, (pairs->n + 1) * sizeof(*more));

	if (!more)
		return;
	pairs->at = more;
	more[pairs->n++] =
	    (grpc_metadata){.key = slice_of_text(pair->key),
			    .value = grpc_slice_from_copied_buffer(pair->value, pair->len)};
}

void pairs_free(struct pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		grpc_slice_unref(pairs->at[i].key);
		grpc_slice_unref(pairs->at[i].value);
	}
	free(pairs->at);
	*pairs = (struct pairs){NULL, 0};
}

void pairs_give(const struct pairs *pairs, grpc_metadata_array *array)
{
	if (pairs->n > array->capacity) {
		array->metadata = gpr_realloc(array->metadata, pairs->n * sizeof(*array->metadata));
		array->capacity = pairs->n;
	}
	if (pairs->n)
		memcpy(array->metadata, pairs->at, pairs->n * sizeof(*pairs->at));
	array->count = pairs->n;
}
