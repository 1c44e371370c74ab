#include "pb/proto_writer.h"

enum { VARINT = 0, BYTES = 2, VARINT_MAX = 10, LENGTH = 4 };

/* Returns room for n bytes; NULL: no memory. */
static uint8_t *take_room(struct lend_pb_writer *w, size_t n)
{
	if (n > w->cap - w->len) {
		size_t cap = 2 * (w->cap + n);
		uint8_t *more = w->failed ? NULL : lend_pb_take(w->blocks, cap);

		w->failed = !more;
		if (w->failed)
			return NULL;
		if (w->len)
			memcpy(more, w->at, w->len);
		w->at = more;
		w->cap = cap;
	}
	w->len += n;
	return w->at + w->len - n;
}

void lend_pb_put(struct lend_pb_writer *w, const void *bytes, size_t len)
{
	uint8_t *to = len ? take_room(w, len) : NULL;

	if (to)
		memcpy(to, bytes, len);
}

static void put_varint(struct lend_pb_writer *w, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	lend_pb_put(w, bytes, n);
}

void lend_pb_put_number(struct lend_pb_writer *w, unsigned field, uint64_t value)
{
	put_varint(w, (uint64_t)field << 3 | VARINT);
	put_varint(w, value);
}

void lend_pb_put_bytes(struct lend_pb_writer *w, unsigned field, const void *bytes, size_t len)
{
	put_varint(w, (uint64_t)field << 3 | BYTES);
	put_varint(w, len);
	lend_pb_put(w, bytes, len);
}

size_t lend_pb_begin(struct lend_pb_writer *w, unsigned field)
{
	put_varint(w, (uint64_t)field << 3 | BYTES);
	(void)take_room(w, LENGTH);
	return w->len;
}

/* The length is a varint of always four bytes: nothing has to be moved. */
void lend_pb_end_at(struct lend_pb_writer *w, size_t begin)
{
	size_t len = w->len - begin;

	w->failed |= len >> 7 * LENGTH != 0;
	for (unsigned i = 0; i < LENGTH && !w->failed; i++)
		w->at[begin - LENGTH + i] =
		    (uint8_t)((len >> 7 * i & 0x7f) | (i < LENGTH - 1 ? 0x80 : 0));
}
