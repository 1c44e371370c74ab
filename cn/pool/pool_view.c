/* pool_view - a space as the node's own frames, mapped privately: the kernel copies a page at its
 * first store, and dirty_pages finds the copies.
 * Layer: cn. Threads: the endpoint's; the memory is touched by any. */
#include "cn/pool/pool_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/last_error.h"
#include "util/bits.h"

enum { PAGE = 4096 };
#define CALL_TIMEOUT UINT64_C(5000000000)

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

struct pool_view {
	struct cn_view view; /* first */
	struct cn_pane pane; /* the memory, if it is in the pool's window */
	uint64_t taken;      /* bytes of it that the seal under way has passed */
	struct cn_dirty_pages marks;
};

static struct pool_view *self(const struct cn_view *view)
{
	return (struct pool_view *)(uintptr_t)view;
}

/* Asks the node for frames that it has not reported yet, from a page on. */
static int query_frames(struct lend_mem *mem, struct cn_space *space, uint64_t page,
			struct lend_memview *out)
{
	struct cn_node *node = mem->node[space->node];
	struct lend_memop say = {.kind = LEND_MEMOP_POOL_VIEW,
				 .client = mem->client,
				 .life = space->life,
				 .low = node->low,
				 .space = space->wire,
				 .offset = page,
				 .target = cn_pool_key(node)};
	struct lend_call call = {.method = LEND_MEM_METHOD, .timeout = CALL_TIMEOUT};
	uint8_t body[LEND_MEMVIEW_MAX];
	size_t len = 0;
	int rc;

	call.request = cn_op_encode(mem, &say);
	if (!call.request)
		return lend_fail(ENOMEM, "no message buffer to ask a pool for a space");
	rc = lend_call_sync(mem->ep, node->session, &call);
	if (rc == 0 && call.status == LEND_OK)
		len = cn_buf_read(call.reply, body, sizeof(body));
	if (call.request)
		lend_buf_give(mem->ep, call.request);
	if (call.reply)
		lend_buf_give(mem->ep, call.reply);
	if (rc == -EDEADLK)
		return lend_fail(
		    EDEADLK, "a handler cannot map a space of a pool: call lend_space_pointer() "
			     "before the first write, or outside handlers");
	if (rc < 0)
		return rc;
	if (call.status != LEND_OK || len > sizeof(body) || !lend_memview_decode(body, len, out))
		return lend_fail(EIO, "%s did not send the page list of this space: status %d",
				 node->address, call.status);
	return 0;
}

/* Gets all runs of the space as it is now. -EOPNOTSUPP: too many. */
static int learn_runs(struct lend_mem *mem, struct cn_space *space)
{
	struct lend_memview view;
	bool stale =
	    space->written || !space->shown ||
	    space->shown->key != mem->node[space->node]->pool->key; /* from before a restart */
	int rc;

	if (stale && !space->shown)
		space->shown = malloc(sizeof(*space->shown));
	if (!space->shown)
		return lend_fail(ENOMEM, "no memory for a view of a space");
	if (stale) {
		memset(space->shown, 0, sizeof(*space->shown));
		space->shown->key = mem->node[space->node]->pool->key;
	}
	while (stale || space->shown->received < space->shown->pages) {
		if (space->shown->n == LEND_MEM_EXTENTS_MAX)
			return lend_fail(EOPNOTSUPP,
					 "a space in more than %u pieces is not mapped: read it",
					 LEND_MEM_EXTENTS_MAX);
		rc = query_frames(mem, space, space->shown->received, &view);
		if (rc < 0)
			return rc;
		if (!view.n || !cn_pool_take(space->shown, &view))
			return lend_fail(EIO, "%s contradicts itself about its pages",
					 mem->node[space->node]->address);
		stale = false;
	}
	return 0;
}

/* Returns the error of a failed mmap(). Devices and huge pages restrict what can be mapped:
 * EOPNOTSUPP. */
static int map_error(const struct pool_view *v)
{
	return lend_fail(
	    errno == EINVAL || errno == ENODEV ? EOPNOTSUPP : errno,
	    "mapping %llu bytes of a pool: %s; read them instead, or let the node have "
	    "--memory memfd",
	    (unsigned long long)v->marks.len, strerror(errno));
}

static int map_run(struct pool_view *v, const struct cn_pool *pool, uint64_t at,
		   const struct lend_memextent *e)
{
	uint64_t from = (uint64_t)e->frame * pool->page, len = (uint64_t)e->pages * pool->page;

	if (!e->frame) {
		v->marks.hole[v->marks.n++] = (struct cn_hole){at, at + len};
		return 0;
	}
	if (from > pool->size || len > pool->size - from)
		return lend_fail(EIO, "a pool sent page numbers that are out of range");
	if (mmap(v->marks.map + at, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, pool->file, (off_t)from) != MAP_FAILED)
		return 0;
	return map_error(v);
}

/* Reserves the whole address range first, so that no other mapping gets into it. A single run needs
 * one mapping only. */
static int map_all(struct pool_view *v, const struct cn_pool *pool, const struct cn_shown *shown)
{
	const struct lend_memextent *e = shown->extent;
	uint64_t at = 0, size = pool->size;
	bool one = shown->n == 1 && e->frame && (uint64_t)e->frame * pool->page <= size &&
		   v->marks.len <= size - (uint64_t)e->frame * pool->page;
	int flags = MAP_PRIVATE | MAP_NORESERVE | (one ? 0 : MAP_ANONYMOUS), rc = 0;

	if (one)
		v->marks.map = cn_pane_take(&v->pane, pool->window, (uint64_t)e->frame * pool->page,
					    v->marks.len);
	if (v->marks.map)
		return 0;
	v->marks.map = mmap(NULL, v->marks.len, PROT_READ | PROT_WRITE, flags,
			    one ? pool->file : -1, one ? (off_t)e->frame * pool->page : 0);
	if (v->marks.map == MAP_FAILED)
		return map_error(v);
	for (uint32_t i = 0; i < shown->n && !one && rc == 0; i++) {
		rc = map_run(v, pool, at, &e[i]);
		at += (uint64_t)e[i].pages * pool->page;
	}
	if (rc < 0)
		munmap(v->marks.map, v->marks.len);
	return rc;
}

/* Maps zeros only; the node need not be asked for them. */
static int map_zeros(struct pool_view *v)
{
	v->marks.map = mmap(NULL, v->marks.len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_NORESERVE | MAP_ANONYMOUS, -1, 0);
	v->marks.hole[v->marks.n++] = (struct cn_hole){0, v->marks.len};
	return v->marks.map != MAP_FAILED ? 0
					  : lend_fail(ENOMEM, "no address range of %llu bytes",
						      (unsigned long long)v->marks.len);
}

static int build_view(struct lend_mem *mem, struct cn_space *space, struct pool_view *v)
{
	const struct cn_pool *pool = mem->node[space->node]->pool;
	int rc;

	if (!space->written && !space->from.version) {
		v->marks.len = lend_align_up(space->len, PAGE);
		rc = map_zeros(v);
		v->view.base = v->marks.map;
		return rc;
	}
	rc = learn_runs(mem, space);
	if (rc < 0)
		return rc;
	v->marks.len = space->shown->pages * pool->page;
	if (space->shown->base > v->marks.len || v->marks.len - space->shown->base < space->len)
		return lend_fail(EIO, "a pool sent fewer pages than the space has");
	rc = map_all(v, pool, space->shown);
	v->view.base = v->marks.map + space->shown->base;
	return rc;
}

static int open_view(struct lend_mem *mem, uint32_t index, struct cn_view **out)
{
	struct cn_space *space = &mem->space[index];
	struct cn_node *node = mem->node[space->node];
	struct pool_view *v;
	int rc;

	if (!cn_pool_key(node))
		return lend_fail(EPROTO, "%s", node->pool->why);
	v = malloc(sizeof(*v));
	if (!v)
		return lend_fail(ENOMEM, "no memory for a view of a space");
	memset(v, 0, offsetof(struct pool_view, marks.hole));
	rc = build_view(mem, space, v);
	if (rc < 0) {
		free(v);
		return rc;
	}
	if (!v->pane.window)
		(void)madvise(v->marks.map, v->marks.len, MADV_DONTFORK);
	v->marks.pagemap = node->pool->pagemap;
	v->marks.fd = node->pool->marks;
	v->view.ops = &cn_pool_ops;
	v->view.len = space->len;
	*out = &v->view;
	return 0;
}

static bool view_intact(const struct cn_view *view)
{
	(void)view;
	return true;
}

static bool take_stored(struct cn_view *view, uint64_t first, uint64_t end,
			struct lend_memslice *run)
{
	struct pool_view *v = self(view);
	uint64_t base = (uint64_t)(view->base - v->marks.map);
	uint64_t from = lend_max_u64((base + first) & ~(uint64_t)(PAGE - 1), v->taken);
	uint64_t to = lend_align_up(base + end, PAGE), last;

	if (from >= to)
		return false;
	from = cn_dirty_skip(&v->marks, from, to, false);
	v->taken = to;
	if (from >= to)
		return false;
	last = cn_dirty_skip(&v->marks, from, lend_min_u64(to, from + LEND_MEM_PART_MAX), true);
	v->taken = last;
	cn_dirty_take(&v->marks, from, last);
	run->offset = from > base ? from - base : 0;
	run->len = lend_min_u64(last - base, view->len) - run->offset;
	return true;
}

static void untake_stored(struct cn_view *view, const struct lend_memslice *run)
{
	struct pool_view *v = self(view);
	uint64_t at = (uint64_t)(view->base - v->marks.map) + run->offset;

	cn_dirty_untake(&v->marks, at & ~(uint64_t)(PAGE - 1), lend_align_up(at + run->len, PAGE));
	v->taken = 0;
}

static void seal_done(struct cn_view *view)
{
	self(view)->taken = 0;
}

/* Faults the pages in. Where the kernel cannot do that in advance, each touch does. */
static int fetch_pages(struct cn_view *view, struct cn_op *op)
{
	struct pool_view *v = self(view);
	uint64_t base = (uint64_t)(view->base - v->marks.map);
	uint64_t from = (base + op->offset) & ~(uint64_t)(PAGE - 1);

	(void)madvise(v->marks.map + from, base + op->offset + op->len - from, MADV_POPULATE_READ);
	return LEND_OK;
}

static void fetch_landed(struct cn_view *view, struct cn_op *op)
{
	(void)view;
	(void)op;
}

static void close_view(struct cn_view *view)
{
	struct pool_view *v = self(view);

	cn_dirty_close(&v->marks);
	if (v->pane.window)
		cn_pane_give(&v->pane);
	else
		munmap(v->marks.map, v->marks.len);
	free(view);
}

const struct cn_view_ops cn_pool_ops = {
    .open = open_view,
    .intact = view_intact,
    .take = take_stored,
    .untake = untake_stored,
    .sealed = seal_done,
    .fetch = fetch_pages,
    .landed = fetch_landed,
    .fetched = fetch_landed,
    .close = close_view,
};
