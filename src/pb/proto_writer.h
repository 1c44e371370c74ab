/* proto_writer - writes protobuf forwards, field by field, for messages without a descriptor.
 *
 * Layer: pb (pure). Lives by value in its owner; the bytes are in blocks. Threads: one. */
#ifndef LEND_PB_PROTO_WRITER_H
#define LEND_PB_PROTO_WRITER_H

#include <string.h>

#include "pb/blocks.h"

struct lend_pb_writer {
	struct lend_pb_blocks *blocks; /* the caller's; all else begins as zero */
	uint8_t *at;
	size_t len, cap;
	bool failed; /* no memory: the bytes are incomplete */
};

/* Appends bytes without a tag. */
void lend_pb_put(struct lend_pb_writer *w, const void *bytes, size_t len);
/* Appends a field. */
void lend_pb_put_number(struct lend_pb_writer *w, unsigned field, uint64_t value);
void lend_pb_put_bytes(struct lend_pb_writer *w, unsigned field, const void *bytes, size_t len);
static inline void lend_pb_put_text(struct lend_pb_writer *w, unsigned field, const char *text)
{
	lend_pb_put_bytes(w, field, text, strlen(text));
}
/* Begins a field whose length is not known, for lend_pb_end_at(). */
size_t lend_pb_begin(struct lend_pb_writer *w, unsigned field);
void lend_pb_end_at(struct lend_pb_writer *w, size_t begin);

#endif
