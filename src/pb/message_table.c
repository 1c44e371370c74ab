#include "pb/message_table.h"

#include <string.h>

enum {
	DESCRIPTOR_MAGIC = 0x28aaeef9,
	DENSE_MAX = 1024,
	VARINT_MAX = 10,  /* bytes */
	STORE_SPARE = 16, /* bytes that the encoder may write before a field */
	VARINT = 0,
	BITS64 = 1,
	LEN = 2,
	BITS32 = 5
};

static const struct {
	uint8_t kind, wire, size;
} types[] = {
    [PROTOBUF_C_TYPE_INT32] = {LEND_PB_INT32, VARINT, 4},
    [PROTOBUF_C_TYPE_SINT32] = {LEND_PB_SINT32, VARINT, 4},
    [PROTOBUF_C_TYPE_SFIXED32] = {LEND_PB_FIXED32, BITS32, 4},
    [PROTOBUF_C_TYPE_INT64] = {LEND_PB_INT64, VARINT, 8},
    [PROTOBUF_C_TYPE_SINT64] = {LEND_PB_SINT64, VARINT, 8},
    [PROTOBUF_C_TYPE_SFIXED64] = {LEND_PB_FIXED64, BITS64, 8},
    [PROTOBUF_C_TYPE_UINT32] = {LEND_PB_UINT32, VARINT, 4},
    [PROTOBUF_C_TYPE_FIXED32] = {LEND_PB_FIXED32, BITS32, 4},
    [PROTOBUF_C_TYPE_UINT64] = {LEND_PB_INT64, VARINT, 8},
    [PROTOBUF_C_TYPE_FIXED64] = {LEND_PB_FIXED64, BITS64, 8},
    [PROTOBUF_C_TYPE_FLOAT] = {LEND_PB_FIXED32, BITS32, 4},
    [PROTOBUF_C_TYPE_DOUBLE] = {LEND_PB_FIXED64, BITS64, 8},
    [PROTOBUF_C_TYPE_BOOL] = {LEND_PB_BOOL, VARINT, sizeof(protobuf_c_boolean)},
    [PROTOBUF_C_TYPE_ENUM] = {LEND_PB_INT32, VARINT, 4},
    [PROTOBUF_C_TYPE_STRING] = {LEND_PB_STRING, LEN, sizeof(char *)},
    [PROTOBUF_C_TYPE_BYTES] = {LEND_PB_BYTES, LEN, sizeof(ProtobufCBinaryData)},
    [PROTOBUF_C_TYPE_MESSAGE] = {LEND_PB_MESSAGE, LEN, sizeof(ProtobufCMessage *)},
};

static bool is_pointer(const struct lend_pb_field *f)
{
	return f->kind == LEND_PB_STRING || f->kind == LEND_PB_MESSAGE;
}

static uint8_t presence_of(const ProtobufCFieldDescriptor *d, const struct lend_pb_field *f)
{
	if (d->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return LEND_PB_CASE;
	switch (d->label) {
	case PROTOBUF_C_LABEL_REQUIRED:
		return LEND_PB_REQUIRED;
	case PROTOBUF_C_LABEL_REPEATED:
		return d->flags & PROTOBUF_C_FIELD_FLAG_PACKED && f->wire != LEN ? LEND_PB_PACKED
										 : LEND_PB_REPEATED;
	case PROTOBUF_C_LABEL_OPTIONAL:
		return is_pointer(f) ? LEND_PB_POINTER : LEND_PB_HAS;
	case PROTOBUF_C_LABEL_NONE:
		return f->kind == LEND_PB_MESSAGE ? LEND_PB_POINTER : LEND_PB_IMPLICIT;
	}
	return LEND_PB_IMPLICIT;
}

/* Encodes the tag at the end of f->tag, from where the encoder copies all 8 bytes. */
static void set_tag(struct lend_pb_field *f)
{
	uint32_t wire = f->presence == LEND_PB_PACKED ? LEN : f->wire;
	uint64_t tag = (uint64_t)f->number << 3 | wire;
	uint8_t bytes[8];

	f->expected = (uint32_t)tag;
	for (; tag >= 0x80; tag >>= 7)
		bytes[f->tag_len++] = (uint8_t)(tag | 0x80);
	bytes[f->tag_len++] = (uint8_t)tag;
	memcpy(f->tag + 8 - f->tag_len, bytes, f->tag_len);
}

/* Returns the table of a type that is in the list, or adds an empty one at the end. */
static struct lend_pb_table *find_or_add(struct lend_pb_table **list,
					 const ProtobufCMessageDescriptor *d,
					 struct lend_pb_blocks *blocks)
{
	while (*list && (*list)->descriptor != d)
		list = &(*list)->next;
	if (!*list && (*list = lend_pb_take(blocks, sizeof(**list)))) {
		memset(*list, 0, sizeof(**list));
		(*list)->descriptor = d;
	}
	return *list;
}

/* Sets the members that protobuf-c's own initialisation sets in types without message_init. */
static void set_defaults(uint8_t *blank, const ProtobufCMessageDescriptor *d)
{
	((ProtobufCMessage *)(void *)blank)->descriptor = d;
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		uint8_t size = types[f->type].size;

		if (!f->default_value || f->label == PROTOBUF_C_LABEL_REPEATED)
			continue;
		if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
			memcpy(blank + f->offset, &f->default_value, size);
		else
			memcpy(blank + f->offset, f->default_value, size);
	}
}

static bool take_arrays(struct lend_pb_table *t, struct lend_pb_blocks *blocks)
{
	const ProtobufCMessageDescriptor *d = t->descriptor;
	uint32_t last = d->n_fields ? d->fields[d->n_fields - 1].id : 0;

	t->n = d->n_fields;
	t->simple_max = STORE_SPARE;
	t->size = (uint32_t)d->sizeof_message;
	t->dense = last < DENSE_MAX ? last + 1 : DENSE_MAX;
	t->field = lend_pb_take(blocks, t->n * sizeof(*t->field));
	t->index = lend_pb_take(blocks, t->dense * sizeof(*t->index));
	t->blank = lend_pb_take(blocks, t->size);
	if (!t->field || !t->index || !t->blank)
		return false;
	memset(t->field, 0, t->n * sizeof(*t->field));
	memset(t->index, 0, t->dense * sizeof(*t->index));
	memset(t->blank, 0, t->size);
	return true;
}

static enum lend_pb_status fill_field(struct lend_pb_table *t, struct lend_pb_table **list,
				      uint32_t i, struct lend_pb_blocks *blocks)
{
	const ProtobufCFieldDescriptor *d = &t->descriptor->fields[i];
	struct lend_pb_field *f = &t->field[i];

	if ((unsigned)d->type > PROTOBUF_C_TYPE_MESSAGE || !d->id || d->id > LEND_PB_NUMBER_MAX)
		return LEND_PB_BAD_TYPE;
	f->offset = d->offset;
	f->quantifier = d->quantifier_offset;
	f->number = d->id;
	f->kind = types[d->type].kind;
	f->wire = types[d->type].wire;
	f->size = types[d->type].size;
	f->presence = presence_of(d, f);
	f->absent = is_pointer(f) ? d->default_value : NULL;
	if (f->presence == LEND_PB_REQUIRED)
		f->required = ++t->required;
	if (f->number < t->dense)
		t->index[f->number] = (uint16_t)(i + 1);
	set_tag(f);
	f->simple = f->presence == LEND_PB_IMPLICIT ? f->kind : LEND_PB_MESSAGE;
	if (f->simple != LEND_PB_MESSAGE)
		t->simple_max += f->tag_len + VARINT_MAX;
	if (f->kind == LEND_PB_MESSAGE && !(f->child = find_or_add(list, d->descriptor, blocks)))
		return LEND_PB_NO_MEMORY;
	return LEND_PB_OK;
}

static enum lend_pb_status fill_table(struct lend_pb_table *t, struct lend_pb_table **list,
				      struct lend_pb_blocks *blocks)
{
	const ProtobufCMessageDescriptor *d = t->descriptor;
	enum lend_pb_status status = LEND_PB_OK;

	if (d->magic != DESCRIPTOR_MAGIC)
		return LEND_PB_BAD_TYPE;
	if (!take_arrays(t, blocks))
		return LEND_PB_NO_MEMORY;
	for (uint32_t i = 0; i < t->n && status == LEND_PB_OK; i++)
		status = fill_field(t, list, i, blocks);
	if (status != LEND_PB_OK)
		return status;
	if (d->message_init)
		d->message_init((ProtobufCMessage *)(void *)t->blank);
	else
		set_defaults(t->blank, d);
	t->head = (t->required + 63) / 64 * 8;
	return LEND_PB_OK;
}

enum lend_pb_status lend_pb_table_make(const ProtobufCMessageDescriptor *descriptor,
				       struct lend_pb_blocks *blocks,
				       const struct lend_pb_table **table)
{
	struct lend_pb_table *list = NULL;
	enum lend_pb_status status = LEND_PB_OK;

	if (!find_or_add(&list, descriptor, blocks))
		return LEND_PB_NO_MEMORY;
	for (struct lend_pb_table *t = list; t && status == LEND_PB_OK; t = t->next)
		status = fill_table(t, &list, blocks);
	*table = status == LEND_PB_OK ? list : NULL;
	return status;
}

const struct lend_pb_field *lend_pb_field_find(const struct lend_pb_table *t, uint32_t number)
{
	uint32_t low = 0, high = t->n;

	if (number < t->dense)
		return t->index[number] ? &t->field[t->index[number] - 1] : NULL;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (t->field[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->n && t->field[low].number == number ? &t->field[low] : NULL;
}
