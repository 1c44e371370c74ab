/* c_coders - the message in protobuf-c's structures: encoded by lend and by protobuf-c.
 * Layer: apps. Threads: one. */
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/serialize/coder.h"
#include "pb/decoder.h"
#include "shapes.pb-c.h"

enum { SEGMENTS = 512, TABLE_LEN = 1 << 16 };

struct c_state {
	const struct shape *shape;
	Shapes__Tree *tree;    /* one per level, the outermost first */
	ProtobufCMessage *got; /* decoded */
	/* protobuf-c */
	uint8_t *packed;
	size_t packed_len;
	/* lend */
	const struct lend_pb_table *table;
	struct lend_pb_segment segment[SEGMENTS];
	struct lend_pb_encoder encoder;
	struct lend_pb_blocks blocks;
	uint8_t *memory, *table_memory;
	size_t memory_len;
};

static bool never_more(struct lend_pb_blocks *blocks, size_t len)
{
	(void)blocks, (void)len;
	return false;
}

static void *take_zeroed(size_t n, size_t len)
{
	void *at = calloc(n, len);

	if (!at)
		app_die("no memory for the message; use a smaller --size");
	return at;
}

static Shapes__Item *make_item(const struct shape *shape, unsigned i)
{
	struct item_values *v = take_zeroed(1, sizeof(*v));
	Shapes__Item *item = take_zeroed(1, sizeof(*item));

	item_values_of(v, i);
	shapes__item__init(item);
	item->id = v->id;
	item->name = v->name;
	item->price = v->price;
	item->count = v->count;
	item->flag = 1;
	item->data = (ProtobufCBinaryData){shape->len, (uint8_t *)(uintptr_t)shape->payload};
	return item;
}

static void *open_state(const struct shape *shape)
{
	struct c_state *s = take_zeroed(1, sizeof(*s));
	struct lend_pb_blocks tables = {.more = never_more};

	s->shape = shape;
	s->tree = take_zeroed(shape->levels, sizeof(*s->tree));
	for (unsigned l = 0, i = 0; l < shape->levels; l++) {
		Shapes__Tree *t = &s->tree[l];

		shapes__tree__init(t);
		t->id = l + 1;
		t->n_items = shape->items;
		t->items = take_zeroed(shape->items, sizeof(*t->items));
		for (unsigned k = 0; k < shape->items; k++)
			t->items[k] = make_item(shape, i++);
		t->inner = l + 1 < shape->levels ? t + 1 : NULL;
	}
	s->packed_len = shapes__tree__get_packed_size(s->tree);
	s->packed = take_zeroed(1, s->packed_len);
	s->memory_len = 2 * s->packed_len + (size_t)512 * shape->levels * (shape->items + 1) + 4096;
	s->memory = take_zeroed(1, s->memory_len);
	s->table_memory = take_zeroed(1, TABLE_LEN);
	tables.at = s->table_memory;
	tables.end = tables.at + TABLE_LEN;
	if (lend_pb_table_make(&shapes__tree__descriptor, &tables, &s->table) != LEND_PB_OK)
		app_die("no table of the message");
	s->encoder = (struct lend_pb_encoder){.blocks = &s->blocks,
					      .segment = s->segment,
					      .max = SEGMENTS,
					      .in_place = shape->in_place};
	return s;
}

static void close_state(void *state)
{
	struct c_state *s = state;

	for (unsigned l = 0; l < s->shape->levels; l++) {
		for (unsigned k = 0; k < s->shape->items; k++) {
			free(s->tree[l].items[k]->name - offsetof(struct item_values, name));
			free(s->tree[l].items[k]);
		}
		free(s->tree[l].items);
	}
	free(s->tree);
	free(s->packed);
	free(s->memory);
	free(s->table_memory);
	free(s);
}

static size_t check_tree(void *state)
{
	const struct c_state *s = state;
	const Shapes__Tree *t = (const Shapes__Tree *)s->got;
	size_t sum = 0, n;

	for (unsigned l = 0, i = 0; l < s->shape->levels; l++, t = t->inner) {
		if (!t || t->id != l + 1 || t->n_items != s->shape->items)
			return 0;
		for (unsigned k = 0; k < s->shape->items; k++) {
			const Shapes__Item *item = t->items[k];

			n = item_check(s->shape, i++, item->id, item->price, item->count,
				       item->name, item->data.data, item->data.len);
			if (!n || !item->flag)
				return 0;
			sum += n;
		}
	}
	return sum;
}

static void reset_blocks(struct c_state *s)
{
	s->blocks = (struct lend_pb_blocks){
	    .at = s->memory, .end = s->memory + s->memory_len, .more = never_more};
}

static size_t lend_encode(void *state)
{
	struct c_state *s = state;

	reset_blocks(s);
	return lend_pb_encode(&s->encoder, s->table, &s->tree->base) == LEND_PB_OK ? s->encoder.len
										   : 0;
}

static void lend_gather(void *state, uint8_t *to)
{
	const struct c_state *s = state;

	for (uint32_t i = s->encoder.first; i < s->encoder.max; i++) {
		memcpy(to, s->segment[i].data, s->segment[i].len);
		to += s->segment[i].len;
	}
}

static int lend_decode(void *state, const uint8_t *bytes, size_t len)
{
	const struct lend_pb_segment in = {bytes, len};
	struct c_state *s = state;

	reset_blocks(s);
	return lend_pb_decode(s->table, &in, 1, &s->blocks, &s->got) == LEND_PB_OK;
}

static size_t c_encode(void *state)
{
	struct c_state *s = state;

	return shapes__tree__get_packed_size(s->tree) == s->packed_len
		   ? shapes__tree__pack(s->tree, s->packed)
		   : 0;
}

static void c_gather(void *state, uint8_t *to)
{
	const struct c_state *s = state;

	memcpy(to, s->packed, s->packed_len);
}

static int c_decode(void *state, const uint8_t *bytes, size_t len)
{
	struct c_state *s = state;

	if (s->got)
		protobuf_c_message_free_unpacked(s->got, NULL);
	s->got = protobuf_c_message_unpack(&shapes__tree__descriptor, NULL, len, bytes);
	return s->got != NULL;
}

static void c_close(void *state)
{
	struct c_state *s = state;

	if (s->got)
		protobuf_c_message_free_unpacked(s->got, NULL);
	close_state(s);
}

const struct coder coder_lend = {"lend",      open_state, lend_encode, lend_gather,
				 lend_decode, check_tree, close_state};
const struct coder coder_protobuf_c = {"protobuf_c", open_state, c_encode, c_gather,
				       c_decode,     check_tree, c_close};
