/* space_pointer - the operations that make a space memory of this process: its pointer, whether it
 * is intact, prefetch. They select the kind of its view. Layer: cn. Threads: the endpoint's. */
#include <errno.h>

#include "cn/paging/paged_view.h"
#include "cn/pool/pool_client.h"
#include "cn/pool/pool_get.h"
#include "cn/ref_ops.h"
#include "cn/space_view.h"
#include "sys/last_error.h"

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

	if (!cn_order_idle(mem, cn_order_space(index)))
		return lend_fail(EBUSY, "operations on space %llx have not ended: wait for them",
				 (unsigned long long)handle.id);
	if (!space->len)
		return lend_fail(EINVAL, "an empty space has no memory");
	return mem->node[space->node]->pool ? open_pool(mem, index, &space->view)
					    : cn_fault_ops.open(mem, index, &space->view);
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

int lend_space_prefetch(struct lend_mem *mem, lend_space handle, uint64_t offset, uint64_t len,
			struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);
	int rc = cn_begin_space(mem, handle, LEND_MEMOP_READ, op);

	if (rc < 0)
		return rc;
	if (!mem->space[o->space].view)
		return lend_fail(EINVAL,
				 "the space is not mapped: call lend_space_pointer() first");
	o->step = CN_STEP_FETCH;
	o->offset = offset;
	o->len = len;
	return cn_op_go(o);
}
