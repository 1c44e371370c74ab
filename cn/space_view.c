/* space_view - the operations of a space with a pointer, for all kinds of views.
 *
 * A thread's store changes the space at once; the node gets it with the next seal. A seal walks
 * over its range once, takes runs of stored pages from the view and writes them directly from the
 * memory, several at a time (op_split.c). The SEAL request is its last call. Reads and writes by
 * operation keep their position in program order, and then are copies.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/space_view.h"

#include <string.h>

#include "util/bits.h"

static bool is_inside(const struct cn_op *op, const struct cn_view *view)
{
	return op->offset <= view->len && op->len <= view->len - op->offset;
}

static int copy_bytes(struct cn_op *op, struct cn_view *view)
{
	const struct iovec *iov = op->n > 1 ? op->data : &op->one;
	char *at = view->base + op->offset;

	for (uint32_t i = 0; i < op->n; i++) {
		if (!iov[i].iov_len)
			continue;
		if (op->kind == LEND_MEMOP_READ)
			memcpy(iov[i].iov_base, at, iov[i].iov_len);
		else
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return view->ops->intact(view) ? LEND_OK : LEND_DATA_LOSS;
}

bool cn_view_next(struct cn_op *op)
{
	struct cn_view *view = op->mem->space[op->space].view;
	uint64_t first = lend_min_u64(op->offset, view->len);
	uint64_t end = first + lend_min_u64(op->len, view->len - first);
	struct lend_memslice run;

	if (op->n)
		return true;
	if (!view->ops->take(view, lend_max_u64(first, op->at), end, &run))
		return false;
	op->one = (struct iovec){view->base + run.offset, run.len};
	op->at = run.offset + run.len;
	op->n = 1;
	return true;
}

/* Returns whether op is a part of a seal, which sends a run to the node. */
static bool is_run(const struct cn_op *op)
{
	return op->kind == LEND_MEMOP_WRITE && op->step == CN_STEP_WRITE;
}

int cn_view_before(struct cn_op *op, struct cn_view *view)
{
	if (is_run(op))
		return CN_GO;
	if (!view->ops->intact(view))
		return LEND_DATA_LOSS;
	if (op->kind == LEND_MEMOP_SEAL) {
		if (op->step == CN_STEP_ONLY && cn_view_next(op))
			op->step = CN_STEP_WRITE;
		return CN_GO;
	}
	if (!is_inside(op, view))
		return LEND_OUT_OF_RANGE;
	if (op->step != CN_STEP_FETCH)
		return copy_bytes(op, view);
	return cn_split_wanted(op) ? CN_GO : view->ops->fetch(view, op);
}

bool cn_view_fetched(struct cn_op *op)
{
	struct cn_view *view = op->mem->space[op->space].view;

	view->ops->landed(view, op);
	return true;
}

void cn_view_over(struct cn_op *op, struct cn_view *view)
{
	struct lend_memslice run = {(uint64_t)((char *)op->one.iov_base - view->base),
				    op->one.iov_len};

	if (op->step == CN_STEP_FETCH)
		view->ops->fetched(view, op);
	else if ((is_run(op) && op->at < op->len) || (op->kind == LEND_MEMOP_SEAL && op->n))
		view->ops->untake(view, &run);
	if (op->kind == LEND_MEMOP_SEAL && view->ops->sealed)
		view->ops->sealed(view);
}

void cn_view_close(struct cn_space *space)
{
	if (space->view)
		space->view->ops->close(space->view);
	space->view = NULL;
}
