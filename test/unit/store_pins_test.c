/* Goal: a frame that a process mapped keeps its bytes, and is not used again, until the process
 * reports the unmap or its socket closes; then no pin is left. Method: each way in which the store
 * can release a mapped frame is tried, and the frame is read where a mapping would read it; the
 * audit and the counters show whether every frame came back. Covers: mn/store/pinned_map.c */
#include "unit/pinkit.h"

enum { KEY = 77, OTHER = 78 };

static struct client me;

static struct kit *begin(uint32_t pages)
{
	struct kit *k = kit_open(pages, 5);

	memset(&me, 0, sizeof(me));
	cr_assert_eq(kit_hello(k, &me, 1, 1), LEND_MEM_OK);
	cr_assert(lend_store_pool_open(k->store, KEY));
	return k;
}

static struct lend_memref put(struct kit *k, uint8_t byte, uint32_t pages)
{
	struct lend_memref ref;
	uint8_t *data = malloc(pages * PAGE);

	for (uint32_t i = 0; i < pages; i++)
		memset(data + i * PAGE, byte + (int)i, PAGE);
	cr_assert_eq(kit_put(k, &me, data, pages * PAGE, kit_owned, &ref), LEND_MEM_OK);
	free(data);
	return ref;
}

static enum lend_mem_status map(struct kit *k, const struct lend_memref *ref, uint64_t key,
				struct lend_memspace *space, struct lend_memview *view)
{
	struct lend_memop op = {.kind = LEND_MEMOP_POOL_MAP, .ref = *ref, .target = key};

	if (kit_do(k, &me, &op, NULL) != LEND_MEM_OK)
		return k->out.status;
	lend_memspace_decode(k->out.head, 16, space);
	*view = pinned_view(k, 24);
	return LEND_MEM_OK;
}

static void bye(struct kit *k)
{
	struct lend_memop op = {.kind = LEND_MEMOP_BYE_CLIENT};

	cr_assert_eq(kit_do(k, &me, &op, NULL), LEND_MEM_OK);
	while (lend_store_deadline(k->store) == 0) /* a step frees the pages of a few nodes */
		lend_store_tick(k->store, k->now);
}

Test(store_pins, shows_runs_of_frames)
{
	struct kit *k = begin(200);
	struct lend_memref ref = put(k, 1, 100);
	struct lend_memspace space;
	struct lend_memview v;

	cr_assert_eq(map(k, &ref, KEY, &space, &v), LEND_MEM_OK);
	cr_assert_eq(v.pages, 100);
	cr_assert_eq(v.base, 0);
	cr_assert_eq(v.n, 1, "new frames are contiguous");
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(pinned_seen(k, &v, i), 1 + i);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, 60, KEY), LEND_MEM_OK);
	v = pinned_view(k, 0);
	cr_assert_eq(v.extent[0].pages, 40, "the rest, from page 60 on");
	cr_assert_eq(pinned_seen(k, &v, 0), 61);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, 100, KEY), LEND_MEM_OK);
	cr_assert_eq(pinned_view(k, 0).n, 0);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, UINT64_MAX, KEY), LEND_MEM_OK);
	cr_assert_eq(pinned_view(k, 0).n, 0);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_FREE, &space, 0, 0), LEND_MEM_OK);
	bye(k);
	cr_assert_eq(kit_stats(k).pages_used, 0);
	kit_close(k);
}

Test(store_pins, view__slice_with_holes__offset_and_frame_0)
{
	struct kit *k = begin(200);
	struct lend_memspace space, sparse;
	struct lend_memref ref = put(k, 1, 8), slice;
	struct lend_memview v;
	uint8_t byte = 9;

	cr_assert_eq(lend_memref_slice(&ref, PAGE + 5, 2 * PAGE, LEND_RIGHT_MAP, &slice), 0);
	cr_assert_eq(map(k, &slice, KEY, &space, &v), LEND_MEM_OK);
	cr_assert_eq(v.base, 5);
	cr_assert_eq(v.pages, 3);
	cr_assert_eq(pinned_seen(k, &v, 0), 2);
	cr_assert_eq(kit_alloc(k, &me, 300 * PAGE, &sparse), LEND_MEM_OK);
	cr_assert_eq(kit_space_op(k, &me, LEND_MEMOP_WRITE, &sparse, 200 * PAGE, 1, &byte),
		     LEND_MEM_OK);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &sparse, 0, KEY), LEND_MEM_OK);
	v = pinned_view(k, 0);
	cr_assert_eq(v.n, 3);
	cr_assert_eq(v.extent[0].frame, 0);
	cr_assert_eq(v.extent[0].pages, 200);
	cr_assert_eq(pinned_seen(k, &v, 200), 9);
	cr_assert_eq(v.extent[2].pages, 99);
	lend_store_pool_hangup(k->store, KEY);
	bye(k);
	kit_close(k);
}

Test(store_pins, more_runs_than_a_view_has)
{
	struct kit *k = begin(400);
	struct lend_memspace space;
	struct lend_memview v;
	uint8_t byte = 1;
	uint32_t n = LEND_MEM_EXTENTS_MAX + 4;

	cr_assert_eq(kit_alloc(k, &me, n * PAGE, &space), LEND_MEM_OK);
	for (uint32_t i = 0; i < n; i += 2)
		cr_assert_eq(kit_space_op(k, &me, LEND_MEMOP_WRITE, &space, i * PAGE, 1, &byte),
			     LEND_MEM_OK);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, 0, KEY), LEND_MEM_OK);
	v = pinned_view(k, 0);
	cr_assert_eq(v.n, LEND_MEM_EXTENTS_MAX);
	cr_assert_eq(v.pages, n);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, LEND_MEM_EXTENTS_MAX, KEY),
		     LEND_MEM_OK);
	cr_assert_eq(pinned_view(k, 0).n, 4, "what did not fit");
	lend_store_pool_hangup(k->store, KEY);
	bye(k);
	kit_close(k);
}

/* Whatever releases the space, the frame stays unchanged until the unmap message or the hang-up. */
Test(store_pins, pin__any_release__lasts_until_unmap_or_hangup)
{
	for (int how = 0; how < 6; how++) {
		struct kit *k = begin(16);
		struct lend_memref ref = put(k, 1, 2), sealed;
		struct lend_memspace space;
		struct lend_memview v;
		uint8_t page[PAGE];
		struct lend_memop seal = {.kind = LEND_MEMOP_SEAL, .len = PAGE, .terms = kit_owned};

		memset(page, 99, sizeof(page));
		cr_assert_eq(map(k, &ref, KEY, &space, &v), LEND_MEM_OK);
		cr_assert_eq(kit_release(k, &me, &ref), LEND_MEM_OK);
		if (how == 0) /* the frame's only owner writes */
			cr_assert_eq(kit_space_op(k, &me, LEND_MEMOP_WRITE, &space, 0, PAGE, page),
				     LEND_MEM_OK);
		if (how == 1) { /* writes part of it, then seals */
			cr_assert_eq(kit_space_op(k, &me, LEND_MEMOP_WRITE, &space, 7, 9, page),
				     LEND_MEM_OK);
			seal.space = space;
			cr_assert_eq(kit_do(k, &me, &seal, NULL), LEND_MEM_OK);
			cr_assert(lend_memref_decode(k->out.head, &sealed));
			cr_assert_eq(kit_release(k, &me, &sealed), LEND_MEM_OK);
		}
		if (how == 2)
			bye(k);
		if (how == 3)
			lend_store_hangup(k->store, me.life);
		if (how == 4) { /* the lease ends */
			k->now += k->config.lease + 1;
			lend_store_tick(k->store, k->now);
		}
		if (how == 5) { /* a space that a seal consumes */
			seal.space = space;
			seal.flags = LEND_MEMOP_CONSUME;
			cr_assert_eq(kit_do(k, &me, &seal, NULL), LEND_MEM_OK);
		}
		for (int i = 0; i < 50; i++)
			lend_store_tick(k->store, k->now);
		cr_assert_eq(pinned_seen(k, &v, 0), 1, "way %d", how);
		cr_assert_eq(pinned_seen(k, &v, 1), 2, "way %d", how);
		cr_assert_eq(kit_stats(k).pinned_maps, 1, "way %d", how);
		kit_audit(k);
		lend_store_pool_hangup(k->store, KEY);
		lend_store_hangup(k->store, me.life);
		for (int i = 0; i < 50; i++)
			lend_store_tick(k->store, k->now);
		cr_assert_eq(kit_stats(k).pinned_maps, 0);
		cr_assert_eq(kit_stats(k).pages_used, 0, "way %d", how);
		kit_close(k);
	}
}

Test(store_pins, unmap__each_view__ends_its_pins)
{
	struct kit *k = begin(16);
	struct lend_memref ref = put(k, 1, 2);
	struct lend_memspace space, pinned;
	struct lend_memview v;

	cr_assert(lend_store_pool_open(k->store, OTHER));
	cr_assert_not(lend_store_pool_open(k->store, OTHER), "no key twice");
	cr_assert_eq(map(k, &ref, KEY, &space, &v), LEND_MEM_OK);
	pinned = v.pinned_map;
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_DROP, &pinned, 0, OTHER),
		     LEND_MEM_NOT_FOUND);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_DROP, &space, 0, KEY), LEND_MEM_NOT_FOUND);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, 1, OTHER),
		     LEND_MEM_FAILED_PRECONDITION);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &pinned, 0, KEY), LEND_MEM_NOT_FOUND);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_VIEW, &space, 0, KEY), LEND_MEM_OK);
	cr_assert_eq(kit_stats(k).pinned_maps, 1, "made anew, not another one");
	pinned = pinned_view(k, 0).pinned_map;
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_DROP, &pinned, 0, KEY), LEND_MEM_OK);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_POOL_DROP, &pinned, 0, KEY), LEND_MEM_NOT_FOUND);
	cr_assert_eq(kit_stats(k).pinned_maps, 0);
	cr_assert_eq(map(k, &ref, 1234, &space, &v), LEND_MEM_FAILED_PRECONDITION);
	cr_assert_eq(map(k, &ref, 0, &space, &v), LEND_MEM_FAILED_PRECONDITION);
	cr_assert_eq(map(k, &ref, KEY, &space, &v), LEND_MEM_OK);
	cr_assert_eq(pinned_op(k, &me, LEND_MEMOP_FREE, &space, 0, 0), LEND_MEM_OK);
	cr_assert_eq(kit_stats(k).pinned_maps, 0, "FREE reports the unmap, too");
	lend_store_pool_hangup(k->store, KEY);
	lend_store_pool_hangup(k->store, KEY);
	cr_assert_eq(map(k, &ref, KEY, &space, &v), LEND_MEM_FAILED_PRECONDITION,
		     "an operation after the hang-up pins nothing");
	bye(k);
	kit_close(k);
}

Test(store_pins, forgotten_and_repeated)
{
	struct kit *k = begin(16);
	struct lend_memref ref = put(k, 1, 2);
	struct lend_memop op = {.kind = LEND_MEMOP_POOL_MAP, .ref = ref, .target = KEY};
	struct lend_memop forget = {.kind = LEND_MEMOP_FORGET, .client = 1};
	struct lend_memview v;

	me.low = me.id + 1;
	cr_assert_eq(kit_do(k, &me, &op, NULL), LEND_MEM_OK);
	v = pinned_view(k, 24);
	cr_assert_eq(kit_exec(k, &me, &op, NULL), LEND_MEM_OK);
	cr_assert_eq(kit_stats(k).pinned_maps, 1);
	cr_assert_eq(pinned_view(k, 24).pinned_map.serial, v.pinned_map.serial,
		     "a repeat has the same answer");
	forget.life = me.life;
	forget.low = me.low;
	forget.target = me.id;
	cr_assert_eq(kit_exec(k, &me, &forget, NULL), LEND_MEM_OK);
	cr_assert_eq(kit_stats(k).pinned_maps, 0);
	cr_assert_eq(kit_stats(k).spaces, 0);
	bye(k);
	kit_close(k);
}
