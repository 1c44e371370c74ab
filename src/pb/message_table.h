/* message_table - a message type of protobuf-c as a table for the encoder and the decoder.
 *
 * Made once per type, with the tables of all types that it contains; read-only afterwards. Layer:
 * pb (pure, but for protobuf-c's header). Threads: any may use a table. */
#ifndef LEND_PB_MESSAGE_TABLE_H
#define LEND_PB_MESSAGE_TABLE_H

#include <protobuf-c/protobuf-c.h>

#include "pb/blocks.h"

enum {
	LEND_PB_DEPTH_MAX = 100,            /* nested messages and groups, as in protobuf C++ */
	LEND_PB_LEN_MAX = 0x7fffffff - 16,  /* bytes of a message, as in protobuf C++ */
	LEND_PB_NUMBER_MAX = (1 << 29) - 1, /* field number */
};

/* Result of making a table, of encoding and of decoding. */
enum lend_pb_status {
	LEND_PB_OK,
	LEND_PB_TRUNCATED, /* the bytes end inside a field */
	LEND_PB_MALFORMED, /* no such tag, wire type, length or varint; a group without its end */
	LEND_PB_BAD_UTF8,  /* a string is not UTF-8 */
	LEND_PB_TOO_DEEP,  /* more than LEND_PB_DEPTH_MAX messages inside each other */
	LEND_PB_MISSING,   /* a required field is missing */
	LEND_PB_TOO_LONG,  /* more than LEND_PB_LEN_MAX bytes, or too many segments */
	LEND_PB_NO_MEMORY, /* the owner of the blocks has no more */
	LEND_PB_BAD_TYPE,  /* a message is not of the type that its field names */
};

/* How a field shows that it is set. */
enum lend_pb_presence {
	LEND_PB_REQUIRED, /* always */
	LEND_PB_IMPLICIT, /* not zero, not empty */
	LEND_PB_HAS,      /* its has_ is true */
	LEND_PB_POINTER,  /* a string or message that is neither NULL nor the default */
	LEND_PB_CASE,     /* the case of its oneof is its number */
	LEND_PB_REPEATED, /* n_ elements */
	LEND_PB_PACKED,   /* n_ elements, in one length-delimited field */
};

/* Form of a value in memory and on the wire. */
enum lend_pb_field_kind {
	LEND_PB_INT32, /* int32 and enum: sign-extended varint */
	LEND_PB_UINT32,
	LEND_PB_SINT32,
	LEND_PB_INT64, /* int64 and uint64 */
	LEND_PB_SINT64,
	LEND_PB_BOOL,
	LEND_PB_FIXED32, /* and sfixed32, float */
	LEND_PB_FIXED64, /* and sfixed64, double */
	LEND_PB_STRING,
	LEND_PB_BYTES,
	LEND_PB_MESSAGE,
};

struct lend_pb_field {
	uint32_t offset;     /* bytes from the start of the structure to the member */
	uint32_t quantifier; /* the same to has_, n_ or the case */
	uint32_t number;
	uint8_t presence; /* enum lend_pb_presence */
	uint8_t kind;     /* enum lend_pb_field_kind */
	uint8_t wire;     /* wire type of one value */
	uint8_t tag_len;
	uint8_t simple; /* kind of a scalar, string or bytes with implicit presence; else MESSAGE */
	uint8_t by_ref; /* bytes: a segment of its own if the encoder lends */
	uint8_t tag[8]; /* the last tag_len bytes are the tag as encoded */
	uint32_t expected;                 /* number and wire type, as the encoder writes them */
	uint32_t required;                 /* 1 plus its index among the required fields; or 0 */
	uint32_t size;                     /* bytes of a value in memory */
	const struct lend_pb_table *child; /* type of a message */
	const void *absent;                /* default value of a string or message */
};

struct lend_pb_table {
	const ProtobufCMessageDescriptor *descriptor;
	struct lend_pb_field *field; /* in the order of their numbers */
	uint32_t n;
	uint32_t
	    simple_max;    /* bytes of its simple fields, less those of strings and bytes, and 16 */
	uint32_t dense;    /* numbers below it are looked up in index */
	uint16_t *index;   /* number: 1 plus the index of its field; or 0 */
	uint32_t required; /* number of required fields */
	uint32_t head;     /* bytes before a decoded message: a bit for each required field */
	uint32_t size;     /* bytes of the structure */
	uint8_t *blank;    /* initial bytes of the structure */
	struct lend_pb_table *next; /* next table that was made with this one */
};

/* Makes the table of a type in memory of blocks, which has to live as long as the table. Returns
 * LEND_PB_OK; NO_MEMORY; or BAD_TYPE: the descriptor is not one of protobuf-c 1. */
enum lend_pb_status lend_pb_table_make(const ProtobufCMessageDescriptor *descriptor,
				       struct lend_pb_blocks *blocks,
				       const struct lend_pb_table **table);
/* Finds the field of a number. NULL: unknown. */
const struct lend_pb_field *lend_pb_field_find(const struct lend_pb_table *table, uint32_t number);

#endif
