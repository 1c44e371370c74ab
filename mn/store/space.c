#include "mn/store/space.h"

#include <string.h>

#include "mn/store/pinned_map.h"
#include "mn/store/page_tree.h"
#include "mn/store/undo_log.h"
#include "util/check.h"

#define SERIAL_MAX ((UINT64_C(1) << 48) - 1)

bool lend_object_room(const struct lend_store *s)
{
	return lend_table_room(&s->object) > 0 && s->serial < SERIAL_MAX;
}

uint32_t lend_object_make(struct lend_store *s, const struct lend_view *view,
			  enum lend_object_kind kind)
{
	struct lend_object *o;
	uint32_t i;

	LEND_TAKE(s, object, i);
	LEND_CHECK(i);
	o = lend_object_at(s, i);
	lend_undo_log(s, o);
	memset(o, 0, sizeof(*o));
	o->base = view->base;
	o->len = view->len;
	o->root = view->root;
	o->height = view->height & LEND_LEVEL_MASK;
	o->charge = view->charge & LEND_CHARGE_MAX;
	o->kind = kind;
	o->serial = ++s->serial;
	return i;
}

/* Queues an object to be freed after the commit, because zeroing its pages cannot be undone. */
void lend_object_destroy(struct lend_store *s, uint32_t i)
{
	struct lend_object *o = lend_object_at(s, i);

	lend_undo_log(s, o);
	s->settled += o->unwritten;
	o->serial = 0;
	o->next = s->ended;
	s->ended = i;
}

void lend_undo_commit(struct lend_store *s)
{
	lend_undo_fence();
	s->undo_n = 0;
	lend_undo_fence();
	while (s->ended) {
		uint32_t i = s->ended;
		struct lend_view view = lend_object_view(s, i);

		s->ended = lend_object_at(s, i)->next;
		lend_tree_drop(s, &view);
		LEND_GIVE(s, object, i);
	}
}

uint32_t lend_snapshot_make(struct lend_store *s, const struct lend_view *view)
{
	return lend_object_make(s, view, LEND_OBJECT_SNAPSHOT);
}

uint32_t lend_space_make(struct lend_store *s, const struct lend_view *view, uint32_t client)
{
	uint32_t i = lend_object_make(s, view, LEND_OBJECT_SPACE);

	lend_object_at(s, i)->client = client;
	lend_space_link(s, i);
	return i;
}

void lend_space_link(struct lend_store *s, uint32_t object)
{
	struct lend_object *o = lend_object_at(s, object);
	struct lend_client *c = lend_client_at(s, o->client);

	o->prev = 0;
	o->next = c->spaces;
	if (c->spaces)
		lend_object_at(s, c->spaces)->prev = object;
	c->spaces = object;
	lend_tenant_at(s, c->tenant)->use.pages += o->charge;
	lend_tenant_at(s, c->tenant)->use.refs++;
	s->counts.spaces++;
}

void lend_space_end(struct lend_store *s, uint32_t object)
{
	struct lend_object *o = lend_object_at(s, object);
	struct lend_store_usage *use =
	    &lend_tenant_at(s, lend_client_at(s, o->client)->tenant)->use;

	LEND_CHECK(use->pages >= o->charge && use->refs > 0);
	use->pages -= o->charge;
	use->refs--;
	if (o->prev)
		lend_object_at(s, o->prev)->next = o->next;
	else
		lend_client_at(s, o->client)->spaces = o->next;
	if (o->next)
		lend_object_at(s, o->next)->prev = o->prev;
	s->counts.spaces--;
	lend_pinned_map_detach(s, object, false);
	lend_object_destroy(s, object);
}

void lend_snapshot_end_unused(struct lend_store *s, uint32_t object)
{
	const struct lend_object *o = lend_object_at(s, object);

	if (o->serial && o->holds == 0 && o->grants == 0)
		lend_object_destroy(s, object);
}

void lend_snapshot_prefetch(const struct lend_store *s, uint32_t slot, bool deep)
{
	const struct lend_object *o = lend_object_at(s, slot <= s->object.top ? slot : 0);

	__builtin_prefetch(o);
	__builtin_prefetch((const char *)(o + 1) - 1);
	if (deep)
		__builtin_prefetch(lend_hold_at(s, o->tie));
}

uint32_t lend_object_find(const struct lend_store *s, uint32_t slot, uint64_t serial,
			  enum lend_object_kind kind)
{
	const struct lend_object *o;

	if (slot == 0 || slot > s->object.top || serial == 0)
		return 0;
	o = lend_object_at(s, slot);
	return o->serial == serial && o->kind == kind ? slot : 0;
}

void lend_snapshot_ref(const struct lend_store *s, const struct lend_record *r,
		       struct lend_memref *ref)
{
	*ref = (struct lend_memref){
	    .node = s->config.node,
	    .epoch = s->config.epoch,
	    .slot = s->config.worker << LEND_MEMREF_WORKER_SHIFT | r->slot,
	    .serial = r->serial,
	    .root_len = r->len,
	    .tenant = r->tenant,
	};
	lend_memref_sign(ref, s->config.key);
}

/* Returns the fields of a root that an entry of the cache does not hold one by one. */
static uint32_t fields_of(const struct lend_memref *ref)
{
	return ref->rights[0] | (uint32_t)ref->version << 5 | (uint32_t)ref->home << 8 |
	       (uint32_t)ref->key_id << 12 | (uint32_t)(ref->tenant & LEND_TENANT_MASK) << 20;
}

/* Returns whether a reference's token derives from this store's key. Node and epoch must be this
 * store's. Only a genuine one is cached, and each other one costs the same: a comparison with the
 * cache, whatever is in it, and one with the token that the key makes. */
static bool is_genuine(struct lend_store *s, const struct lend_memref *ref)
{
	struct lend_token *t = &s->token[ref->slot % LEND_TOKENS];
	uint64_t differs = (t->serial ^ ref->serial) | (t->len ^ ref->root_len) |
			   (t->slot ^ ref->slot) | (t->fields ^ fields_of(ref)) |
			   (uint64_t)(ref->tenant & ~LEND_TENANT_MASK) | (uint64_t)!t->serial;
	uint8_t token[16];

	if (lend_memref_proves(ref, t->token, differs))
		return true;
	lend_memref_root_token(ref, s->config.key, token);
	if (!lend_memref_proves(ref, token, 0))
		return false;
	*t = (struct lend_token){ref->serial, ref->root_len, ref->slot, fields_of(ref), {0}};
	memcpy(t->token, token, sizeof(token));
	return true;
}

/* Returns whether a reference is of this store in its present epoch. Only the epoch identifies an
 * older one: its key was another one. */
static bool is_own(const struct lend_store *s, const struct lend_memref *ref)
{
	uint32_t epoch =
	    ref->version == LEND_MEMREF_NODE_VERSION ? s->config.epoch : (uint16_t)s->config.epoch;

	return ref->home == LEND_HOME_NODE && ref->node == s->config.node && ref->epoch == epoch &&
	       lend_memref_worker(ref) == s->config.worker;
}

enum lend_mem_status lend_snapshot_find(struct lend_store *s, const struct lend_memref *ref,
					unsigned right, uint32_t tenant, uint32_t *object)
{
	uint32_t slot = ref->slot & LEND_MEMREF_SLOT_MASK;

	lend_snapshot_prefetch(s, slot, true);
	if (!is_own(s, ref))
		return LEND_MEM_NOT_FOUND;
	if (!is_genuine(s, ref) || (right & ~lend_memref_rights(ref)) ||
	    (ref->tenant && ref->tenant != tenant))
		return LEND_MEM_PERMISSION_DENIED;
	*object = lend_object_find(s, slot, ref->serial, LEND_OBJECT_SNAPSHOT);
	if (!*object)
		return LEND_MEM_NOT_FOUND;
	return right && lend_object_at(s, *object)->unwritten ? LEND_MEM_UNWRITTEN : LEND_MEM_OK;
}
