/* Goal: with checksums, no byte is served that differs from the one written: corrupted memory ends
 * in DATA_LOSS for every kind of read, and nothing else does. Checksums follow every kind of write,
 * also on shared pages; without checksums none of this happens. Method: bits of stored pages are
 * flipped directly, for each way to write and to read; then random writes with and without a
 * flipped bit, under seeds, compared with the bytes. Covers: mn/store/page_checksum.c */
#include "util/rng.h" /* before the suite: it has a k of its own */

#include "unit/storesuite.h"

#include "mn/store/recover.h"
#include "mn/store/store.h"
#include "mn/store/page_tree.h"

TestSuite(page_checksum, .init = setup);

/* The byte at this offset of an object, in memory. */
static uint8_t *stored(uint32_t slot, uint64_t at)
{
	struct lend_view v = lend_object_view(k->store, slot);
	uint32_t frame = lend_tree_frame(k->store, &v, lend_page_at(k->store, v.base + at));

	return lend_page(k->store, frame) + lend_page_rest(k->store, v.base + at);
}

static uint32_t slot_of(const struct lend_memref *ref)
{
	return ref->slot & ((1u << LEND_MEMREF_WORKER_SHIFT) - 1);
}

static enum lend_mem_status read_space(const struct lend_memspace *space, uint64_t at, uint64_t len)
{
	struct lend_memspace copy = *space;

	return kit_space_op(k, &a, LEND_MEMOP_READ, &copy, at, len, back);
}

static enum lend_mem_status write_space(const struct lend_memspace *space, uint64_t at,
					uint64_t len)
{
	struct lend_memspace copy = *space;

	return kit_space_op(k, &a, LEND_MEMOP_WRITE, &copy, at, len, data + at);
}

TestThen(page_checksum, a_flipped_bit_is_data_loss_wherever_it_is_read)
{
	struct lend_memref ref, part;
	struct lend_memspace space;
	uint8_t *byte;

	OK(kit_put(k, &a, data, 5 * LEND_MEM_PAGE + 100, kit_owned, &ref));
	OK(kit_map(k, &a, &ref, &space));
	byte = stored(slot_of(&ref), 2 * LEND_MEM_PAGE + 77);
	*byte ^= 8;
	IS(kit_get(k, &a, &ref, 0, 5 * LEND_MEM_PAGE, back), DATA_LOSS);
	IS(kit_get(k, &a, &ref, 3 * LEND_MEM_PAGE - 1, 2, back), DATA_LOSS);
	IS(read_space(&space, 2 * LEND_MEM_PAGE, 1), DATA_LOSS);
	cr_assert_eq(lend_memref_slice(&ref, 2 * LEND_MEM_PAGE, 10, LEND_RIGHT_READ, &part), 0);
	IS(kit_get(k, &a, &part, 0, 10, back), DATA_LOSS);
	cr_assert_eq(kit_stats(k).damaged, 4);
	cr_assert_eq(kit_stats(k).pages_pinned, 0);
	cr_assert_eq(lend_store_scrub(k->store), 1);
	/* The neighbouring pages are served. */
	OK(kit_get(k, &a, &ref, 0, 2 * LEND_MEM_PAGE, back));
	cr_assert_eq(memcmp(back, data, 2 * LEND_MEM_PAGE), 0);
	OK(kit_get(k, &a, &ref, 3 * LEND_MEM_PAGE, 2 * LEND_MEM_PAGE + 100, back));
	OK(kit_get(k, &a, &ref, 2 * LEND_MEM_PAGE, 0, back));
	cr_assert_eq(kit_stats(k).damaged, 4);
	*byte ^= 8;
	OK(kit_get(k, &a, &ref, 0, 5 * LEND_MEM_PAGE, back));
	kit_audit(k);
}

/* A write to part of a corrupted page does not hide the corruption; a write of the whole page
 * replaces it. */
TestThen(page_checksum, write__part_of_a_corrupted_page__stays_lost)
{
	static const uint32_t lost[] = {0, 1000, 2000, LEND_MEM_PAGE - 1};
	struct lend_memspace space;

	OK(kit_alloc(k, &a, 2 * LEND_MEM_PAGE, &space));
	for (int i = 0; i < 4; i++) {
		OK(write_space(&space, 0, 2 * LEND_MEM_PAGE));
		*stored(space.slot, lost[i]) ^= 0x40;
		OK(write_space(&space, 1000, 500)); /* over a corrupted one, too */
		IS(read_space(&space, 0, 1), DATA_LOSS);
		OK(write_space(&space, LEND_MEM_PAGE - 10, 20));
		IS(read_space(&space, 0, 1), DATA_LOSS);
		OK(read_space(&space, LEND_MEM_PAGE, 100));
		OK(write_space(&space, 0, LEND_MEM_PAGE));
		OK(read_space(&space, 0, 2 * LEND_MEM_PAGE));
		cr_assert_eq(memcmp(back, data, 2 * LEND_MEM_PAGE), 0);
		kit_audit(k);
	}
}

/* The copy that a write makes inherits the corruption, and the original keeps it. */
TestThen(page_checksum, cow__corrupted_page__copy_is_lost_too)
{
	struct lend_memref ref, sealed;
	struct lend_memspace space;
	uint8_t *byte;

	OK(kit_put(k, &a, data, LEND_MEM_PAGE, kit_owned, &ref));
	OK(kit_map(k, &a, &ref, &space));
	byte = stored(slot_of(&ref), 3000);
	*byte ^= 1;
	OK(write_space(&space, 10, 10));
	*byte ^= 1; /* the original reads correctly again; the copy was made of wrong bytes */
	IS(read_space(&space, 0, 10), DATA_LOSS);
	OK(kit_seal(k, &a, &space, 0, LEND_MEM_PAGE, kit_owned, &sealed));
	IS(kit_get(k, &a, &sealed, 0, 10, back), DATA_LOSS);
	OK(kit_get(k, &a, &ref, 0, LEND_MEM_PAGE, back));
	OK(write_space(&space, 0, LEND_MEM_PAGE));
}

/* A free page is zero; a corrupted one is detected when it is used again. */
TestThen(page_checksum, alloc__corrupted_free_page__is_not_served)
{
	struct lend_memspace space;
	uint8_t *byte;

	OK(kit_alloc(k, &a, LEND_MEM_PAGE, &space));
	OK(read_space(&space, 0, LEND_MEM_PAGE));
	byte = lend_page(k->store, k->store->frame.top + 1) + 99;
	*byte = 1;
	OK(write_space(&space, 500, 10));
	IS(read_space(&space, 0, LEND_MEM_PAGE), DATA_LOSS);
	*byte = 0;
	OK(read_space(&space, 0, LEND_MEM_PAGE));
}

TestThen(page_checksum, the_page_of_zeros_is_checked)
{
	struct lend_memspace space;

	OK(kit_alloc(k, &a, 3 * LEND_MEM_PAGE, &space));
	((uint8_t *)k->pages)[5] = 1;
	IS(read_space(&space, LEND_MEM_PAGE, 1), DATA_LOSS);
	cr_assert_eq(lend_store_scrub(k->store), 1);
	((uint8_t *)k->pages)[5] = 0;
	OK(read_space(&space, LEND_MEM_PAGE, 1));
}

/* Bytes that land in frames directly are summed when they become pages, whatever the frames held
 * before. */
TestThen(page_checksum, place__bytes_land_in_frames__are_summed)
{
	struct lend_store_seg part[LEND_STORE_SEGS_MAX], seg[4];
	struct lend_store_in in = {&a.peer, seg, 1, 0, false};
	struct lend_memop op = {.kind = LEND_MEMOP_WRITE, .len = 2 * LEND_MEM_PAGE + 9};
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t segs, fixed, n;
	uint64_t at = 0;

	OK(kit_alloc(k, &a, 4 * LEND_MEM_PAGE, &op.space));
	OK(write_space(&op.space, 0, 4 * LEND_MEM_PAGE));
	op.client = a.number;
	op.life = a.life;
	op.id = op.low = ++a.id;
	n = lend_memop_encode(&op, head);
	seg[0] = (struct lend_store_seg){head, n};
	in.placement =
	    lend_store_place(k->store, &a.peer, head, n, n + op.len, part, &segs, &fixed);
	cr_assert_neq(in.placement, 0);
	for (uint32_t i = 0; i < segs; i++) {
		cr_assert_lt(in.n, 4);
		memcpy(part[i].data, data + 1000 + at, part[i].len);
		at += part[i].len;
		cr_assert_eq(lend_store_scrub(k->store), 0, "what arrives is not judged");
		seg[in.n++] = part[i];
	}
	OK(lend_store_exec(k->store, k->now, &in, &k->out));
	OK(read_space(&op.space, 0, 4 * LEND_MEM_PAGE));
	cr_assert_eq(memcmp(back, data + 1000, op.len), 0);
	cr_assert_eq(memcmp(back + op.len, data + op.len, 4 * LEND_MEM_PAGE - op.len), 0);
	kit_audit(k);
}

/* A restart counts the corrupted pages and continues with the rest. */
TestThen(page_checksum, recover__corrupted_pages__are_counted)
{
	struct lend_store_config other = k->config;
	struct lend_memref ref;
	uint8_t *byte;

	OK(kit_put(k, &a, data, 3 * LEND_MEM_PAGE, kit_owned, &ref));
	byte = stored(slot_of(&ref), LEND_MEM_PAGE);
	*byte ^= 128;
	cr_assert_null(lend_store_mismatch(k->store, k->size, &k->config));
	cr_assert_null(lend_store_recover(k->store, &k->config, k->pages, k->now));
	cr_assert_eq(kit_stats(k).damaged, 1);
	IS(kit_get(k, &a, &ref, 0, 3 * LEND_MEM_PAGE, back), DATA_LOSS);
	OK(kit_get(k, &a, &ref, 0, LEND_MEM_PAGE, back));
	*byte ^= 128;
	other.checksum = 0;
	cr_assert_str_eq(lend_store_mismatch(k->store, k->size, &other), "it was with --checksum");
	k->store->config.checksum = 0;
	cr_assert_str_eq(lend_store_mismatch(k->store, k->size, &k->config),
			 "it was without --checksum");
	k->store->config.checksum = 1;
}

TestThen(page_checksum, without_checksums_bytes_are_as_they_are)
{
	struct lend_memref ref;
	uint8_t *byte;

	k->config.checksum = 2;
	cr_assert_eq(lend_store_size(&k->config), 0);
	k->config.checksum = 0;
	cr_assert_leq(lend_store_size(&k->config), k->size - 64 * sizeof(uint32_t));
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	lend_store_init(k->store, &k->config, k->pages, k->now);
	OK(kit_hello(k, &a, 1, 1));
	OK(kit_hello(k, &b, 2, 1));
	OK(kit_put(k, &a, data, LEND_MEM_PAGE, kit_owned, &ref));
	byte = stored(slot_of(&ref), 0);
	*byte ^= 2;
	OK(kit_get(k, &a, &ref, 0, LEND_MEM_PAGE, back));
	cr_assert_eq(back[0], data[0] ^ 2);
	cr_assert_eq(lend_store_scrub(k->store), 0);
}

/* Views of each other under random writes. Now and then a bit is flipped in a page that is read
 * next, and restored before the next write. */
TestThen(page_checksum, random_writes_keep_sums_true)
{
	static uint8_t want[4][8 * LEND_MEM_PAGE];
	struct lend_memspace space[4];
	struct lend_memref ref;
	struct lend_rng rng;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		lend_rng_seed(&rng, seed);
		memset(want, 0, sizeof(want));
		for (int i = 0; i < 4; i++)
			OK(kit_alloc(k, &a, sizeof(want[i]), &space[i]));
		for (int n = 0; n < 60; n++) {
			uint32_t i = (uint32_t)lend_rng_below(&rng, 4), j;
			uint64_t at = lend_rng_below(&rng, sizeof(want[i]));
			uint64_t len = 1 + lend_rng_below(&rng, sizeof(want[i]) - at);
			uint64_t in = at + lend_rng_below(&rng, len);

			len = lend_rng_below(&rng, 2) ? len : 1 + len % 100;
			len = len > sizeof(want[i]) - at ? sizeof(want[i]) - at : len;
			in = at + in % len;
			OK(write_space(&space[i], at, len));
			memcpy(want[i] + at, data + at, len);
			*stored(space[i].slot, in) ^= 16;
			IS(read_space(&space[i], in, 1), DATA_LOSS);
			*stored(space[i].slot, in) ^= 16;
			OK(read_space(&space[i], 0, sizeof(want[i])));
			cr_assert_eq(memcmp(back, want[i], sizeof(want[i])), 0, "seed %lu", seed);
			if (lend_rng_below(&rng, 8))
				continue;
			j = (i + 1) % 4;
			OK(kit_seal(k, &a, &space[i], 0, sizeof(want[i]), kit_owned, &ref));
			OK(kit_space_op(k, &a, LEND_MEMOP_FREE, &space[j], 0, 0, NULL));
			OK(kit_map(k, &a, &ref, &space[j]));
			OK(kit_release(k, &a, &ref));
			memcpy(want[j], want[i], sizeof(want[i]));
			kit_audit(k);
		}
		for (int i = 0; i < 4; i++)
			OK(kit_space_op(k, &a, LEND_MEMOP_FREE, &space[i], 0, 0, NULL));
	}
}
