#include "pb/encoder.h"

#include <string.h>

#include "util/bits.h"

enum {
	SCALAR_MAX = 24, /* bytes of one scalar: varint 10, tag as 8 bytes, rounded up */
	SPARE = 8,       /* segments that stay free for blocks */
	BLOCK_MIN = 64,  /* bytes of a block that is asked for */
	WIRE_MASK = 7,
	WHOLE_MIN = 4096, /* bytes of a value that stays in one piece, for the decoder */
};

const ProtobufCMessageDescriptor lend_pb_encoded_descriptor = {.name = "encoded"};

static size_t count_written(const struct lend_pb_encoder *e, const uint8_t *at)
{
	return e->before + (size_t)(e->end - at);
}

/* The functions below write before at and return the new at, or NULL with the reason in e->status.
 */

static uint8_t *fail_with(struct lend_pb_encoder *e, enum lend_pb_status status)
{
	e->status = status;
	return NULL;
}

/* Makes a segment of what is packed in the current block. */
static bool close_segment(struct lend_pb_encoder *e, uint8_t *at)
{
	size_t len = (size_t)(e->end - at);

	if (!len)
		return true;
	if (!e->first)
		return false;
	e->segment[--e->first] = (struct lend_pb_segment){at, len};
	e->before += len;
	e->blocks->end = e->blocks->separate ? e->low : at;
	e->end = at;
	return true;
}

static uint8_t *open_block(struct lend_pb_encoder *e)
{
	e->low = e->blocks->at;
	e->end = e->blocks->end;
	return e->end;
}

/* Continues in a block with room for len bytes more. */
static uint8_t *next_block(struct lend_pb_encoder *e, uint8_t *at, size_t len)
{
	if (!close_segment(e, at))
		return fail_with(e, LEND_PB_TOO_LONG);
	at = open_block(e);
	if (len <= (size_t)(at - e->low))
		return at;
	if (!e->blocks->more(e->blocks, len < BLOCK_MIN ? BLOCK_MIN : len))
		return fail_with(e, LEND_PB_NO_MEMORY);
	return open_block(e);
}

static inline uint8_t *ensure_room(struct lend_pb_encoder *e, uint8_t *at, size_t len)
{
	return len <= (size_t)(at - e->low) ? at : next_block(e, at, len);
}

/* The functions put_..._unchecked write at most 8 bytes before what they return, into free bytes;
 * SCALAR_MAX bytes of room are enough for a value and its tag. */

static inline uint8_t *put_varint_unchecked(uint8_t *at, uint64_t v)
{
	uint8_t *first;

	if (v < 0x80) {
		*--at = (uint8_t)v;
		return at;
	}
	if (v < 0x4000) {
		at[-2] = (uint8_t)(v | 0x80);
		at[-1] = (uint8_t)(v >> 7);
		return at - 2;
	}
	at -= ((uint32_t)(63 - __builtin_clzll(v)) * 9 + 73) / 64;
	for (first = at; v >= 0x80; v >>= 7)
		*first++ = (uint8_t)(v | 0x80);
	*first = (uint8_t)v;
	return at;
}

static inline uint8_t *put_tag_unchecked(uint8_t *at, const struct lend_pb_field *f)
{
	memcpy(at - 8, f->tag, 8);
	return at - f->tag_len;
}

static inline uint64_t load_scalar(enum lend_pb_field_kind kind, const uint8_t *member)
{
	uint64_t wide = 0;
	uint32_t narrow = 0;

	if (kind == LEND_PB_INT64 || kind == LEND_PB_FIXED64 || kind == LEND_PB_SINT64)
		memcpy(&wide, member, 8);
	else
		memcpy(&narrow, member, 4);
	switch (kind) {
	case LEND_PB_INT32:
		return (uint64_t)(int64_t)(int32_t)narrow;
	case LEND_PB_SINT32:
		return (narrow << 1) ^ (0 - (narrow >> 31));
	case LEND_PB_SINT64:
		return (wide << 1) ^ (0 - (wide >> 63));
	case LEND_PB_BOOL:
		return narrow != 0;
	default:
		return wide | narrow;
	}
}

static inline uint8_t *put_scalar_unchecked(uint8_t *at, enum lend_pb_field_kind kind, uint64_t v)
{
	if (kind == LEND_PB_FIXED32) {
		memcpy(at - 4, &v, 4);
		return at - 4;
	}
	if (kind == LEND_PB_FIXED64) {
		memcpy(at - 8, &v, 8);
		return at - 8;
	}
	return put_varint_unchecked(at, v);
}

static inline uint8_t *put_head(struct lend_pb_encoder *e, uint8_t *at,
				const struct lend_pb_field *f, uint64_t len)
{
	if ((size_t)(at - e->low) < SCALAR_MAX && !(at = next_block(e, at, SCALAR_MAX)))
		return NULL;
	return put_tag_unchecked(put_varint_unchecked(at, len), f);
}

/* Copies bytes that do not fit the current block. */
static uint8_t *copy_long(struct lend_pb_encoder *e, uint8_t *at, const uint8_t *data, size_t len)
{
	size_t n = (size_t)(at - e->low);

	if (len > LEND_PB_LEN_MAX)
		return fail_with(e, LEND_PB_TOO_LONG);
	if (len >= WHOLE_MIN)
		n = 0;
	if (n) /* the last n bytes */
		memcpy(at - n, data + len - n, n);
	at = next_block(e, at - n, len - n + SCALAR_MAX);
	if (!at)
		return NULL;
	memcpy(at - (len - n), data, len - n);
	return at - (len - n);
}

static uint8_t *put_in_place(struct lend_pb_encoder *e, uint8_t *at, const uint8_t *data,
			     size_t len)
{
	if (len > LEND_PB_LEN_MAX || !close_segment(e, at))
		return fail_with(e, LEND_PB_TOO_LONG);
	e->segment[--e->first] = (struct lend_pb_segment){data, len};
	e->before += len;
	return open_block(e);
}

static inline uint8_t *put_bytes(struct lend_pb_encoder *e, uint8_t *at, const uint8_t *data,
				 size_t len)
{
	if (!len)
		return at;
	if (len >= e->in_place && e->first > SPARE && (!e->stays || e->stays(e->arg, data, len)))
		return put_in_place(e, at, data, len);
	if (len > (size_t)(at - e->low))
		return copy_long(e, at, data, len);
	memcpy(at - len, data, len);
	return at - len;
}

static inline uint8_t *put_short_unchecked(uint8_t *at, const struct lend_pb_field *f,
					   const uint8_t *data, size_t len)
{
	lend_copy_short(at - len, data, (uint32_t)len);
	return put_tag_unchecked(put_varint_unchecked(at - len, len), f);
}

/* Writes bytes with their head. */
static uint8_t *put_text(struct lend_pb_encoder *e, uint8_t *at, const struct lend_pb_field *f,
			 const uint8_t *data, size_t len)
{
	bool apart = f->by_ref && e->lends && len && e->first > SPARE;
	size_t room = (size_t)(at - e->low);

	if (len && len < e->copied && !apart && len + SCALAR_MAX <= room)
		return put_short_unchecked(at, f, data, len);
	at = apart ? put_in_place(e, at, data, len) : put_bytes(e, at, data, len);
	if (apart && at)
		e->by_ref |= UINT64_C(1) << (e->max - 1 - e->first);
	return at ? put_head(e, at, f, len) : NULL;
}

static inline uint8_t *put_long_value(struct lend_pb_encoder *e, uint8_t *at,
				      const struct lend_pb_field *f, const uint8_t *member)
{
	ProtobufCBinaryData bytes;
	const char *text;

	if (f->kind == LEND_PB_BYTES) {
		memcpy(&bytes, member, sizeof(bytes));
	} else {
		memcpy(&text, member, sizeof(text));
		bytes.data = (uint8_t *)(uintptr_t)text;
		bytes.len = text ? strlen(text) : 0;
	}
	return put_text(e, at, f, bytes.data, bytes.len);
}

static uint8_t *put_packed(struct lend_pb_encoder *e, uint8_t *at, const struct lend_pb_field *f,
			   const uint8_t *array, size_t n)
{
	size_t mark = count_written(e, at);

	if (n > LEND_PB_LEN_MAX)
		return fail_with(e, LEND_PB_TOO_LONG);
	if (f->kind == LEND_PB_FIXED32 || f->kind == LEND_PB_FIXED64) {
		at = put_bytes(e, at, array, n * f->size);
	} else {
		for (size_t i = n; i-- && (at = ensure_room(e, at, SCALAR_MAX));)
			at = put_varint_unchecked(at, load_scalar(f->kind, array + i * f->size));
	}
	return at ? put_head(e, at, f, count_written(e, at) - mark) : NULL;
}

static uint8_t *put_elements(struct lend_pb_encoder *e, uint8_t *at, const struct lend_pb_field *f,
			     const uint8_t *array, size_t n)
{
	for (size_t i = n; i-- && at;) {
		const uint8_t *member = array + i * f->size;

		if (f->kind >= LEND_PB_STRING) {
			at = put_long_value(e, at, f, member);
		} else if ((at = ensure_room(e, at, SCALAR_MAX))) {
			at = put_scalar_unchecked(at, f->kind, load_scalar(f->kind, member));
			at = put_tag_unchecked(at, f);
		}
	}
	return at;
}

static inline uint8_t *put_repeated(struct lend_pb_encoder *e, uint8_t *at,
				    const struct lend_pb_field *f, const uint8_t *m)
{
	const uint8_t *array;
	size_t n;

	memcpy(&n, m + f->quantifier, sizeof(n));
	if (!n)
		return at;
	memcpy(&array, m + f->offset, sizeof(array));
	return f->presence == LEND_PB_PACKED ? put_packed(e, at, f, array, n)
					     : put_elements(e, at, f, array, n);
}

static inline uint32_t load_u32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

/* Returns whether a string, bytes or message is to be written. */
static bool is_long_set(const struct lend_pb_field *f, const uint8_t *m)
{
	ProtobufCBinaryData bytes;
	const char *pointer;

	if (f->presence == LEND_PB_REQUIRED)
		return true;
	if (f->presence == LEND_PB_CASE && load_u32(m + f->quantifier) != f->number)
		return false;
	if (f->kind == LEND_PB_BYTES) {
		if (f->presence == LEND_PB_HAS)
			return load_u32(m + f->quantifier) != 0;
		memcpy(&bytes, m + f->offset, sizeof(bytes));
		return f->presence == LEND_PB_CASE || (bytes.data && bytes.len);
	}
	memcpy(&pointer, m + f->offset, sizeof(pointer));
	if (f->presence == LEND_PB_IMPLICIT) /* a string */
		return pointer && *pointer;
	return pointer && pointer != f->absent;
}

static inline bool is_scalar_set(const struct lend_pb_field *f, const uint8_t *m, uint64_t v)
{
	switch ((enum lend_pb_presence)f->presence) {
	case LEND_PB_IMPLICIT:
		return v != 0;
	case LEND_PB_HAS:
		return load_u32(m + f->quantifier) != 0;
	case LEND_PB_CASE:
		return load_u32(m + f->quantifier) == f->number;
	default:
		return true;
	}
}

/* Writes a field of any presence. */
static uint8_t *put_any_field(struct lend_pb_encoder *e, uint8_t *at, const struct lend_pb_field *f,
			      const uint8_t *m)
{
	uint64_t v;

	if (f->presence >= LEND_PB_REPEATED)
		return put_repeated(e, at, f, m);
	if (f->kind >= LEND_PB_STRING)
		return is_long_set(f, m) ? put_long_value(e, at, f, m + f->offset) : at;
	v = load_scalar(f->kind, m + f->offset);
	if (!is_scalar_set(f, m, v))
		return at;
	at = ensure_room(e, at, SCALAR_MAX);
	return at ? put_tag_unchecked(put_scalar_unchecked(at, f->kind, v), f) : NULL;
}

/* Writes fields backwards from the one before *left as long as they are simple and there is room.
 * The caller has checked for t->simple_max bytes, so that only copied bytes need a check. *left is
 * then the last field that is done. */
static inline uint8_t *put_simple_fields(const struct lend_pb_encoder *e, uint8_t *at,
					 const struct lend_pb_table *t, const uint8_t *m,
					 const struct lend_pb_field **left)
{
	for (const struct lend_pb_field *f; *left != t->field; *left = f) {
		size_t room = (size_t)(at - e->low);
		ProtobufCBinaryData bytes;
		const char *text;
		const uint8_t *member;
		uint64_t v;

		f = *left - 1;
		member = m + f->offset;
		switch ((enum lend_pb_field_kind)f->simple) {
		case LEND_PB_STRING:
			memcpy(&text, member, sizeof(text));
			bytes.data = (uint8_t *)(uintptr_t)text;
			bytes.len = text ? strlen(text) : 0;
			if (!bytes.len)
				continue;
			if (bytes.len >= e->copied || bytes.len + t->simple_max > room)
				return at;
			at = put_short_unchecked(at, f, bytes.data, bytes.len);
			continue;
		case LEND_PB_BYTES:
			memcpy(&bytes, member, sizeof(bytes));
			if (!bytes.data || !bytes.len)
				continue;
			if (bytes.len >= e->copied || bytes.len + t->simple_max > room ||
			    (f->by_ref && e->lends))
				return at;
			at = put_short_unchecked(at, f, bytes.data, bytes.len);
			continue;
		case LEND_PB_INT64:
			v = load_scalar(LEND_PB_INT64, member);
			break;
		case LEND_PB_INT32:
			v = load_scalar(LEND_PB_INT32, member);
			break;
		case LEND_PB_BOOL:
			v = load_scalar(LEND_PB_BOOL, member);
			break;
		case LEND_PB_FIXED64:
			if ((v = load_scalar(LEND_PB_FIXED64, member)))
				at = put_tag_unchecked(put_scalar_unchecked(at, LEND_PB_FIXED64, v),
						       f);
			continue;
		case LEND_PB_MESSAGE:
			return at;
		default:
			if ((v = load_scalar(f->kind, member)))
				at = put_tag_unchecked(put_scalar_unchecked(at, f->kind, v), f);
			continue;
		}
		if (v)
			at = put_tag_unchecked(put_varint_unchecked(at, v), f);
	}
	return at;
}

static uint8_t *put_unknown(struct lend_pb_encoder *e, uint8_t *at, const ProtobufCMessage *m)
{
	for (unsigned i = m->n_unknown_fields; i-- && at;) {
		const ProtobufCMessageUnknownField *u = &m->unknown_fields[i];

		at = put_bytes(e, at, u->data, u->len);
		if (at && (at = ensure_room(e, at, SCALAR_MAX)))
			at = put_varint_unchecked(at, (uint64_t)u->tag << 3 |
							  ((uint32_t)u->wire_type & WIRE_MASK));
	}
	return at;
}

static uint8_t *put_encoded(struct lend_pb_encoder *e, uint8_t *at, const ProtobufCMessage *m)
{
	const struct lend_pb_encoded *encoded = (const void *)m;

	for (uint32_t i = encoded->n; i-- && at;)
		at = put_bytes(e, at, encoded->segment[i].data, encoded->segment[i].len);
	return at;
}

static uint8_t *put_message(struct lend_pb_encoder *e, uint8_t *at, const struct lend_pb_table *t,
			    const ProtobufCMessage *m, uint32_t depth);

/* Writes a nested message, or all of a repeated field. */
static inline uint8_t *put_children(struct lend_pb_encoder *e, uint8_t *at,
				    const struct lend_pb_field *f, const uint8_t *m, uint32_t depth)
{
	const ProtobufCMessage *one, *const *child = &one;
	size_t n = 1, mark;

	if (f->presence == LEND_PB_REPEATED) {
		memcpy(&n, m + f->quantifier, sizeof(n));
		memcpy(&child, m + f->offset, sizeof(child));
	} else if (is_long_set(f, m)) {
		memcpy(&one, m + f->offset, sizeof(one));
	} else {
		return at;
	}
	while (n-- && at) {
		mark = count_written(e, at);
		if (child[n])
			at = put_message(e, at, f->child, child[n], depth);
		if (at)
			at = put_head(e, at, f, count_written(e, at) - mark);
	}
	return at;
}

static uint8_t *put_message(struct lend_pb_encoder *e, uint8_t *at, const struct lend_pb_table *t,
			    const ProtobufCMessage *m, uint32_t depth)
{
	const struct lend_pb_field *f = t->field + t->n;

	if (m->descriptor != t->descriptor)
		return m->descriptor == &lend_pb_encoded_descriptor
			   ? put_encoded(e, at, m)
			   : fail_with(e, LEND_PB_BAD_TYPE);
	if (!depth)
		return fail_with(e, LEND_PB_TOO_DEEP);
	if (m->n_unknown_fields)
		at = put_unknown(e, at, m);
	while (at && f != t->field) {
		if ((size_t)(at - e->low) >= t->simple_max)
			at = put_simple_fields(e, at, t, (const uint8_t *)m, &f);
		if (f == t->field)
			break;
		f--;
		at = f->kind == LEND_PB_MESSAGE
			 ? put_children(e, at, f, (const uint8_t *)m, depth - 1)
			 : put_any_field(e, at, f, (const uint8_t *)m);
	}
	return at;
}

enum lend_pb_status lend_pb_encode(struct lend_pb_encoder *e, const struct lend_pb_table *table,
				   const ProtobufCMessage *message)
{
	uint8_t *at;

	e->first = e->max;
	e->before = 0;
	e->by_ref = 0;
	e->status = LEND_PB_OK;
	e->copied = e->in_place <= LEND_PB_LEN_MAX ? e->in_place : LEND_PB_LEN_MAX;
	at = ensure_room(e, open_block(e), SCALAR_MAX);
	if (!at || !(at = put_message(e, at, table, message, LEND_PB_DEPTH_MAX + 1)))
		return e->status;
	e->len = count_written(e, at);
	return e->len <= LEND_PB_LEN_MAX && close_segment(e, at) ? LEND_PB_OK : LEND_PB_TOO_LONG;
}
