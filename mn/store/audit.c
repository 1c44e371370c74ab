#include "mn/store/exec.h"

#include <string.h>

#include "mn/store/frame_alloc.h"
#include "mn/store/hold.h"
#include "mn/store/lease.h"
#include "mn/store/space.h"
#include "mn/store/tenant.h"

/* Counts in scratch the references to every frame and node, walking each shared node once. */
struct audit {
	const struct lend_store *s;
	uint32_t *frame, *node;       /* references found */
	uint32_t nodes, frames;       /* number of distinct nodes and frames found */
	struct lend_store_usage *use; /* usage found, by tenant */
	uint64_t pins;                /* pins of all frames */
	uint64_t landing;             /* those of placements */
	const char *bad;
};

static void visit_node(struct audit *a, uint32_t id, uint32_t level)
{
	if (!id || a->bad)
		return;
	if (id > (level ? a->s->node.top : a->s->frame.top)) {
		a->bad = "a tree names what was never used";
		return;
	}
	if (level == 0) {
		a->frames += a->frame[id]++ == 0;
		return;
	}
	if (a->node[id]++ > 0)
		return;
	a->nodes++;
	for (uint32_t i = 0; i < LEND_FAN; i++)
		visit_node(a, lend_node_at(a->s, id)->child[i], level - 1);
}

/* Nodes that wait to be freed have no references, but still count as parents of their children. */
static void audit_dying(struct audit *a)
{
	const struct lend_store *s = a->s;

	for (uint32_t id = s->dying, word; id && !a->bad; id = word >> LEND_LEVEL_BITS) {
		word = *lend_node_refs(s, id);
		if (a->node[id])
			a->bad = "a node is let go, and named";
		a->nodes++;
		for (uint32_t i = 0; i < LEND_FAN; i++)
			visit_node(a, lend_node_at(s, id)->child[i], (word & LEND_LEVEL_MASK) - 1);
	}
}

static uint32_t listed_pinned_maps(const struct lend_store *s)
{
	uint32_t n = 0;

	for (uint32_t p = 1; p <= s->mapper.top; p++)
		for (uint32_t o = lend_mapper_at(s, p)->pinned_maps; o;
		     o = lend_object_at(s, o)->next)
			n += lend_object_at(s, o)->client == p;
	return n;
}

static void audit_objects(struct audit *a)
{
	const struct lend_store *s = a->s;
	uint32_t used = 0, spaces = 0, liens = 0;

	for (uint32_t i = 1; i <= s->object.top; i++) {
		const struct lend_object *o = lend_object_at(s, i);

		if (!o->serial)
			continue;
		used++;
		liens += o->kind == LEND_OBJECT_PINNED_MAP;
		if (o->kind > LEND_OBJECT_SNAPSHOT && o->tie && lend_object_at(s, o->tie)->tie != i)
			a->bad = "a space and its pinned map disagree";
		spaces += o->kind == LEND_OBJECT_SPACE;
		if (o->kind == LEND_OBJECT_SNAPSHOT && !o->holds && !o->grants)
			a->bad = "a snapshot that nobody keeps";
		if (o->unwritten && (o->kind != LEND_OBJECT_SNAPSHOT || o->holds != 1 || o->grants))
			a->bad = "an unwritten snapshot is not its writer's alone";
		visit_node(a, o->root, o->height);
	}
	if (used != s->object.used || spaces != s->counts.spaces ||
	    liens != s->counts.pinned_maps || liens != listed_pinned_maps(s))
		a->bad = "objects are miscounted";
}

/* Returns whether a page is all zeros: its first byte is zero, and each byte equals the one before
 * it. */
static bool is_zero(const struct lend_store *s, uint32_t frame)
{
	const uint8_t *page = lend_page(s, frame);

	return page[0] == 0 && memcmp(page, page + 1, lend_page_size(s) - 1) == 0;
}

static void audit_frames(struct audit *a)
{
	const struct lend_store *s = a->s;
	uint32_t used = 0, pinned = 0, dirty = 0;

	for (uint32_t p = 1; p <= s->placement.top; p++)
		for (uint32_t f = lend_placement_at(s, p)->first; f; f = lend_frame_at(s, f)->next)
			if (!lend_placement_at(s, p)->serial)
				a->frame[f]++;
			else
				a->landing++;
	for (uint32_t i = 1; i <= s->frame.top; i++) {
		const struct lend_frame *f = lend_frame_at(s, i);

		if (f->refs != a->frame[i])
			a->bad = "a frame's refs are not what names it";
		used += f->refs || f->pins;
		pinned += f->pins > 0;
		a->pins += f->pins;
		if (lend_free_has(s, i) != (!f->refs && !f->pins))
			a->bad = "a frame is both free and in use, or neither";
		if (lend_set_word(s, &s->free.dirty, i) >> (i & 63) & 1)
			dirty += !f->refs && !f->pins;
		else if (!f->refs && !f->pins && !is_zero(s, i))
			a->bad = "a free page is not zero";
	}
	if (dirty != s->free.dirty.n)
		a->bad = "dirty frames are miscounted, or in use";
	if (!lend_free_is_sound(s) ||
	    s->free.n + s->free.any.n + s->free.rest[0].n + s->free.rest[1].n !=
		lend_table_room(&s->frame))
		a->bad = "free frames are miscounted";
	if (!is_zero(s, 0))
		a->bad = "the page of zeros is not";
	if (used != s->frame.used || pinned != s->pinned)
		a->bad = "frames are miscounted";
}

static void audit_nodes(struct audit *a)
{
	for (uint32_t i = 1; i <= a->s->node.top; i++)
		if (a->node[i] && *lend_node_refs(a->s, i) != a->node[i])
			a->bad = "a node's refs are not what names it";
	if (a->nodes != a->s->node.used)
		a->bad = "nodes are miscounted";
}

static void audit_keepers(struct audit *a)
{
	const struct lend_store *s = a->s;
	uint32_t holds = 0, listed = 0, spaces = 0, clients = 0, grants = 0;

	for (uint32_t i = 1; i <= s->object.top; i++) {
		const struct lend_object *o = lend_object_at(s, i);

		if (!o->serial || o->kind != LEND_OBJECT_SNAPSHOT)
			continue;
		holds += o->holds;
		for (uint32_t g = o->grants; g; g = lend_grant_at(s, g)->next)
			grants += lend_grant_at(s, g)->object == i && lend_grant_at(s, g)->serial;
	}
	for (uint32_t i = 1; i <= s->incarnation.top; i++) {
		if (!lend_incarnation_at(s, i)->life)
			continue;
		for (uint32_t c = lend_incarnation_at(s, i)->clients; c;
		     c = lend_client_at(s, c)->next) {
			clients++;
			for (uint32_t h = lend_client_at(s, c)->holds; h;
			     h = lend_hold_at(s, h)->next)
				listed += lend_hold_find(s, lend_hold_at(s, h)->object, c) == h;
			for (uint32_t o = lend_client_at(s, c)->spaces; o;
			     o = lend_object_at(s, o)->next)
				spaces += lend_object_at(s, o)->client == c;
		}
	}
	if (holds != s->hold.used || listed != s->hold.used)
		a->bad = "holds are miscounted";
	if (spaces != s->counts.spaces || clients != s->client.used)
		a->bad = "clients or spaces are miscounted";
	if (grants != s->grant.used || grants != s->heap_n)
		a->bad = "grants are miscounted";
}

/* Charges every stake of an object by itself, and subtracts the stakes that its payer does not pay
 * again. */
static void audit_stakes(struct audit *a)
{
	const struct lend_store *s = a->s;

	for (uint32_t i = 1; i <= s->object.top; i++) {
		const struct lend_object *o = lend_object_at(s, i);

		if (!o->serial || o->kind != LEND_OBJECT_SNAPSHOT)
			continue;
		if (o->stakes)
			a->use[o->payer].pages -= (uint64_t)(o->stakes - 1) * o->charge;
		for (uint32_t g = o->grants; g; g = lend_grant_at(s, g)->next) {
			a->use[lend_grant_at(s, g)->tenant].pages += o->charge;
			a->use[lend_grant_at(s, g)->tenant].refs++;
		}
	}
}

static void audit_client(struct audit *a, const struct lend_client *c)
{
	const struct lend_store *s = a->s;
	struct lend_store_usage *use = &a->use[c->tenant];

	use->clients++;
	for (uint32_t h = c->holds; h; h = lend_hold_at(s, h)->next) {
		use->pages += lend_object_at(s, lend_hold_at(s, h)->object)->charge;
		use->refs++;
	}
	for (uint32_t o = c->spaces; o; o = lend_object_at(s, o)->next) {
		use->pages += lend_object_at(s, o)->charge;
		use->refs++;
	}
}

static void audit_tenants(struct audit *a)
{
	const struct lend_store *s = a->s;
	uint64_t pins = 0;

	audit_stakes(a);
	for (uint32_t i = 1; i <= s->incarnation.top; i++)
		for (uint32_t c =
			 lend_incarnation_at(s, i)->life ? lend_incarnation_at(s, i)->clients : 0;
		     c; c = lend_client_at(s, c)->next)
			audit_client(a, lend_client_at(s, c));
	for (uint32_t p = 1; p <= s->placement.top; p++)
		if (!lend_placement_at(s, p)->serial)
			a->use[lend_placement_at(s, p)->tenant].pages += lend_placement_at(s, p)->n;
	for (uint32_t t = 0; t < s->config.tenants; t++) {
		const struct lend_store_usage *use = &lend_tenant_at(s, t)->use;

		pins += use->pinned;
		if (use->pages != a->use[t].pages || use->refs != a->use[t].refs ||
		    use->clients != a->use[t].clients)
			a->bad = "tenants are charged wrong";
	}
	if (pins + a->landing != a->pins)
		a->bad = "tenants are charged wrong for replies";
}

size_t lend_store_audit_size(const struct lend_store *store)
{
	return store->config.tenants * sizeof(struct lend_store_usage) +
	       ((size_t)store->frame.cap + store->node.cap + 2) * sizeof(uint32_t);
}

const char *lend_store_audit(const struct lend_store *store, void *scratch)
{
	struct audit a = {.s = store, .use = scratch};

	a.frame = (uint32_t *)(a.use + store->config.tenants);
	a.node = a.frame + store->frame.cap + 1;
	memset(scratch, 0, lend_store_audit_size(store));
	audit_objects(&a);
	audit_dying(&a);
	audit_frames(&a);
	audit_nodes(&a);
	audit_keepers(&a);
	audit_tenants(&a);
	return a.bad;
}
