#include "pb/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool take_block(struct lend_pb_blocks *base, size_t len)
{
	struct kit_blocks *b = (struct kit_blocks *)base;

	len = len < b->size ? b->size : len;
	if (len > b->left || b->n == KIT_BLOCKS)
		return false;
	b->left -= len;
	base->at = b->block[b->n++] = malloc(len);
	base->end = base->at + len;
	return true;
}

void kit_blocks_open(struct kit_blocks *b, size_t left, size_t size)
{
	memset(b, 0, sizeof(*b));
	b->base.more = take_block;
	b->left = left;
	b->size = size;
}

void kit_blocks_close(struct kit_blocks *b)
{
	while (b->n)
		free(b->block[--b->n]);
}

const struct lend_pb_table *kit_table(const ProtobufCMessageDescriptor *descriptor)
{
	static struct kit_blocks blocks;
	static const struct lend_pb_table *made[8];
	unsigned i = 0;

	if (!blocks.base.more)
		kit_blocks_open(&blocks, SIZE_MAX, 1 << 16);
	while (made[i] && made[i]->descriptor != descriptor)
		i++;
	if (!made[i])
		LEND_CHECK(lend_pb_table_make(descriptor, &blocks.base, &made[i]) == LEND_PB_OK);
	return made[i];
}

enum lend_pb_status kit_encode(const struct lend_pb_table *table, const void *message,
			       size_t in_place, size_t block, bool separate, struct kit_bytes *out)
{
	static struct lend_pb_segment segment[KIT_ENCODED];
	struct kit_blocks blocks;
	struct lend_pb_encoder e = {
	    .blocks = &blocks.base, .segment = segment, .max = KIT_ENCODED, .in_place = in_place};
	enum lend_pb_status status;

	kit_blocks_open(&blocks, SIZE_MAX, block);
	blocks.base.separate = separate;
	status = lend_pb_encode(&e, table, message);
	memset(out, 0, sizeof(*out));
	if (status == LEND_PB_OK) {
		out->data = malloc(e.len + 1);
		for (uint32_t i = e.first; i < e.max; i++) {
			LEND_CHECK(segment[i].len);
			memcpy(out->data + out->len, segment[i].data, segment[i].len);
			out->len += segment[i].len;
		}
		LEND_CHECK(out->len == e.len);
		out->segments = e.max - e.first;
	}
	kit_blocks_close(&blocks);
	return status;
}

void kit_cut(struct kit_input *input, const uint8_t *bytes, size_t len, struct lend_rng *rng)
{
	uint32_t n = rng ? 1 + (uint32_t)lend_rng_below(rng, 12) : 1;

	for (input->n = 0; input->n < n; input->n++) {
		size_t part = input->n == n - 1        ? len
			      : lend_rng_below(rng, 3) ? lend_rng_below(rng, len + 1)
						       : lend_rng_below(rng, 2);
		uint8_t *copy;

		part = part < len ? part : len;
		copy = malloc(part ? part : 1);
		if (part)
			memcpy(copy, bytes, part);
		input->segment[input->n] = (struct lend_pb_segment){copy, part};
		bytes += part;
		len -= part;
	}
}

void kit_free(struct kit_input *input)
{
	while (input->n)
		free((void *)(uintptr_t)input->segment[--input->n].data);
}

static size_t draw_len(struct lend_rng *rng)
{
	static const size_t below[] = {1, 4, 20, 130, 300, 20000};
	size_t i = lend_rng_below(rng, 40);

	return lend_rng_below(rng, below[i < 6 ? i : 2]);
}

static uint8_t *draw_text(struct lend_rng *rng, struct lend_pb_blocks *blocks, size_t len)
{
	static const char *const wide[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
	uint8_t *text = lend_pb_take(blocks, len + 1);
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		const char *w = wide[lend_rng_below(rng, 3)];

		n = strlen(w);
		if (n > len - i || lend_rng_below(rng, 4)) {
			n = 1;
			w = "x";
		}
		memcpy(text + i, w, n);
	}
	text[len] = 0;
	return text;
}

static void draw_value(const ProtobufCFieldDescriptor *f, uint8_t *member, struct lend_rng *rng,
		       struct lend_pb_blocks *blocks, unsigned depth)
{
	uint64_t v = lend_rng_next(rng) >> lend_rng_below(rng, 64);
	ProtobufCBinaryData bytes;
	double real = (double)(int64_t)v;
	float narrow = (float)real;
	void *pointer;

	if (!lend_rng_below(rng, 4))
		v = 0 - v;
	switch (f->type) {
	case PROTOBUF_C_TYPE_BOOL:
		v &= 1;
		memcpy(member, &v, 4);
		return;
	case PROTOBUF_C_TYPE_FLOAT: /* not -0, which protobuf-c takes for 0 */
		memcpy(member, &narrow, 4);
		return;
	case PROTOBUF_C_TYPE_DOUBLE:
		memcpy(member, &real, 8);
		return;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
		memcpy(member, &v, 8);
		return;
	case PROTOBUF_C_TYPE_STRING:
		pointer = draw_text(rng, blocks, draw_len(rng));
		memcpy(member, &pointer, sizeof(pointer));
		return;
	case PROTOBUF_C_TYPE_BYTES:
		bytes.len = draw_len(rng);
		bytes.data = draw_text(rng, blocks, bytes.len);
		memcpy(member, &bytes, sizeof(bytes));
		return;
	case PROTOBUF_C_TYPE_MESSAGE:
		pointer = kit_message(f->descriptor, rng, blocks, depth - 1);
		memcpy(member, &pointer, sizeof(pointer));
		return;
	default:
		memcpy(member, &v, 4);
		return;
	}
}

static size_t size_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		return 4;
	default:
		return 8;
	}
}

static void draw_repeated(const ProtobufCFieldDescriptor *f, uint8_t *m, struct lend_rng *rng,
			  struct lend_pb_blocks *blocks, unsigned depth)
{
	size_t n = lend_rng_below(rng, lend_rng_below(rng, 6) ? 4 : 40), size = size_of(f->type);
	uint8_t *array = lend_pb_take(blocks, n * size);

	if (f->type == PROTOBUF_C_TYPE_MESSAGE && n > 3)
		n = 3;
	for (size_t i = 0; i < n; i++)
		draw_value(f, array + i * size, rng, blocks, depth);
	memcpy(m + f->quantifier_offset, &n, sizeof(n));
	memcpy(m + f->offset, &array, sizeof(array));
}

static void draw_unknown(ProtobufCMessage *m, struct lend_rng *rng, struct lend_pb_blocks *blocks)
{
	static const char *const value[] = {"\x05",
					    "12345678",
					    "\x03"
					    "abc",
					    NULL,
					    NULL,
					    "1234"};
	ProtobufCMessageUnknownField *u = lend_pb_take(blocks, 2 * sizeof(*u));

	m->unknown_fields = u;
	m->n_unknown_fields = (unsigned)lend_rng_below(rng, 3);
	for (unsigned i = 0; i < m->n_unknown_fields; i++) {
		do
			u[i].wire_type = (ProtobufCWireType)lend_rng_below(rng, 6);
		while (!value[u[i].wire_type]);
		u[i].tag = 70 + (uint32_t)lend_rng_below(rng, 3);
		u[i].data = (uint8_t *)(uintptr_t)value[u[i].wire_type];
		u[i].len = strlen(value[u[i].wire_type]);
	}
}

ProtobufCMessage *kit_message(const ProtobufCMessageDescriptor *d, struct lend_rng *rng,
			      struct lend_pb_blocks *blocks, unsigned depth)
{
	uint8_t *m = lend_pb_take(blocks, d->sizeof_message);

	protobuf_c_message_init(d, m);
	if (!lend_rng_below(rng, 4))
		draw_unknown((ProtobufCMessage *)m, rng, blocks);
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		uint32_t set = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF ? f->id : 1;

		if (f->label != PROTOBUF_C_LABEL_REQUIRED &&
		    (lend_rng_below(rng, 2) || (f->type == PROTOBUF_C_TYPE_MESSAGE && !depth)))
			continue;
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			draw_repeated(f, m, rng, blocks, depth);
			continue;
		}
		if (f->quantifier_offset)
			memcpy(m + f->quantifier_offset, &set, sizeof(set));
		draw_value(f, m + f->offset, rng, blocks, depth);
	}
	return (ProtobufCMessage *)m;
}
