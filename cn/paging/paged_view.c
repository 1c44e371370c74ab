/* paged_view - a space over a network as memory: pages are fetched when they are touched.
 *
 * This file has the memory, its marks, seals and prefetches; pager.c serves the touches. Both fill
 * pages; the kernel accepts the first of two fills. A page is marked dirty before its first store
 * can happen. A seal clears the mark and protects the page before it sends the page. So a store is
 * either in the bytes that are sent, or marks the page again. Layer: cn. Threads: the endpoint's,
 * except for the parts that paged_view.h names. */
#include "cn/paging/paged_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cn/paging/pager.h"
#include "sys/uffd.h"
#include "sys/last_error.h"
#include "util/bits.h"

_Static_assert((int)CN_PAGE == (int)LEND_UFFD_PAGE, "one page");

enum { FETCH_PAGES = 256 };

static struct cn_paged_view *fault_of(const struct cn_view *view)
{
	return (struct cn_paged_view *)(uintptr_t)view;
}

static void mark_pages(_Atomic uint64_t *marks, uint64_t page, uint64_t n)
{
	for (uint64_t i = page; i < page + n; i++)
		atomic_fetch_or(&marks[i / 64], UINT64_C(1) << i % 64);
}

static void unmark_pages(_Atomic uint64_t *marks, uint64_t page, uint64_t n)
{
	for (uint64_t i = page; i < page + n; i++)
		atomic_fetch_and(&marks[i / 64], ~(UINT64_C(1) << i % 64));
}

/* Returns how many pages of [page, page + n) have a mark set, or not set, up to the first that
 * differs. */
static uint64_t run_length(const _Atomic uint64_t *marks, uint64_t page, uint64_t n, bool set)
{
	uint64_t i = 0;

	while (i < n) {
		uint64_t at = page + i;
		uint64_t word = atomic_load_explicit(&marks[at / 64], memory_order_acquire);

		word = (set ? ~word : word) >> at % 64;
		if (word)
			return lend_min_u64(n, i + (uint64_t)__builtin_ctzll(word));
		i += 64 - at % 64;
	}
	return n;
}

uint64_t cn_paged_present(const struct cn_paged_view *f, uint64_t page, uint64_t n)
{
	return run_length(f->present, page, lend_min_u64(n, f->pages - page), true);
}

uint64_t cn_paged_missing(const struct cn_paged_view *f, uint64_t page, uint64_t n)
{
	return run_length(f->present, page, lend_min_u64(n, f->pages - page), false);
}

uint64_t cn_paged_len(const struct cn_paged_view *f, uint64_t page, uint64_t n)
{
	return lend_min_u64(n * CN_PAGE, f->view.len - page * CN_PAGE);
}

void cn_paged_fill(struct cn_paged_view *f, uint64_t page, uint64_t n, const void *bytes,
		   bool stored)
{
	if (stored)
		mark_pages(f->stored, page, n);
	(void)lend_uffd_fill(f->fd, f->view.base + page * CN_PAGE, bytes, n * CN_PAGE, !stored);
	mark_pages(f->present, page, n);
}

void cn_paged_store(struct cn_paged_view *f, uint64_t page)
{
	mark_pages(f->stored, page, 1);
	lend_uffd_unprotect(f->fd, f->view.base + page * CN_PAGE, CN_PAGE);
}

static struct cn_cache_key key_of(const struct cn_paged_view *f, uint64_t page)
{
	struct cn_cache_key key = f->key;

	key.offset += page * CN_PAGE;
	key.len = (uint32_t)cn_paged_len(f, page, 1);
	return key;
}

uint64_t cn_paged_cached(const struct cn_paged_view *f, uint64_t page, uint64_t n, char *bytes)
{
	uint64_t i;

	for (i = 0; f->key.serial && i < n; i++) {
		struct cn_cache_key key = key_of(f, page + i);

		if (!cn_cache_find(&key, bytes + i * CN_PAGE))
			break;
	}
	return i;
}

uint64_t cn_paged_uncached(const struct cn_paged_view *f, uint64_t page, uint64_t n)
{
	uint64_t i;

	for (i = 0; f->key.serial && i < n; i++) {
		struct cn_cache_key key = key_of(f, page + i);

		if (cn_cache_has(&key))
			return i;
	}
	return n;
}

void cn_paged_keep(const struct cn_paged_view *f, uint64_t page, uint64_t n, char *bytes)
{
	uint64_t len = cn_paged_len(f, page, n);

	memset(bytes + len, 0, n * CN_PAGE - len);
	for (uint64_t i = 0; f->key.serial && i < n; i++) {
		struct cn_cache_key key = key_of(f, page + i);

		cn_cache_add(&key, bytes + i * CN_PAGE);
	}
}

static void destroy_view(struct cn_paged_view *f)
{
	if (f->view.base)
		lend_uffd_unmap(f->view.base, f->pages * CN_PAGE);
	free((void *)f->present);
	free((void *)f->stored);
	free(f);
}

/* Sets the cache key of its first page, unless the space has only zeros or was written to. */
static void set_key(struct cn_paged_view *f, const struct cn_space *space)
{
	if (space->written)
		return;
	f->zeros = !space->from.version;
	if (f->zeros)
		return;
	f->key.node = space->from.node;
	f->key.epoch = space->from.epoch;
	f->key.slot = space->from.slot;
	f->key.serial = space->from.serial;
	(void)lend_memref_range(&space->from, &f->key.offset);
}

static int map_view(struct cn_paged_view *f)
{
	void *base;
	int rc;

	f->present = calloc((f->pages + 63) / 64, sizeof(*f->present));
	f->stored = calloc((f->pages + 63) / 64, sizeof(*f->stored));
	if (!f->present || !f->stored)
		return lend_fail(ENOMEM, "no memory for the marks of %llu pages",
				 (unsigned long long)f->pages);
	rc = lend_uffd_map(f->fd, f->pages * CN_PAGE, &base);
	if (rc == 0)
		f->view.base = base;
	return rc;
}

static int open_view(struct lend_mem *mem, uint32_t index, struct cn_view **view)
{
	const struct cn_space *space = &mem->space[index];
	struct cn_paged_view *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return lend_fail(ENOMEM, "no memory to map another space");
	f->view.ops = &cn_fault_ops;
	f->view.len = space->len;
	f->pages = (space->len + CN_PAGE - 1) / CN_PAGE;
	f->client = mem->client;
	f->life = space->life;
	f->wire = space->wire;
	strcpy(f->home, mem->node[space->node]->home);
	set_key(f, space);
	rc = cn_pager_join(mem);
	f->fd = rc;
	if (rc >= 0)
		rc = map_view(f);
	if (rc == 0)
		rc = cn_pager_add(f);
	if (rc < 0) {
		destroy_view(f);
		return rc;
	}
	*view = &f->view;
	return 0;
}

static void close_view(struct cn_view *view)
{
	struct cn_paged_view *f = fault_of(view);

	if (!cn_pager_del(f))
		f->view.base = NULL; /* a fork's child: other memory may be mapped there */
	destroy_view(f);
}

static bool view_intact(const struct cn_view *view)
{
	return !atomic_load(&fault_of(view)->torn);
}

static bool take_stored(struct cn_view *view, uint64_t first, uint64_t end,
			struct lend_memslice *out)
{
	struct cn_paged_view *f = fault_of(view);
	uint64_t page = first / CN_PAGE, stop = (end + CN_PAGE - 1) / CN_PAGE, n;

	if (first >= end)
		return false;
	cn_pager_lock(); /* without the lock, the pager could unprotect a page between the two steps
			  */
	page += run_length(f->stored, page, stop - page, false);
	n = run_length(f->stored, page, lend_min_u64(stop - page, LEND_MEM_PART_MAX / CN_PAGE),
		       true);
	unmark_pages(f->stored, page, n);
	if (n)
		lend_uffd_protect(f->fd, f->view.base + page * CN_PAGE, n * CN_PAGE);
	cn_pager_unlock();
	if (!n)
		return false;
	out->offset = page * CN_PAGE;
	out->len = cn_paged_len(f, page, n);
	return true;
}

static void untake_stored(struct cn_view *view, const struct lend_memslice *slice)
{
	mark_pages(fault_of(view)->stored, slice->offset / CN_PAGE,
		   (slice->len + CN_PAGE - 1) / CN_PAGE);
}

/* The content of op->out: landing memory, and the pages that are wanted. */
struct fetch {
	struct iovec iov;
	uint64_t page, n; /* run of missing pages to READ; n 0: none */
	char bytes[];
};

static void skip_to(struct cn_op *op, uint64_t page)
{
	uint64_t end = op->offset + op->len, to = lend_min_u64(page * CN_PAGE, end);

	if (to > op->offset) {
		op->len = end - to;
		op->offset = to;
	}
}

/* Fills pages from the cache or with zeros, as far as possible. Returns true if a READ is needed,
 * of in->n pages from the one where op begins. */
static bool plan_read(struct cn_paged_view *f, struct cn_op *op, struct fetch *in)
{
	while (op->len) {
		uint64_t page = op->offset / CN_PAGE;
		uint64_t n = (op->offset + op->len - 1) / CN_PAGE + 1 - page, here;

		here = cn_paged_present(f, page, n);
		skip_to(op, page + here);
		if (here)
			continue;
		n = cn_paged_missing(f, page, lend_min_u64(n, FETCH_PAGES));
		here = f->zeros ? n : cn_paged_cached(f, page, n, in->bytes);
		if (f->zeros)
			memset(in->bytes, 0, n * CN_PAGE);
		if (!here) {
			in->page = page;
			in->n = cn_paged_uncached(f, page, n);
			return true;
		}
		cn_paged_fill(f, page, here, in->bytes, false);
	}
	return false;
}

static int fetch_pages(struct cn_view *view, struct cn_op *op)
{
	struct cn_paged_view *f = fault_of(view);
	struct fetch *in = op->out;

	if (!in)
		in = op->out = calloc(1, sizeof(*in) + FETCH_PAGES * CN_PAGE);
	if (!in)
		return LEND_RESOURCE_EXHAUSTED;
	if (!in->n && !plan_read(f, op, in))
		return LEND_OK;
	in->iov.iov_base = in->bytes;
	in->iov.iov_len = op->part = cn_paged_len(f, in->page, in->n);
	op->len += op->offset - in->page * CN_PAGE; /* pages are fetched whole */
	op->offset = in->page * CN_PAGE;
	op->one = in->iov;
	op->n = 1;
	return CN_GO;
}

static void fetch_landed(struct cn_view *view, struct cn_op *op)
{
	struct cn_paged_view *f = fault_of(view);
	struct fetch *in = op->out;

	cn_paged_keep(f, in->page, in->n, in->bytes);
	cn_paged_fill(f, in->page, in->n, in->bytes, false);
	cn_pager_prefetched(in->n);
	in->n = 0;
}

static void fetch_over(struct cn_view *view, struct cn_op *op)
{
	(void)view;
	free(op->out);
	op->out = NULL;
}

const struct cn_view_ops cn_fault_ops = {
    .open = open_view,
    .intact = view_intact,
    .take = take_stored,
    .untake = untake_stored,
    .fetch = fetch_pages,
    .landed = fetch_landed,
    .fetched = fetch_over,
    .close = close_view,
};
