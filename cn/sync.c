/* sync - operations that run turns until they have ended: lend_sync(3).
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

static int end_op(struct lend_mem *mem, struct lend_op *op, int rc)
{
	if (rc == 0)
		rc = lend_op_wait(mem, op);
	return rc ? rc : (int)op->status;
}

/* The body of each function: start starts the operation. lend_poll() refuses inside a turn, before
 * anything is taken. */
#define RUN(start)                                                                                 \
	struct lend_op own = {.done = NULL};                                                       \
	int rc = lend_poll(mem->ep);                                                               \
                                                                                                   \
	op = op ? op : &own;                                                                       \
	return rc < 0 ? rc : end_op(mem, op, start)

int lend_put_sync(struct lend_mem *mem, const struct iovec *data, int n,
		  const struct lend_terms *terms, struct lend_op *op)
{
	RUN(lend_put(mem, data, n, terms, op));
}

int lend_get_sync(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
		  const struct iovec *into, int n, struct lend_op *op)
{
	RUN(lend_get(mem, ref, offset, into, n, op));
}

int lend_get_many_sync(struct lend_mem *mem, struct lend_get_part *part, int n, struct lend_op *op)
{
	RUN(lend_get_many(mem, part, n, op));
}

int lend_release_sync(struct lend_mem *mem, const struct lend_ref *ref, int n, struct lend_op *op)
{
	RUN(lend_release(mem, ref, n, op));
}

int lend_space_alloc_sync(struct lend_mem *mem, uint64_t len, lend_space *space, struct lend_op *op)
{
	RUN(lend_space_alloc(mem, len, space, op));
}

int lend_space_map_sync(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
			struct lend_op *op)
{
	RUN(lend_space_map(mem, ref, space, op));
}

int lend_space_read_sync(struct lend_mem *mem, lend_space space, uint64_t offset,
			 const struct iovec *into, int n, struct lend_op *op)
{
	RUN(lend_space_read(mem, space, offset, into, n, op));
}

int lend_space_write_sync(struct lend_mem *mem, lend_space space, uint64_t offset,
			  const struct iovec *data, int n, struct lend_op *op)
{
	RUN(lend_space_write(mem, space, offset, data, n, op));
}

int lend_space_seal_sync(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
			 const struct lend_terms *terms, struct lend_op *op)
{
	RUN(lend_space_seal(mem, space, offset, len, terms, op));
}

int lend_space_free_sync(struct lend_mem *mem, lend_space space, struct lend_op *op)
{
	RUN(lend_space_free(mem, space, op));
}
