/* space_view - a space as ordinary memory: the interface between the operations on spaces and each
 * kind of view (pages fetched at the first touch, a pool's shared pages).
 *
 * Layer: cn. Threads: the endpoint's calls these; the memory itself is touched by any. */
#ifndef LEND_CN_SPACE_VIEW_H
#define LEND_CN_SPACE_VIEW_H

#include "cn/client.h"

struct cn_view {
	const struct cn_view_ops *ops;
	char *base;
	uint64_t len; /* bytes of the space */
};

/* Statuses are enum lend_status; CN_GO: the operation goes on with a call. */
struct cn_view_ops {
	/* Makes a view of a space that no operation uses. Returns 0 or -errno with lend_why(). */
	int (*open)(struct lend_mem *mem, uint32_t space, struct cn_view **view);
	/* Returns false if the memory has shown bytes that were not the space's. */
	bool (*intact)(const struct cn_view *view);
	/* Takes the first run of [first, end) that the node does not have, at most
	 * LEND_MEM_PART_MAX bytes. The run then counts as sent; later stores into it mark it again.
	 * Returns false: there is none. */
	bool (*take)(struct cn_view *view, uint64_t first, uint64_t end, struct lend_memslice *run);
	/* Marks that run as not sent, because sending it failed: the node may not have it. */
	void (*untake)(struct cn_view *view, const struct lend_memslice *run);
	/* Runs when the seal that took the runs has ended, with any result. May be NULL. */
	void (*sealed)(struct cn_view *view);
	/* A prefetch of [op->offset, + op->len). Returns OK when all of it is present. CN_GO: a
	 * READ of op->part bytes into op->one comes next. offset and len then begin at that READ;
	 * its memory is in op->out. Called again before that READ starts, it returns the same. */
	int (*fetch)(struct cn_view *view, struct cn_op *op);
	/* Stores the bytes of that READ, which have arrived, in the view. */
	void (*landed)(struct cn_view *view, struct cn_op *op);
	/* Ends a prefetch. No carrier uses op->out any more, if it is set. */
	void (*fetched)(struct cn_view *view, struct cn_op *op);
	/* Frees the memory and the view. */
	void (*close)(struct cn_view *view);
};

/* Prepares the next call of a SEAL, READ or WRITE. Returns as cn_step_before(). */
int cn_view_before(struct cn_op *op, struct cn_view *view);
/* Puts the next run of a seal into op->one; returns false: there is none. The run stays there, with
 * op->n 1, until op->n is set to 0. */
bool cn_view_next(struct cn_op *op);
/* Evaluates a prefetch's call that ended OK. Returns true: the operation continues. */
bool cn_view_fetched(struct cn_op *op);
/* Cleans up after an operation: it ends, and no carrier uses its memory any more. */
void cn_view_over(struct cn_op *op, struct cn_view *view);
void cn_view_close(struct cn_space *space); /* does nothing without a view */

/* space_pointer.c: stores the counters of pool views in stat. */
void cn_pointer_stat(struct lend_mem_cache_stat *stat);

#endif
