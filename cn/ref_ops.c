/* ref_ops - the operations on references: put, get, adopt, grant, narrow, release; and stat.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <errno.h>
#include <string.h>

#include "cn/ref_ops.h"
#include "sys/last_error.h"

int cn_take_terms(struct cn_op *op, const struct lend_terms *terms)
{
	if (!terms)
		return 0;
	if (terms->size < offsetof(struct lend_terms, bound) || (int)terms->hold < LEND_OWNED ||
	    terms->hold > LEND_SHARED)
		return lend_fail(EINVAL, "terms: set size to sizeof(struct lend_terms) and hold to "
					 "one of enum lend_hold");
	if (terms->hold != LEND_OWNED && !terms->ttl)
		return lend_fail(EINVAL, "terms: TRANSFER and SHARED need a ttl");
	op->bound = terms->size >= sizeof(*terms) && terms->bound;
	op->terms.kind = (uint8_t)terms->hold;
	op->terms.n = terms->hold == LEND_SHARED ? terms->n : 0;
	op->terms.ttl = terms->hold == LEND_OWNED       ? 0
			: terms->ttl > LEND_MEM_TTL_MAX ? LEND_MEM_TTL_MAX
							: terms->ttl;
	return 0;
}

int cn_take_iov(struct cn_op *op, const struct iovec *iov, int n)
{
	if (n < 0 || (n && !iov))
		return lend_fail(EINVAL, "no memory given for the bytes");
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > LEND_MEMREF_ROOT_MAX - op->len)
			return lend_fail(EINVAL, "longer than a snapshot can be: 2^40 - 1 bytes");
		op->len += iov[i].iov_len;
	}
	op->n = (uint32_t)n;
	op->data = iov;
	if (n == 1)
		op->one = iov[0];
	return 0;
}

static bool is_node_ref(const struct lend_ref *ref, struct lend_memref *r)
{
	return ref && lend_memref_decode((const uint8_t *)ref, r) && r->home == LEND_HOME_NODE;
}

static int not_a_ref(void)
{
	return lend_fail(EINVAL, "these 64 bytes are not a reference to a memory node; bytes that "
				 "a caller lends are read with lend_arg_get()");
}

static int take_ref(struct cn_op *op, const struct lend_ref *ref)
{
	struct lend_memref r;

	if (!is_node_ref(ref, &r))
		return not_a_ref();
	if (op->kind != LEND_MEMOP_GET)
		cn_hold_prefetch(op->mem, &r);
	memmove(&cn_op_outer(op)->ref, ref, sizeof(*ref));
	op->hash = cn_order_ref(ref);
	return 0;
}

int cn_find_node(struct cn_op *op, const struct lend_ref *ref)
{
	struct lend_memref r;
	int rc;

	lend_memref_root((const uint8_t *)ref, &r);
	op->node = UINT16_MAX;
	rc = cn_node_find(op->mem, &r, &op->node);
	if (rc == -EHOSTUNREACH) {
		for (uint32_t i = 0; i < op->mem->nodes; i++)
			op->mem->node[i]->failed = false;
		rc = cn_node_find(op->mem, &r, &op->node);
	}
	return rc == -EAGAIN ? 0 : rc;
}

int cn_begin_ref(struct lend_mem *mem, struct lend_op *op, uint8_t kind, const struct lend_ref *ref)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_op_begin(mem, op, kind);

	if (rc == 0)
		rc = take_ref(o, ref);
	if (rc == 0)
		rc = cn_find_node(o, ref);
	o->n = 1;
	return rc;
}

int cn_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	   void (*reserved)(struct lend_op *op), struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_op_begin(mem, op, LEND_MEMOP_PUT);

	if (rc == 0)
		rc = cn_take_terms(o, terms);
	if (rc == 0)
		rc = cn_take_iov(o, data, n);
	if (rc == 0)
		rc = cn_hold_reserve(mem, mem->live + 1);
	if (rc == 0)
		rc = cn_pick_node(o);
	if (rc == 0 && o->len > LEND_MEM_PART_MAX) {
		o->step = CN_STEP_ALLOC;
		rc = cn_space_take(mem, &o->space);
	} else if (reserved && o->len && o->terms.kind == LEND_TERMS_OWNED) {
		o->step = CN_STEP_EARLY;
		o->reserved = reserved;
	}
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	     struct lend_op *op)
{
	return cn_put(mem, data, n, terms, NULL, op);
}

int lend_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
	     const struct iovec *into, int n, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_ref(mem, op, LEND_MEMOP_GET, ref);

	if (rc == 0)
		rc = cn_take_iov(o, into, n);
	o->offset = offset;
	return rc < 0 ? rc : cn_op_go(o);
}

static int check_part(const struct lend_get_part *part)
{
	struct lend_memref r;

	if (!lend_memref_decode((const uint8_t *)&part->ref, &r) || r.home != LEND_HOME_NODE)
		return lend_fail(EINVAL, "one of the parts has no reference to a memory node");
	if ((part->len && !part->into) || part->len > LEND_MEMREF_ROOT_MAX)
		return lend_fail(EINVAL, "one of the parts has no memory, or is longer than a "
					 "snapshot can be");
	return 0;
}

int lend_get_many(struct lend_mem *mem, struct lend_get_part *part, int n, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc;

	if (n < 1 || !part)
		return lend_fail(EINVAL, "no reference given to read");
	for (int i = 0; i < n; i++) {
		rc = check_part(&part[i]);
		if (rc < 0)
			return rc;
	}
	rc = cn_op_begin(mem, op, LEND_MEMOP_GET_MANY);
	if (rc < 0)
		return rc;
	o->out = part;
	o->n = (uint32_t)n;
	for (int i = 0; i < n; i++)
		(void)cn_find_node(o, &part[i].ref);
	return cn_op_go(o);
}

int lend_adopt(struct lend_mem *mem, const struct lend_ref *ref, struct lend_op *op)
{
	int rc = cn_begin_ref(mem, op, LEND_MEMOP_ADOPT, ref);

	if (rc == 0)
		rc = cn_hold_reserve(mem, mem->live + 1);
	return rc < 0 ? rc : cn_op_go(cn_op_inner(op));
}

int lend_grant(struct lend_mem *mem, const struct lend_ref *ref, const struct lend_terms *terms,
	       struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_ref(mem, op, LEND_MEMOP_GRANT, ref);

	if (rc == 0 && (!terms || terms->hold == LEND_OWNED))
		rc = lend_fail(EINVAL, "a grant is TRANSFER or SHARED; lend_adopt() takes a hold");
	if (rc == 0)
		rc = cn_take_terms(o, terms);
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_ref_slice_remote(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
			  uint64_t len, unsigned rights, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_ref(mem, op, LEND_MEMOP_NARROW, ref);

	o->offset = offset;
	o->len = len;
	o->rights = rights;
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_release(struct lend_mem *mem, const struct lend_ref *ref, int n, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	struct lend_memref r;
	int rc;

	if (n < 1 || !ref)
		return lend_fail(EINVAL, "no reference given to release");
	if (n == 1) {
		rc = cn_begin_ref(mem, op, LEND_MEMOP_RELEASE, ref);
		return rc < 0 ? rc : cn_op_go(o);
	}
	for (int i = 0; i < n; i++)
		if (!is_node_ref(&ref[i], &r))
			return not_a_ref();
	rc = cn_op_begin(mem, op, LEND_MEMOP_RELEASE);
	if (rc == 0)
		rc = cn_find_node(o, ref);
	o->n = (uint32_t)n;
	o->data = ref;
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_mem_stat_get(struct lend_mem *mem, int node, struct lend_mem_stat *stat,
		      struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc;

	if (node < 0 || (uint32_t)node >= mem->n_named)
		return lend_fail(EINVAL, "this client has %u memory nodes, counted from 0",
				 mem->n_named);
	rc = cn_op_begin(mem, op, LEND_MEMOP_STAT);
	if (rc == 0)
		memset(stat, 0, sizeof(*stat));
	o->node = mem->named[node];
	o->out = stat;
	return rc < 0 ? rc : cn_op_go(o);
}
