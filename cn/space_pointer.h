/* space_pointer - a space as ordinary memory: what any way of doing it (pages fetched on first
 * touch, a pool's shared pages) offers to the operations on spaces.
 *
 * Layer: cn. Threads: the endpoint's calls these; the memory itself is touched by any. */
#ifndef LEND_CN_SPACE_POINTER_H
#define LEND_CN_SPACE_POINTER_H

#include "cn/client.h"

struct cn_view {
	const struct cn_view_ops *ops;
	char *base;
	uint64_t len; /* bytes of the space */
};

/* Statuses are enum lend_status; CN_GO: the operation goes on with a call. */
struct cn_view_ops {
	/* A view of a space on which nothing is under way. 0 or -errno with lend_why(). */
	int (*open)(struct lend_mem *mem, uint32_t space, struct cn_view **view);
	/* False: it has shown bytes that were not the space's. */
	bool (*intact)(const struct cn_view *view);
	/* The first run of [first, end) that the node has not, at most LEND_MEM_PART_MAX bytes.
	 * From here on it counts as sent: stores into it count anew. False: there is none. */
	bool (*take)(struct cn_view *view, uint64_t first, uint64_t end, struct lend_memslice *run);
	/* Sending that run failed: the node may not have it. */
	void (*untake)(struct cn_view *view, const struct lend_memslice *run);
	/* The seal that took them is over, however it ended. May be NULL. */
	void (*sealed)(struct cn_view *view);
	/* A prefetch of [op->offset, + op->len): OK when all is here. CN_GO: both were moved to
	 * where the next READ begins, of op->part bytes into op->one, memory that waits in op->out;
	 * asked again before that READ began it says the same. */
	int (*fetch)(struct cn_view *view, struct cn_op *op);
	/* That READ's bytes have come. */
	void (*landed)(struct cn_view *view, struct cn_op *op);
	/* The prefetch ends; no carrier uses op->out any more, if there is any. */
	void (*fetched)(struct cn_view *view, struct cn_op *op);
	/* Ends the memory and the view. */
	void (*close)(struct cn_view *view);
};

/* Before a call of a SEAL, READ or WRITE: as cn_step_before(). */
int cn_view_before(struct cn_op *op, struct cn_view *view);
/* A seal's next run to send is op->one; false: there is none. Once taken it waits there with op->n
 * 1, until that is set to 0. */
bool cn_view_next(struct cn_op *op);
/* After a prefetch's call that went well: true, it goes on. */
bool cn_view_fetched(struct cn_op *op);
/* The operation ends, and no carrier uses its memory any more. */
void cn_view_over(struct cn_op *op, struct cn_view *view);
void cn_view_close(struct cn_space *space); /* nothing without a view */

/* What it counts. */
void cn_pointer_stat(struct lend_mem_cache_stat *stat);

#endif
