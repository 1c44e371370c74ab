/* Goal: when a lease, a hold or a writer ends another one's half-done operation, no byte is lost,
 * torn or shown to another client, and every frame is freed. Method: leases, releases and writers
 * that interrupt operations at each of their steps; then the bytes and every ledger are checked.
 * Covers: mn/store/lease.c, mn/store/placement.c, mn/store/exec.c, mn/store/space.c,
 * mn/store/cow.c */
#include "unit/storesuite.h"

TestSuite(store_midway, .init = setup);

/* a's lease ends; b's does not. */
static void lease_ends(void)
{
	uint64_t ended = kit_stats(k).leases_expired;
	struct lend_memop renew = {.kind = LEND_MEMOP_RENEW};

	while (kit_stats(k).leases_expired == ended) {
		OK(kit_do(k, &b, &renew, NULL));
		k->now += S / 2;
		if (k->now >= lend_store_deadline(k->store))
			lend_store_tick(k->store, k->now);
	}
	kit_audit(k);
}

TestThen(store_midway, lease_expired_between_the_steps_of_a_long_put)
{
	struct lend_memspace space, again;
	struct lend_memref ref;

	for (int steps = 1; steps <= 3; steps++) {
		OK(kit_alloc(k, &a, 40000, &space));
		for (int i = 1; i < steps; i++)
			OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, (uint64_t)(i - 1) * 20000,
					20000, data));
		lease_ends();
		cr_assert_eq(kit_stats(k).pages_used, 0);
		IS(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 20000, data), ABORTED);
		IS(kit_seal(k, &a, &space, 0, 40000, kit_owned, &ref), ABORTED);
		OK(kit_hello(k, &a, 1, 1));
		a.id = a.low = 0;
		OK(kit_alloc(k, &a, 40000, &again)); /* a new life has no access to the old space */
		IS(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 100, data), NOT_FOUND);
		IS(kit_seal(k, &a, &space, 0, 100, kit_owned, &ref), NOT_FOUND);
		OK(kit_space_op(k, &a, LEND_MEMOP_FREE, &again, 0, 0, NULL));
	}
}

TestThen(store_midway, lease_expired_while_a_put_lands)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX + 1];
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .client = 1, .id = 1, .low = 1, .life = a.life, .len = 9000};
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	uint32_t n, fixed, len = lend_memop_encode(&op, head), p;
	struct lend_memref other;

	p = lend_store_place(k->store, &a.peer, head, len, len + op.len, seg + 1, &n, &fixed);
	cr_assert_neq(p, 0);
	lease_ends();
	cr_assert_eq(kit_stats(k).pages_used, 3, "the message still lands there");
	OK(kit_put(k, &b, data, 9000, kit_owned, &other)); /* no other object has them */
	for (uint32_t i = 1; i <= n; i++)
		memset(seg[i].data, 0xee, seg[i].len);
	seg[0] = (struct lend_store_seg){head, fixed};
	IS(lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, seg, n + 1, p, false},
			   &k->out),
	   ABORTED);
	cr_assert_eq(kit_stats(k).pages_used, 3);
	OK(kit_get(k, &b, &other, 0, 9000, back));
	cr_assert_eq(memcmp(back, data, 9000), 0);
}

TestThen(store_midway, lease_expired_while_a_get_is_on_its_way)
{
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .len = 12288};
	struct lend_memref ref, other;
	struct lend_store_seg kept[8];
	uint32_t n;

	OK(kit_put(k, &a, data, 12288, kit_owned, &ref));
	op.ref = ref;
	OK(kit_do(k, &a, &op, NULL));
	n = k->out.n;
	memcpy(kept, k->out.seg, n * sizeof(kept[0]));
	lease_ends();
	IS(kit_get(k, &b, &ref, 0, 1, back), NOT_FOUND);
	memset(back, 0x55, sizeof(back));
	for (int i = 0; i < 20; i++) { /* all other frames are used, and given back */
		OK(kit_put(k, &b, back, 61 * 4096, kit_owned, &other));
		OK(kit_release(k, &b, &other));
		while (!lend_store_deadline(k->store))
			lend_store_tick(k->store, k->now);
	}
	for (uint32_t i = 0, at = 0; i < n; at += (uint32_t)kept[i++].len)
		cr_assert_eq(memcmp(kept[i].data, data + at, kept[i].len), 0, "segment %u", i);
	cr_assert_eq(kit_stats(k).pages_used, 3);
	lend_store_done(k->store, 0, kept, n);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

/* A completed hand-over stays, an incomplete one is undone; there is no half of one. */
TestThen(store_midway, lease_expired_between_grant_and_adopt)
{
	struct lend_memref given, offered, own;

	OK(kit_put(k, &a, data, 100, kit_owned, &given));
	OK(kit_grant(k, &a, &given, (struct lend_memterms){LEND_TERMS_TRANSFER, 0, 90 * S}));
	OK(kit_put(k, &a, data, 200, kit_owned, &offered));
	OK(kit_grant(k, &a, &offered, (struct lend_memterms){LEND_TERMS_SHARED, 1, 90 * S}));
	OK(kit_put(k, &a, data, 300, kit_owned, &own));
	lease_ends();
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &given));
	OK(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &offered));
	IS(kit_ref_op(k, &b, LEND_MEMOP_ADOPT, &own), NOT_FOUND);
	OK(kit_get(k, &b, &given, 0, 100, back));
	OK(kit_get(k, &b, &offered, 0, 200, back));
	cr_assert_eq(memcmp(back, data, 200), 0);
}

/* A space belongs to one client, even if another client knows its name. */
TestThen(store_midway, two_writers_to_one_space)
{
	struct lend_memop op = {.kind = LEND_MEMOP_WRITE, .client = 1, .len = 3000, .offset = 1000};
	struct client a2 = {0};
	struct lend_memspace space, forged;
	struct lend_memref ref;

	OK(kit_join(k, &a2, &a, 2)); /* another client of the same process */
	OK(kit_alloc(k, &a, 8192, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 8192, data));
	for (int i = 0; i < 2; i++) {
		struct client *w = i ? &a2 : &b;

		IS(kit_space_op(k, w, LEND_MEMOP_WRITE, &space, 0, 100, back), NOT_FOUND);
		IS(kit_space_op(k, w, LEND_MEMOP_READ, &space, 0, 100, back), NOT_FOUND);
		IS(kit_space_op(k, w, LEND_MEMOP_FREE, &space, 0, 0, NULL), NOT_FOUND);
		IS(kit_seal(k, w, &space, 0, 100, kit_owned, &ref), NOT_FOUND);
		forged = space;
		forged.serial++;
		IS(kit_space_op(k, w, LEND_MEMOP_WRITE, &forged, 0, 100, back), NOT_FOUND);
	}
	/* One client twice: a retransmission of its first write does not overwrite the second. */
	op.space = space;
	op.life = a.life;
	op.id = ++a.id;
	a.low = op.low = op.id;
	memset(back, 1, sizeof(back));
	OK(kit_exec(k, &a, &op, back));
	memset(back, 2, sizeof(back));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 2000, 3000, back));
	memset(back, 1, sizeof(back));
	OK(kit_exec(k, &a, &op, back));
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, 8192, back));
	memset(data + 1000, 1, 1000);
	memset(data + 2000, 2, 3000);
	cr_assert_eq(memcmp(back, data, 8192), 0);
}

/* Two maps of one snapshot, written alternately: no write shows in the other map or in the
 * snapshot. */
TestThen(store_midway, two_writers_to_two_views)
{
	struct lend_memspace view[2];
	struct lend_memref ref;
	uint8_t want[2][8192];

	OK(kit_put(k, &a, data, 8192, shared, &ref));
	OK(kit_map(k, &a, &ref, &view[0]));
	OK(kit_map(k, &b, &ref, &view[1]));
	memcpy(want[0], data, 8192);
	memcpy(want[1], data, 8192);
	for (unsigned i = 0; i < 64; i++) {
		unsigned w = i & 1, at = i * 127;

		memset(back, (int)i, 90);
		memset(want[w] + at, (int)i, 90);
		OK(kit_space_op(k, w ? &b : &a, LEND_MEMOP_WRITE, &view[w], at, 90, back));
	}
	for (int w = 0; w < 2; w++) {
		OK(kit_space_op(k, w ? &b : &a, LEND_MEMOP_READ, &view[w], 0, 8192, back));
		cr_assert_eq(memcmp(back, want[w], 8192), 0);
	}
	OK(kit_get(k, &b, &ref, 0, 8192, back));
	cr_assert_eq(memcmp(back, data, 8192), 0);
}

/* Also through slices, and after another object has taken its slot and pages. */
TestThen(store_midway, map_of_a_released_reference)
{
	struct lend_memref ref, slice, next;
	struct lend_memspace space;

	OK(kit_put(k, &a, data, 9000, kit_owned, &ref));
	cr_assert_eq(lend_memref_slice(&ref, 10, 100, LEND_RIGHT_ALL, &slice), 0);
	OK(kit_map(k, &b, &ref, &space)); /* mapped before the release: keeps its bytes */
	OK(kit_release(k, &a, &ref));
	IS(kit_map(k, &a, &ref, &space), NOT_FOUND);
	IS(kit_map(k, &b, &slice, &space), NOT_FOUND);
	memset(back, 0x77, 9000);
	OK(kit_put(k, &a, back, 9000, kit_owned, &next));
	cr_assert_eq(next.slot, ref.slot, "the slot is in use again");
	IS(kit_map(k, &b, &ref, &space), NOT_FOUND);
	IS(kit_map(k, &b, &slice, &space), NOT_FOUND);
	IS(kit_release(k, &a, &ref), NOT_FOUND);
	OK(kit_get(k, &a, &next, 0, 9000, back));
	cr_assert_eq(back[8999], 0x77);
	OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 9000, back));
	cr_assert_eq(memcmp(back, data, 9000), 0);
}
