/* page_fetch - fetches touched pages, and those that will be touched next, for the waiting threads.
 *
 * A pull is one run of missing pages, from the cache or by one READ. A pull that a thread waits for
 * fills its pages when they arrive. A readahead pull fills all but its first page, and keeps that
 * one back (parked). A touch that waits for this page shows that the scan goes on: the next run is
 * requested while the scan goes through this one. So a scan waits for a node only while it is
 * faster than the network.
 *
 * A failed READ is retried until PATIENCE has passed. Then all missing pages of that memory read as
 * zeros, and it is marked torn. Threads wait in the kernel and retry their access when they are
 * woken, so this file keeps no list of waiting threads.
 * Layer: cn. Threads: the pager's, under its lock; done functions take it. */
#include "cn/paging/page_fetch.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "cn/paging/page_source.h"
#include "cn/paging/pager.h"
#include "sys/uffd.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/check.h"

#define PATIENCE UINT64_C(5000000000) /* ns; equals the default timeout of an operation */
#define RETRY    UINT64_C(20000000)

enum { PULLS = 32 };
#define LANDING ((size_t)PULLS * CN_READAHEAD_MAX * CN_PAGE)

/* FREE -> FLIGHT -> FREE, or -> AGAIN -> FLIGHT, or -> PARKED -> FREE; FREE -> PARKED */
enum state { FREE, FLIGHT, AGAIN, PARKED };

struct pull {
	enum state state;
	bool ahead;              /* readahead: no thread waits for it */
	bool store;              /* the thread that waits for the first page wants to store */
	struct cn_paged_view *f; /* NULL: the memory was freed */
	uint64_t first, n;       /* pages */
	lend_ns until, again;
	uint32_t age;            /* of a parked pull: its number in the order of parking */
	struct cn_page_read ask; /* its READ; ask.bytes: landing memory of CN_READAHEAD_MAX pages */
};

static struct pull pulls[PULLS];
static uint32_t ages;
static struct lend_ep *ep;
static char *landing; /* allocated page by page when used */
static uint64_t misses, aheads, zeros;

static uint64_t start_pull(struct cn_paged_view *f, uint64_t first, uint64_t n, bool ahead,
			   bool store);

/* Returns the pull that a page is part of. */
static struct pull *find_covering(const struct cn_paged_view *f, uint64_t page)
{
	for (int i = 0; i < PULLS; i++) {
		struct pull *p = &pulls[i];

		if (p->state != FREE && p->f == f && page - p->first < p->n)
			return p;
	}
	return NULL;
}

static void let_go(struct pull *p)
{
	p->state = FREE;
	p->f = NULL;
}

/* Fills the first page of a parked pull. */
static void unpark_pull(struct pull *p, bool store)
{
	cn_paged_fill(p->f, p->first, 1, p->ask.bytes, store);
	let_go(p);
}

static struct pull *oldest_parked(void)
{
	struct pull *old = NULL;

	for (int i = 0; i < PULLS; i++)
		if (pulls[i].state == PARKED && (!old || pulls[i].age - old->age > UINT32_MAX / 2))
			old = &pulls[i];
	return old;
}

static struct pull *find_free(void)
{
	for (int i = 0; i < PULLS; i++)
		if (pulls[i].state == FREE && !pulls[i].ask.lent)
			return &pulls[i];
	return NULL;
}

bool cn_page_fetch_room(void)
{
	return find_free() || oldest_parked();
}

static struct pull *take_pull(void)
{
	struct pull *p = find_free(), *old = p ? NULL : oldest_parked();

	if (old) {
		unpark_pull(old, false);
		p = old;
	}
	return p;
}

/* Fetches the next run of the scan, unless it is under way. */
static void run_ahead(struct cn_paged_view *f, uint64_t first, uint32_t window)
{
	if (window > 1 && !f->singly && first < f->pages && cn_paged_missing(f, first, 1) &&
	    !find_covering(f, first))
		(void)start_pull(f, first, window, true, false);
}

/* Fills the pages of a pull when their bytes have arrived. */
static void land_pull(struct pull *p)
{
	struct cn_paged_view *f = p->f;
	uint64_t skip = p->ahead;

	if (skip) {
		p->state = PARKED;
		p->age = ++ages;
	}
	if (p->store)
		cn_paged_fill(f, p->first, ++skip, p->ask.bytes, true);
	if (p->n > skip)
		cn_paged_fill(f, p->first + skip, p->n - skip, p->ask.bytes + skip * CN_PAGE,
			      false);
	if (p->state != PARKED)
		let_go(p);
}

/* Marks the memory torn and wakes the waiting threads; their retried faults read zeros. */
static void tear_view(struct cn_paged_view *f)
{
	atomic_store(&f->torn, true);
	lend_uffd_wake(f->fd, f->view.base, f->pages * CN_PAGE);
}

static void pull_failed(struct pull *p, bool for_good)
{
	struct cn_paged_view *f = p->f;

	if (p->ahead || !f) {
		let_go(p);
	} else if (for_good || lend_now(ep) >= p->until) {
		let_go(p);
		tear_view(f);
	} else {
		p->state = AGAIN;
		p->again = lend_now(ep) + RETRY;
	}
}

/* Ends a pull with a page that the node has lost. From now on pages are fetched one by one, which
 * shows which page it is. */
static void split_pull(struct pull *p)
{
	struct cn_paged_view *f = p->f;

	f->singly = true;
	lend_uffd_wake(f->fd, f->view.base + p->first * CN_PAGE, p->n * CN_PAGE);
	let_go(p);
}

static bool may_pass(enum lend_status status)
{
	return status == LEND_UNAVAILABLE || status == LEND_DEADLINE_EXCEEDED ||
	       status == LEND_RESOURCE_EXHAUSTED || status == LEND_CANCELLED;
}

static void read_done(struct cn_page_read *ask, enum lend_status status, uint64_t len)
{
	struct pull *p = (struct pull *)((char *)ask - offsetof(struct pull, ask));

	cn_pager_lock();
	if (!p->f) {
		let_go(p);
	} else if (status == LEND_OK && len == cn_paged_len(p->f, p->first, p->n)) {
		cn_paged_keep(p->f, p->first, p->n, p->ask.bytes);
		misses += p->n;
		aheads += p->ahead ? p->n : p->n - 1;
		land_pull(p);
	} else if (status == LEND_DATA_LOSS && p->n > 1) {
		split_pull(p);
	} else {
		pull_failed(p, !may_pass(status));
	}
	cn_pager_unlock();
}

static void send_read(struct pull *p)
{
	struct cn_paged_view *f = p->f;
	struct lend_memop say = {.kind = LEND_MEMOP_READ,
				 .client = f->client,
				 .life = f->life,
				 .space = f->wire,
				 .offset = p->first * CN_PAGE,
				 .len = cn_paged_len(f, p->first, p->n)};
	lend_ns now = lend_now(ep);

	p->state = FLIGHT;
	p->ask.priority = p->ahead ? CN_GUESS : 0;
	if (!cn_page_read_start(&p->ask, f->home, &say, p->until > now ? p->until - now : 1))
		pull_failed(p, false);
}

/* Starts a pull for the first of these missing pages. Returns how many it covers; 0: no room, which
 * cannot happen for a page that a thread waits for. */
static uint64_t start_pull(struct cn_paged_view *f, uint64_t first, uint64_t n, bool ahead,
			   bool store)
{
	struct pull *p = take_pull();
	uint64_t cached;

	if (!p)
		return 0;
	n = cn_paged_missing(f, first, f->singly ? 1 : n);
	for (uint64_t i = 1; i < n; i++)
		if (find_covering(f, first + i))
			n = i;
	cached = cn_paged_cached(f, first, n, p->ask.bytes);
	p->f = f;
	p->first = first;
	p->n = n = cached ? cached : cn_paged_uncached(f, first, n);
	p->ahead = ahead;
	p->store = store;
	p->until = lend_now(ep) + PATIENCE;
	if (cached)
		land_pull(p);
	else
		send_read(p);
	return n;
}

static void give_zeros(struct cn_paged_view *f, uint64_t page, bool store)
{
	static const char nothing[CN_PAGE];

	zeros += !f->zeros;
	cn_paged_fill(f, page, 1, nothing, store);
}

/* Notes that a thread waits for a page that is being fetched, or that a parked pull has kept back.
 */
static void note_waiting(struct pull *p, uint64_t page, bool store)
{
	struct cn_paged_view *f = p->f;
	struct cn_stream *s;

	if (page != p->first) {
		if (p->state == PARKED) /* the page was filled meanwhile */
			lend_uffd_wake(f->fd, f->view.base + page * CN_PAGE, CN_PAGE);
		else if (p->ahead)
			p->until = lend_now(ep) + PATIENCE;
		p->ahead &= p->state == PARKED;
		return;
	}
	if (p->state != PARKED && !p->ahead) { /* one more thread waits */
		p->store |= store;
		return;
	}
	s = cn_readahead_touch(&f->ahead, page);
	s->next = page + p->n;
	if (p->state == PARKED) {
		unpark_pull(p, store);
	} else {
		p->ahead = false;
		p->store = store;
		p->until = lend_now(ep) + PATIENCE;
	}
	run_ahead(f, s->next, s->window);
}

void cn_page_fetch_touch(struct cn_paged_view *f, uint64_t page, bool store)
{
	struct pull *p = find_covering(f, page);
	struct cn_stream *s;

	if (p) {
		note_waiting(p, page, store);
	} else if (!cn_paged_missing(f, page, 1)) {
		lend_uffd_wake(f->fd, f->view.base + page * CN_PAGE, CN_PAGE);
	} else if (f->zeros || atomic_load(&f->torn)) {
		give_zeros(f, page, store);
	} else {
		s = cn_readahead_touch(&f->ahead, page);
		s->next = page + start_pull(f, page, s->window, false, store);
		run_ahead(f, s->next, s->window);
	}
}

lend_ns cn_page_fetch_retry(lend_ns now)
{
	lend_ns next = LEND_NEVER;

	for (int i = 0; i < PULLS; i++) {
		struct pull *p = &pulls[i];

		if (p->state == AGAIN && p->again <= now && !p->ask.lent)
			send_read(p);
		if (p->state == AGAIN)
			next = lend_min_u64(next, p->again);
	}
	return next;
}

void cn_page_fetch_drop(struct cn_paged_view *f)
{
	for (int i = 0; i < PULLS; i++) {
		struct pull *p = &pulls[i];

		if (p->f != f)
			continue;
		p->f = NULL; /* a READ in flight ends by itself */
		if (p->state != FLIGHT)
			p->state = FREE;
	}
}

int cn_page_fetch_open(struct lend_ep *own)
{
	landing = mmap(NULL, LANDING, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (landing == MAP_FAILED)
		return lend_fail(ENOMEM, "no memory for pages in flight");
	memset(pulls, 0, sizeof(pulls));
	for (size_t i = 0; i < PULLS; i++) {
		pulls[i].ask.bytes = landing + i * CN_READAHEAD_MAX * CN_PAGE;
		pulls[i].ask.done = read_done;
	}
	cn_page_read_open(own);
	ep = own;
	return 0;
}

void cn_page_fetch_close(void)
{
	for (int i = 0; i < PULLS; i++)
		LEND_CHECK(pulls[i].state == FREE && !pulls[i].ask.lent);
	cn_page_read_close();
	munmap(landing, LANDING);
}

void cn_page_fetch_stat(struct lend_mem_cache_stat *stat)
{
	stat->misses = misses;
	stat->ahead = aheads;
	stat->zeros = zeros;
}
