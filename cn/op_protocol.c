/* op_protocol - the requests of an operation at each of its steps, and the meaning of the replies.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <errno.h>
#include <string.h>

#include "cn/lent/arg_view.h"
#include "cn/lent/in_place.h"
#include "cn/op_one_sided.h"
#include "cn/space_view.h"
#include "cn/pool/pool_client.h"
#include "cn/pool/pool_get.h"
#include "util/bits.h"

static const struct lend_ref *refs_of(struct cn_op *op)
{
	return op->kind == LEND_MEMOP_RELEASE && op->n > 1 ? op->data : &cn_op_outer(op)->ref;
}

static uint32_t holds_of(struct cn_op *op, const struct lend_ref *ref)
{
	struct lend_memref r;
	struct cn_hold *hold;

	cn_ref_in(&r, ref);
	hold = cn_hold_find(op->mem, &r);
	return hold ? hold->count : 0;
}

static int resolve_ref(struct cn_op *op, const struct lend_ref *ref)
{
	struct lend_memref r;
	int rc;

	lend_memref_root((const uint8_t *)ref, &r);
	rc = cn_node_find(op->mem, &r, &op->node);
	if (rc == 0)
		return CN_GO;
	if (rc == -EAGAIN)
		return CN_HOLD_ON;
	return (int)cn_node_unknown(op);
}

/* Releases references that this client holds more than once here, without a call, up to the first
 * that needs one. */
static int before_release(struct cn_op *op)
{
	const struct lend_ref *ref = refs_of(op);
	struct lend_memref r;
	struct cn_hold *hold;

	for (; op->at < op->n; op->at++) {
		cn_ref_in(&r, &ref[op->at]);
		hold = cn_hold_find(op->mem, &r);
		if (!hold || hold->count == 1)
			return resolve_ref(op, &ref[op->at]);
		hold->count--;
	}
	return LEND_OK;
}

static int before_space(struct cn_op *op)
{
	struct cn_space *space = &op->mem->space[op->space];
	const struct cn_node *node = op->mem->node[op->node];

	if (!space->life || (node->state == CN_NODE_UP && space->life != node->life))
		return op->kind == LEND_MEMOP_FREE ? LEND_OK : LEND_NOT_FOUND;
	if (op->kind == LEND_MEMOP_FREE) /* FREE means that nothing of it is mapped any more */
		cn_view_close(space);
	return space->view ? cn_view_before(op, space->view) : CN_GO;
}

int cn_step_before(struct cn_op *op)
{
	struct lend_memref r;
	struct cn_hold *hold;
	int rc;

	if (op->space != UINT32_MAX && op->kind != LEND_MEMOP_ALLOC && op->kind != LEND_MEMOP_MAP &&
	    op->step != CN_STEP_ALLOC)
		return before_space(op);
	switch (op->kind) {
	case LEND_MEMOP_RELEASE:
		return before_release(op);
	case LEND_MEMOP_ADOPT:
		cn_ref_in(&r, refs_of(op));
		hold = cn_hold_find(op->mem, &r);
		if (hold) {
			hold->count++;
			return LEND_OK;
		}
		return resolve_ref(op, refs_of(op));
	case LEND_MEMOP_GET:
	case LEND_MEMOP_MAP:
	case LEND_MEMOP_GRANT:
	case LEND_MEMOP_NARROW:
		rc = op->lent ? CN_GO : resolve_ref(op, refs_of(op));
		if (rc == CN_GO && op->kind == LEND_MEMOP_GET && op->view && !op->parent &&
		    !op->lent)
			return cn_pool_view_before(op);
		return rc;
	case LEND_MEMOP_PUT: /* the node that ended our life has ended what EARLY reserved */
		if (op->step == CN_STEP_FILL && op->life != op->mem->node[op->node]->life &&
		    cn_node_ready(op->mem->node[op->node]))
			return LEND_ABORTED;
		return CN_GO;
	default:
		return CN_GO;
	}
}

static void encode_put(struct cn_op *op, struct lend_memop *say)
{
	say->kind = LEND_MEMOP_PUT;
	say->len = op->part;
	if (op->step == CN_STEP_EARLY) {
		say->flags = LEND_MEMOP_EARLY;
	} else if (op->step == CN_STEP_ALLOC) {
		say->kind = LEND_MEMOP_ALLOC;
		say->len = op->len;
	} else if (op->step == CN_STEP_WRITE) {
		say->kind = LEND_MEMOP_WRITE;
		say->offset = op->at;
	} else if (op->step == CN_STEP_SEAL) {
		say->kind = LEND_MEMOP_SEAL;
		say->flags = LEND_MEMOP_CONSUME;
		say->len = op->len;
	}
}

static void encode_map(struct cn_op *op, struct lend_memop *say)
{
	say->target = cn_pool_key(op->mem->node[op->node]);
	say->kind = say->target ? LEND_MEMOP_POOL_MAP : LEND_MEMOP_MAP;
	if (op->step != CN_STEP_SHOW)
		return;
	say->kind = LEND_MEMOP_POOL_VIEW;
	say->offset = op->mem->space[op->space].shown->received;
}

/* Returns how many of the references from at on go to the same node in one call. */
static uint32_t release_part(struct cn_op *op)
{
	const struct lend_ref *ref = refs_of(op);
	struct lend_memref r;
	uint16_t node;
	uint32_t n = 1;

	for (; op->at + n < op->n && n < LEND_MEM_BATCH_MAX; n++) {
		cn_ref_in(&r, &ref[op->at + n]);
		if (cn_node_find(op->mem, &r, &node) || node != op->node ||
		    holds_of(op, &ref[op->at + n]) > 1)
			break;
	}
	return n;
}

void cn_step_encode(struct cn_op *op, struct lend_memop *say)
{
	memset(say, 0, sizeof(*say));
	say->kind = op->kind;
	say->terms = op->terms;
	say->offset = op->offset;
	say->len = op->len;
	say->rights = op->rights;
	if (op->hash & 1)
		say->ref_bytes = (const uint8_t *)refs_of(op);
	if (op->space != UINT32_MAX)
		say->space = op->mem->space[op->space].wire;
	if (op->step != CN_STEP_FETCH)
		op->part = lend_min_u64(op->len - op->at, LEND_MEM_PART_MAX);
	switch (op->kind) {
	case LEND_MEMOP_PUT:
		encode_put(op, say);
		break;
	case LEND_MEMOP_MAP:
		encode_map(op, say);
		break;
	case LEND_MEMOP_GET:
	case LEND_MEMOP_READ:
	case LEND_MEMOP_WRITE:
		say->offset = op->offset + op->at;
		say->len = op->part;
		if (op->placing || op->ends)
			say->flags = op->ends ? LEND_MEMOP_END : LEND_MEMOP_IN_PLACE;
		else if (op->kind == LEND_MEMOP_GET)
			cn_pool_get_say(op, say);
		break;
	case LEND_MEMOP_GET_MANY:
		say->n = op->n;
		break;
	case LEND_MEMOP_RELEASE:
		op->part = release_part(op);
		say->n = (uint32_t)op->part;
		break;
	case LEND_MEMOP_GRANT: /* a TRANSFER would give up all holds: with several, it is sent as
				  SHARED */
		if (say->terms.kind == LEND_TERMS_TRANSFER && holds_of(op, refs_of(op)) > 1) {
			say->terms.kind = LEND_TERMS_SHARED;
			say->terms.n = 1;
		}
		break;
	default:
		break;
	}
	if (op->bound && (say->kind == LEND_MEMOP_PUT || say->kind == LEND_MEMOP_SEAL))
		say->flags |= LEND_MEMOP_BOUND;
	cn_one_sided_choose(op, say);
}

/* Stores the reference of a reply: it is the operation's result. */
static bool after_ref(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	struct lend_memref ref;

	if (len != LEND_MEMREF_LEN || !lend_memref_decode(body, &ref)) {
		*status = LEND_INTERNAL;
		return false;
	}
	memcpy(&cn_op_outer(op)->ref, body, LEND_MEMREF_LEN);
	if (op->kind != LEND_MEMOP_NARROW && op->terms.kind != LEND_TERMS_TRANSFER &&
	    op->step != CN_STEP_EARLY)
		cn_hold_add(op->mem, &ref);
	return false;
}

static bool after_space(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	struct cn_space *space = &op->mem->space[op->space];

	if (len < 16 || !lend_memspace_decode(body, 16, &space->wire)) {
		*status = LEND_INTERNAL;
		return false;
	}
	space->node = op->node;
	space->life = op->life;
	if (op->kind == LEND_MEMOP_MAP)
		cn_ref_in(&space->from, refs_of(op));
	space->len = op->kind == LEND_MEMOP_MAP && len >= 24 ? lend_load_u64(body + 16) : op->len;
	if (len > 24 && (!op->mem->node[op->node]->pool || !cn_pool_shown(op, body + 24, len - 24)))
		*status = LEND_INTERNAL;
	if (op->kind == LEND_MEMOP_PUT) {
		op->step = CN_STEP_WRITE;
		return true;
	}
	if (!op->view)
		((lend_space *)op->out)->id = cn_space_handle(op->mem, op->space);
	if (*status != LEND_OK || !cn_pool_has_more(space))
		return false;
	op->step = CN_STEP_SHOW;
	return true;
}

/* Evaluates the reply to a POOL_VIEW. A pool that was connected again does not know the view: it is
 * asked again when the space gets a pointer. */
static bool after_view(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	struct cn_space *space = &op->mem->space[op->space];
	uint64_t before = space->shown->received;
	struct lend_memview view;

	if (*status == LEND_FAILED_PRECONDITION)
		*status = LEND_OK;
	else if (*status == LEND_OK &&
		 (len > LEND_MEMVIEW_MAX || !lend_memview_decode(body, len, &view) ||
		  !cn_pool_take(space->shown, &view)))
		*status = LEND_INTERNAL;
	return *status == LEND_OK && space->shown->received > before && cn_pool_has_more(space);
}

static void drop_holds(struct cn_op *op, uint32_t n)
{
	const struct lend_ref *ref = refs_of(op);
	struct lend_memref r;

	for (uint32_t i = 0; i < n; i++) {
		struct cn_hold *hold;

		cn_ref_in(&r, &ref[op->at + i]);
		hold = cn_hold_find(op->mem, &r);
		if (hold && hold->count > 1)
			hold->count--;
		else if (hold)
			cn_hold_del(hold);
	}
}

static bool after_stat(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	struct lend_mem_stat *out = op->out;
	struct lend_memstats in;

	if (!lend_memstats_decode(body, len, &in)) {
		*status = LEND_INTERNAL;
		return false;
	}
#define COPY(name) out->name += in.name /* the sum of all workers */
	COPY(pages_total), COPY(pages_used), COPY(pages_quarantined), COPY(refs), COPY(spaces);
	COPY(clients), COPY(grants_expired), COPY(holds), COPY(grants), COPY(cow_copies);
	COPY(leases_expired), COPY(hangups), COPY(ops), COPY(tx_bytes), COPY(damaged);
#undef COPY
	out->page_bytes = in.page_bytes;
	return cn_workers_next(op);
}

static bool after_put(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	switch ((enum cn_step)op->step) {
	case CN_STEP_ALLOC:
		return after_space(op, status, body, len);
	case CN_STEP_WRITE:
		op->at += op->part;
		if (op->at == op->len)
			op->step = CN_STEP_SEAL;
		return true;
	case CN_STEP_SEAL:
	case CN_STEP_ONLY:
	case CN_STEP_EARLY:
	case CN_STEP_FETCH:
	case CN_STEP_SHOW:
	case CN_STEP_FILL:
		break;
	}
	(void)after_ref(op, status, body, len);
	if (op->step != CN_STEP_EARLY || *status != LEND_OK)
		return false;
	op->step = CN_STEP_FILL;
	op->hash = cn_order_ref(&cn_op_outer(op)->ref);
	cn_order_add(op);
	return true;
}

/* After a reply, as cn_step_after(), except for the end of a MAP for a view. */
static bool after_reply(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	if (op->placing)
		return cn_in_place_after(op, status, body, len);
	if (op->kind == LEND_MEMOP_GET && op->pool)
		return cn_pool_get_after(op, *status, body, len);
	if (op->kind == LEND_MEMOP_RELEASE) { /* with any status, they are not ours any more */
		drop_holds(op, (uint32_t)op->part);
		op->at += op->part;
		return *status == LEND_OK && op->at < op->n;
	}
	if (op->step == CN_STEP_SHOW)
		return after_view(op, status, body, len);
	if (*status != LEND_OK)
		return false;
	switch (op->kind) {
	case LEND_MEMOP_PUT:
		return after_put(op, status, body, len);
	case LEND_MEMOP_SEAL:
	case LEND_MEMOP_NARROW:
		return after_ref(op, status, body, len);
	case LEND_MEMOP_ALLOC:
	case LEND_MEMOP_MAP:
		return after_space(op, status, body, len);
	case LEND_MEMOP_GET:
	case LEND_MEMOP_READ:
		if (len != op->part) {
			*status = LEND_INTERNAL;
			return false;
		}
		if (op->step == CN_STEP_FETCH)
			return cn_view_fetched(op);
		op->at += op->part;
		return op->at < op->len;
	case LEND_MEMOP_GET_MANY:
		*status = cn_many_after(op, body, len);
		return false;
	case LEND_MEMOP_WRITE:
		op->at += op->part;
		return op->at < op->len;
	case LEND_MEMOP_ADOPT: {
		struct lend_memref r;

		cn_ref_in(&r, refs_of(op));
		cn_hold_add(op->mem, &r);
		return false;
	}
	case LEND_MEMOP_GRANT:
		if (op->terms.kind == LEND_TERMS_TRANSFER)
			drop_holds(op, 1);
		return false;
	case LEND_MEMOP_STAT:
		return after_stat(op, status, body, len);
	default:
		return false;
	}
}

bool cn_step_after(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len)
{
	bool more = after_reply(op, status, body, len);

	if (op->view && op->kind == LEND_MEMOP_MAP && !more)
		return cn_pool_view_after(op, status);
	return more;
}

/* Frees a space at the end of a failed operation that made it, of a long put, and of FREE. */
void cn_step_end(struct cn_op *op, enum lend_status status, enum lend_ran ran)
{
	struct cn_space *space;

	if (op->step == CN_STEP_FILL && op->id && op->life == op->mem->node[op->node]->life)
		cn_forget_mark(op->mem->node[op->node], op->id);
	if (op->kind == LEND_MEMOP_RELEASE && ran == LEND_RAN_MAYBE) /* cleaning repeats it */
		drop_holds(op, (uint32_t)op->part);
	if (op->kind == LEND_MEMOP_GET_MANY)
		cn_many_end(op, status);
	if (op->view && !op->parent && status != LEND_OK)
		cn_arg_view_drop(op->mem, op->out);
	if (op->space == UINT32_MAX)
		return;
	space = &op->mem->space[op->space];
	if (space->view)
		cn_view_over(op, space->view);
	switch (op->kind) {
	case LEND_MEMOP_FREE:
		if (ran != LEND_RAN_NO || status == LEND_OK)
			cn_space_give(op->mem, op->space);
		break;
	case LEND_MEMOP_ALLOC:
	case LEND_MEMOP_MAP:
		if (status != LEND_OK)
			cn_space_orphan(op->mem, op->space);
		break;
	case LEND_MEMOP_PUT:
		if (status == LEND_OK)
			cn_space_give(op->mem, op->space);
		else
			cn_space_orphan(op->mem, op->space);
		break;
	default:
		break;
	}
}
