#include "cn/pool/pool_get.h"

#include <string.h>

#include "cn/pool/pool_client.h"
#include "util/bits.h"

/* Shorter gets cost less than to pin and unpin frames. */
enum { COPY_MIN = 16 << 10, NEEDED = LEND_RIGHT_READ | LEND_RIGHT_MAP };

static _Atomic uint64_t gets, sent;

void cn_pool_get_stat(struct lend_mem_cache_stat *stat)
{
	stat->pool_gets = gets;
	stat->pool_gets_sent = sent;
}

/* The node has to send the bytes. */
static void fall_back(struct cn_op *op)
{
	op->by_message = true;
	sent++;
}

/* Names exactly the bytes of this call. Returns false: the reference cannot be used for that. */
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

/* Half of the ids stay free for other operations when the node is slow to unpin. */
static bool has_ids(const struct cn_node *node)
{
	return node->next - node->low < node->open / 2;
}

void cn_pool_get_say(struct cn_op *op, struct lend_memop *say)
{
	struct cn_node *node = op->mem->node[op->node];
	uint64_t key;

	op->pool = 0;
	if (!node->pool || say->len < COPY_MIN || op->by_message)
		return;
	key = cn_pool_key(node);
	if (!key || !node->pool->map || !has_ids(node) || !narrow_ref(op, say, &say->ref)) {
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
	uint64_t at; /* in the first of iov */
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
		const char *from = pool->map + (uint64_t)e->frame * pool->page + skip;
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
