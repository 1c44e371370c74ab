#include "mn/store/exec.h"

#include <string.h>

#include "mn/store/frame_alloc.h"
#include "mn/store/hold.h"
#include "mn/store/lease.h"
#include "mn/store/pinned_map.h"
#include "mn/store/data_exec.h"
#include "mn/store/placement.h"
#include "mn/store/space.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"
#include "util/check.h"

static void reply_head(struct lend_store_out *out, uint32_t len)
{
	out->seg[0] = (struct lend_store_seg){out->head, len};
	out->n = 1;
	out->len = len;
}

static void reply_ref(struct lend_store_out *out, const struct lend_memref *ref)
{
	lend_memref_encode(ref, out->head);
	reply_head(out, LEND_MEMREF_LEN);
}

/* Builds the reply of a recorded operation, for the first request and for a retransmitted one. */
static enum lend_mem_status reply_recorded(const struct lend_store *s, const struct lend_record *r,
					   struct lend_store_out *out)
{
	struct lend_memref ref;

	if (r->status != LEND_MEM_OK)
		return r->status;
	if (r->kind == LEND_MEMOP_PUT || r->kind == LEND_MEMOP_SEAL) {
		lend_snapshot_ref(s, r, &ref);
		reply_ref(out, &ref);
	} else if (r->kind == LEND_MEMOP_ALLOC || r->kind == LEND_MEMOP_MAP ||
		   r->kind == LEND_MEMOP_POOL_MAP) {
		lend_memspace_encode(&(struct lend_memspace){r->slot, s->config.epoch, r->serial},
				     out->head);
		lend_store_u64(out->head + 16, r->len);
		reply_head(out, r->kind == LEND_MEMOP_ALLOC ? 16 : 24);
		if (r->kind == LEND_MEMOP_POOL_MAP)
			reply_head(
			    out,
			    24 + lend_pinned_map_encode(
				     s, lend_object_find(s, r->slot, r->serial, LEND_OBJECT_SPACE),
				     0, LEND_MEM_SHOW_FIRST, out->head + 24));
	} else if (r->kind == LEND_MEMOP_RELEASE) {
		lend_store_u32(out->head, r->counts[0]);
		lend_store_u32(out->head + 4, r->counts[1]);
		reply_head(out, 8);
	}
	return LEND_MEM_OK;
}

static enum lend_mem_status run_op(struct lend_step *t)
{
	switch (t->op->kind) {
	case LEND_MEMOP_PUT:
		return lend_op_put(t);
	case LEND_MEMOP_ALLOC:
		return lend_op_alloc(t);
	case LEND_MEMOP_WRITE:
		return lend_op_write(t);
	case LEND_MEMOP_SEAL:
		return lend_op_seal(t);
	case LEND_MEMOP_MAP:
		return lend_op_map(t);
	case LEND_MEMOP_POOL_MAP:
		return lend_op_pool_map(t);
	case LEND_MEMOP_ADOPT:
		return lend_op_adopt(t);
	case LEND_MEMOP_GRANT:
		return lend_op_grant(t);
	case LEND_MEMOP_RELEASE:
		return lend_op_release(t);
	case LEND_MEMOP_FREE:
		return lend_op_free(t);
	default:
		LEND_CHECK(!"an operation that is not recorded");
		return LEND_MEM_UNIMPLEMENTED;
	}
}

/* Runs an operation at most once per id. */
static enum lend_mem_status run_recorded(struct lend_step *t)
{
	struct lend_store *s = t->s;
	uint64_t id = t->op->id, low = lend_client_at(s, t->client)->low;
	enum lend_mem_status status;
	struct lend_record *r;

	if (id < low)
		return LEND_MEM_FAILED_PRECONDITION;
	if (id - low >= s->config.open)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	r = lend_record_at(s, t->client, id);
	if (r->id == 0) {
		t->record.status = (uint8_t)run_op(t);
		if (t->record.status == LEND_MEM_UNWRITTEN)
			return LEND_MEM_UNWRITTEN;
		t->record.id = id;
		t->record.kind = t->op->kind;
		lend_record_use(s, t->client, r);
		*r = t->record;
	} else if (r->kind != t->op->kind && r->kind != LEND_MEMOP_FORGET) {
		return LEND_MEM_INVALID_ARGUMENT; /* one id for two operations */
	} else if (r->kind == LEND_MEMOP_PUT && r->early && !(t->op->flags & LEND_MEMOP_EARLY)) {
		status = lend_op_fill(t, r);
		if (status)
			return status;
	} else {
		s->counts.repeats++;
	}
	return reply_recorded(s, r, t->out);
}

static enum lend_mem_status run_narrow(struct lend_step *t)
{
	const struct lend_memop *op = t->op;
	struct lend_memref out;
	uint32_t object;
	enum lend_mem_status status =
	    lend_snapshot_find(t->s, &op->ref, op->rights, t->peer->tenant, &object);

	if (status)
		return status;
	if (lend_memref_narrow(&op->ref, t->s->config.key, op->offset, op->len, op->rights, &out))
		return LEND_MEM_OUT_OF_RANGE; /* the rights were checked above */
	reply_ref(t->out, &out);
	return LEND_MEM_OK;
}

static enum lend_mem_status run_stat(struct lend_step *t)
{
	struct lend_memstats stats;

	lend_store_stats(t->s, &stats);
	reply_head(t->out, lend_memstats_encode(&stats, t->out->head));
	return LEND_MEM_OK;
}

static enum lend_mem_status run_forget(struct lend_step *t)
{
	enum lend_mem_status status = lend_op_forget(t);

	if (status == LEND_MEM_OK) {
		lend_store_u64(t->out->head, t->record.forgot);
		reply_head(t->out, 8);
	}
	return status;
}

static enum lend_mem_status pool_view(struct lend_step *t)
{
	enum lend_mem_status status = lend_op_pool_view(t);

	if (status == LEND_MEM_OK)
		reply_head(t->out, lend_pinned_map_encode(t->s, t->record.slot, t->op->offset,
							  LEND_MEM_SHOW_MAX, t->out->head));
	return status;
}

static void reply_hello(struct lend_step *t, uint32_t incarnation)
{
	struct lend_store *s = t->s;
	struct lend_memhello h = {
	    .node = s->config.node,
	    .epoch = s->config.epoch,
	    .page = s->config.page,
	    .life = lend_incarnation_at(s, incarnation)->life,
	    .lease = s->config.lease,
	    .open = s->config.open,
	    .worker = (uint8_t)s->config.worker,
	    .workers = (uint8_t)s->config.workers,
	    .text_len = s->text_len,
	    .text = s->text,
	};

	if (!t->op->life) /* a session that joins a life has proved that it has the key */
		lend_life_key(s, incarnation, h.key);
	reply_head(t->out, lend_memhello_encode(&h, t->out->head));
}

/* Closes the session's client in its old life when the session moves to another life. */
static void leave_life(struct lend_store *s, struct lend_store_peer *peer, uint32_t number)
{
	uint32_t client = lend_client_find(s, peer->life, number);

	if (client)
		lend_client_close(s, client);
	peer->clients = 0;
}

/* Opens a client in a life, or in a new one. The number of clients that one session opens is
 * limited. */
static enum lend_mem_status open_client(struct lend_step *t, uint32_t *incarnation)
{
	struct lend_store *s = t->s;
	uint64_t life = *incarnation ? lend_incarnation_at(s, *incarnation)->life : 0;
	bool is_new = !life || !lend_client_find(s, life, t->op->client);
	bool moves = !life || life != t->peer->life;

	if (is_new && !moves && t->peer->clients == LEND_STORE_PEER_CLIENTS)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	t->client = lend_client_open(s, t->now, t->peer, *incarnation, t->op->client);
	if (!t->client)
		return LEND_MEM_RESOURCE_EXHAUSTED;
	if (moves)
		leave_life(s, t->peer, t->op->client);
	t->peer->clients += is_new;
	*incarnation = lend_client_at(s, t->client)->incarnation;
	return LEND_MEM_OK;
}

static enum lend_mem_status run_hello(struct lend_step *t)
{
	struct lend_store *s = t->s;
	enum lend_mem_status status = LEND_MEM_OK;
	uint32_t inc = lend_life_find(s, t->peer->life);

	if (t->op->life)
		inc = lend_life_of_hello(s, t->peer, t->op);
	if (t->op->life && !inc)
		return LEND_MEM_ABORTED;
	if (t->op->client)
		status = open_client(t, &inc);
	else if (!t->op->life)
		status = LEND_MEM_INVALID_ARGUMENT;
	if (status)
		return status;
	t->peer->life = lend_incarnation_at(s, inc)->life;
	lend_lease_renew(s, t->now, inc);
	reply_hello(t, inc);
	return LEND_MEM_OK;
}

static enum lend_mem_status run_bye(struct lend_step *t)
{
	lend_client_close(t->s, t->client);
	t->peer->clients -= t->peer->clients > 0;
	return LEND_MEM_OK;
}

static enum lend_mem_status run_known(struct lend_step *t)
{
	switch (t->op->kind) {
	case LEND_MEMOP_GET:
		return lend_op_get(t);
	case LEND_MEMOP_GET_MANY:
		return lend_op_get_many(t);
	case LEND_MEMOP_READ:
		return lend_op_read(t);
	case LEND_MEMOP_NARROW:
		return run_narrow(t);
	case LEND_MEMOP_STAT:
		return run_stat(t);
	case LEND_MEMOP_FORGET:
		return run_forget(t);
	case LEND_MEMOP_POOL_VIEW:
		return pool_view(t);
	case LEND_MEMOP_POOL_DROP:
		return lend_op_pool_drop(t);
	case LEND_MEMOP_RENEW:
		return LEND_MEM_OK;
	case LEND_MEMOP_BYE_CLIENT:
		return run_bye(t);
	default:
		return run_recorded(t);
	}
}

/* Returns whether the low-water mark keeps the record of the id that the operation names. */
static bool low_is_sane(const struct lend_memop *op)
{
	if (op->kind == LEND_MEMOP_FORGET)
		return op->low <= op->target;
	return !lend_memop_recorded(op->kind) || op->low <= op->id;
}

static enum lend_mem_status run_any(struct lend_step *t, const struct lend_store_in *in)
{
	LEND_CHECK(in->peer->tenant < t->s->config.tenants);
	if (t->op->kind == LEND_MEMOP_HELLO)
		return in->late ? LEND_MEM_INVALID_ARGUMENT : run_hello(t);
	if (t->op->life != in->peer->life)
		return LEND_MEM_ABORTED;
	t->client = lend_client_find(t->s, t->op->life, t->op->client);
	if (!t->client)
		return LEND_MEM_ABORTED;
	t->out->tenant = lend_client_at(t->s, t->client)->tenant;
	lend_lease_renew(t->s, t->now, lend_client_at(t->s, t->client)->incarnation);
	if (!low_is_sane(t->op))
		return LEND_MEM_INVALID_ARGUMENT;
	lend_client_drop_records(t->s, t->client, t->op->low);
	return run_known(t);
}

void lend_op_count(struct lend_store *s, enum lend_mem_status status)
{
	s->counts.bad_ops +=
	    status == LEND_MEM_INVALID_ARGUMENT || status == LEND_MEM_UNIMPLEMENTED;
	s->counts.denied += status == LEND_MEM_PERMISSION_DENIED;
	s->counts.stale += status == LEND_MEM_NOT_FOUND;
	s->counts.full += status == LEND_MEM_RESOURCE_EXHAUSTED;
	s->counts.aborted += status == LEND_MEM_ABORTED;
	s->counts.damaged += status == LEND_MEM_DATA_LOSS;
}

/* Returns the first bytes as one piece: in place, or copied to `to`. */
static const uint8_t *gather_head(const struct lend_store_in *in, uint8_t to[LEND_MEMOP_FIXED_MAX],
				  size_t *n, uint64_t *len)
{
	struct lend_cursor c = {.seg = in->seg, .n = in->n};

	*len = 0;
	for (uint32_t i = 0; i < in->n; i++)
		*len += in->seg[i].len;
	*n = lend_min_u64(*len, LEND_MEMOP_FIXED_MAX);
	if (in->n && in->seg[0].len >= *n)
		return in->seg[0].data;
	lend_cursor_read(&c, to, *n);
	return to;
}

/* Prefetches the object of the reference that most operations carry, behind the head or behind a
 * count. */
static void prefetch_objects(const struct lend_store *s, const uint8_t *head, size_t n)
{
	bool counts = n && (head[0] == LEND_MEMOP_RELEASE || head[0] == LEND_MEMOP_GET_MANY);
	size_t at = LEND_MEMOP_HEAD + (counts ? 8 : 0) + 8;

	if (n >= at + 4)
		lend_snapshot_prefetch(s, lend_load_u32(head + at) & LEND_MEMREF_SLOT_MASK, false);
}

static void skip_bytes(struct lend_cursor *c, uint64_t len)
{
	while (c->n && c->seg->len - c->at <= len) {
		len -= c->seg->len - c->at;
		c->seg++;
		c->n--;
		c->at = 0;
	}
	c->at += c->n ? len : 0;
}

enum lend_mem_status lend_store_exec(struct lend_store *store, lend_ns now,
				     const struct lend_store_in *in, struct lend_store_out *out)
{
	uint8_t bytes[LEND_MEMOP_FIXED_MAX];
	struct lend_memop op;
	struct lend_step t = {.s = store, .now = now, .peer = in->peer, .op = &op, .out = out};
	uint32_t placed = 0;
	size_t n;
	uint64_t len;
	const uint8_t *head = gather_head(in, bytes, &n, &len);

	out->pinned = out->damaged = false;
	out->tenant = in->peer->tenant;
	out->n = 0;
	out->len = out->head_len = 0;
	store->free_budget = store->config.reap;
	prefetch_objects(store, head, n);
	lend_free_end_quarantine(store, now);
	lend_grant_expire(store, now);
	out->status = lend_memop_decode(head ? head : bytes, n, len, &op);
	/* The server's business: the payload's length differs from the operation's. */
	if (out->status == LEND_MEM_OK && op.flags & LEND_MEMOP_ONE_SIDED)
		out->status = LEND_MEM_UNIMPLEMENTED;
	if (in->placement)
		placed = lend_placement_take(store, in->placement, &op, out->status, &t.landed);
	if (out->status == LEND_MEM_OK) {
		t.placed = &placed;
		t.payload = (struct lend_cursor){.seg = in->seg, .n = in->n};
		skip_bytes(&t.payload, op.fixed);
		out->status = run_any(&t, in);
		lend_undo_commit(store);
	}
	if (out->status == LEND_MEM_UNWRITTEN) {
		out->awaits_slot = op.ref.slot & LEND_MEMREF_SLOT_MASK;
		out->awaits_serial = op.ref.serial;
	}
	lend_placement_drop(store, placed);
	store->counts.ops += out->status != LEND_MEM_UNWRITTEN;
	lend_op_count(store, out->status);
	out->damaged |= out->status == LEND_MEM_DATA_LOSS;
	return out->status;
}
