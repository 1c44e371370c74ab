/* op_split - operations that keep several calls under way at once.
 *
 * A long put, get, read or write is split into parts of PART bytes, DEPTH at a time. So the next
 * part does not wait for a round trip, or for a lost last datagram of another. A release of
 * references of several nodes goes to all of them at once, as does a read of several references. A
 * seal of a space with a pointer sends the stored pages as runs; a prefetch asks for several runs.
 *
 * A part is an operation of its own, in memory of this file. It waits, sends HELLO, ends and is
 * forgotten as any other. Its position in the order is its parent's. The parent ends when the last
 * part has, with the status of the first part that failed.
 * Layer: cn. Threads: the endpoint's. Parts are kept for reuse until the client closes. */
#include "cn/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/space_view.h"
#include "lend/one_sided.h"
#include "util/bits.h"

enum {
	PART = 2 << 20,
	DEPTH = 4,
	DEPTH_RUNS = 16,
	/* Of a read of several references: a reply of more segments, of which some are SHORT, is
	 * gathered into one, which is cheap up to GATHER bytes. */
	SEGMENTS = 3,
	SHORT = 24 << 10,
	GATHER = 32 << 10,
};
_Static_assert(PART <= LEND_MEM_PART_MAX, "one call");

struct cn_part {
	struct lend_op op;
	struct cn_part *next;
};

static void start_parts(struct cn_op *op);

/* Takes back a part that ended, and stores its failure in the parent. */
static void part_done(struct lend_op *outer)
{
	struct cn_part *part = (struct cn_part *)outer;
	struct cn_op *op = cn_op_inner(outer)->parent;
	struct lend_mem *mem = op->mem;

	if (op->kind == LEND_MEMOP_GET_MANY) {
		if (cn_op_inner(outer)->kind == LEND_MEMOP_GET)
			cn_op_many(cn_op_inner(outer))->status = outer->status;
	} else if (outer->status != LEND_OK && cn_op_outer(op)->status == LEND_OK) {
		cn_op_outer(op)->status = outer->status;
		cn_op_outer(op)->ran = outer->ran;
		op->err = cn_op_inner(outer)->err;
	}
	part->next = mem->parts;
	mem->parts = part;
	op->kids--;
	start_parts(op);
}

static struct cn_part *take_part(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	struct cn_part *part = mem->parts;

	if (part)
		mem->parts = part->next;
	else
		part = malloc(sizeof(*part));
	if (!part)
		return NULL;
	memset(part, 0, sizeof(*part));
	part->op.done = part_done;
	part->op.parent = cn_op_outer(op)->parent;
	part->op.priority = cn_op_outer(op)->priority;
	if (!part->op.priority && !part->op.parent.id && op->step != CN_STEP_FETCH)
		part->op.priority = CN_LONG;
	part->op.ref = cn_op_outer(op)->ref;
	*cn_op_inner(&part->op) = *op;
	cn_op_inner(&part->op)->parent = op;
	cn_op_inner(&part->op)->parted = false;
	op->kids++;
	return part;
}

/* Starts a part with the next bytes. Returns false: no memory. */
static bool start_bytes(struct cn_op *op)
{
	struct cn_part *part = take_part(op);
	struct cn_op *o;

	if (!part)
		return false;
	o = cn_op_inner(&part->op);
	o->len = lend_min_u64(op->len, op->at + PART);
	o->step = CN_STEP_ONLY;
	if (op->kind == LEND_MEMOP_PUT)
		o->kind = LEND_MEMOP_WRITE;
	op->at = o->len;
	(void)cn_op_go(o);
	return true;
}

/* Starts a part that fetches the next bytes. Returns false: no memory. */
static bool start_fetch(struct cn_op *op)
{
	struct cn_part *part = take_part(op);
	struct cn_op *o;

	if (!part)
		return false;
	o = cn_op_inner(&part->op);
	o->offset = op->offset + op->at;
	o->len = lend_min_u64(op->len - op->at, PART);
	o->at = 0;
	op->at += o->len;
	(void)cn_op_go(o);
	return true;
}

/* Starts a part with a run of pages that were stored through the space's pointer; the seal itself
 * comes later. Returns false: no memory. */
static bool start_run(struct cn_op *op)
{
	const struct cn_view *view = op->mem->space[op->space].view;
	struct cn_part *part = take_part(op);
	struct cn_op *o;

	if (!part)
		return false;
	o = cn_op_inner(&part->op);
	o->kind = LEND_MEMOP_WRITE;
	o->offset = (uint64_t)((char *)op->one.iov_base - view->base);
	o->len = op->one.iov_len;
	o->at = 0;
	op->n = 0;
	(void)cn_op_go(o);
	return true;
}

/* Returns the index of the reference's node, CN_NODES_MAX if it is unknown, or -EAGAIN. */
static int node_of(struct lend_mem *mem, const struct lend_ref *ref)
{
	struct lend_memref r;
	uint16_t node;
	int rc;

	cn_ref_in(&r, ref);
	rc = cn_node_find(mem, &r, &node);
	if (rc == -EAGAIN)
		return rc;
	return rc < 0 ? CN_NODES_MAX : node;
}

/* Returns how many parts from i on can be read in one call, of which the first is at node. */
static uint32_t count_run(const struct cn_op *op, uint32_t i, uint16_t node)
{
	uint64_t room = LEND_MEM_PART_MAX;
	bool is_short = false;
	uint32_t n = 0;

	for (; i + n < op->n && n < LEND_MEM_MANY_MAX; n++) {
		const struct lend_get_part *part = &cn_op_many(op)[i + n];
		struct lend_memref r;
		uint16_t at;

		lend_memref_root((const uint8_t *)&part->ref, &r);
		if (part->len > room || cn_node_find(op->mem, &r, &at) != 0 || at != node)
			break;
		room -= part->len;
		is_short |= part->len < SHORT;
		if (n >= SEGMENTS && is_short && LEND_MEM_PART_MAX - room > GATHER)
			break;
	}
	return n;
}

/* Returns whether each part needs an operation of its own, because its node shows its pages. */
static bool reads_apart(const struct cn_op *op, uint16_t node)
{
	const struct cn_node *n = op->mem->node[node];

	return n->pool || (cn_node_ready(n) && lend_one_sided(op->mem->ep, n->session, true));
}

/* Makes part read the next references: as many as one call can, or one by a get. */
static void fill_many(struct cn_op *op, struct cn_part *part)
{
	struct lend_get_part *read = &cn_op_many(op)[op->at];
	struct cn_op *o = cn_op_inner(&part->op);
	int node = node_of(op->mem, &read->ref);

	o->out = read;
	o->n = 1;
	if (node >= 0 && node < CN_NODES_MAX && !reads_apart(op, (uint16_t)node))
		o->n = count_run(op, (uint32_t)op->at, (uint16_t)node);
	o->node = (uint16_t)node;
	o->at = 0;
	if (o->n <= 1) {
		o->kind = LEND_MEMOP_GET;
		o->n = 1;
		o->one = (struct iovec){read->into, read->len};
		o->offset = read->offset;
		o->len = read->len;
		o->hash = cn_order_ref(&read->ref);
		part->op.ref = read->ref;
	}
	op->at += o->n;
}

static bool start_next(struct cn_op *op)
{
	struct cn_part *part;

	if (op->kind == LEND_MEMOP_SEAL)
		return start_run(op);
	if (op->kind != LEND_MEMOP_GET_MANY)
		return op->step == CN_STEP_FETCH ? start_fetch(op) : start_bytes(op);
	part = take_part(op);
	if (!part)
		return false;
	fill_many(op, part);
	(void)cn_op_go(cn_op_inner(&part->op));
	return true;
}

static bool has_more(struct cn_op *op)
{
	if (op->kind == LEND_MEMOP_GET_MANY)
		return op->at < op->n;
	return op->kind == LEND_MEMOP_SEAL ? cn_view_next(op) : op->at < op->len;
}

/* Continues with the seal of a put or seal, or ends the operation, after all its parts have ended.
 */
static void finish_parts(struct cn_op *op)
{
	struct lend_op *outer = cn_op_outer(op);
	struct lend_mem *mem = op->mem;

	op->parted = false;
	if (op->kind == LEND_MEMOP_RELEASE)
		free(op->out);
	if (op->kind == LEND_MEMOP_GET_MANY && outer->status == LEND_OK && op->at == op->n)
		outer->status = cn_many_status(op);
	if (outer->status == LEND_OK && (op->cancelled || mem->closing)) {
		outer->status = LEND_CANCELLED;
		outer->ran = LEND_RAN_MAYBE;
	}
	if (outer->status == LEND_OK &&
	    (op->kind == LEND_MEMOP_PUT || op->kind == LEND_MEMOP_SEAL)) {
		op->step = CN_STEP_SEAL;
		cn_op_resume(op);
	} else {
		if (outer->status != LEND_OK && outer->ran == LEND_RAN_NO)
			outer->ran = LEND_RAN_MAYBE; /* other parts may have run */
		cn_op_finish(op, outer->status, outer->ran);
	}
	cn_pump(mem);
}

/* Starts as many parts as may be under way. When the last has ended, finishes the operation. */
static void start_parts(struct cn_op *op)
{
	struct lend_op *outer = cn_op_outer(op);
	bool runs = op->kind == LEND_MEMOP_SEAL || op->kind == LEND_MEMOP_GET_MANY;
	uint32_t depth = runs ? DEPTH_RUNS : DEPTH;

	op->kids++; /* op must not finish if parts end inside the loop */
	while (op->kids <= depth && outer->status == LEND_OK && !op->cancelled &&
	       !op->mem->closing && has_more(op))
		if (!start_next(op)) {
			if (op->kids > 1)
				break; /* retry when one of them ends */
			outer->status = LEND_RESOURCE_EXHAUSTED;
			outer->ran = LEND_RAN_MAYBE;
		}
	if (!--op->kids)
		finish_parts(op);
}

static void begin_parts(struct cn_op *op)
{
	cn_op_started(op);
	op->parted = true;
	op->kids = 0;
	op->part = 0;
	cn_op_outer(op)->status = LEND_OK;
	cn_op_outer(op)->ran = LEND_RAN_YES;
}

bool cn_split_wanted(const struct cn_op *op)
{
	if (op->step == CN_STEP_FETCH)
		return !op->parent && op->len > PART;
	switch (op->kind) {
	case LEND_MEMOP_PUT:
	case LEND_MEMOP_SEAL:
		return op->step == CN_STEP_WRITE;
	case LEND_MEMOP_GET:
	case LEND_MEMOP_READ:
	case LEND_MEMOP_WRITE:
		return !op->parent && op->step == CN_STEP_ONLY && !op->placing &&
		       op->len > (op->lent ? PART : LEND_MEM_PART_MAX);
	default:
		return false;
	}
}

void cn_split_start(struct cn_op *op)
{
	begin_parts(op);
	start_parts(op);
}

int cn_split_many(struct cn_op *op)
{
	int node = CN_NODES_MAX;

	for (uint32_t i = op->n; i-- > 0;) {
		node = node_of(op->mem, &cn_op_many(op)[i].ref);
		if (node < 0)
			return CN_HOLD_ON;
	}
	if (node < CN_NODES_MAX && !reads_apart(op, (uint16_t)node) &&
	    count_run(op, 0, (uint16_t)node) == op->n) {
		op->node = (uint16_t)node;
		return CN_GO;
	}
	return CN_SPLIT;
}

static void start_release(struct cn_op *op, uint16_t node, struct lend_ref *ref, uint32_t n)
{
	struct cn_part *part = take_part(op);
	struct cn_op *o;

	if (!part) {
		cn_op_outer(op)->status = LEND_RESOURCE_EXHAUSTED;
		cn_op_outer(op)->ran = LEND_RAN_MAYBE;
		return;
	}
	o = cn_op_inner(&part->op);
	o->node = node;
	o->at = 0;
	o->n = n;
	o->data = ref;
	o->hash = n == 1 ? cn_order_ref(ref) : 0;
	part->op.ref = *ref;
	(void)cn_op_go(o);
}

/* Starts one release per node. end[k]: the end of node k's references in `sorted`. */
static void start_releases(struct cn_op *op, struct lend_ref *sorted, const uint32_t *end)
{
	uint32_t at = 0;

	begin_parts(op);
	op->out = sorted;
	op->kids++;
	for (uint16_t k = 0; k < CN_NODES_MAX; at = end[k], k++)
		if (end[k] > at)
			start_release(op, k, &sorted[at], end[k] - at);
	if (op->n - op->at > at)
		cn_op_outer(op)->status = cn_node_unknown(op);
	if (!--op->kids)
		finish_parts(op);
}

int cn_split_by_node(struct cn_op *op)
{
	const struct lend_ref *ref = op->data;
	uint32_t end[CN_NODES_MAX + 1] = {0}, place[CN_NODES_MAX + 1] = {0}, nodes = 0;
	struct lend_ref *sorted;

	for (uint64_t i = op->at; i < op->n; i++) {
		int k = node_of(op->mem, &ref[i]);

		if (k < 0)
			return CN_HOLD_ON;
		nodes += !end[k]++;
	}
	if (nodes == 1)
		return CN_GO;
	sorted = malloc((op->n - op->at) * sizeof(*sorted));
	if (!sorted)
		return LEND_RESOURCE_EXHAUSTED;
	for (int k = 1; k <= CN_NODES_MAX; k++) {
		place[k] = end[k - 1];
		end[k] += end[k - 1];
	}
	for (uint64_t i = op->at; i < op->n; i++)
		sorted[place[node_of(op->mem, &ref[i])]++] = ref[i];
	start_releases(op, sorted, end);
	return CN_PARTED;
}

void cn_split_cancel(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	struct cn_op *o;

	op->kids++;
	do {
		TAILQ_FOREACH(o, &mem->wait, all)
		if (o->parent == op)
			break;
		if (o)
			cn_op_finish(o, LEND_CANCELLED, LEND_RAN_NO);
	} while (o);
	TAILQ_FOREACH(o, &mem->flight, all)
	if (o->parent == op) {
		o->cancelled = true;
		if (!o->ended)
			lend_call_cancel(mem->ep, &cn_op_outer(o)->call);
	}
	if (!--op->kids)
		finish_parts(op);
}

void cn_split_drop(struct lend_mem *mem)
{
	struct cn_part *part;

	while ((part = mem->parts)) {
		mem->parts = part->next;
		free(part);
	}
}
