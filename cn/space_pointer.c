/* space_pointer - the operations on a space that has a pointer, for all kinds of views.
 *
 * A thread's store changes the space at once; the node gets it with the next seal. A seal walks
 * over its range once, takes runs of stored pages from the view and writes them directly from the
 * memory, several at a time (op_split.c). The SEAL request is its last call. Reads and writes by
 * operation keep their position in program order, and then are copies.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/space_pointer.h"

#include <errno.h>
#include <string.h>

#include "cn/paging/paged_view.h"
#include "cn/pool/pool_client.h"
#include "cn/pool/pool_get.h"
#include "sys/last_error.h"
#include "util/bits.h"

/* Returns NULL if no kind of view fits this node's carrier. */
static const struct cn_view_ops *ops_of(const struct cn_node *node)
{
	if (node->pool)
		return &cn_pool_ops;
	return cn_renews_by_session(node->address) ? &cn_fault_ops : NULL;
}

static _Atomic uint64_t pool_views, pool_fetched;

void cn_pointer_stat(struct lend_mem_cache_stat *stat)
{
	stat->pool_views = pool_views;
	stat->pool_fetched = pool_fetched;
	cn_pool_get_stat(stat);
}

static int open_pool(struct lend_mem *mem, uint32_t index, struct cn_view **view)
{
	int rc = cn_pool_ops.open(mem, index, view);

	pool_views += rc == 0;
	/* A space in too many pieces, or on a device, is fetched as over a network. So is a space
	 * that was written, inside a turn: its new frames need a call to the pool. */
	if (rc != -EOPNOTSUPP && rc != -EDEADLK)
		return rc;
	rc = cn_fault_ops.open(mem, index, view);
	pool_fetched += rc == 0;
	return rc;
}

static int open_view(struct lend_mem *mem, lend_space handle, uint32_t index)
{
	struct cn_space *space = &mem->space[index];
	const struct cn_node *node = mem->node[space->node];
	const struct cn_view_ops *ops = ops_of(node);

	if (!cn_order_idle(mem, cn_order_space(index)))
		return lend_fail(EBUSY, "operations on space %llx have not ended: wait for them",
				 (unsigned long long)handle.id);
	if (!space->len)
		return lend_fail(EINVAL, "an empty space has no memory");
	if (!ops)
		return lend_fail(EOPNOTSUPP,
				 "spaces of %s cannot be mapped over that carrier: use "
				 "lend_space_read() and lend_space_write()",
				 node->address);
	return ops == &cn_pool_ops ? open_pool(mem, index, &space->view)
				   : ops->open(mem, index, &space->view);
}

void *lend_space_pointer(struct lend_mem *mem, lend_space handle)
{
	uint32_t index;
	struct cn_space *space = cn_space_get(mem, handle, &index);

	if (!space || !space->life) {
		(void)lend_fail(ESTALE, "no such space: it was freed or never created");
		return NULL;
	}
	if (!space->view && open_view(mem, handle, index) < 0)
		return NULL;
	return space->view->base;
}

int lend_space_intact(struct lend_mem *mem, lend_space handle)
{
	uint32_t index;
	const struct cn_space *space = cn_space_get(mem, handle, &index);

	if (!space)
		return lend_fail(ESTALE, "no such space: it was freed or never created");
	if (!space->view || space->view->ops->intact(space->view))
		return 0;
	return lend_fail(EIO, "pages that %s did not send in time read as zeros",
			 mem->node[space->node]->address);
}

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

/* Whether op is a part of a seal, which sends a run to the node. */
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
