#include "mn/store/data_exec.h"

#include <string.h>

#include "mn/store/hold.h"
#include "mn/store/lease.h"
#include "mn/store/pinned_map.h"
#include "mn/store/space.h"
#include "mn/store/tenant.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"

bool lend_terms_room(const struct lend_step *t, bool consume)
{
	struct lend_store *s = t->s;
	bool hold = t->op->terms.kind != LEND_TERMS_TRANSFER;
	bool grant = t->op->terms.kind != LEND_TERMS_OWNED;

	return (!hold || lend_table_room(&s->hold)) && (!grant || lend_table_room(&s->grant)) &&
	       lend_tenant_room(s, lend_client_at(s, t->client)->tenant, 0,
				(uint32_t)hold + grant - consume);
}

static void add_grant(struct lend_step *t, uint32_t object)
{
	const struct lend_memterms *terms = &t->op->terms;
	uint32_t left = terms->kind == LEND_TERMS_TRANSFER ? 1 : terms->n;

	t->record.grant = lend_grant_add(t->s, object, terms->kind, left, t->now + terms->ttl,
					 lend_client_at(t->s, t->client)->tenant);
	t->record.grant_serial = lend_grant_at(t->s, t->record.grant)->serial;
}

void lend_terms_apply(struct lend_step *t, uint32_t object)
{
	uint8_t kind = t->op->terms.kind;

	if (kind != LEND_TERMS_TRANSFER) {
		lend_hold_add(t->s, object, t->client);
		t->record.held = 1;
	}
	if (kind != LEND_TERMS_OWNED)
		add_grant(t, object);
}

static enum lend_mem_status find_snapshot(struct lend_step *t, unsigned right, uint32_t *object)
{
	enum lend_mem_status status =
	    lend_snapshot_find(t->s, &t->op->ref, right, t->peer->tenant, object);

	if (status == LEND_MEM_OK) {
		t->record.slot = *object;
		t->record.serial = t->op->ref.serial;
	}
	return status;
}

enum lend_mem_status lend_op_adopt(struct lend_step *t)
{
	struct lend_record *r = &t->record;
	uint32_t object, grant, tenant = lend_client_at(t->s, t->client)->tenant;
	enum lend_mem_status status = find_snapshot(t, 0, &object);
	bool moves; /* a TRANSFER from this tenant to itself: its charge does not change */

	if (status || lend_hold_find(t->s, object, t->client))
		return status;
	grant = lend_grant_next(t->s, object);
	if (!grant)
		return LEND_MEM_FAILED_PRECONDITION;
	moves = lend_grant_at(t->s, grant)->kind == LEND_TERMS_TRANSFER &&
		lend_grant_at(t->s, grant)->tenant == tenant;
	if (!lend_table_room(&t->s->hold) ||
	    (!moves && !lend_tenant_room(t->s, tenant, lend_stake_cost(t->s, object, tenant), 1)))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	r->held = 1;
	r->grant = grant;
	r->tenant = (uint8_t)lend_grant_at(t->s, grant)->tenant;
	r->grant_serial = lend_grant_at(t->s, grant)->serial;
	r->expires = lend_grant_at(t->s, grant)->expires;
	lend_hold_add(t->s, object, t->client);
	lend_grant_use(t->s, grant); /* for a TRANSFER, this moves the charge */
	return LEND_MEM_OK;
}

enum lend_mem_status lend_op_grant(struct lend_step *t)
{
	bool transfer = t->op->terms.kind == LEND_TERMS_TRANSFER;
	uint32_t object, hold, tenant = lend_client_at(t->s, t->client)->tenant;
	enum lend_mem_status status = find_snapshot(t, LEND_RIGHT_GRANT, &object);

	if (status)
		return status;
	hold = lend_hold_find(t->s, object, t->client);
	if (!hold)
		return LEND_MEM_FAILED_PRECONDITION;
	if (!lend_table_room(&t->s->grant) ||
	    (!transfer &&
	     !lend_tenant_room(t->s, tenant, lend_stake_cost(t->s, object, tenant), 1)))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	add_grant(t, object);
	if (transfer) {
		lend_hold_remove(t->s, hold);
		t->record.held = 1;
	}
	return LEND_MEM_OK;
}

/* Releases the client's hold, or else one adopt of a grant. False: there is neither. */
static bool release_one(struct lend_step *t, uint32_t object)
{
	uint32_t hold = lend_hold_find(t->s, object, t->client);
	uint32_t grant = hold ? 0 : lend_grant_next(t->s, object);

	if (hold)
		lend_hold_remove(t->s, hold);
	else if (grant)
		lend_grant_use(t->s, grant);
	else
		return false;
	lend_snapshot_end_unused(t->s, object);
	return true;
}

/* Copies the next reference out of the payload, because its sender may still write there. *object
 * is 0 unless the snapshot exists. */
static enum lend_mem_status next_ref(struct lend_step *t, uint32_t *object, uint64_t *serial)
{
	uint8_t bytes[LEND_MEMREF_LEN];
	struct lend_memref ref;

	*object = 0;
	lend_cursor_read(&t->payload, bytes, sizeof(bytes));
	if (!lend_memref_decode(bytes, &ref))
		return LEND_MEM_INVALID_ARGUMENT;
	*serial = ref.serial;
	return lend_snapshot_find(t->s, &ref, 0, t->peer->tenant, object);
}

static enum lend_mem_status release_only(struct lend_step *t)
{
	uint64_t serial;
	uint32_t object;
	enum lend_mem_status status = next_ref(t, &object, &serial);

	if (status == LEND_MEM_OK && !release_one(t, object))
		status = LEND_MEM_FAILED_PRECONDITION;
	t->record.counts[0] = 1;
	return status;
}

enum lend_mem_status lend_op_release(struct lend_step *t)
{
	uint32_t object[LEND_MEM_BATCH_MAX], released = 0;
	uint64_t serial[LEND_MEM_BATCH_MAX];
	bool seen = false;

	if (t->op->n == 1)
		return release_only(t);
	/* All references must be genuine before the first is released. One to a snapshot that has
	 * ended is not an error. */
	for (uint32_t i = 0; i < t->op->n; i++) {
		enum lend_mem_status status = next_ref(t, &object[i], &serial[i]);

		if (status && status != LEND_MEM_NOT_FOUND)
			return status;
		seen |= status == LEND_MEM_OK;
	}
	for (uint32_t i = 0; i < t->op->n; i++) {
		/* An earlier reference may have been to the same snapshot. */
		if (lend_object_find(t->s, object[i], serial[i], LEND_OBJECT_SNAPSHOT))
			released += release_one(t, object[i]);
		/* Only necessary when tables are smaller than a batch. */
		if (t->s->undo_cap - t->s->undo_n < LEND_UNDO_STEP)
			lend_undo_commit(t->s);
	}
	t->record.counts[0] = released;
	t->record.counts[1] = t->op->n - released;
	if (released)
		return LEND_MEM_OK;
	return seen ? LEND_MEM_FAILED_PRECONDITION : LEND_MEM_NOT_FOUND;
}

static enum lend_mem_status undo_make(struct lend_step *t, const struct lend_record *r)
{
	uint32_t object = lend_object_find(t->s, r->slot, r->serial, LEND_OBJECT_SNAPSHOT);
	uint32_t grant = lend_grant_find(t->s, r->grant, r->grant_serial);
	uint32_t hold = object && r->held ? lend_hold_find(t->s, object, t->client) : 0;

	if (hold)
		lend_hold_remove(t->s, hold);
	if (grant)
		lend_grant_remove(t->s, grant);
	if (object)
		lend_snapshot_end_unused(t->s, object);
	t->record.forgot = LEND_FORGOT_UNDONE;
	return LEND_MEM_OK;
}

static enum lend_mem_status undo_space(struct lend_step *t, const struct lend_record *r)
{
	uint32_t object = lend_object_find(t->s, r->slot, r->serial, LEND_OBJECT_SPACE);

	/* A client that forgets the operation did not receive what to map, or has copied it. */
	if (object)
		lend_pinned_map_detach(t->s, object, true);
	if (object)
		lend_space_end(t->s, object);
	t->record.forgot = LEND_FORGOT_UNDONE;
	return LEND_MEM_OK;
}

/* Withdraws a grant and gives its maker the hold back that a TRANSFER took. */
static enum lend_mem_status undo_grant(struct lend_step *t, const struct lend_record *r)
{
	uint32_t grant = lend_grant_find(t->s, r->grant, r->grant_serial);
	uint32_t hold;

	t->record.forgot = LEND_FORGOT_RAN;
	if (!grant)
		return LEND_MEM_OK;
	hold = lend_hold_find(t->s, r->slot, t->client);
	if (r->held && !hold && !lend_table_room(&t->s->hold))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (r->held && !hold)
		lend_hold_add(t->s, r->slot, t->client);
	lend_grant_remove(t->s, grant);
	lend_snapshot_end_unused(t->s, r->slot);
	t->record.forgot = LEND_FORGOT_UNDONE;
	return LEND_MEM_OK;
}

/* Gives the grant back as it was, with at least config.revive left for the next adopt. */
static enum lend_mem_status undo_adopt(struct lend_step *t, const struct lend_record *r)
{
	uint32_t object = lend_object_find(t->s, r->slot, r->serial, LEND_OBJECT_SNAPSHOT);
	uint32_t grant = lend_grant_find(t->s, r->grant, r->grant_serial);
	uint32_t hold = object && r->held ? lend_hold_find(t->s, object, t->client) : 0;
	lend_ns expires = lend_max_u64(r->expires, t->now + t->s->config.revive);

	t->record.forgot = LEND_FORGOT_RAN;
	if (!hold)
		return LEND_MEM_OK;
	if (!grant && !lend_table_room(&t->s->grant))
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (grant)
		lend_grant_revive(t->s, grant, expires);
	else
		lend_grant_add(t->s, object, LEND_TERMS_TRANSFER, 1, expires, r->tenant);
	lend_hold_remove(t->s, hold);
	t->record.forgot = LEND_FORGOT_UNDONE;
	return LEND_MEM_OK;
}

/* Undoes the operation of record r. The outcome goes to t's record; r is unchanged on failure. */
static enum lend_mem_status undo_op(struct lend_step *t, const struct lend_record *r)
{
	if (r->status != LEND_MEM_OK) {
		t->record.forgot = LEND_FORGOT_PREVENTED;
		return LEND_MEM_OK;
	}
	switch (r->kind) {
	case LEND_MEMOP_PUT:
	case LEND_MEMOP_SEAL:
		return undo_make(t, r);
	case LEND_MEMOP_ALLOC:
	case LEND_MEMOP_MAP:
	case LEND_MEMOP_POOL_MAP:
		return undo_space(t, r);
	case LEND_MEMOP_GRANT:
		return undo_grant(t, r);
	case LEND_MEMOP_ADOPT:
		return undo_adopt(t, r);
	default:
		t->record.forgot = LEND_FORGOT_RAN;
		return LEND_MEM_OK;
	}
}

enum lend_mem_status lend_op_forget(struct lend_step *t)
{
	uint64_t target = t->op->target, low = lend_client_at(t->s, t->client)->low;
	struct lend_record *r;
	enum lend_mem_status status = LEND_MEM_OK;

	if (target == 0)
		return LEND_MEM_INVALID_ARGUMENT;
	if (target < low)
		return LEND_MEM_FAILED_PRECONDITION;
	if (target - low >= t->s->config.open)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	r = lend_record_at(t->s, t->client, target);
	if (r->id == 0) {
		lend_record_use(t->s, t->client, r);
		memset(r, 0, sizeof(*r));
		r->id = target;
		t->record.forgot = LEND_FORGOT_PREVENTED;
	} else if (r->kind != LEND_MEMOP_FORGET) {
		status = undo_op(t, r);
	} else {
		t->record.forgot = r->forgot;
	}
	if (status)
		return status;
	_Static_assert(offsetof(struct lend_record, forgot) <
			   offsetof(struct lend_record, kind) + 8,
		       "one word has all that changes");
	lend_undo_log(t->s, &r->kind);
	r->kind = LEND_MEMOP_FORGET;
	r->status = LEND_MEM_ABORTED;
	r->forgot = t->record.forgot;
	t->s->counts.forgets++;
	return LEND_MEM_OK;
}
