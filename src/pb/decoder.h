/* decoder - reads standard protobuf into a message of protobuf-c.
 *
 * Bytes stay in the received memory where they are in one piece; all else is in blocks. Nothing is
 * trusted: the memory may even change meanwhile, so each tag, length and number is read once, and
 * strings are checked after they were copied. Verdicts are those of protobuf C++, except that
 * strings of proto2 are checked, too. Layer: pb (pure). Threads: any. */
#ifndef LEND_PB_DECODER_H
#define LEND_PB_DECODER_H

#include "pb/encoder.h"

/* Decodes n segments. *message is in blocks, and refers to the segments. Unknown fields are kept,
 * also groups and known fields of another wire type. Returns LEND_PB_OK, or why not: *message is
 * NULL then. */
enum lend_pb_status lend_pb_decode(const struct lend_pb_table *table,
				   const struct lend_pb_segment *segment, uint32_t n,
				   struct lend_pb_blocks *blocks, ProtobufCMessage **message);

#endif
