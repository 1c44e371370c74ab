/* slices - gRPC's byte buffers, slices and metadata, to and from Lend's.
 * Layer: preload. Threads: any. */
#ifndef LEND_PRELOAD_SLICES_H
#define LEND_PRELOAD_SLICES_H

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>

#include "lend/metadata.h"

/* Received metadata: the record of a call owns its slices, as gRPC's call does. */
struct pairs {
	grpc_metadata *at;
	size_t n;
};

/* Returns a message with the bytes of a buffer; NULL: no memory. */
struct lend_buf *bytes_to_lend(struct lend_ep *ep, grpc_byte_buffer *buffer);
/* Returns a copy of a message. */
grpc_byte_buffer *bytes_to_grpc(const struct lend_buf *buf);
/* Makes metadata to send. Returns 0; *made NULL without pairs; -errno: Lend cannot carry them. */
int metadata_to_lend(const grpc_metadata *at, size_t n, struct lend_metadata **made);
/* Appends a copy of a pair. */
void pairs_add(struct pairs *pairs, const struct lend_pair *pair);
void pairs_free(struct pairs *pairs);
/* Fills in an array of the program. */
void pairs_give(const struct pairs *pairs, grpc_metadata_array *array);
grpc_slice slice_of_text(const char *text);
/* Returns a copy as a C string, to be freed. */
char *text_of_slice(grpc_slice slice);

#endif
