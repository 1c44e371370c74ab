#include "cn/pool/pool_get.h"

#include <stdlib.h>
#include <string.h>

#include "cn/lent/arg_view.h"
#include "cn/pool/pool_client.h"
#include "sys/ref_counts.h"
#include "util/bits.h"

/* POOL_MIN: the node sends the bytes of shorter gets, because to pin and unpin frames would cost
 * more. */
enum { POOL_MIN = 16 << 10, NEEDED = LEND_RIGHT_READ | LEND_RIGHT_MAP };

static _Atomic uint64_t gets, sent, shown_args, copied_args;

void cn_pool_get_stat(struct lend_mem_cache_stat *stat)
{
	stat->pool_gets = gets;
	stat->pool_gets_sent = sent;
	stat->pool_args = shown_args;
	stat->pool_args_copied = copied_args;
}

/* Counts a get that the pool cannot serve: the node sends the bytes. */
static void fall_back(struct cn_op *op)
{
	op->by_message = true;
	sent++;
	lend_ref_count(&lend_ref_counts.copied);
}

/* Narrows the reference to exactly the bytes of this call. Returns false: it cannot be narrowed, or
 * lacks a right. */
static bool narrow_ref(struct cn_op *op, const struct lend_memop *say, struct lend_memref *out)
{
	struct lend_memref ref;

	cn_ref_in(&ref, &cn_op_outer(op)->ref);
	if (NEEDED & ~lend_memref_rights(&ref))
		return false;
	*out = ref;
	return (say->offset == 0 && say->len == lend_memref_len(&ref)) ||
	       lend_memref_slice(&ref, say->offset, say->len, NEEDED, out) == 0;
}

/* Returns whether at most half of the operation ids are in use: the others stay free for other
 * operations when the node is slow to unpin. */
static bool has_ids(const struct cn_node *node)
{
	return node->next - node->low < node->open / 2;
}

void cn_pool_get_say(struct cn_op *op, struct lend_memop *say)
{
	struct cn_node *node = op->mem->node[op->node];
	uint64_t key;

	op->pool = 0;
	if (!node->pool || say->len < POOL_MIN || op->by_message)
		return;
	key = cn_pool_key(node);
	if (!key || !node->pool->frames || !has_ids(node) || !narrow_ref(op, say, &say->ref)) {
		fall_back(op);
		return;
	}
	op->pool = key;
	say->kind = LEND_MEMOP_POOL_MAP;
	say->target = key;
	say->ref_bytes = NULL;
}

/* Returns whether the runs are inside the pool and have all bytes. */
static bool is_whole(const struct cn_pool *pool, const struct lend_memview *view, uint64_t len)
{
	uint64_t pages = 0;

	for (uint32_t i = 0; i < view->n; i++) {
		const struct lend_memextent *e = &view->extent[i];

		if (e->frame && ((uint64_t)e->frame + e->pages) * pool->page > pool->size)
			return false;
		pages += e->pages;
	}
	return view->base < pool->page && pages * pool->page >= view->base + len;
}

struct target {
	const struct iovec *iov;
	uint64_t at; /* offset in iov[0] */
};

/* Appends bytes to the caller's memory; from NULL: zeros. */
static void append_bytes(struct target *to, const char *from, uint64_t len)
{
	while (len) {
		uint64_t n = lend_min_u64(len, to->iov->iov_len - to->at);
		char *into = (char *)to->iov->iov_base + to->at;

		if (n && from)
			memcpy(into, from, n);
		else if (n)
			memset(into, 0, n);
		from += from ? n : 0;
		to->at += n;
		len -= n;
		if (to->at == to->iov->iov_len)
			*to = (struct target){to->iov + 1, 0};
	}
}

static void copy_frames(struct cn_op *op, const struct cn_pool *pool,
			const struct lend_memview *view)
{
	struct target to = {op->n > 1 ? op->data : &op->one, op->at};
	uint64_t skip = view->base, left = op->part;

	while (to.at && to.at >= to.iov->iov_len)
		to = (struct target){to.iov + 1, to.at - to.iov->iov_len};
	for (uint32_t i = 0; left; i++) {
		const struct lend_memextent *e = &view->extent[i];
		const char *from = pool->frames->at + (uint64_t)e->frame * pool->page + skip;
		uint64_t n = lend_min_u64(left, (uint64_t)e->pages * pool->page - skip);

		append_bytes(&to, e->frame ? from : NULL, n);
		left -= n;
		skip = 0;
	}
}

/* Returns false: the bytes were not copied. */
static bool take_frames(struct cn_op *op, const uint8_t *body, size_t len)
{
	struct cn_node *node = op->mem->node[op->node];
	struct lend_memview view;
	bool fine = len > 24 && lend_memview_decode(body + 24, len - 24, &view) &&
		    lend_load_u64(body + 16) == op->part && node->pool->key == op->pool &&
		    is_whole(node->pool, &view, op->part);

	if (fine)
		copy_frames(op, node->pool, &view);
	gets += fine;
	if (op->life == node->life) {
		cn_pool_forget(node, op->id);
		op->id = 0; /* its slot stays until the node has confirmed that */
	}
	return fine;
}

bool cn_pool_get_after(struct cn_op *op, enum lend_status status, const uint8_t *body, size_t len)
{
	if (status == LEND_OK && take_frames(op, body, len)) {
		op->at += op->part;
		return op->at < op->len;
	}
	if (status == LEND_NOT_FOUND || status == LEND_ABORTED)
		return false;
	fall_back(op);
	return true;
}

/* A run of frames in the mapping of all frames. */
struct run_view {
	struct cn_view view; /* first */
	struct cn_pool_map *map;
};

/* Returns whether the frames of the reference may be mapped. */
static bool may_map(struct cn_op *op)
{
	struct cn_node *node = op->mem->node[op->node];
	struct lend_memref ref;

	cn_ref_in(&ref, &cn_op_outer(op)->ref);
	return cn_pool_key(node) && node->pool->frames && !(NEEDED & ~lend_memref_rights(&ref));
}

/* The bytes of the view are copied. */
static void refuse_view(struct cn_op *op)
{
	op->refused = true;
	copied_args++;
	lend_ref_count(&lend_ref_counts.copied);
}

int cn_pool_view_before(struct cn_op *op)
{
	if (op->mem->node[op->node]->pool && op->len >= POOL_MIN && !op->refused) {
		if (may_map(op) && cn_space_take(op->mem, &op->space) == 0) {
			op->kind = LEND_MEMOP_MAP;
			return CN_GO;
		}
		refuse_view(op);
	}
	return cn_arg_view_alloc(op) ? CN_GO : LEND_RESOURCE_EXHAUSTED;
}

static void close_run(struct cn_view *view)
{
	cn_pool_map_drop(((struct run_view *)(void *)view)->map);
	free(view);
}

static const struct cn_view_ops run_ops = {.close = close_run};

/* Returns whether the frames are one run inside the mapping that has all bytes of the space. */
static bool is_one_run(const struct cn_shown *shown, const struct cn_pool_map *map, uint64_t len)
{
	const struct lend_memextent *e = shown->extent;

	return shown->n == 1 && e->frame && shown->base < map->page &&
	       ((uint64_t)e->frame + e->pages) * map->page <= map->size &&
	       (uint64_t)e->pages * map->page >= shown->base + len;
}

static int open_run(const struct cn_space *space, struct cn_pool_map *map, struct cn_view **out)
{
	const struct cn_shown *shown = space->shown;
	struct run_view *v = calloc(1, sizeof(*v));
	uint64_t at = (uint64_t)shown->extent[0].frame * map->page + shown->base;

	if (!v)
		return -1;
	*v = (struct run_view){{&run_ops, (char *)(uintptr_t)map->at + at, space->len}, map};
	map->refs++;
	*out = &v->view;
	return 0;
}

/* Shows all bytes of the operation's space as memory. Returns false: they must be copied. */
static bool show_space(struct cn_op *op)
{
	struct cn_space *space = &op->mem->space[op->space];
	struct cn_node *node = op->mem->node[op->node];
	uint64_t key = cn_pool_key(node);
	int rc;

	if (!key || !space->shown || space->shown->key != key || space->len != op->len)
		return false;
	if (node->pool->frames && is_one_run(space->shown, node->pool->frames, space->len))
		rc = open_run(space, node->pool->frames, &space->view);
	else
		rc = cn_pool_ops.open(op->mem, op->space, &space->view);
	if (rc < 0)
		return false;
	cn_arg_view_space(op->out, space->view->base,
			  (lend_space){cn_space_handle(op->mem, op->space)});
	return true;
}

bool cn_pool_view_after(struct cn_op *op, enum lend_status *status)
{
	if (*status == LEND_OK && show_space(op)) {
		shown_args++;
		lend_ref_count(&lend_ref_counts.in_place);
		return false;
	}
	if (*status == LEND_NOT_FOUND || *status == LEND_ABORTED)
		return false;
	refuse_view(op);
	cn_space_orphan(op->mem, op->space);
	op->space = UINT32_MAX;
	op->kind = LEND_MEMOP_GET;
	op->step = CN_STEP_ONLY;
	return true;
}
