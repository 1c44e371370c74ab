/* space_ops - the operations on private, mutable, copy-on-write views.
 * Layer: cn. Threads: the endpoint's. */
#include <errno.h>

#include "cn/ref_ops.h"
#include "sys/last_error.h"

int lend_space_alloc(struct lend_mem *mem, uint64_t len, lend_space *space, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_op_begin(mem, op, LEND_MEMOP_ALLOC);

	if (rc == 0 && len > LEND_MEMREF_ROOT_MAX)
		rc = lend_fail(EINVAL, "longer than a space can be: 2^40 - 1 bytes");
	if (rc == 0)
		rc = cn_pick_node(o);
	o->len = len;
	o->out = space;
	if (rc == 0)
		rc = cn_space_take(mem, &o->space);
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_space_map(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
		   struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_ref(mem, op, LEND_MEMOP_MAP, ref);

	o->len = lend_ref_len(ref);
	o->out = space;
	if (rc == 0)
		rc = cn_space_take(mem, &o->space);
	return rc < 0 ? rc : cn_op_go(o);
}

int cn_begin_space(struct lend_mem *mem, lend_space handle, uint8_t kind, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_op_begin(mem, op, kind);
	uint32_t index;

	if (rc < 0)
		return rc;
	if (!cn_space_get(mem, handle, &index))
		return lend_fail(ESTALE, "no such space: it was freed or never created");
	o->space = index;
	o->node = mem->space[index].node;
	o->hash = cn_order_space(index);
	return 0;
}

int lend_space_read(struct lend_mem *mem, lend_space space, uint64_t offset,
		    const struct iovec *into, int n, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_space(mem, space, LEND_MEMOP_READ, op);

	if (rc == 0)
		rc = cn_take_iov(o, into, n);
	o->offset = offset;
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_space_write(struct lend_mem *mem, lend_space space, uint64_t offset,
		     const struct iovec *data, int n, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_space(mem, space, LEND_MEMOP_WRITE, op);

	if (rc == 0)
		rc = cn_take_iov(o, data, n);
	o->offset = offset;
	if (rc == 0)
		mem->space[o->space].written = true;
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_space_seal(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
		    const struct lend_terms *terms, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_space(mem, space, LEND_MEMOP_SEAL, op);

	if (rc == 0)
		rc = cn_take_terms(o, terms);
	if (rc == 0)
		rc = cn_hold_reserve(mem, mem->live + 1);
	o->offset = offset;
	o->len = len;
	return rc < 0 ? rc : cn_op_go(o);
}

int lend_space_free(struct lend_mem *mem, lend_space space, struct lend_op *op)
{
	int rc = cn_begin_space(mem, space, LEND_MEMOP_FREE, op);

	return rc < 0 ? rc : cn_op_go(cn_op_inner(op));
}
