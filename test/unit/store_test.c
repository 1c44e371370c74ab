/* Goal: operations on bytes follow the protocol, and return a typed status otherwise. Method: short
 * sequences, one per rule, each ending in an audit of all ledgers. Covers: mn/store/data_exec.c,
 * mn/store/space.c, mn/store/exec.c, mn/store/placement.c, mn/store/lease.c */
#include "unit/storesuite.h"

TestSuite(store, .init = setup);

TestThen(store, put_and_get_of_every_length_near_a_page)
{
	static const uint64_t len[] = {0, 1, 4095, 4096, 4097, 8192, 8193, 64 * 4096};

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct lend_memref ref;

		OK(kit_put(k, &a, data, len[i], kit_owned, &ref));
		cr_assert_eq(kit_stats(k).pages_used, (len[i] + 4095) / 4096);
		OK(kit_get(k, &b, &ref, 0, len[i], back));
		cr_assert_eq(memcmp(data, back, len[i]), 0);
		kit_audit(k);
		OK(kit_release(k, &a, &ref));
		cr_assert_eq(kit_stats(k).pages_used, 0);
	}
}

TestThen(store, many_maps_of_one_page)
{
	struct lend_memref ref;
	struct lend_memspace space[300];

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	for (int i = 0; i < 300; i++)
		OK(kit_map(k, &b, &ref, &space[i]));
	OK(kit_release(k, &a, &ref));
	for (int i = 0; i < 300; i++) {
		OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space[i], 0, 4096, back));
		cr_assert_eq(memcmp(data, back, 4096), 0);
		OK(kit_space_op(k, &b, LEND_MEMOP_FREE, &space[i], 0, 0, NULL));
	}
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

TestThen(store, get_pins_pages_until_done)
{
	struct lend_memref ref;
	struct lend_memop op = {.kind = LEND_MEMOP_GET, .len = 64 * 4096};
	static struct lend_store_out reply;

	OK(kit_put(k, &a, data, 64 * 4096, kit_owned, &ref));
	op.ref = ref;
	OK(kit_do(k, &b, &op, NULL));
	reply = k->out;
	OK(kit_release(k, &a, &ref));
	cr_assert_eq(kit_stats(k).refs, 0);
	cr_assert_eq(kit_stats(k).pages_pinned, 64);
	IS(kit_put(k, &a, data, 1, kit_owned, &ref), RESOURCE_EXHAUSTED);
	lend_store_hangup(k->store, b.life); /* the client is gone, its carrier session is not */
	k->out = reply;
	kit_audit(k);
	kit_collect(k, back);
	cr_assert_eq(memcmp(data, back, 64 * 4096), 0);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

TestThen(store, write_under_a_reply_leaves_the_reply_alone)
{
	struct lend_memspace space;
	struct lend_memop op = {.kind = LEND_MEMOP_READ, .len = 4096};
	static struct lend_store_out reply;

	OK(kit_alloc(k, &a, 4096, &space));
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 4096, data));
	op.space = space;
	OK(kit_do(k, &a, &op, NULL));
	reply = k->out;
	OK(kit_space_op(k, &a, LEND_MEMOP_WRITE, &space, 0, 9, (uint8_t[9]){0}));
	cr_assert_eq(memcmp(reply.seg[0].data, data, 4096), 0);
	lend_store_done(k->store, 0, reply.seg, reply.n);
	cr_assert_eq(kit_stats(k).pages_used, 1);
	cr_assert_eq(kit_stats(k).cow_copies, 0);
}

TestThen(store, slices_limit_what_a_bearer_can_do)
{
	struct lend_memref ref, part, deep, bad;
	struct lend_memspace space;
	struct lend_memop op = {.kind = LEND_MEMOP_NARROW, .offset = 10, .len = 20, .rights = 1};

	OK(kit_put(k, &a, data, 3 * 4096, kit_owned, &ref));
	cr_assert_eq(lend_memref_slice(&ref, 5000, 1000, LEND_RIGHT_READ | LEND_RIGHT_MAP, &part),
		     0);
	cr_assert_eq(lend_memref_slice(&part, 100, 50, LEND_RIGHT_READ, &deep), 0);
	OK(kit_get(k, &b, &deep, 0, 50, back));
	cr_assert_eq(memcmp(data + 5100, back, 50), 0);
	IS(kit_get(k, &b, &deep, 0, 51, back), OUT_OF_RANGE);
	IS(kit_get(k, &b, &deep, UINT64_MAX - 20, 51, back), OUT_OF_RANGE);
	IS(kit_map(k, &b, &deep, &space), PERMISSION_DENIED);
	IS(kit_grant(k, &a, &part, transfer), PERMISSION_DENIED);
	bad = part;
	bad.rights[1] = LEND_RIGHT_ALL;
	IS(kit_grant(k, &a, &bad, transfer), PERMISSION_DENIED);
	bad = part;
	bad.slice[0].len = 2000;
	IS(kit_get(k, &b, &bad, 0, 2000, back), PERMISSION_DENIED);
	OK(kit_map(k, &b, &part, &space));
	cr_assert_eq(kit_stats(k).pages_used, 3);
	OK(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 1000, back));
	cr_assert_eq(memcmp(data + 5000, back, 1000), 0);
	IS(kit_space_op(k, &b, LEND_MEMOP_READ, &space, 0, 1001, back), OUT_OF_RANGE);
	OK(kit_release(k, &a, &ref));
	cr_assert_eq(kit_stats(k).pages_used, 1); /* a map owns only the pages it wrote */

	OK(kit_put(k, &a, data, 3 * 4096, kit_owned, &ref));
	cr_assert_eq(lend_memref_slice(&ref, 100, 100, 3, &part), 0);
	cr_assert_eq(lend_memref_slice(&part, 10, 50, 1, &op.ref), 0);
	OK(kit_do(k, &b, &op, NULL));
	cr_assert(lend_memref_decode(k->out.head, &deep));
	cr_assert_eq(lend_memref_slice(&deep, 1, 10, 1, &deep), 0);
	OK(kit_get(k, &b, &deep, 0, 10, back));
	cr_assert_eq(memcmp(data + 121, back, 10), 0);
}

/* The holder of a token can sign any slice of it, even an invalid one: the node must check the
 * ranges. */
TestThen(store, slices_with_a_genuine_token_past_their_parent)
{
	static const struct lend_memslice row[] = {
	    {0, 5001}, {5000, 1}, {5001, 0}, {(UINT64_C(1) << 40) - 1, 2}, {4999, 2}};
	struct lend_memref ref, lie;

	OK(kit_put(k, &a, data, 5000, kit_owned, &ref));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		lie = ref;
		lie.root_len = UINT64_C(1) << 41;
		cr_assert_eq(lend_memref_slice(&lie, row[i].offset, row[i].len, 1, &lie), 0);
		lie.root_len = 5000;
		IS(kit_get(k, &b, &lie, 0, 0, back), INVALID_ARGUMENT);
		lie = ref;
		cr_assert_eq(lend_memref_slice(&lie, 0, 5000, 1, &lie), 0);
		lie.slice[0].len = UINT64_C(1) << 41;
		cr_assert_eq(lend_memref_slice(&lie, row[i].offset, row[i].len, 1, &lie), 0);
		lie.slice[0].len = 5000;
		IS(kit_get(k, &b, &lie, 0, 0, back), INVALID_ARGUMENT);
	}
	cr_assert_eq(lend_memref_slice(&ref, 0, 10, LEND_RIGHT_READ, &lie), 0);
	lie.rights[1] = LEND_RIGHT_ALL;
	cr_assert_eq(lend_memref_slice(&lie, 0, 10, LEND_RIGHT_ALL, &lie), 0);
	lie.rights[1] = LEND_RIGHT_READ;
	IS(kit_grant(k, &a, &lie, transfer), INVALID_ARGUMENT);
}

TestThen(store, restart_makes_old_references_not_found)
{
	struct lend_memref ref;
	struct kit *k2 = kit_open(64, 2);
	struct client w = {0};

	OK(kit_put(k, &a, data, 4096, kit_owned, &ref));
	OK(kit_hello(k2, &w, 1, 1));
	OK(kit_put(k2, &w, back, 4096, kit_owned, &(struct lend_memref){0}));
	IS(kit_get(k2, &w, &ref, 0, 1, back), NOT_FOUND);
	IS(kit_put(k2, &a, data, 1, kit_owned, &ref) == LEND_MEM_OK ? LEND_MEM_ABORTED
								    : k2->out.status,
	   ABORTED);
	lend_store_hangup(k2->store, w.life);
	kit_close(k2);
}

static uint32_t place_payload(const struct client *w, struct lend_memop *op,
			      struct lend_store_seg *seg, uint32_t *n, uint8_t *head)
{
	uint32_t fixed = 0, len = lend_memop_encode(op, head), p;

	p = lend_store_place(k->store, &w->peer, head, len, len + lend_memop_payload(op), seg + 1,
			     n, &fixed);
	seg[0] = (struct lend_store_seg){head, len};
	if (p)
		cr_assert_eq(fixed, len);
	return p;
}

TestThen(store, placed_put_and_write_copy_nothing)
{
	static struct lend_store_seg seg[LEND_STORE_SEGS_MAX + 1];
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	struct lend_memop op = {
	    .kind = LEND_MEMOP_PUT, .client = 1, .id = 1, .low = 1, .len = 9000};
	uint32_t n, p;
	uint64_t at = 0;
	struct lend_memref ref;
	struct lend_memspace space;

	op.life = a.life;
	p = place_payload(&a, &op, seg, &n, head);
	cr_assert_neq(p, 0);
	cr_assert_eq(kit_stats(k).pages_used, 3);
	kit_audit(k);
	for (uint32_t i = 1; i <= n; at += seg[i++].len)
		memcpy(seg[i].data, data + at, seg[i].len);
	cr_assert_eq(at, 9000);
	OK(lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, seg, n + 1, p, false},
			   &k->out));
	cr_assert(lend_memref_decode(k->out.head, &ref));
	cr_assert_eq(kit_stats(k).pages_used, 3);
	OK(kit_get(k, &b, &ref, 0, 9000, back));
	cr_assert_eq(memcmp(back, data, 9000), 0);
	cr_assert_eq(place_payload(&a, &op, seg, &n, head),
		     0); /* a retransmission needs no memory */

	a.id = 1;
	OK(kit_map(k, &a, &ref, &space));
	op = (struct lend_memop){.kind = LEND_MEMOP_WRITE,
				 .client = 1,
				 .life = a.life,
				 .id = 3,
				 .low = 1,
				 .space = space,
				 .len = 8200};
	p = place_payload(&a, &op, seg, &n, head);
	cr_assert_neq(p, 0);
	at = 0;
	for (uint32_t i = 1; i <= n; at += seg[i++].len)
		memset(seg[i].data, 0xee, seg[i].len);
	OK(lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, seg, n + 1, p, false},
			   &k->out));
	a.id = 3;
	OK(kit_space_op(k, &a, LEND_MEMOP_READ, &space, 0, 9000, back));
	for (int i = 0; i < 9000; i++)
		cr_assert_eq(back[i], i < 8200 ? 0xee : data[i], "%d", i);
	kit_audit(k);

	op.id = 4;
	p = place_payload(&a, &op, seg, &n, head);
	cr_assert_neq(p, 0);
	lend_store_unplace(k->store, p); /* the message was dropped */
	op.offset = 1;                   /* unaligned, or past the end: not placed */
	cr_assert_eq(place_payload(&a, &op, seg, &n, head), 0);
	op.offset = 4096;
	cr_assert_eq(place_payload(&a, &op, seg, &n, head), 0);
	op.offset = 0;
	op.life++;
	cr_assert_eq(place_payload(&a, &op, seg, &n, head), 0);
	cr_assert_eq(kit_stats(k).pages_used, 6);
	/* The client dies between place and exec. */
	op.life--;
	p = place_payload(&a, &op, seg, &n, head);
	lend_store_hangup(k->store, a.life);
	IS(lend_store_exec(k->store, k->now, &(struct lend_store_in){&a.peer, seg, n + 1, p, false},
			   &k->out),
	   ABORTED);
	cr_assert_eq(kit_stats(k).pages_used, 0);
}

TestThen(store, tables_full_are_statuses)
{
	struct lend_memref ref[65];
	struct lend_memspace space;
	uint64_t life[300];
	uint32_t n = 0;

	while (kit_alloc(k, &a, 1, &space) == LEND_MEM_OK)
		n++;
	cr_assert_eq(n, 2000);
	IS(k->out.status, RESOURCE_EXHAUSTED);
	IS(kit_put(k, &a, data, 1, kit_owned, &ref[0]), RESOURCE_EXHAUSTED);
	for (n = 0;; n++) {
		struct client w = {0};

		if (kit_hello(k, &w, 1000 + n, 1) != LEND_MEM_OK) {
			cr_assert_eq(n, 298);
			break;
		}
		life[n] = w.life;
	}
	IS(k->out.status, RESOURCE_EXHAUSTED);
	while (kit_stats(k).clients > 2)
		lend_store_hangup(k->store, life[--n]);
}

TestThen(store, copy_of_the_arena_is_the_same_store)
{
	struct lend_memref ref;
	struct lend_store *copy = aligned_alloc(64, (k->size + 63) & ~(size_t)63);
	struct lend_store *old = k->store;

	OK(kit_put(k, &a, data, 5000, kit_owned, &ref));
	memcpy(copy, k->store, k->size);
	lend_store_attach(copy, k->pages);
	cr_assert_eq(lend_store_hash(copy), lend_store_hash(old));
	k->store = copy;
	OK(kit_get(k, &b, &ref, 0, 5000, back));
	cr_assert_eq(memcmp(data, back, 5000), 0);
	cr_assert_neq(lend_store_hash(copy), lend_store_hash(old));
	free(old);
}

/* A restarted node counts lives from the start: an operation for the old node that arrives after
 * HELLO to the new one must match no life. */
TestThen(store, life__of_an_earlier_start__is_unknown)
{
	struct kit *next = kit_open(8, k->config.epoch + 1);
	struct client late = {0}, now = {0};
	struct lend_memref ref;

	OK(kit_hello(k, &late, 900, 1));
	for (int i = 0; i < 10; i++) {
		memset(&now, 0, sizeof(now));
		OK(kit_hello(next, &now, i ? 100 + (uint32_t)i : 900, 1));
		cr_assert_neq(now.life, late.life);
	}
	IS(kit_put(next, &late, data, 1, kit_owned, &ref), ABORTED);
	kit_close(next);
	lend_store_hangup(k->store, late.life);
}
