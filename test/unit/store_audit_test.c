/* Goal: the audit detects each ledger that is off by one. Other tests and the simulator rely on it.
 * Method: a store with some of everything; one number at a time is changed directly. Covers:
 * mn/store/audit.c */
#include "unit/storekit.h"

#include "mn/store/store.h"

static struct kit *k;
static struct client giver;

/* A mapped snapshot under a grant, a space with a page, a placement, a recorded reply. */
static void setup(void)
{
	struct lend_memop alloc = {.kind = LEND_MEMOP_ALLOC, .len = 3 * LEND_MEM_PAGE};
	struct lend_memop get = {.kind = LEND_MEMOP_GET, .len = 100};
	struct lend_memop map = {.kind = LEND_MEMOP_MAP};
	static uint8_t bytes[2 * LEND_MEM_PAGE];

	memset(bytes, 'x', sizeof(bytes));
	k = kit_open(64, 7);
	memset(&giver, 0, sizeof(giver));
	cr_assert_eq(kit_hello(k, &giver, 1, 1), LEND_MEM_OK);
	cr_assert_eq(kit_put(k, &giver, bytes, sizeof(bytes),
			     (struct lend_memterms){LEND_TERMS_SHARED, 3, 1000}, &get.ref),
		     LEND_MEM_OK);
	map.ref = get.ref;
	cr_assert_eq(kit_do(k, &giver, &map, NULL), LEND_MEM_OK);
	cr_assert_eq(kit_do(k, &giver, &alloc, NULL), LEND_MEM_OK);
	cr_assert_eq(kit_do(k, &giver, &get, NULL), LEND_MEM_OK);
	cr_assert(k->out.pinned);
}

static void teardown(void)
{
	free(k->store);
	free(k->pages);
	free(k->scratch);
	free(k);
}

TestSuite(store_audit, .init = setup, .fini = teardown);

static void expect_sound(const char *what)
{
	const char *bad = lend_store_audit(k->store, k->scratch);

	cr_assert(bad, "the audit missed: %s", what);
	cr_assert_str_eq(bad, what);
}

/* Changes a number, expects the audit to fail, and restores it. */
static void change_and_restore(uint32_t *ledger, uint32_t value, const char *what)
{
	uint32_t right = *ledger;

	*ledger = value;
	expect_sound(what);
	*ledger = right;
	kit_audit(k);
}

static uint32_t first_of_kind(enum lend_object_kind kind)
{
	uint32_t i = 1;

	while (lend_object_at(k->store, i)->kind != kind)
		i++;
	return i;
}

Test(store_audit, audit__intact_store__passes)
{
	kit_audit(k);
}

Test(store_audit, counts_of_tables)
{
	struct lend_store *s = k->store;

	change_and_restore(&s->object.used, s->object.used + 1, "objects are miscounted");
	change_and_restore(&s->frame.used, s->frame.used + 1, "frames are miscounted");
	change_and_restore(&s->pinned, s->pinned + 1, "frames are miscounted");
	change_and_restore(&s->node.used, s->node.used + 1, "nodes are miscounted");
	change_and_restore(&s->hold.used, s->hold.used + 1, "holds are miscounted");
	change_and_restore(&s->client.used, s->client.used + 1, "clients or spaces are miscounted");
	change_and_restore(&s->grant.used, s->grant.used + 1, "grants are miscounted");
	change_and_restore(&s->heap_n, s->heap_n + 1, "grants are miscounted");
	s->counts.spaces++;
	expect_sound("clients or spaces are miscounted");
	s->counts.spaces--;
}

Test(store_audit, counts_of_entries)
{
	struct lend_store *s = k->store;
	struct lend_object *snapshot = lend_object_at(s, first_of_kind(LEND_OBJECT_SNAPSHOT));
	struct lend_object *space = lend_object_at(s, first_of_kind(LEND_OBJECT_SPACE));
	uint32_t frame = lend_node_at(s, snapshot->root)->child[0];

	cr_assert_eq(snapshot->height, 1);
	change_and_restore(&lend_frame_at(s, frame)->refs, 9,
			   "a frame's refs are not what names it");
	change_and_restore(lend_node_refs(s, snapshot->root), 9,
			   "a node's refs are not what names it");
	change_and_restore(&snapshot->holds, 9, "holds are miscounted");
	change_and_restore(&space->client, 9, "clients or spaces are miscounted");
	change_and_restore(&lend_grant_at(s, snapshot->grants)->object, 9, "grants are miscounted");
	lend_hold_at(s, lend_client_at(s, 1)->holds)->client ^= 1;
	expect_sound("holds are miscounted");
	lend_hold_at(s, lend_client_at(s, 1)->holds)->client ^= 1;
	change_and_restore(&snapshot->root, s->node.top + 1, "nodes are miscounted");
	lend_grant_at(s, snapshot->grants)->serial = 0;
	expect_sound("grants are miscounted");
}

Test(store_audit, bills)
{
	struct lend_tenant *t = lend_tenant_at(k->store, 0);
	const char *what = "tenants are charged wrong";

	t->use.pages++;
	expect_sound(what);
	t->use.pages--;
	change_and_restore(&t->use.refs, t->use.refs + 1, what);
	change_and_restore(&t->use.clients, t->use.clients + 1, what);
	t->use.pinned++;
	cr_assert(lend_store_audit(k->store, k->scratch));
	t->use.pinned--;
	kit_audit(k);
}

Test(store_audit, audit__snapshot_without_holder__fails)
{
	struct lend_object *o = lend_object_at(k->store, first_of_kind(LEND_OBJECT_SNAPSHOT));
	uint32_t holds = o->holds, grants = o->grants;

	o->holds = 0;
	o->grants = 0;
	cr_assert_not_null(lend_store_audit(k->store, k->scratch));
	o->holds = holds;
	o->grants = grants;
	kit_audit(k);
}

Test(store_audit, audit__free_page_not_zero__fails)
{
	struct lend_memop op = {.kind = LEND_MEMOP_BYE_CLIENT};

	lend_store_done(k->store, 0, k->out.seg, k->out.n);
	cr_assert_eq(kit_do(k, &giver, &op, NULL), LEND_MEM_OK);
	lend_set_add(k->store, &k->store->free.dirty, 1);
	expect_sound("dirty frames are miscounted, or in use");
	lend_set_remove(k->store, &k->store->free.dirty, 1);
	lend_store_tick(k->store, k->now + 1000);                 /* the grant ends */
	lend_store_tick(k->store, lend_store_deadline(k->store)); /* zeroes its pages */
	kit_audit(k);
	lend_page(k->store, 1)[17] = 1;
	expect_sound("a free page is not zero");
	lend_page(k->store, 1)[17] = 0;
	lend_page(k->store, 0)[4095] = 1;
	expect_sound("the page of zeros is not");
}
