/* kit - blocks from the heap, random messages, and one-line encoding and decoding for the tests of
 * src/pb. Layer: test. Threads: one. */
#ifndef TEST_PB_KIT_H
#define TEST_PB_KIT_H

#include "pb/decoder.h"
#include "util/rng.h"

enum { KIT_SEGMENTS = 64, KIT_BLOCKS = 1 << 14, KIT_ENCODED = 1 << 14 };

/* Memory that ends after `left` bytes; every block is exactly as long as asked for, or `size`. */
struct kit_blocks {
	struct lend_pb_blocks base;
	size_t left, size;
	void *block[KIT_BLOCKS];
	unsigned n;
};
void kit_blocks_open(struct kit_blocks *blocks, size_t left, size_t size);
void kit_blocks_close(struct kit_blocks *blocks);

/* Returns the table of a type; tables live until the process ends. */
const struct lend_pb_table *kit_table(const ProtobufCMessageDescriptor *descriptor);

struct kit_bytes {
	uint8_t *data; /* the caller frees it */
	size_t len;
	uint32_t segments;
};
/* Encodes and gathers the segments. */
enum lend_pb_status kit_encode(const struct lend_pb_table *table, const void *message,
			       size_t in_place, size_t block, bool separate, struct kit_bytes *out);
/* Decodes bytes that are cut into n segments at random places, or one if rng is NULL. Each segment
 * is memory of exactly its length; *copies, to free with kit_free(), holds them. */
struct kit_input {
	struct lend_pb_segment segment[KIT_SEGMENTS];
	uint32_t n;
};
void kit_cut(struct kit_input *input, const uint8_t *bytes, size_t len, struct lend_rng *rng);
void kit_free(struct kit_input *input);

/* Makes a random message in memory of blocks. */
ProtobufCMessage *kit_message(const ProtobufCMessageDescriptor *descriptor, struct lend_rng *rng,
			      struct lend_pb_blocks *blocks, unsigned depth);

#endif
