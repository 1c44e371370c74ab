/* Goal: bytes are standard protobuf, and a decoder takes what protobuf C++ takes, with the same
 * values, wherever the bytes are cut, and never more memory than it is given. Method: a table of
 * bytes and verdicts, each compared with protobuf C++; random messages of all types, compared with
 * protobuf-c's and C++'s bytes; mutated bytes, compared with C++; memory that ends, and memory that
 * changes after each read. Covers: src/pb/message_table.c, src/pb/encoder.c, src/pb/decoder.c,
 * src/util/utf8.h */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "every.pb-c.h"
#include "every2.pb-c.h"
#include "pb/kit.h"
#include "pb/cxx_oracle.h"
#include "unit/double_fetch.h"
#include "util/utf8.h"

#define EVERY  &lend_test__every__descriptor
#define EVERY2 &lend_test2__every2__descriptor
#define MANY   &lend_test2__many__descriptor
#define MAPPED &lend_test__mapped__descriptor

enum { SEEDS = 300, MUTATIONS = 40, SEED = 20, NO_LIMIT = 1 << 28 };

struct decoded {
	struct kit_input input;
	struct kit_blocks blocks;
	ProtobufCMessage *message;
};

static enum lend_pb_status decode_cut(struct decoded *d, const struct lend_pb_table *table,
				      const uint8_t *bytes, size_t len, size_t memory,
				      struct lend_rng *rng)
{
	kit_cut(&d->input, bytes, len, rng);
	kit_blocks_open(&d->blocks, memory, 0);
	return lend_pb_decode(table, d->input.segment, d->input.n, &d->blocks.base, &d->message);
}

static void drop_decoded(struct decoded *d)
{
	kit_blocks_close(&d->blocks);
	kit_free(&d->input);
}

/* Decodes bytes and compares the verdict with protobuf C++, and the values by encoding them again.
 * Returns the status. */
static enum lend_pb_status compare(const struct lend_pb_table *table, const uint8_t *bytes,
				   size_t len, struct lend_rng *rng, const char *what)
{
	const char *name = table->descriptor->name;
	struct kit_bytes again = {0};
	struct decoded d;
	void *want = NULL, *got = NULL;
	size_t want_len = 0, got_len = 0;
	bool taken, bad_utf8 = false, ignored;
	enum lend_pb_status status = decode_cut(&d, table, bytes, len, NO_LIMIT, rng);

	taken = oracle_reparse(name, bytes, len, &want, &want_len, &bad_utf8);
	if (status == LEND_PB_BAD_UTF8 && table->descriptor == EVERY2)
		taken = false; /* a string that a later one replaced; C++ does not check proto2 */
	cr_assert_eq(status == LEND_PB_OK, taken && !bad_utf8, "%s: status %d, C++ %d, utf8 %d",
		     what, status, taken, !bad_utf8);
	if (status == LEND_PB_OK) {
		cr_assert_eq(kit_encode(table, d.message, 100, 0, false, &again), LEND_PB_OK);
		cr_assert(oracle_reparse(name, again.data, again.len, &got, &got_len, &ignored));
		cr_assert_eq(got_len, want_len, "%s: %zu bytes, C++ %zu", what, got_len, want_len);
		cr_assert_eq(memcmp(got, want, got_len), 0, "%s: other values", what);
	}
	free(got);
	free(want);
	free(again.data);
	drop_decoded(&d);
	return status;
}

struct row {
	const char *bytes;
	size_t len;
	const ProtobufCMessageDescriptor *type;
	enum lend_pb_status want;
};
#define ROW(text, type, want)                                                                      \
	{                                                                                          \
		text, sizeof(text) - 1, type, want                                                 \
	}
#define MAX10 "\x80\x80\x80\x80\x80\x80\x80\x80\x80"

static const struct row rows[] = {
    ROW("", EVERY, LEND_PB_OK),
    ROW("\x08", EVERY, LEND_PB_TRUNCATED),
    ROW("\x08\x80", EVERY, LEND_PB_TRUNCATED),
    ROW("\x08\x05", EVERY, LEND_PB_OK),
    ROW("\x88\x00\x05", EVERY, LEND_PB_OK), /* a tag longer than it has to be */
    ROW("\x88\x80\x80\x80\x10\x05", EVERY, LEND_PB_OK),
    ROW("\x88\x80\x80\x80\x80\x00\x05", EVERY, LEND_PB_MALFORMED),
    ROW("\x08" MAX10 "\x01", EVERY, LEND_PB_OK),
    ROW("\x48" MAX10 "\x7f", EVERY, LEND_PB_OK),
    ROW("\x68" MAX10 "\x02", EVERY, LEND_PB_OK), /* a bool of a bit that is dropped */
    ROW("\x08" MAX10 "\x80\x01", EVERY, LEND_PB_MALFORMED),
    ROW("\x00", EVERY, LEND_PB_MALFORMED),
    ROW("\x01\x01\x01\x01\x01\x01\x01\x01\x01", EVERY, LEND_PB_MALFORMED),
    ROW("\x0e", EVERY, LEND_PB_MALFORMED),
    ROW("\x0f", EVERY, LEND_PB_MALFORMED),
    ROW("\x0c", EVERY, LEND_PB_MALFORMED), /* an end without a group */
    ROW("\x0b\x0c", EVERY, LEND_PB_OK),
    ROW("\x0b\x10\x05\x0c", EVERY, LEND_PB_OK),
    ROW("\x0b\x14", EVERY, LEND_PB_MALFORMED),
    ROW("\x0b\x13\x14\x0c", EVERY, LEND_PB_OK),
    ROW("\x0b", EVERY, LEND_PB_TRUNCATED),
    ROW("\x0b\x00\x0c", EVERY, LEND_PB_MALFORMED),
    ROW("\x0d\x01\x02\x03\x04", EVERY, LEND_PB_OK), /* a known number, another wire type */
    ROW("\x0d\x01\x02\x03", EVERY, LEND_PB_TRUNCATED),
    ROW("\x0a\x01\x05", EVERY, LEND_PB_OK), /* not repeated, so not packed */
    ROW("\x12\x03\x61", EVERY, LEND_PB_TRUNCATED),
    ROW("\x7a\x02\xc3\xa9", EVERY, LEND_PB_OK),
    ROW("\x7a\x01\xc3", EVERY, LEND_PB_BAD_UTF8),
    ROW("\x7a\x03\xed\xa0\x80", EVERY, LEND_PB_BAD_UTF8),
    ROW("\x7a\x80\x00", EVERY, LEND_PB_OK),
    ROW("\x7a\x80\x80\x80\x80\x08", EVERY, LEND_PB_MALFORMED), /* a length of 2^31 */
    ROW("\x7a\xff\xff\xff\xff\x07", EVERY, LEND_PB_MALFORMED),
    ROW("\x7a\xef\xff\xff\xff\x07", EVERY, LEND_PB_TRUNCATED),
    ROW("\x7a\x80\x80\x80\x80\x80\x00", EVERY, LEND_PB_MALFORMED),
    ROW("\x8a\x01\x02\x08\x05", EVERY, LEND_PB_OK),
    ROW("\x8a\x01\x02\x08\x05\x8a\x01\x03\x12\x01\x61", EVERY, LEND_PB_OK), /* merged */
    ROW("\x8a\x01\x01\x08\x05", EVERY, LEND_PB_TRUNCATED),  /* past the nested message */
    ROW("\xa0\x01\x05\xaa\x01\x01\x61", EVERY, LEND_PB_OK), /* two cases: the last one */
    ROW("\xba\x01\x02\x08\x05\xa0\x01\x05\xba\x01\x00", EVERY, LEND_PB_OK),
    ROW("\xba\x01\x02\x08\x05\xba\x01\x03\x12\x01\x61", EVERY, LEND_PB_OK),
    ROW("\xaa\x01\x00", EVERY, LEND_PB_OK),             /* a case that is empty is still the case */
    ROW("\xfa\x01\x03\x01\x80\x02", EVERY, LEND_PB_OK), /* packed */
    ROW("\xfa\x01\x02\x01\x80", EVERY, LEND_PB_TRUNCATED),
    ROW("\xf8\x01\x05\xf8\x01\x06", EVERY, LEND_PB_OK), /* packed, as single ones */
    ROW("\xfa\x01\x02\x05\x06\xf8\x01\x07\xfa\x01\x02\x08\x09", EVERY, LEND_PB_OK),
    ROW("\xaa\x02\x02\x05\x06", EVERY, LEND_PB_OK), /* not packed, but it is */
    ROW("\x8a\x02\x04\x01\x00\x00\x00\x8d\x02\x02\x00\x00\x00", EVERY, LEND_PB_OK),
    ROW("\x8a\x02\x05\x01\x00\x00\x00\x01", EVERY, LEND_PB_MALFORMED),
    ROW("\x8a\x02\x00", EVERY, LEND_PB_OK),
    ROW("\xf8\xff\xff\xff\x0f\x05", EVERY, LEND_PB_OK), /* the highest number */
    ROW("\x09\x00\x00\x00\x00\x00\x00\x00\x80", EVERY, LEND_PB_OK),
    ROW("\x61\x00\x00\x00\x00\x00\x00\x00\x80", EVERY, LEND_PB_OK), /* -0.0 is a value */
    ROW("", EVERY2, LEND_PB_OK),
    ROW("\x08\x00\x18\x00\x22\x00\x2a\x00", EVERY2, LEND_PB_OK), /* set, not as the default */
    ROW("\x42\x00", EVERY2, LEND_PB_MISSING),
    ROW("\x42\x02\x08\x01", EVERY2, LEND_PB_MISSING),
    ROW("\x42\x02\x08\x01\x42\x02\x12\x00", EVERY2, LEND_PB_OK),      /* complete when merged */
    ROW("\x4a\x02\x08\x01\x4a\x02\x12\x00", EVERY2, LEND_PB_MISSING), /* two messages */
    ROW("\x6a\x02\x08\x01", EVERY2, LEND_PB_MISSING),
    ROW("\x6a\x02\x08\x01\x78\x05", EVERY2, LEND_PB_OK), /* the incomplete case was dropped */
    ROW("\x42\x08\x08\x01\x12\x00\x1a\x02\x08\x01", EVERY2, LEND_PB_MISSING),
    ROW("\x22\x01\xff", EVERY2, LEND_PB_BAD_UTF8),
    ROW("\x08\x01", MANY, LEND_PB_MISSING),
    ROW("\x0a\x05\x0a\x01\x61\x10\x01\x0a\x05\x0a\x01\x61\x10\x02", MAPPED, LEND_PB_OK),
    ROW("\x0a\x00\x12\x00\x12\x04\x12\x02\x08\x01", MAPPED, LEND_PB_OK),
};

Test(pb, decode__table_of_bytes__verdict_and_values_of_cxx)
{
	struct lend_rng rng;
	char what[32];

	lend_rng_seed(&rng, SEED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct lend_pb_table *table = kit_table(rows[i].type);

		(void)snprintf(what, sizeof(what), "row %zu", i);
		for (int cut = 0; cut < 20; cut++) /* the first time in one piece */
			cr_assert_eq(compare(table, (const uint8_t *)rows[i].bytes, rows[i].len,
					     cut ? &rng : NULL, what),
				     rows[i].want, "row %zu: another status", i);
	}
}

Test(pb, decode__required_fields_of_two_words__all_needed)
{
	const struct lend_pb_table *table = kit_table(MANY);
	uint8_t bytes[256];
	size_t n = 0;

	for (uint32_t number = 1; number <= 65; number++) {
		uint32_t tag = number << 3;

		cr_assert_eq(compare(table, bytes, n, NULL, "some"), LEND_PB_MISSING);
		if (tag >= 0x80) {
			bytes[n++] = (uint8_t)(tag | 0x80);
			tag >>= 7;
		}
		bytes[n++] = (uint8_t)tag;
		bytes[n++] = 1;
	}
	cr_assert_eq(compare(table, bytes, n, NULL, "all"), LEND_PB_OK);
}

/* Nests n messages of field 18, or groups of an unknown field. */
static size_t nest_messages(uint8_t *bytes, size_t n, bool groups)
{
	size_t len = 0;

	if (groups) {
		memset(bytes, 0x0b, n);
		memset(bytes + n, 0x0c, n);
		return 2 * n;
	}
	for (; n--; len += len < 128 ? 3 : 4) {
		uint8_t head[4] = {0x92, 0x01, (uint8_t)len};

		if (len >= 128) {
			head[2] = (uint8_t)(len | 0x80);
			head[3] = (uint8_t)(len >> 7);
		}
		memmove(bytes + (len < 128 ? 3 : 4), bytes, len);
		memcpy(bytes, head, len < 128 ? 3 : 4);
	}
	return len;
}

Test(pb, decode__nesting_at_the_limit__as_in_cxx)
{
	const struct lend_pb_table *table = kit_table(EVERY);
	uint8_t bytes[1024];

	for (int groups = 0; groups < 2; groups++) {
		cr_assert_eq(compare(table, bytes, nest_messages(bytes, 100, groups), NULL, "100"),
			     LEND_PB_OK);
		cr_assert_eq(compare(table, bytes, nest_messages(bytes, 101, groups), NULL, "101"),
			     LEND_PB_TOO_DEEP);
	}
}

Test(pb, encode__nesting_at_the_limit__typed_error)
{
	const struct lend_pb_table *table = kit_table(EVERY);
	LendTest__Every deep[102];
	struct kit_bytes out;

	for (int i = 0; i < 102; i++) {
		lend_test__every__init(&deep[i]);
		deep[i].self = i ? &deep[i - 1] : NULL;
	}
	cr_assert_eq(kit_encode(table, &deep[100], 100, 0, false, &out), LEND_PB_OK);
	free(out.data);
	cr_assert_eq(kit_encode(table, &deep[101], 100, 0, false, &out), LEND_PB_TOO_DEEP);
	deep[0].self = &deep[0];
	cr_assert_eq(kit_encode(table, &deep[0], 100, 0, false, &out), LEND_PB_TOO_DEEP);
}

/* Compares what the encoder writes with protobuf-c, in every way to place the bytes; what the
 * decoder makes of it must be written equally. */
static void check_message(const ProtobufCMessageDescriptor *type, const ProtobufCMessage *m,
			  struct lend_rng *rng, uint64_t seed)
{
	static const size_t in_place[] = {1, 100, 1000, SIZE_MAX}, block[] = {0, 64, 4096, 100000};
	const struct lend_pb_table *table = kit_table(type);
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *want = malloc(len + 1);
	struct kit_bytes got;
	struct decoded d;

	cr_assert_eq(protobuf_c_message_pack(m, want), len);
	for (int i = 0; i < 4; i++) {
		size_t b = block[lend_rng_below(rng, 4)];

		if (in_place[i] == SIZE_MAX)
			b = 1 << 20;
		cr_assert_eq(kit_encode(table, m, in_place[i], b, seed % 2, &got), LEND_PB_OK,
			     "seed %lu", (unsigned long)seed);
		cr_assert_eq(got.len, len, "seed %lu: length", (unsigned long)seed);
		cr_assert_eq(memcmp(got.data, want, len), 0, "seed %lu: bytes",
			     (unsigned long)seed);
		free(got.data);
	}
	cr_assert_eq(decode_cut(&d, table, want, len, NO_LIMIT, rng), LEND_PB_OK, "seed %lu",
		     (unsigned long)seed);
	cr_assert_eq(kit_encode(table, d.message, 100, 1 << 20, false, &got), LEND_PB_OK);
	cr_assert_eq(got.len, len, "seed %lu: length of the copy", (unsigned long)seed);
	cr_assert_eq(memcmp(got.data, want, len), 0, "seed %lu: the copy", (unsigned long)seed);
	free(got.data);
	drop_decoded(&d);
	cr_assert_eq(compare(table, want, len, rng, "a message"), LEND_PB_OK);
	free(want);
}

static uint64_t first_seed(void)
{
	const char *text = getenv("LEND_SEED");

	return text ? strtoull(text, NULL, 0) : SEED;
}

static const ProtobufCMessageDescriptor *const types[] = {EVERY, EVERY2, MAPPED, MANY};

Test(pb, encode__random_messages__bytes_of_protobuf_c)
{
	struct kit_blocks blocks;
	struct lend_rng rng;

	printf("seeds %lu.. of pb\n", (unsigned long)first_seed());
	for (uint64_t seed = first_seed(); seed < first_seed() + SEEDS; seed++) {
		const ProtobufCMessageDescriptor *type = types[seed % 8 < 3 ? seed % 8 + 1 : 0];

		lend_rng_seed(&rng, seed);
		kit_blocks_open(&blocks, SIZE_MAX, 1 << 16);
		check_message(type, kit_message(type, &rng, &blocks.base, 2), &rng, seed);
		kit_blocks_close(&blocks);
	}
}

static size_t mutate_bytes(uint8_t *bytes, size_t len, struct lend_rng *rng)
{
	static const uint8_t likely[] = {0, 1, 0x7f, 0x80, 0xff, 0x0b, 0x0c, 0x12, 0x42, 0x92};
	size_t at, n;

	for (unsigned times = 1 + (unsigned)lend_rng_below(rng, 4); times && len; times--) {
		at = lend_rng_below(rng, len);
		n = 1 + lend_rng_below(rng, lend_rng_below(rng, 4) ? 4 : len - at);
		n = n < len - at ? n : len - at;
		switch (lend_rng_below(rng, 4)) {
		case 0:
			bytes[at] ^= (uint8_t)(1u << lend_rng_below(rng, 8));
			break;
		case 1:
			bytes[at] = likely[lend_rng_below(rng, sizeof(likely))];
			break;
		case 2:
			memmove(bytes + at, bytes + at + n, len - at - n);
			len -= n;
			break;
		default:
			memmove(bytes + at + n, bytes + at, len - at); /* there is room */
			len += n;
			break;
		}
	}
	return len;
}

Test(pb, decode__mutated_bytes__verdict_and_values_of_cxx)
{
	unsigned good = 0, bad = 0;
	struct kit_blocks blocks;
	struct lend_rng rng;
	char what[64];

	for (uint64_t seed = first_seed(); seed < first_seed() + SEEDS; seed++) {
		const ProtobufCMessageDescriptor *type = types[seed % 8 < 2 ? seed % 8 + 1 : 0];
		const struct lend_pb_table *table = kit_table(type);
		struct kit_bytes out;
		uint8_t *bytes;

		lend_rng_seed(&rng, seed);
		kit_blocks_open(&blocks, SIZE_MAX, 1 << 16);
		(void)kit_encode(table, kit_message(type, &rng, &blocks.base, 1), SIZE_MAX, 1 << 20,
				 false, &out);
		bytes = malloc(16 * out.len + 64);
		for (int i = 0; i < MUTATIONS; i++) {
			size_t len;

			memcpy(bytes, out.data, out.len);
			len = mutate_bytes(bytes, out.len, &rng);
			(void)snprintf(what, sizeof(what), "seed %lu, mutation %d",
				       (unsigned long)seed, i);
			if (compare(table, bytes, len, &rng, what) == LEND_PB_OK)
				good++;
			else
				bad++;
		}
		free(bytes);
		free(out.data);
		kit_blocks_close(&blocks);
	}
	cr_assert(good > 1000 && bad > 1000, "%u good, %u bad", good, bad);
}

Test(pb, decode__memory_that_ends__typed_error)
{
	const struct lend_pb_table *table = kit_table(EVERY);
	struct kit_blocks blocks;
	struct kit_bytes out;
	struct lend_rng rng;
	struct decoded d;
	enum lend_pb_status status = LEND_PB_NO_MEMORY;

	lend_rng_seed(&rng, SEED);
	kit_blocks_open(&blocks, SIZE_MAX, 1 << 16);
	(void)kit_encode(table, kit_message(EVERY, &rng, &blocks.base, 1), 1, 0, false, &out);
	for (size_t memory = 0; status != LEND_PB_OK; memory += 8) {
		status = decode_cut(&d, table, out.data, out.len, memory, &rng);
		cr_assert(status == LEND_PB_OK || status == LEND_PB_NO_MEMORY);
		cr_assert_eq(!d.message, status != LEND_PB_OK);
		drop_decoded(&d);
	}
	free(out.data);
	kit_blocks_close(&blocks);
}

Test(pb, decode__bytes_in_one_piece__stay_where_they_are)
{
	static const uint8_t bytes[] = "\x82\x01\x03"
				       "abc"
				       "\xc2\x02\x02"
				       "de"
				       "\x92\x01\x04\x82\x01\x01z";
	const struct lend_pb_segment in = {bytes, sizeof(bytes) - 1};
	struct kit_blocks blocks;
	ProtobufCMessage *m;
	LendTest__Every *every;

	kit_blocks_open(&blocks, SIZE_MAX, 0);
	cr_assert_eq(lend_pb_decode(kit_table(EVERY), &in, 1, &blocks.base, &m), LEND_PB_OK);
	every = (LendTest__Every *)m;
	cr_assert_eq(every->data.data, bytes + 3);
	cr_assert_eq(every->many_data[0].data, bytes + 9);
	cr_assert_eq(every->self->data.data, bytes + 17);
	kit_blocks_close(&blocks);
}

Test(pb, encode__long_values__segments_of_the_messages_memory)
{
	static char text[300];
	static uint8_t data[200];
	static double wide[50];
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	struct lend_pb_segment segment[KIT_SEGMENTS];
	struct kit_blocks blocks;
	struct lend_pb_encoder e = {
	    .blocks = &blocks.base, .segment = segment, .max = KIT_SEGMENTS, .in_place = 200};
	unsigned seen = 0;

	memset(text, 'x', sizeof(text) - 1);
	m.text = text;
	m.data = (ProtobufCBinaryData){sizeof(data), data};
	m.many_wide = wide;
	m.n_many_wide = 50;
	kit_blocks_open(&blocks, SIZE_MAX, 4096);
	cr_assert_eq(lend_pb_encode(&e, kit_table(EVERY), &m.base), LEND_PB_OK);
	for (uint32_t i = e.first; i < e.max; i++)
		seen += segment[i].data == (uint8_t *)text || segment[i].data == data ||
			segment[i].data == (uint8_t *)wide;
	cr_assert_eq(seen, 3);
	cr_assert_eq(e.max - e.first, 6, "each behind its head");
	kit_blocks_close(&blocks);
}

Test(pb, encode__encoded_message__as_the_message_itself)
{
	static uint8_t body[500] = {1, 2, 3};
	LendTest__Leaf leaf = LEND_TEST__LEAF__INIT;
	LendTest__Every m = LEND_TEST__EVERY__INIT;
	LendTest__Leaf *leaves[2];
	struct lend_pb_encoded encoded = {.base = {.descriptor = &lend_pb_encoded_descriptor}};
	struct lend_pb_segment segment[KIT_SEGMENTS];
	struct kit_blocks blocks;
	struct lend_pb_encoder e = {
	    .blocks = &blocks.base, .segment = segment, .max = KIT_SEGMENTS, .in_place = 200};
	struct kit_bytes want, got;

	leaf.id = 77;
	leaf.body = (ProtobufCBinaryData){sizeof(body), body};
	m.leaf = &leaf;
	leaves[0] = leaves[1] = &leaf;
	m.many_leaf = leaves;
	m.n_many_leaf = 2;
	cr_assert_eq(kit_encode(kit_table(EVERY), &m, 200, 0, false, &want), LEND_PB_OK);
	kit_blocks_open(&blocks, SIZE_MAX, 0);
	cr_assert_eq(lend_pb_encode(&e, kit_table(&lend_test__leaf__descriptor), &leaf.base),
		     LEND_PB_OK);
	encoded.segment = segment + e.first;
	encoded.n = e.max - e.first;
	m.leaf = (void *)&encoded;
	leaves[0] = leaves[1] = (void *)&encoded;
	cr_assert_eq(kit_encode(kit_table(EVERY), &m, 200, 0, false, &got), LEND_PB_OK);
	cr_assert_eq(got.len, want.len);
	cr_assert_eq(memcmp(got.data, want.data, got.len), 0);
	free(got.data);
	m.leaf = (void *)&m; /* a message of another type */
	cr_assert_eq(kit_encode(kit_table(EVERY), &m, 200, 0, false, &got), LEND_PB_BAD_TYPE);
	free(want.data);
	kit_blocks_close(&blocks);
}

Test(pb, table__descriptor_without_init__defaults_of_protobuf_c)
{
	ProtobufCMessageDescriptor plain = lend_test2__every2__descriptor;
	struct lend_pb_blocks *blocks;
	struct kit_blocks kit;
	ProtobufCMessage *want;
	const struct lend_pb_table *table;

	plain.message_init = NULL;
	kit_blocks_open(&kit, SIZE_MAX, 0);
	blocks = &kit.base;
	want = protobuf_c_message_unpack(&plain, NULL, 0, (const uint8_t *)"");
	cr_assert_eq(lend_pb_table_make(&plain, blocks, &table), LEND_PB_OK);
	cr_assert_eq(memcmp(table->blank, want, plain.sizeof_message), 0);
	protobuf_c_message_free_unpacked(want, NULL);
	plain.magic++;
	cr_assert_eq(lend_pb_table_make(&plain, blocks, &table), LEND_PB_BAD_TYPE);
	kit.left = 100;
	cr_assert_eq(lend_pb_table_make(EVERY, blocks, &table), LEND_PB_NO_MEMORY);
	kit_blocks_close(&kit);
}

Test(pb, utf8__all_of_three_bytes_and_edges_of_four__as_rfc_3629)
{
	uint8_t s[12] = "aaaaaaaa";

	for (uint32_t c = 0; c < 1 << 24;
	     c += c < 0x800000 ? 0x10000 : 1) { /* ASCII first byte: some */
		uint8_t a = (uint8_t)(c >> 16), b = (uint8_t)(c >> 8), e = (uint8_t)c;
		bool b_on = (b & 0xc0) == 0x80, e_on = (e & 0xc0) == 0x80;
		bool two = a >= 0xc2 && a < 0xe0 && b_on && e < 0x80;
		bool three = (a & 0xf0) == 0xe0 && b_on && e_on && !(a == 0xe0 && b < 0xa0) &&
			     !(a == 0xed && b >= 0xa0);

		memcpy(s + 8, &(uint8_t[3]){a, b, e}, 3);
		if (lend_utf8_valid(s, 11) != (a < 0x80 || two || three))
			cr_assert_fail("%02x %02x %02x", a, b, e);
	}
	cr_assert(lend_utf8_valid((const uint8_t *)"\xf4\x8f\xbf\xbf", 4));
	cr_assert(!lend_utf8_valid((const uint8_t *)"\xf4\x90\x80\x80", 4));
	cr_assert(!lend_utf8_valid((const uint8_t *)"\xf0\x8f\xbf\xbf", 4));
	cr_assert(!lend_utf8_valid((const uint8_t *)"\xf0\x9f\x98\x80", 3));
}

/* Returns whether a message that was decoded from flip's memory is safe to use. */
static bool is_sound(const LendTest__Every *m, const uint8_t *end)
{
	return lend_utf8_valid((const uint8_t *)m->text, strlen(m->text)) &&
	       m->data.len <= (size_t)(end - m->data.data) && m->n_many_i32 == 2;
}

Test(pb, decode__memory_that_changes__lengths_and_strings_are_of_one_read)
{
	static const char before[] = "\x7a\x04"
				     "abcd"
				     "\xfa\x01\x02\x01\x02"
				     "\x82\x01\x02zz";
	static const char *const after[] = {
	    "\x7a\x04"
	    "\xff\xff\xff\xff"
	    "\xfa\x01\x02\x01\x02"
	    "\x82\x01\x02zz",
	    "\x7a\x04"
	    "abcd"
	    "\xfa\x01\x02\x01\x02"
	    "\x82\x01\x7fzz",
	};
	const struct lend_pb_table *table = kit_table(EVERY);
	unsigned good = 0;

	flip_open();
	for (unsigned k = 1; k < 100; k++) {
		struct kit_blocks blocks;
		ProtobufCMessage *m;
		struct lend_pb_segment in = {NULL, sizeof(before) - 1};

		flip_arm(before, after[k % 2], in.len, k / 2);
		in.data = flip.bytes;
		kit_blocks_open(&blocks, NO_LIMIT, 0);
		if (lend_pb_decode(table, &in, 1, &blocks.base, &m) == LEND_PB_OK) {
			cr_assert(is_sound((LendTest__Every *)m, in.data + in.len), "k %u", k);
			good++;
		}
		kit_blocks_close(&blocks);
	}
	cr_assert(good, "it is never read as it was");
}
