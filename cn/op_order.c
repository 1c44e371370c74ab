/* op_order - program order per space and per reference.
 *
 * The network may reorder two calls, so an operation that must see the effect of another waits for
 * its end. Adopt, grant and write also wait until the node has confirmed the outcome of earlier
 * ones that ended without a result. Otherwise a repeated adopt would be undone with the first one,
 * and a write could be overtaken by an earlier one. Operations that may depend on each other share
 * a bucket. The kind of the earlier one decides:
 *
 *   space      write waits for writes that overlap and for reads and seals; read and seal wait for
 *              writes; free waits for all, all wait for free
 *   reference  release waits for all; adopt and grant wait for adopt, grant and release; the rest
 *              waits for release only, since a granted reference can be read before it is adopted;
 *              all wait for a put that still sends its bytes, so that this client's own reads,
 *              which wait at the node, never take the call slot that the bytes need
 *
 * A read of several references is in no bucket: it waits as a read of each of them, and a later
 * release of one of them waits for it.
 *
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

enum cn_class { CN_READ, CN_CHANGE, CN_END };

static enum cn_class class_of(uint8_t kind)
{
	switch (kind) {
	case LEND_MEMOP_WRITE:
	case LEND_MEMOP_ADOPT:
	case LEND_MEMOP_GRANT:
		return CN_CHANGE;
	case LEND_MEMOP_FREE:
	case LEND_MEMOP_RELEASE:
		return CN_END;
	default:
		return CN_READ;
	}
}

static bool ranges_overlap(uint64_t offset, uint64_t len, const struct cn_op *b)
{
	return offset < b->offset + b->len && b->offset < offset + len;
}

/* Returns whether op seals a space with a pointer: it sends the stored pages, and the next seal
 * relies on that. */
static bool is_seal(const struct cn_op *op)
{
	return op->kind == LEND_MEMOP_SEAL && op->mem->space[op->space].view;
}

/* Returns whether late must wait for an earlier operation on the same object: kind, offset, len. */
static bool must_wait(uint8_t kind, uint64_t offset, uint64_t len, const struct cn_op *late)
{
	enum cn_class a = class_of(kind), b = class_of(late->kind);

	if (a == CN_END || b == CN_END || kind == LEND_MEMOP_PUT)
		return true;
	if (a == CN_READ && b == CN_READ)
		return false;
	if (kind == LEND_MEMOP_WRITE && late->kind == LEND_MEMOP_WRITE)
		return ranges_overlap(offset, len, late);
	if (kind == LEND_MEMOP_WRITE || late->kind == LEND_MEMOP_WRITE)
		return true;
	return a == CN_CHANGE && b == CN_CHANGE;
}

bool cn_order_wide(const struct cn_op *op)
{
	return op->kind == LEND_MEMOP_RELEASE && op->n > 1 && !op->parent;
}

static bool has_ref(const struct cn_op *op)
{
	return op->hash & 1;
}

uint64_t cn_order_ref(const struct lend_ref *ref)
{
	struct lend_memref r;

	lend_memref_root((const uint8_t *)ref, &r);
	return ((uint64_t)r.node << 32 ^ (uint64_t)r.slot << 8 ^ r.serial * 0x9e3779b97f4a7c15u) |
	       1;
}

uint64_t cn_order_space(uint32_t index)
{
	return ((uint64_t)index + 1) * 2;
}

static struct cn_ops *bucket_of(struct lend_mem *mem, uint64_t hash)
{
	return &mem->bucket[(hash * 0x9e3779b97f4a7c15u) >> 56];
}

/* Returns the list of operations on several references that op is in; NULL: it is in a bucket. */
static struct cn_ops *list_of(const struct cn_op *op)
{
	if (cn_order_wide(op))
		return &op->mem->wide;
	return op->kind == LEND_MEMOP_GET_MANY ? &op->mem->many : NULL;
}

void cn_order_add(struct cn_op *op)
{
	if (op->parent) /* its parent has the position */
		return;
	if (list_of(op)) {
		TAILQ_INSERT_TAIL(list_of(op), op, key);
		return;
	}
	if (!op->hash)
		return;
	TAILQ_INSERT_TAIL(bucket_of(op->mem, op->hash), op, key);
	op->mem->refs_live += has_ref(op);
}

void cn_order_del(struct cn_op *op)
{
	if (op->parent)
		return;
	if (list_of(op)) {
		TAILQ_REMOVE(list_of(op), op, key);
		return;
	}
	if (!op->hash)
		return;
	TAILQ_REMOVE(bucket_of(op->mem, op->hash), op, key);
	op->mem->refs_live -= has_ref(op);
}

/* Returns true when all earlier operations on any reference have ended. */
static bool wide_free(const struct cn_op *op)
{
	const struct lend_mem *mem = op->mem;
	const struct cn_op *o = TAILQ_FIRST(&mem->wide);

	if (o != op)
		return false;
	o = TAILQ_FIRST(&mem->many);
	if (o && o->seq < op->seq)
		return false;
	for (size_t i = 0; mem->refs_live && i < CN_BUCKETS; i++)
		TAILQ_FOREACH(o, &mem->bucket[i], key)
	if (has_ref(o) && o->seq < op->seq)
		return false;
	return true;
}

/* Returns whether op must wait for an earlier operation on the reference or space with this hash.
 */
static bool waits_in_bucket(const struct cn_op *op, uint64_t hash)
{
	const struct cn_op *o = TAILQ_FIRST(bucket_of(op->mem, hash));

	for (; o && o != op; o = TAILQ_NEXT(o, key))
		if (o->hash == hash && o->seq < op->seq &&
		    (must_wait(o->kind, o->offset, o->len, op) || (is_seal(o) && is_seal(op))))
			return true;
	return false;
}

/* Returns whether one of the references of a GET_MANY has this hash. */
static bool reads_ref(const struct cn_op *op, uint64_t hash)
{
	for (uint32_t i = 0; i < op->n; i++)
		if (cn_order_ref(&cn_op_many(op)[i].ref) == hash)
			return true;
	return false;
}

/* Returns whether op must wait for an earlier read of several references. */
static bool waits_for_many(const struct cn_op *op)
{
	const struct cn_op *o = TAILQ_FIRST(&op->mem->many);

	if (!has_ref(op) || class_of(op->kind) != CN_END)
		return false;
	for (; o && o->seq < op->seq; o = TAILQ_NEXT(o, key))
		if (reads_ref(o, op->hash))
			return true;
	return false;
}

bool cn_order_free(const struct cn_op *op)
{
	const struct cn_op *o;

	if (op->parent)
		return true;
	if (cn_order_wide(op))
		return wide_free(op);
	if (!op->hash && op->kind != LEND_MEMOP_GET_MANY)
		return true;
	o = TAILQ_FIRST(&op->mem->wide);
	if (o && o->seq < op->seq && (has_ref(op) || !op->hash))
		return false;
	for (uint32_t i = 0; !op->hash && i < op->n; i++)
		if (waits_in_bucket(op, cn_order_ref(&cn_op_many(op)[i].ref)))
			return false;
	return !op->hash || (!waits_in_bucket(op, op->hash) && !waits_for_many(op));
}

bool cn_order_idle(struct lend_mem *mem, uint64_t hash)
{
	const struct cn_op *o;

	TAILQ_FOREACH(o, bucket_of(mem, hash), key)
	if (o->hash == hash)
		return false;
	return true;
}

/* Returns whether op must wait for the slot's cleaning. Only a change can be undone or overtaken by
 * an unconfirmed earlier operation. A release of several references may concern any of them. */
static bool waits_for_slot(const struct cn_slot *slot, const struct cn_op *op)
{
	if (slot->state != CN_SLOT_CLEAN || class_of(slot->what) == CN_READ)
		return false;
	if (slot->what == LEND_MEMOP_RELEASE && !slot->hash)
		return has_ref(op);
	return slot->hash == op->hash && must_wait(slot->what, slot->offset, slot->len, op);
}

struct cn_node *cn_order_left(const struct cn_op *op)
{
	if (op->parent || (class_of(op->kind) != CN_CHANGE && !is_seal(op)))
		return NULL;
	for (uint32_t i = 0; i < op->mem->nodes; i++) {
		struct cn_node *node = op->mem->node[i];

		for (uint64_t id = node->low; node->cleans && id < node->next; id++)
			if (waits_for_slot(cn_id_slot(node, id), op))
				return node;
	}
	return NULL;
}
