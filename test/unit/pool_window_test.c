/* Goal: a window shows a file's bytes as they are now, keeps stores private to one space at a time,
 * and refuses ranges that it cannot show. Method: a memfd that is written through another mapping;
 * panes (parts of the window) taken and given back, first by a table of ranges, then at random
 * against a model of the owners. Covers: cn/pool/pool_window.c */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cn/pool/pool_window.h"
#include "util/rng.h"

enum { PAGE = 4096, PAGES = 2048, SIZE = PAGES * PAGE };

struct fixture {
	int file, pagemap;
	char *shared; /* the node's mapping */
	struct cn_window *window;
};

static struct fixture f;

static void open_all(void)
{
	f.file = memfd_create("window", MFD_CLOEXEC);
	f.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	cr_assert(f.file >= 0 && f.pagemap >= 0 && ftruncate(f.file, SIZE) == 0);
	f.shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f.file, 0);
	cr_assert(f.shared != MAP_FAILED);
	for (int i = 0; i < PAGES; i++)
		memset(f.shared + (size_t)i * PAGE, 1 + i % 200, PAGE);
	f.window = cn_window_open(f.file, SIZE, f.pagemap);
	cr_assert(f.window);
}

static void close_all(void)
{
	cn_window_close(f.window);
	munmap(f.shared, SIZE);
	close(f.file);
	close(f.pagemap);
}

TestSuite(pool_window, .init = open_all, .fini = close_all);

Test(pool_window, shows_the_file_as_it_is_now)
{
	struct cn_pane pane = {.window = NULL};
	char *at = cn_pane_take(&pane, f.window, 3 * PAGE, 2 * PAGE);

	cr_assert(at && at[0] == 4 && at[PAGE] == 5);
	cn_pane_give(&pane);
	f.shared[3 * PAGE] = 77; /* another mapping changes the frame */
	at = cn_pane_take(&pane, f.window, 3 * PAGE, PAGE);
	cr_assert(at && at[0] == 77);
	cn_pane_give(&pane);
}

Test(pool_window, stores_are_private_and_end_with_the_space)
{
	struct cn_pane pane = {.window = NULL};
	char *at = cn_pane_take(&pane, f.window, 0, SIZE / 2);

	for (int i = 0; i < PAGES / 2; i += 1 + i % 3)
		at[(size_t)i * PAGE + 9] = 99;
	for (int i = 0; i < PAGES; i++)
		cr_assert(f.shared[(size_t)i * PAGE + 9] == (char)(1 + i % 200));
	cn_pane_give(&pane);
	at = cn_pane_take(&pane, f.window, 0, SIZE / 2);
	cr_assert(memcmp(at, f.shared, SIZE / 2) == 0);
	cn_pane_give(&pane);
}

/* For a process that locked its memory. */
Test(pool_window, locked_pages_go_as_well)
{
	struct cn_pane pane = {.window = NULL};
	char *at = cn_pane_take(&pane, f.window, 8 * PAGE, 4 * PAGE);

	if (mlock(at, 4 * PAGE) < 0)
		cr_skip_test("no memory may be locked here");
	memset(at, 99, 4 * PAGE);
	cn_pane_give(&pane);
	at = cn_pane_take(&pane, f.window, 8 * PAGE, 4 * PAGE);
	cr_assert(at && memcmp(at, f.shared + 8 * PAGE, 4 * PAGE) == 0);
	cn_pane_give(&pane);
}

Test(pool_window, refuses_what_it_cannot_show)
{
	static const struct {
		uint64_t from, len;
		bool fits;
	} row[] = {
	    {8 * PAGE, 4 * PAGE, false}, /* pages 8 .. 15 are taken */
	    {4 * PAGE, 4 * PAGE, true},
	    {4 * PAGE, 5 * PAGE, false},
	    {16 * PAGE, PAGE, true},
	    {15 * PAGE, PAGE, false},
	    {0, 32 * PAGE, false},
	    {20 * PAGE, 0, false},
	    {20 * PAGE + 1, PAGE, false},
	    {20 * PAGE, PAGE + 1, false},
	    {SIZE - PAGE, PAGE, true},
	    {SIZE - PAGE, 2 * PAGE, false},
	    {SIZE, PAGE, false},
	    {UINT64_MAX - PAGE + 1, PAGE, false},
	    {PAGE, UINT64_MAX - PAGE + 1, false},
	    {1024 * PAGE, (4 << 20) - PAGE, true},
	    {1024 * PAGE, (4 << 20) + PAGE, false},
	};
	struct cn_pane held = {.window = NULL}, pane = {.window = NULL};

	cr_assert(cn_pane_take(&held, f.window, 8 * PAGE, 8 * PAGE));
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char *at = cn_pane_take(&pane, f.window, row[i].from, row[i].len);

		cr_assert((at != NULL) == row[i].fits, "row %zu", i);
		if (at)
			cn_pane_give(&pane);
	}
	cr_assert(!cn_pane_take(&pane, NULL, 0, PAGE));
	cn_pane_give(&held);
	cr_assert(!cn_window_open(f.file, SIZE + 1, f.pagemap));
	cr_assert(!cn_window_open(f.file, SIZE, -1));
	cr_assert(!cn_window_open(open("/dev/zero", O_RDWR | O_CLOEXEC), SIZE, f.pagemap));
}

Test(pool_window, a_pane_outlives_its_window)
{
	struct cn_window *other = cn_window_open(f.file, SIZE, f.pagemap);
	struct cn_pane a = {.window = NULL}, b = {.window = NULL};
	char *at = cn_pane_take(&a, other, PAGE, PAGE);

	cr_assert(at && cn_pane_take(&b, other, 5 * PAGE, PAGE));
	cn_pane_give(&b);
	cn_window_close(other);
	at[1] = 3;
	cr_assert(at[0] == 2 && at[1] == 3);
	cn_pane_give(&a);
}

/* The owner of each page, and what it stored there. */
Test(pool_window, at_random_against_a_model)
{
	enum { PANES = 70, STEPS = 20000 };
	static struct cn_pane pane[PANES];
	static char *at[PANES];
	static uint8_t owner[PAGES]; /* pane + 1 */
	uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0) : (uint64_t)getpid();
	struct lend_rng rng;
	unsigned taken = 0;

	cr_log_info("SEED=%llu", (unsigned long long)seed);
	lend_rng_seed(&rng, seed);
	for (int step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)lend_rng_below(&rng, PANES);
		uint64_t first = lend_rng_below(&rng, PAGES), n = 1 + lend_rng_below(&rng, 30);
		bool free = first + n <= PAGES && taken < 64;

		if (at[i]) {
			for (uint64_t p = 0; p < pane[i].len / PAGE; p++)
				owner[pane[i].from / PAGE + p] = 0;
			cn_pane_give(&pane[i]);
			at[i] = NULL;
			taken--;
			continue;
		}
		for (uint64_t p = first; p < first + n && p < PAGES; p++)
			free = free && !owner[p];
		at[i] = cn_pane_take(&pane[i], f.window, first * PAGE, n * PAGE);
		cr_assert((at[i] != NULL) == free, "step %d, SEED=%llu", step,
			  (unsigned long long)seed);
		if (!at[i])
			continue;
		taken++;
		f.shared[first * PAGE + lend_rng_below(&rng, PAGE)]++;
		cr_assert(memcmp(at[i], f.shared + first * PAGE, n * PAGE) == 0,
			  "step %d, SEED=%llu", step, (unsigned long long)seed);
		memset(owner + first, (int)i + 1, n);
		at[i][lend_rng_below(&rng, n) * PAGE + 5] ^= 0x5a;
	}
	for (unsigned i = 0; i < PANES; i++)
		if (at[i])
			cn_pane_give(&pane[i]);
}
