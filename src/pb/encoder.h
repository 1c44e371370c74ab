/* encoder - writes a message of protobuf-c as standard protobuf, backwards, in one pass.
 *
 * A nested message's length is known once the message is written, so no pass computes sizes. Long
 * bytes, strings and packed fields of fixed width stay where they are and become segments of their
 * own. Layer: pb (pure). Threads: one per encoder. Lives by value in its owner. */
#ifndef LEND_PB_ENCODER_H
#define LEND_PB_ENCODER_H

#include "pb/message_table.h"

struct lend_pb_segment {
	const uint8_t *data;
	size_t len;
};

struct lend_pb_encoder {
	/* Set by the caller. */
	struct lend_pb_blocks *blocks;   /* for packed bytes; each block is filled from its end */
	struct lend_pb_segment *segment; /* borrowed: room for max of them */
	uint32_t max;
	size_t in_place; /* bytes from which a value may be a segment of its own */
	bool (*stays)(void *arg, const void *data, size_t len); /* NULL: all are */
	void *arg;
	bool lends; /* fields that are by_ref are segments of their own; max is at most 64 then */
	/* Result: segments [first, max) in the order of the wire. */
	uint32_t first;
	size_t len;      /* bytes of all segments */
	uint64_t by_ref; /* bit max - 1 - i: segment i is the value of a field that is by_ref */
	/* The encoder's. */
	size_t copied; /* shorter values are copied */
	size_t before; /* bytes of finished segments */
	uint8_t *low;  /* the current block: free from here */
	uint8_t *end;  /* to the end of what is packed in it */
	enum lend_pb_status status;
};

/* A message that is encoded already, where a message is expected: as a member of another, or at the
 * top. Its bytes are not checked. Initialize base with lend_pb_encoded_descriptor. */
struct lend_pb_encoded {
	ProtobufCMessage base;
	const struct lend_pb_segment *segment;
	uint32_t n;
};
extern const ProtobufCMessageDescriptor lend_pb_encoded_descriptor;

/* Encodes a message. The segments refer to blocks and to the message's own memory. Fields are in
 * the order of their numbers, unknown fields last. Returns LEND_PB_OK; TOO_DEEP, TOO_LONG,
 * BAD_TYPE or NO_MEMORY: the result is undefined. */
enum lend_pb_status lend_pb_encode(struct lend_pb_encoder *e, const struct lend_pb_table *table,
				   const ProtobufCMessage *message);

#endif
