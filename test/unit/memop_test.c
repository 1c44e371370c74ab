/* Goal: memop decodes what it encodes, and accepts no malformed bytes from a peer. Method: a round
 * trip of a sample of every kind; then every truncation and every flipped bit must give a typed
 * answer, and an accepted one must encode to the same bytes. Covers: src/wire/memop.c,
 * src/wire/memop.h */
#include <criterion/criterion.h>
#include <string.h>

#include "wire/memop.h"

static struct lend_memop make_sample(uint8_t kind)
{
	struct lend_memop op = {.kind = kind, .client = 3, .id = 77, .low = 70, .life = 5};
	struct lend_memref ref = {.node = 1, .epoch = 2, .slot = 3, .serial = 4, .root_len = 5000};

	lend_memref_sign(&ref, (const uint8_t *)"0123456789abcdef");
	if (kind == LEND_MEMOP_GET || kind == LEND_MEMOP_MAP || kind == LEND_MEMOP_ADOPT ||
	    kind == LEND_MEMOP_GRANT || kind == LEND_MEMOP_NARROW || kind == LEND_MEMOP_POOL_MAP)
		op.ref = ref;
	if (kind == LEND_MEMOP_READ || kind == LEND_MEMOP_WRITE || kind == LEND_MEMOP_SEAL ||
	    kind == LEND_MEMOP_FREE || kind == LEND_MEMOP_POOL_VIEW || kind == LEND_MEMOP_POOL_DROP)
		op.space = (struct lend_memspace){9, 8, UINT64_C(0x123456789a)};
	if (kind == LEND_MEMOP_GET || kind == LEND_MEMOP_READ || kind == LEND_MEMOP_WRITE ||
	    kind == LEND_MEMOP_SEAL || kind == LEND_MEMOP_NARROW)
		op.offset = 10;
	if (kind == LEND_MEMOP_PUT || kind == LEND_MEMOP_ALLOC || op.offset)
		op.len = 100;
	if (kind == LEND_MEMOP_PUT || kind == LEND_MEMOP_SEAL || kind == LEND_MEMOP_GRANT)
		op.terms = (struct lend_memterms){LEND_TERMS_SHARED, 3, 1000};
	if (kind == LEND_MEMOP_NARROW)
		op.rights = 3;
	if (kind == LEND_MEMOP_RELEASE || kind == LEND_MEMOP_GET_MANY)
		op.n = 2;
	if (kind == LEND_MEMOP_FORGET || kind >= LEND_MEMOP_POOL_MAP)
		op.target = 71;
	return op;
}

Test(memop, round_trip_of_every_kind)
{
	for (uint8_t kind = 1; kind < LEND_MEMOP_KINDS; kind++) {
		struct lend_memop op = make_sample(kind), got;
		uint8_t bytes[LEND_MEMOP_FIXED_MAX], again[LEND_MEMOP_FIXED_MAX];
		uint32_t n = lend_memop_encode(&op, bytes);

		cr_assert_eq(n, lend_memop_fixed(kind), "kind %u", kind);
		cr_assert_eq(lend_memop_decode(bytes, n, n + lend_memop_payload(&op), &got),
			     LEND_MEM_OK, "kind %u", kind);
		cr_assert_eq(lend_memop_encode(&got, again), n);
		cr_assert_eq(memcmp(bytes, again, n), 0, "kind %u", kind);
	}
}

Test(memop, every_truncation_and_excess_is_refused)
{
	for (uint8_t kind = 1; kind < LEND_MEMOP_KINDS; kind++) {
		struct lend_memop op = make_sample(kind), got;
		uint8_t bytes[LEND_MEMOP_FIXED_MAX];
		uint32_t n = lend_memop_encode(&op, bytes);
		uint64_t len = n + lend_memop_payload(&op);

		for (uint64_t cut = 0; cut < len; cut++)
			cr_assert_eq(lend_memop_decode(bytes, cut < n ? cut : n, cut, &got),
				     LEND_MEM_INVALID_ARGUMENT, "kind %u cut %lu", kind,
				     (unsigned long)cut);
		cr_assert_eq(lend_memop_decode(bytes, n, len + 1, &got), LEND_MEM_INVALID_ARGUMENT);
		cr_assert_eq(lend_memop_decode(bytes, n, UINT64_MAX, &got),
			     LEND_MEM_INVALID_ARGUMENT);
	}
}

Test(memop, every_flipped_bit_gives_a_typed_answer)
{
	for (uint8_t kind = 1; kind < LEND_MEMOP_KINDS; kind++) {
		struct lend_memop op = make_sample(kind), got;
		uint8_t bytes[LEND_MEMOP_FIXED_MAX], again[LEND_MEMOP_FIXED_MAX];
		uint32_t n = lend_memop_encode(&op, bytes);

		for (uint32_t bit = 0; bit < n * 8; bit++) {
			enum lend_mem_status status;

			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			status = lend_memop_decode(bytes, n, n + lend_memop_payload(&op), &got);
			if (status == LEND_MEM_OK) {
				lend_memop_encode(&got, again);
				cr_assert_eq(memcmp(bytes, again, lend_memop_fixed(got.kind)), 0,
					     "kind %u bit %u", kind, bit);
			} else {
				cr_assert(status == LEND_MEM_INVALID_ARGUMENT ||
					  status == LEND_MEM_UNIMPLEMENTED);
			}
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

Test(memop, limits_in_pairs)
{
	struct lend_memop op = make_sample(LEND_MEMOP_GET), got;
	uint8_t b[LEND_MEMOP_FIXED_MAX];
	uint32_t n;

	op.len = LEND_MEM_PART_MAX;
	n = lend_memop_encode(&op, b);
	cr_assert_eq(lend_memop_decode(b, n, n, &got), LEND_MEM_OK);
	op.len++;
	n = lend_memop_encode(&op, b);
	cr_assert_eq(lend_memop_decode(b, n, n, &got), LEND_MEM_INVALID_ARGUMENT);

	op = make_sample(LEND_MEMOP_RELEASE);
	for (uint32_t refs = 0; refs <= LEND_MEM_BATCH_MAX + 1; refs++) {
		op.n = refs;
		n = lend_memop_encode(&op, b);
		cr_assert_eq(lend_memop_decode(b, n, n + lend_memop_payload(&op), &got) ==
				 LEND_MEM_OK,
			     refs >= 1 && refs <= LEND_MEM_BATCH_MAX);
	}
	op = make_sample(LEND_MEMOP_GET_MANY);
	for (uint32_t parts = 0; parts <= LEND_MEM_MANY_MAX + 1; parts++) {
		op.n = parts;
		n = lend_memop_encode(&op, b);
		cr_assert_eq(lend_memop_payload(&op), parts * 80);
		cr_assert_eq(lend_memop_decode(b, n, n + lend_memop_payload(&op), &got) ==
				 LEND_MEM_OK,
			     parts >= 1 && parts <= LEND_MEM_MANY_MAX);
	}
	op = make_sample(LEND_MEMOP_GRANT);
	op.terms = (struct lend_memterms){LEND_TERMS_OWNED, 0, 0};
	n = lend_memop_encode(&op, b);
	cr_assert_eq(lend_memop_decode(b, n, n, &got), LEND_MEM_INVALID_ARGUMENT);
	op = make_sample(LEND_MEMOP_ALLOC);
	op.id = 0;
	n = lend_memop_encode(&op, b);
	cr_assert_eq(lend_memop_decode(b, n, n, &got), LEND_MEM_INVALID_ARGUMENT);
}

Test(memop, mempart__any_bytes__same_fields_or_no_reference)
{
	struct lend_memop sample = make_sample(LEND_MEMOP_GET);
	uint8_t bytes[LEND_MEMPART_LEN], ref[LEND_MEMREF_LEN];
	struct lend_mempart part;

	lend_memref_encode(&sample.ref, ref);
	lend_mempart_encode(ref, UINT64_MAX, 7, bytes);
	cr_assert(lend_mempart_decode(bytes, &part));
	cr_assert_eq(part.ref.serial, sample.ref.serial);
	cr_assert(part.offset == UINT64_MAX && part.len == 7);
	memset(bytes, 0xff, LEND_MEMREF_LEN);
	cr_assert_not(lend_mempart_decode(bytes, &part));
	cr_assert(part.offset == UINT64_MAX && part.len == 7);
}

Test(memop, replies_round_trip_and_refuse_bad_lengths)
{
	uint8_t bytes[LEND_MEMOP_REPLY_MAX];
	struct lend_memhello h = {.node = 1,
				  .epoch = 2,
				  .page = 4096,
				  .life = UINT64_C(3) << 40,
				  .key = {4, 5},
				  .lease = 6,
				  .open = 1024,
				  .worker = 62,
				  .workers = 63,
				  .text_len = 7,
				  .text = "shm:mn0"},
			     got;
	uint32_t n = lend_memhello_encode(&h, bytes);
	struct lend_memstats stats = {.pages_total = 1, .tx_bytes = 2}, back;

	for (uint32_t cut = 0; cut < n; cut++)
		cr_assert_not(lend_memhello_decode(bytes, cut, &got));
	cr_assert(lend_memhello_decode(bytes, n, &got));
	cr_assert_eq(got.life, UINT64_C(3) << 40);
	cr_assert_eq(memcmp(got.key, h.key, sizeof(h.key)), 0);
	cr_assert_eq(got.lease, 6);
	cr_assert_eq(got.open, 1024);
	cr_assert_eq(got.worker, 62);
	cr_assert_eq(got.workers, 63);
	cr_assert_eq(memcmp(got.text, "shm:mn0", 7), 0);

	n = lend_memstats_encode(&stats, bytes);
	cr_assert_eq(n, LEND_MEMSTATS_LEN);
	for (uint32_t cut = 0; cut < n; cut++)
		cr_assert_not(lend_memstats_decode(bytes, cut, &back));
	cr_assert(lend_memstats_decode(bytes, n, &back));
	cr_assert_eq(memcmp(&stats, &back, sizeof(stats)), 0);
}

/* A node's answer is not trusted either: its extents become mappings. */
Test(memop, views_round_trip_and_refuse_bad_extents)
{
	struct lend_memview v = {.pinned_map.slot = 4,
				 .pages = 6,
				 .base = 1,
				 .n = 3,
				 .extent = {{9, 1}, {0, 3}, {20, 2}}},
			    got;
	uint8_t bytes[LEND_MEMVIEW_LEN + 8 * LEND_MEM_EXTENTS_MAX + 8] = {0};
	uint32_t n = lend_memview_encode(&v, bytes);

	for (uint32_t cut = 0; cut <= n + 1; cut++)
		cr_assert_eq(lend_memview_decode(bytes, cut, &got), cut == n, "%u", cut);
	cr_assert(lend_memview_decode(bytes, n, &got));
	cr_assert(got.pinned_map.slot == v.pinned_map.slot && got.pages == 6 && got.base == 1 &&
		  got.n == 3);
	for (uint32_t i = 0; i < v.n; i++)
		cr_assert(got.extent[i].frame == v.extent[i].frame &&
			  got.extent[i].pages == v.extent[i].pages);
	bytes[LEND_MEMVIEW_LEN + 12] = 0;
	cr_assert_not(lend_memview_decode(bytes, n, &got), "an extent of no pages");
	memset(bytes, 1, sizeof(bytes));
	bytes[28] = LEND_MEM_EXTENTS_MAX + 1;
	bytes[29] = bytes[30] = bytes[31] = 0;
	cr_assert_not(lend_memview_decode(bytes, sizeof(bytes), &got), "more than there is room");
}

Test(memop, decode__unknown_kind__refused)
{
	struct lend_memop op = make_sample(LEND_MEMOP_STAT), got;
	uint8_t bytes[LEND_MEMOP_FIXED_MAX];
	uint32_t n = lend_memop_encode(&op, bytes);

	cr_expect_eq(lend_memop_fixed(0), 0);
	cr_expect_eq(lend_memop_fixed(LEND_MEMOP_KINDS), 0);
	cr_expect_not(lend_memop_recorded(LEND_MEMOP_KINDS));
	cr_expect_eq(lend_memop_decode(bytes, n, n, &got), LEND_MEM_OK);
	cr_expect_eq(lend_memop_decode(bytes, n, n - 1, &got), LEND_MEM_INVALID_ARGUMENT);
}

Test(memop, decode__hello_out_of_range__refused)
{
	struct lend_memhello good = {.life = 1, .page = 4096, .open = 1, .workers = 1, .text = ""},
			     h, got;
	static const struct {
		size_t at;
		uint32_t bad;
	} row[] = {{offsetof(struct lend_memhello, page), 0},
		   {offsetof(struct lend_memhello, page), 2048},
		   {offsetof(struct lend_memhello, page), 12288},
		   {offsetof(struct lend_memhello, page), 4 << 20},
		   {offsetof(struct lend_memhello, open), 0},
		   {offsetof(struct lend_memhello, open), LEND_MEM_OPEN_MAX + 1}};
	static uint8_t bytes[LEND_MEMOP_REPLY_MAX + 1];
	uint32_t n = lend_memhello_encode(&good, bytes);

	cr_expect(lend_memhello_decode(bytes, n, &got));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		h = good;
		memcpy((char *)&h + row[i].at, &row[i].bad, sizeof(row[i].bad));
		cr_expect_not(lend_memhello_decode(bytes, lend_memhello_encode(&h, bytes), &got),
			      "row %zu", i);
	}
	h = good;
	h.life = 0;
	cr_expect_not(lend_memhello_decode(bytes, lend_memhello_encode(&h, bytes), &got));
	h = good;
	h.worker = h.workers; /* worker index out of range */
	cr_expect_not(lend_memhello_decode(bytes, lend_memhello_encode(&h, bytes), &got));
	h.worker = 63;
	h.workers = 64;
	cr_expect(lend_memhello_decode(bytes, lend_memhello_encode(&h, bytes), &got));
	h.workers = 65;
	cr_expect_not(lend_memhello_decode(bytes, lend_memhello_encode(&h, bytes), &got));
	n = lend_memhello_encode(&good, bytes);
	n += LEND_MEMOP_TEXT_MAX + 1; /* a text with a length past its limit */
	bytes[28] = (LEND_MEMOP_TEXT_MAX + 1) & 255;
	bytes[29] = (LEND_MEMOP_TEXT_MAX + 1) >> 8;
	cr_expect_not(lend_memhello_decode(bytes, n, &got));
}
