/* Goal: exactly the pages of a view that were stored to since the last scan count as dirty; on a
 * kernel without dirty marks at least those do. Zero pages that need not be sent are left out.
 * Method: a private mapping of a memfd with an anonymous hole, random loads and stores (zeros, too)
 * against a model with a flag per page; a thread that stores while pages are scanned. Covers:
 * cn/pool/dirty_pages.c */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cn/pool/dirty_pages.h"
#include "lend/rpc.h"
#include "sys/uffd.h"
#include "util/rng.h"

/* The hole is longer than a huge page, and begins inside the first range that is watched. */
enum { PAGE = 4096, PAGES = 2600, HOLE = 700, HOLE_END = 2000, LEN = PAGES * PAGE };

static struct cn_dirty_pages m;

static void open_marks(int how)
{
	int file = memfd_create("marks", MFD_CLOEXEC);
	char *shared;

	cr_assert(file >= 0 && ftruncate(file, LEN) == 0);
	shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	cr_assert(shared != MAP_FAILED);
	memset(shared, 1, LEN);
	munmap(shared, LEN);
	m = (struct cn_dirty_pages){.len = LEN, .fd = how < 0 ? -1 : lend_uffd_marks(), .n = 1};
	m.map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	cr_assert(m.map != MAP_FAILED);
	cr_assert(mmap(m.map + HOLE * PAGE, (HOLE_END - HOLE) * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	(void)madvise(m.map + HOLE * PAGE, (HOLE_END - HOLE) * PAGE, MADV_HUGEPAGE);
	m.hole[0] = (struct cn_hole){HOLE * PAGE, HOLE_END * PAGE};
	m.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(m.pagemap, 0);
	close(file);
}

static void close_marks(void)
{
	cn_dirty_close(&m);
	munmap(m.map, LEN);
	close(m.pagemap);
	if (m.fd >= 0)
		close(m.fd);
}

/* The model's state of a page. */
struct page {
	bool stored, sent;
	char byte;
};

static bool is_due(const struct page *page, uint64_t i)
{
	bool hole = i >= HOLE && i < HOLE_END;

	return page->stored && (!hole || page->byte || page->sent);
}

static void store(struct page *page, struct lend_rng *rng)
{
	uint64_t i = lend_rng_below(rng, PAGES),
		 n = 1 + lend_rng_below(rng, lend_rng_below(rng, 9) ? 5 : PAGES);
	char byte = (char)lend_rng_below(rng, 3);

	for (; n-- && i < PAGES; i++) {
		if (lend_rng_below(rng, 3) == 0) {
			cr_assert_eq(*(volatile char *)(m.map + i * PAGE), page[i].byte);
			continue;
		}
		m.map[i * PAGE] = page[i].byte = byte;
		page[i].stored = true;
	}
}

/* Scans run by run, as the seal of a range does; some runs fail to send. */
static void seal(struct page *page, struct lend_rng *rng, bool exact, uint64_t seed)
{
	uint64_t at = lend_rng_below(rng, PAGES) * PAGE;
	uint64_t end = at + (1 + lend_rng_below(rng, PAGES - at / PAGE)) * PAGE;

	while (at < end) {
		uint64_t first = cn_dirty_skip(&m, at, end, false);
		uint64_t last = cn_dirty_skip(&m, first, end, true);
		bool lost = lend_rng_below(rng, 8) == 0;

		for (uint64_t i = at / PAGE; i < first / PAGE; i++)
			cr_assert_not(is_due(&page[i], i), "seed %llu: page %llu is left out",
				      (unsigned long long)seed, (unsigned long long)i);
		for (uint64_t i = first / PAGE; i < last / PAGE; i++) {
			cr_assert(!exact || is_due(&page[i], i), "seed %llu: page %llu, again",
				  (unsigned long long)seed, (unsigned long long)i);
			page[i].stored = lost || !exact;
			page[i].sent = true;
		}
		cn_dirty_take(&m, first, last);
		if (lost)
			cn_dirty_untake(&m, first, last);
		at = last;
	}
}

static void seeds(int how)
{
	const char *text = getenv("LEND_SEED");
	uint64_t first = text ? strtoull(text, NULL, 0) : 1;
	struct page *page = malloc(PAGES * sizeof(*page));

	for (uint64_t seed = first; seed < first + (text ? 1 : 20); seed++) {
		struct lend_rng rng;

		lend_rng_seed(&rng, seed);
		open_marks(how);
		for (uint64_t i = 0; i < PAGES; i++)
			page[i] = (struct page){.byte = i < HOLE || i >= HOLE_END};
		for (int step = 0; step < 300; step++) {
			if (lend_rng_below(&rng, 10))
				store(page, &rng);
			else
				seal(page, &rng, how >= 0, seed);
		}
		close_marks();
	}
	free(page);
}

/* The build machine's kernel may be older than the dirty marks. */
Test(dirty_pages, exactly_what_was_stored)
{
	int fd = lend_uffd_marks();

	if (fd < 0)
		cr_skip_test("%s", lend_why());
	close(fd);
	seeds(0);
}

Test(dirty_pages, without_marks_nothing_is_left_out)
{
	seeds(-1);
}

static void *count_up(void *arg)
{
	atomic_bool *stop = arg;

	for (uint32_t n = 1; !atomic_load_explicit(stop, memory_order_relaxed); n++)
		for (uint64_t i = 0; i < 64; i++)
			atomic_store((_Atomic uint32_t *)(void *)(m.map + i * PAGE), n);
	return NULL;
}

/* A thread stores during scans: after it stops, one more scan must find its last stores. */
Test(dirty_pages, a_store_is_never_lost)
{
	atomic_bool stop = false;
	uint32_t copy[64] = {0};
	pthread_t thread;

	open_marks(0);
	cr_assert_eq(pthread_create(&thread, NULL, count_up, &stop), 0);
	while (!atomic_load(&stop)) {
		uint64_t at = 0, last;

		if (copy[63] > 2000 && copy[63] < 0x01010101) {
			atomic_store(&stop, true);
			pthread_join(thread, NULL);
		}
		for (; at < 64 * PAGE; at = last) {
			at = cn_dirty_skip(&m, at, 64 * PAGE, false);
			last = cn_dirty_skip(&m, at, 64 * PAGE, true);
			cn_dirty_take(&m, at, last);
			for (; at < last; at += PAGE)
				memcpy(&copy[at / PAGE], m.map + at, sizeof(copy[0]));
		}
	}
	for (int i = 0; i < 64; i++)
		cr_assert(!memcmp(&copy[i], m.map + i * PAGE, sizeof(copy[0])), "page %d", i);
	close_marks();
}
