#include "mn/store/recover.h"

#include "mn/store/frame.h"
#include "mn/store/frame_alloc.h"
#include "mn/store/hold.h"
#include "mn/store/layout.h"
#include "mn/store/lease.h"
#include "mn/store/space.h"
#include "mn/store/page_checksum.h"
#include "mn/store/page_tree.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"

static bool is_same_table(const struct lend_table *a, const struct lend_table *b)
{
	return a->at == b->at && a->cap == b->cap && b->top <= b->cap;
}

static bool is_same_set(const struct lend_set *a, const struct lend_set *b)
{
	return !memcmp(a->at, b->at, sizeof(a->at)) && a->last == b->last;
}

static bool is_same_free(const struct lend_free *a, const struct lend_free *b)
{
	return is_same_set(&a->any, &b->any) && is_same_set(&a->part, &b->part) &&
	       is_same_set(&a->whole, &b->whole) && is_same_set(&a->rest[0], &b->rest[0]) &&
	       is_same_set(&a->rest[1], &b->rest[1]) && is_same_set(&a->dirty, &b->dirty);
}

static bool is_laid_out(const struct lend_store *s, const struct lend_store_config *c)
{
	struct lend_store want;

	memset(&want, 0, sizeof(want));
	lend_store_lay_out(&want, c);
	return want.size == s->size && want.node_refs == s->node_refs && want.sums == s->sums &&
	       want.hold_buckets == s->hold_buckets && want.client_buckets == s->client_buckets &&
	       want.heap == s->heap && want.records == s->records && want.undo == s->undo &&
	       want.tenants == s->tenants && want.hold_mask == s->hold_mask &&
	       want.client_mask == s->client_mask && want.undo_cap == s->undo_cap &&
	       is_same_free(&want.free, &s->free) && s->undo_n <= s->undo_cap &&
	       is_same_table(&want.frame, &s->frame) && is_same_table(&want.node, &s->node) &&
	       is_same_table(&want.object, &s->object) && is_same_table(&want.hold, &s->hold) &&
	       is_same_table(&want.grant, &s->grant) && is_same_table(&want.client, &s->client) &&
	       is_same_table(&want.incarnation, &s->incarnation) &&
	       is_same_table(&want.placement, &s->placement) &&
	       is_same_table(&want.mapper, &s->mapper) && c->open == s->config.open;
}

const char *lend_store_mismatch(const void *mem, size_t len, const struct lend_store_config *config)
{
	const struct lend_store *s = mem;

	if (len < sizeof(*s) || s->layout != lend_store_layout())
		return "it was written by another version";
	if (s->config.page != config->page)
		return "its page size was different";
	if (config->checksum != s->config.checksum)
		return config->checksum ? "it was without --checksum" : "it was with --checksum";
	if (len < lend_store_size(config) || !is_laid_out(s, config))
		return "its size or number of clients was different";
	if (config->worker != s->config.worker || config->workers != s->config.workers ||
	    (config->node && config->node != s->config.node))
		return "it is of another node";
	return NULL;
}

/* Undoes the interrupted operation. False: the log is damaged. */
static bool take_back(struct lend_store *s)
{
	while (s->undo_n > 0) {
		const struct lend_undo *u = lend_undo_at(s, s->undo_n - 1);

		if (u->at < sizeof(*s) || u->at > s->undo - sizeof(u->was))
			return false;
		memcpy(lend_at(s, u->at), &u->was, sizeof(u->was));
		lend_undo_fence();
		s->undo_n--;
		lend_undo_fence();
	}
	return true;
}

/* Counts the live entries of a table; links the others into its free list, in ascending order. */
#define RECOUNT(s, type, is_live)                                                                  \
	do {                                                                                       \
		(s)->type.used = (s)->type.free = 0;                                               \
		for (uint32_t i = (s)->type.top; i > 0; i--) {                                     \
			(s)->type.used += (is_live);                                               \
			if (is_live)                                                               \
				continue;                                                          \
			lend_##type##_at(s, i)->next = (s)->type.free;                             \
			(s)->type.free = i;                                                        \
		}                                                                                  \
	} while (0)

static void recover_clients(struct lend_store *s, lend_ns now)
{
	for (uint32_t i = 0; i < s->config.tenants; i++)
		lend_tenant_at(s, i)->use = (struct lend_store_usage){.pages = 0};
	memset(lend_at(s, s->client_buckets), 0, ((size_t)s->client_mask + 1) * sizeof(uint32_t));
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		lend_incarnation_at(s, i)->clients = 0;
	for (uint32_t i = 1; i <= s->client.top; i++) {
		struct lend_client *c = lend_client_at(s, i);

		c->holds = c->spaces = 0;
		c->live = c->live && c->incarnation && c->incarnation <= s->incarnation.top &&
			  lend_incarnation_at(s, c->incarnation)->life;
		if (c->live)
			lend_client_link(s, i);
	}
	s->lease_next = LEND_NEVER;
	for (uint32_t i = 1; i <= s->incarnation.top; i++) {
		if (!lend_incarnation_at(s, i)->clients)
			lend_incarnation_at(s, i)->life = 0;
		else
			lend_lease_renew(s, now, i);
	}
	RECOUNT(s, client, lend_client_at(s, i)->live);
	RECOUNT(s, incarnation, lend_incarnation_at(s, i)->life > 0);
}

static bool is_client(const struct lend_store *s, uint32_t i)
{
	return i > 0 && i <= s->client.top && lend_client_at(s, i)->live;
}

static bool is_snapshot(const struct lend_store *s, uint32_t i)
{
	return i > 0 && i <= s->object.top && lend_object_at(s, i)->serial &&
	       lend_object_at(s, i)->kind == LEND_OBJECT_SNAPSHOT;
}

static void recover_objects(struct lend_store *s)
{
	s->ended = 0;
	s->counts.spaces = s->counts.pinned_maps = 0;
	for (uint32_t i = 1; i <= s->object.top; i++) {
		struct lend_object *o = lend_object_at(s, i);

		o->tie = 0;
		if (o->unwritten) /* part of its bytes may have arrived */
			o->serial = 0;
		if (o->kind == LEND_OBJECT_SNAPSHOT)
			o->holds = o->grants = o->stakes = 0;
		else if (o->kind == LEND_OBJECT_PINNED_MAP || !is_client(s, o->client))
			o->serial = 0;
		else if (o->serial)
			lend_space_link(s, i);
	}
}

static void recover_keepers(struct lend_store *s)
{
	memset(lend_at(s, s->hold_buckets), 0, ((size_t)s->hold_mask + 1) * sizeof(uint32_t));
	for (uint32_t i = 1; i <= s->hold.top; i++) {
		struct lend_hold *h = lend_hold_at(s, i);

		if (is_snapshot(s, h->object) && is_client(s, h->client))
			lend_hold_link(s, i);
		else
			h->object = h->client = 0;
	}
	s->heap_n = 0;
	for (uint32_t i = 1; i <= s->grant.top; i++) {
		if (lend_grant_at(s, i)->serial && is_snapshot(s, lend_grant_at(s, i)->object))
			lend_grant_link(s, i);
		else
			lend_grant_at(s, i)->serial = 0;
	}
	for (uint32_t i = 1; i <= s->object.top; i++) {
		struct lend_object *o = lend_object_at(s, i);

		if (is_snapshot(s, i) && !o->holds && !o->grants)
			o->serial = 0;
	}
	RECOUNT(s, hold, lend_hold_at(s, i)->object > 0);
	RECOUNT(s, grant, lend_grant_at(s, i)->serial > 0);
	RECOUNT(s, object, lend_object_at(s, i)->serial > 0);
}

/* Counts the references to nodes and frames below id. False: one refers to an entry that was never
 * used. */
static bool visit_node(struct lend_store *s, uint32_t id, uint32_t level)
{
	bool fine = true;

	if (!id)
		return true;
	if (level == 0) {
		fine = id <= s->frame.top;
		if (fine)
			lend_frame_at(s, id)->refs++;
		return fine;
	}
	if (id > s->node.top)
		return false;
	if ((*lend_node_refs(s, id))++ > 0)
		return true;
	for (uint32_t i = 0; i < LEND_FAN && fine; i++)
		fine = visit_node(s, lend_node_at(s, id)->child[i], level - 1);
	return fine;
}

static bool recover_trees(struct lend_store *s)
{
	bool fine = true;

	memset(lend_node_refs(s, 0), 0, ((size_t)s->node.top + 1) * sizeof(uint32_t));
	for (uint32_t i = 1; i <= s->frame.top; i++) {
		struct lend_frame *f = lend_frame_at(s, i);

		f->refs = f->pins = f->next = 0;
	}
	for (uint32_t i = 1; i <= s->object.top && fine; i++) {
		const struct lend_object *o = lend_object_at(s, i);

		if (o->serial)
			fine = o->height <= LEND_HEIGHT_MAX && visit_node(s, o->root, o->height);
	}
	return fine;
}

/* Frees the frames without references. With config.quarantine, all start a new one. */
static void recover_frames(struct lend_store *s)
{
	s->frame.used = 0;
	lend_free_clear(s);
	lend_free_init(s, s->frame.top + 1);
	for (uint32_t i = 1; i <= s->frame.top; i++) {
		if (lend_frame_at(s, i)->refs) {
			s->frame.used++;
			continue;
		}
		lend_frame_zero(s, i);
		if (s->config.quarantine)
			lend_free_quarantine(s, i);
		else
			lend_free_add(s, i);
	}
}

static void recover_free(struct lend_store *s)
{
	s->dying = s->pinned = 0;
	s->node.used = s->node.free = 0;
	for (uint32_t i = s->node.top; i > 0; i--) {
		if (*lend_node_refs(s, i)) {
			s->node.used++;
			continue;
		}
		lend_node_at(s, i)->child[0] = s->node.free;
		s->node.free = i;
	}
	recover_frames(s);
	memset(lend_placement_at(s, 0), 0,
	       ((size_t)s->placement.top + 1) * sizeof(struct lend_placement));
	s->placement.top = s->placement.used = s->placement.free = 0;
	s->mapper.top = s->mapper.used = s->mapper.free = 0;
}

const char *lend_store_recover(struct lend_store *store, const struct lend_store_config *config,
			       void *pages, lend_ns now)
{
	store->pages = pages;
	memset(store->token, 0, sizeof(store->token)); /* one may be incomplete */
	store->config.lease = config->lease;
	store->config.late = config->late;
	store->config.revive = config->revive;
	store->config.quarantine = config->quarantine;
	store->config.yields = config->yields;
	store->config.reap = config->reap;
	lend_store_set_text(store, config->addresses);
	if (!take_back(store))
		return "the record of its last operation is damaged";
	recover_clients(store, now);
	recover_objects(store);
	recover_keepers(store);
	if (!recover_trees(store))
		return "its page tables are damaged";
	recover_free(store);
	lend_sum_recover(store);
	return NULL;
}
