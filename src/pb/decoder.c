#include "pb/decoder.h"

#include <string.h>

#include "util/bits.h"
#include "util/utf8.h"

enum {
	VARINT = 0,
	BITS64 = 1,
	LEN = 2,
	GROUP = 3,
	GROUP_END = 4,
	BITS32 = 5,
	VARINT_MAX = 10, /* bytes */
	ELEMENTS_MIN = 4,
};

/* The message that is being read is the bytes [p, end), where p is passed from function to
 * function, and `after` bytes of the following segments. after is 0 unless end is the segment's. */
struct decoder {
	const uint8_t *end;
	size_t after;
	const uint8_t *segment_end;
	const struct lend_pb_segment *next, *last;
	struct lend_pb_blocks *blocks;
	uint64_t incomplete; /* times that a message ended without all required fields */
	enum lend_pb_status status;
};

/* The functions below return the next p, or NULL with the reason in d->status. */

static const uint8_t *fail_with(struct decoder *d, enum lend_pb_status status)
{
	d->status = status;
	return NULL;
}

/* Sets end and after for a message that continues for len bytes from p. */
static void limit_to(struct decoder *d, const uint8_t *p, size_t len)
{
	size_t here = (size_t)(d->segment_end - p);

	d->end = p + (len < here ? len : here);
	d->after = len < here ? 0 : len - here;
}

/* Continues in the next segment; the message has bytes there. */
static const uint8_t *next_segment(struct decoder *d)
{
	const uint8_t *p = d->end;

	while (p == d->end) {
		if (!d->after || d->next == d->last)
			return fail_with(d, LEND_PB_TRUNCATED);
		p = d->next->data;
		d->segment_end = p + d->next->len;
		d->next++;
		limit_to(d, p, d->after);
	}
	return p;
}

/* Reads one byte of memory that may change: the compiler must not read it again. */
static inline uint8_t load_byte(const uint8_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* Reads a varint of at most max bytes, of which bits beyond 64 are dropped, as protobuf C++ does.
 * *last is its last byte. */
static const uint8_t *read_varint_bytes(struct decoder *d, const uint8_t *p, uint32_t max,
					uint64_t *v, uint8_t *last)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < max; i++) {
		uint8_t byte;

		if (p == d->end && !(p = next_segment(d)))
			return NULL;
		byte = load_byte(p++);
		sum |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (byte < 0x80) {
			*v = sum;
			*last = byte;
			return p;
		}
	}
	return fail_with(d, LEND_PB_MALFORMED);
}

static inline const uint8_t *read_varint(struct decoder *d, const uint8_t *p, uint64_t *v)
{
	uint64_t sum;
	uint8_t byte;

	if (p != d->end && (byte = load_byte(p)) < 0x80) {
		*v = byte;
		return p + 1;
	}
	if (d->end - p < VARINT_MAX)
		return read_varint_bytes(d, p, VARINT_MAX, v, &byte);
	sum = byte & 0x7f;
	for (uint32_t i = 1; i < VARINT_MAX; i++) {
		byte = load_byte(p + i);
		sum |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (byte < 0x80) {
			*v = sum;
			return p + i + 1;
		}
	}
	return fail_with(d, LEND_PB_MALFORMED);
}

static inline const uint8_t *read_tag(struct decoder *d, const uint8_t *p, uint32_t *tag)
{
	uint64_t v;
	uint8_t byte;

	if (p != d->end && (byte = load_byte(p)) < 0x80) {
		*tag = byte;
		return p + 1;
	}
	p = read_varint_bytes(d, p, 5, &v, &byte);
	*tag = (uint32_t)v;
	return p;
}

/* Reads a length; that many bytes are there. */
static inline const uint8_t *read_len(struct decoder *d, const uint8_t *p, size_t *len)
{
	uint64_t v = 0;
	uint8_t byte;

	if (p != d->end && (byte = load_byte(p)) < 0x80) {
		v = byte;
		p++;
	} else if (!(p = read_varint_bytes(d, p, 5, &v, &byte))) {
		return NULL;
	}
	if (v > LEND_PB_LEN_MAX)
		return fail_with(d, LEND_PB_MALFORMED);
	if (v > (size_t)(d->end - p) + d->after)
		return fail_with(d, LEND_PB_TRUNCATED);
	*len = (size_t)v;
	return p;
}

/* Copies len bytes; to NULL skips them. */
static const uint8_t *copy_bytes(struct decoder *d, const uint8_t *p, uint8_t *to, size_t len)
{
	while (len) {
		size_t n;

		if (p == d->end && !(p = next_segment(d)))
			return NULL;
		n = (size_t)(d->end - p);
		n = n < len ? n : len;
		if (to) {
			memcpy(to, p, n);
			to += n;
		}
		p += n;
		len -= n;
	}
	return p;
}

static inline const uint8_t *read_fixed(struct decoder *d, const uint8_t *p, uint64_t *v,
					size_t len)
{
	*v = 0;
	if (len > (size_t)(d->end - p))
		return copy_bytes(d, p, (uint8_t *)v, len);
	if (len == 4)
		memcpy(v, p, 4);
	else
		memcpy(v, p, 8);
	return p + len;
}

static const uint8_t *skip_field(struct decoder *d, const uint8_t *p, uint32_t tag, uint32_t depth);

/* Skips to the end of the group that begins with tag. */
static const uint8_t *skip_group(struct decoder *d, const uint8_t *p, uint32_t tag, uint32_t depth)
{
	uint32_t inner;

	if (!depth)
		return fail_with(d, LEND_PB_TOO_DEEP);
	for (;;) {
		p = read_tag(d, p, &inner);
		if (!p || inner == tag + (GROUP_END - GROUP))
			return p;
		p = skip_field(d, p, inner, depth - 1);
		if (!p)
			return NULL;
	}
}

/* Skips the value of a field. A group's end is none: it fails. */
static const uint8_t *skip_field(struct decoder *d, const uint8_t *p, uint32_t tag, uint32_t depth)
{
	uint64_t v;
	size_t len;

	if (!(tag >> 3))
		return fail_with(d, LEND_PB_MALFORMED);
	switch (tag & 7) {
	case VARINT:
		return read_varint(d, p, &v);
	case BITS64:
		return copy_bytes(d, p, NULL, 8);
	case LEN:
		p = read_len(d, p, &len);
		return p ? copy_bytes(d, p, NULL, len) : NULL;
	case GROUP:
		return skip_group(d, p, tag, depth);
	case BITS32:
		return copy_bytes(d, p, NULL, 4);
	default:
		return fail_with(d, LEND_PB_MALFORMED);
	}
}

static void *take_bytes(struct decoder *d, size_t len)
{
	void *at = lend_pb_take(d->blocks, len);

	if (!at)
		d->status = LEND_PB_NO_MEMORY;
	return at;
}

/* Returns an array with room for more elements behind its n ones. Its capacity is always the power
 * of two that n needs, so it is not stored. NULL: no memory. */
static void *grow_array(struct decoder *d, void *array, size_t n, size_t more, size_t size)
{
	size_t old = n ? ELEMENTS_MIN : 0, capacity;
	void *grown;

	while (old < n)
		old *= 2;
	capacity = old ? old : ELEMENTS_MIN;
	while (capacity < n + more)
		capacity *= 2;
	if (capacity == old)
		return array;
	grown = take_bytes(d, capacity * size);
	if (grown && n)
		memcpy(grown, array, n * size);
	return grown;
}

static inline void *reserve_one(struct decoder *d, void *array, size_t n, size_t size)
{
	bool has_room = n & (n - 1) || (n && n < ELEMENTS_MIN);

	return has_room ? array : grow_array(d, array, n, 1, size);
}

/* Keeps the field that skip_field() skips. The bytes stay where they are if they are in one piece.
 */
static const uint8_t *keep_unknown(struct decoder *d, const uint8_t *p, uint32_t tag,
				   ProtobufCMessage *m, uint32_t depth)
{
	struct decoder begin = *d;
	size_t before = (size_t)(d->end - p) + d->after, len;
	const uint8_t *end = skip_field(d, p, tag, depth), *data = p;
	ProtobufCMessageUnknownField *u;

	if (!end)
		return NULL;
	len = before - ((size_t)(d->end - end) + d->after);
	if (len > (size_t)(begin.end - p)) { /* its bytes again, now all of them at once */
		uint8_t *copy = take_bytes(d, len);

		if (!copy || !copy_bytes(&begin, p, copy, len))
			return NULL;
		data = copy;
	}
	u = reserve_one(d, m->unknown_fields, m->n_unknown_fields, sizeof(*u));
	if (!u)
		return NULL;
	m->unknown_fields = u;
	u += m->n_unknown_fields++;
	u->tag = tag >> 3;
	u->wire_type = (ProtobufCWireType)(tag & 7);
	u->len = len;
	u->data = (uint8_t *)(uintptr_t)data;
	return end;
}

static inline void store_scalar(const struct lend_pb_field *f, uint8_t *member, uint64_t v)
{
	uint32_t narrow = (uint32_t)v;

	switch ((enum lend_pb_field_kind)f->kind) {
	case LEND_PB_SINT64:
		v = (v >> 1) ^ (0 - (v & 1));
		memcpy(member, &v, 8);
		return;
	case LEND_PB_INT64:
	case LEND_PB_FIXED64:
		memcpy(member, &v, 8);
		return;
	case LEND_PB_SINT32:
		narrow = (narrow >> 1) ^ (0 - (narrow & 1));
		break;
	case LEND_PB_BOOL:
		narrow = v != 0;
		break;
	default:
		break;
	}
	memcpy(member, &narrow, 4);
}

static inline const uint8_t *read_scalar(struct decoder *d, const uint8_t *p,
					 const struct lend_pb_field *f, uint8_t *member)
{
	uint64_t v;

	if (f->wire == VARINT)
		p = read_varint(d, p, &v);
	else
		p = read_fixed(d, p, &v, f->size);
	if (p)
		store_scalar(f, member, v);
	return p;
}

static const uint8_t *read_bytes(struct decoder *d, const uint8_t *p, uint8_t *member)
{
	ProtobufCBinaryData bytes = {0};
	uint8_t *copy;

	p = read_len(d, p, &bytes.len);
	if (!p)
		return NULL;
	if (!bytes.len) {
		memcpy(member, &bytes, sizeof(bytes));
		return p;
	}
	if (bytes.len <= (size_t)(d->end - p)) {
		bytes.data = (uint8_t *)(uintptr_t)p;
		p += bytes.len;
	} else {
		copy = take_bytes(d, bytes.len);
		if (!copy || !(p = copy_bytes(d, p, copy, bytes.len)))
			return NULL;
		bytes.data = copy;
	}
	memcpy(member, &bytes, sizeof(bytes));
	return p;
}

static const uint8_t *read_string(struct decoder *d, const uint8_t *p, uint8_t *member)
{
	uint8_t *copy;
	size_t len;

	p = read_len(d, p, &len);
	if (!p || !(copy = take_bytes(d, len + 1)))
		return NULL;
	if (len <= (size_t)(d->end - p)) {
		lend_copy_short(copy, p, (uint32_t)len);
		p += len;
	} else if (!(p = copy_bytes(d, p, copy, len))) {
		return NULL;
	}
	copy[len] = 0;
	if (!lend_utf8_valid(copy, len))
		return fail_with(d, LEND_PB_BAD_UTF8);
	memcpy(member, &copy, sizeof(copy));
	return p;
}

static ProtobufCMessage *take_message(struct decoder *d, const struct lend_pb_table *t)
{
	uint8_t *at = take_bytes(d, t->head + t->size);

	if (!at)
		return NULL;
	if (t->head)
		memset(at, 0, t->head);
	memcpy(at + t->head, t->blank, t->size);
	return (void *)(at + t->head);
}

static inline const uint8_t *read_value(struct decoder *d, const uint8_t *p,
					const struct lend_pb_field *f, uint8_t *member)
{
	if (f->kind == LEND_PB_STRING)
		return read_string(d, p, member);
	return f->kind == LEND_PB_BYTES ? read_bytes(d, p, member) : read_scalar(d, p, f, member);
}

/* Adds an element to a repeated field. Returns its place; NULL: no memory. */
static uint8_t *append_element(struct decoder *d, const struct lend_pb_field *f, uint8_t *m)
{
	uint8_t *array;
	size_t n;

	memcpy(&n, m + f->quantifier, sizeof(n));
	memcpy(&array, m + f->offset, sizeof(array));
	array = reserve_one(d, array, n, f->size);
	if (!array)
		return NULL;
	memcpy(m + f->offset, &array, sizeof(array));
	array += n++ * f->size;
	memcpy(m + f->quantifier, &n, sizeof(n));
	return array;
}

static const uint8_t *read_element(struct decoder *d, const uint8_t *p,
				   const struct lend_pb_field *f, uint8_t *m)
{
	uint8_t *member = append_element(d, f, m);

	return member ? read_value(d, p, f, member) : NULL;
}

/* Reads the elements of a packed field up to d->end and d->after. */
static const uint8_t *read_packed_elements(struct decoder *d, const uint8_t *p,
					   const struct lend_pb_field *f, uint8_t *m)
{
	while (p && (p != d->end || d->after))
		p = read_element(d, p, f, m);
	return p;
}

/* Reads the elements of a packed field of fixed width at once. */
static const uint8_t *read_packed_fixed(struct decoder *d, const uint8_t *p,
					const struct lend_pb_field *f, uint8_t *m, size_t len)
{
	uint8_t *array;
	size_t n;

	if (len % f->size)
		return fail_with(d, LEND_PB_MALFORMED);
	memcpy(&n, m + f->quantifier, sizeof(n));
	memcpy(&array, m + f->offset, sizeof(array));
	array = grow_array(d, array, n, len / f->size, f->size);
	if (!array || !(p = copy_bytes(d, p, array + n * f->size, len)))
		return NULL;
	n += len / f->size;
	memcpy(m + f->offset, &array, sizeof(array));
	memcpy(m + f->quantifier, &n, sizeof(n));
	return p;
}

static const uint8_t *read_packed(struct decoder *d, const uint8_t *p,
				  const struct lend_pb_field *f, uint8_t *m)
{
	size_t len, left;

	p = read_len(d, p, &len);
	if (!p || !len)
		return p;
	if (f->wire != VARINT)
		return read_packed_fixed(d, p, f, m, len);
	left = (size_t)(d->end - p) + d->after - len;
	limit_to(d, p, len);
	p = read_packed_elements(d, p, f, m);
	if (p)
		limit_to(d, p, left);
	return p;
}

/* Marks a field as set before its value is read. */
static void mark_set(const struct lend_pb_field *f, uint8_t *m)
{
	static const ProtobufCMessage *const none = NULL;
	const uint32_t one = 1;
	uint32_t number;
	uint64_t *required;

	switch ((enum lend_pb_presence)f->presence) {
	case LEND_PB_HAS:
		memcpy(m + f->quantifier, &one, sizeof(one));
		return;
	case LEND_PB_CASE: /* another case's value is dropped */
		memcpy(&number, m + f->quantifier, sizeof(number));
		if (number != f->number && f->kind == LEND_PB_MESSAGE)
			memcpy(m + f->offset, &none, sizeof(none));
		memcpy(m + f->quantifier, &f->number, sizeof(f->number));
		return;
	case LEND_PB_REQUIRED:
		required = (uint64_t *)(void *)m - 1 - (f->required - 1) / 64;
		*required |= UINT64_C(1) << (f->required - 1) % 64;
		return;
	default:
		return;
	}
}

/* Reads a field that is not a message. */
static const uint8_t *read_field(struct decoder *d, const uint8_t *p, const struct lend_pb_field *f,
				 uint32_t tag, uint8_t *m, uint32_t depth)
{
	if ((tag & 7) == f->wire) {
		if (f->presence >= LEND_PB_REPEATED)
			return read_element(d, p, f, m);
		if (f->presence != LEND_PB_IMPLICIT && f->presence != LEND_PB_POINTER)
			mark_set(f, m);
		return read_value(d, p, f, m + f->offset);
	}
	if ((tag & 7) == LEN && f->presence >= LEND_PB_REPEATED && f->wire != LEN)
		return read_packed(d, p, f, m);
	return keep_unknown(d, p, tag, (void *)m, depth);
}

static const uint8_t *read_message(struct decoder *d, const uint8_t *p,
				   const struct lend_pb_table *t, uint8_t *m, uint32_t depth);

/* Returns the message that a field's bytes are read into: a new one, or that of an earlier part. */
static ProtobufCMessage *child_of(struct decoder *d, const struct lend_pb_field *f, uint8_t *m)
{
	uint8_t *member = m + f->offset;
	ProtobufCMessage *child = NULL;

	if (f->presence == LEND_PB_REPEATED) {
		member = append_element(d, f, m);
		if (!member)
			return NULL;
	} else {
		mark_set(f, m);
		memcpy(&child, member, sizeof(child));
	}
	if (!child)
		child = take_message(d, f->child);
	memcpy(member, &child, sizeof(child));
	return child;
}

static inline const uint8_t *read_child(struct decoder *d, const uint8_t *p,
					const struct lend_pb_field *f, uint8_t *m, uint32_t depth)
{
	ProtobufCMessage *child = child_of(d, f, m);
	const uint8_t *end;
	size_t after, len, left;

	p = child ? read_len(d, p, &len) : NULL;
	if (!p)
		return NULL;
	if (!depth)
		return fail_with(d, LEND_PB_TOO_DEEP);
	end = d->end;
	after = d->after;
	if (len <= (size_t)(end - p)) {
		d->end = p + len;
		d->after = 0;
		p = read_message(d, p, f->child, (uint8_t *)child, depth - 1);
		d->end = end;
		d->after = after;
		return p;
	}
	left = (size_t)(end - p) + after - len;
	limit_to(d, p, len);
	p = read_message(d, p, f->child, (uint8_t *)child, depth - 1);
	if (p)
		limit_to(d, p, left);
	return p;
}

static bool has_required(const struct lend_pb_table *t, const ProtobufCMessage *m)
{
	const uint64_t *word = (const uint64_t *)m - 1;
	uint32_t n = t->required;

	for (; n >= 64; n -= 64)
		if (*word-- != UINT64_MAX)
			return false;
	return !n || *word == (UINT64_C(1) << n) - 1;
}

static const uint8_t *read_message(struct decoder *d, const uint8_t *p,
				   const struct lend_pb_table *t, uint8_t *m, uint32_t depth)
{
	const struct lend_pb_field *f = t->field, *last = f + t->n;
	uint32_t tag;

	while (p != d->end || d->after) {
		p = read_tag(d, p, &tag);
		if (!p)
			return NULL;
		if (f == last || f->expected != tag) /* not again, nor the one after it */
			f = f + 1 < last && f[1].expected == tag ? f + 1
								 : lend_pb_field_find(t, tag >> 3);
		if (!f) {
			p = keep_unknown(d, p, tag, (void *)m, depth);
			f = t->field;
		} else if (f->presence == LEND_PB_IMPLICIT && f->expected == tag) {
			p = read_value(d, p, f, m + f->offset);
		} else if (f->kind == LEND_PB_MESSAGE && (tag & 7) == LEN) {
			p = read_child(d, p, f, m, depth);
		} else {
			p = read_field(d, p, f, tag, m, depth);
		}
		if (!p)
			return NULL;
	}
	d->incomplete += t->required && !has_required(t, (void *)m);
	return p;
}

/* Checks all messages of a tree in which one was incomplete: a later part of it may have added what
 * was missing, or it may have been dropped. */
static bool is_complete(const struct lend_pb_table *t, const uint8_t *m)
{
	if (t->required && !has_required(t, (const void *)m))
		return false;
	for (const struct lend_pb_field *f = t->field; f != t->field + t->n; f++) {
		uint8_t *const *child = (void *)(uintptr_t)(m + f->offset);
		uint32_t number;
		size_t n = 1;

		if (f->kind != LEND_PB_MESSAGE)
			continue;
		memcpy(&number, m + f->quantifier, sizeof(number));
		if (f->presence == LEND_PB_CASE && number != f->number)
			continue;
		if (f->presence == LEND_PB_REPEATED) {
			memcpy(&n, m + f->quantifier, sizeof(n));
			memcpy(&child, m + f->offset, sizeof(child));
		}
		for (size_t i = 0; i < n; i++)
			if (child[i] && child[i] != f->absent && !is_complete(f->child, child[i]))
				return false;
	}
	return true;
}

enum lend_pb_status lend_pb_decode(const struct lend_pb_table *table,
				   const struct lend_pb_segment *segment, uint32_t n,
				   struct lend_pb_blocks *blocks, ProtobufCMessage **message)
{
	static const uint8_t nothing[1];
	struct decoder d = {.end = nothing,
			    .segment_end = nothing,
			    .next = segment,
			    .last = segment + n,
			    .blocks = blocks};
	ProtobufCMessage *m;

	*message = NULL;
	for (uint32_t i = 0; i < n; i++) {
		if (segment[i].len > LEND_PB_LEN_MAX - d.after)
			return LEND_PB_TOO_LONG;
		d.after += segment[i].len;
	}
	m = take_message(&d, table);
	if (!m || !read_message(&d, nothing, table, (uint8_t *)m, LEND_PB_DEPTH_MAX))
		return d.status;
	if (d.incomplete && !is_complete(table, (uint8_t *)m))
		return LEND_PB_MISSING;
	*message = m;
	return LEND_PB_OK;
}
