/* Goal: the readahead window of a sequential scan doubles up to its limit, also when scans
 * interleave. A touch outside of any scan asks for one page. Method: a table of touches and
 * windows; then scans that alternate with random touches. Covers: cn/paging/readahead.c */
#include <criterion/criterion.h>

#include "cn/paging/readahead.h"
#include "util/rng.h"

/* Touches the page; returns the page after the last one that readahead asks for. */
static uint32_t touch_page(struct cn_readahead *ahead, uint64_t page)
{
	struct cn_stream *s = cn_readahead_touch(ahead, page);

	s->next = page + s->window;
	return s->window;
}

Test(readahead, table)
{
	static const struct {
		uint64_t page;
		uint32_t want;
	} row[] = {
	    {0, 1},     {1, 4},     {5, 8},     {13, 16},   {29, 32},
	    {61, 64},   {125, 128}, {253, 256}, {509, 256}, /* the window's limit */
	    {509, 1},                                       /* an equal page: a new scan */
	    {765, 256}, {1, 1},     {700, 1},   {510, 4},   {UINT64_MAX, 1},
	};
	struct cn_readahead ahead = {0};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_assert_eq(touch_page(&ahead, row[i].page), row[i].want, "row %zu", i);
}

Test(readahead, touch__interleaved_scans__each_window_doubles)
{
	struct cn_readahead ahead = {0};
	uint64_t next[CN_READAHEAD_STREAMS];
	uint32_t window[CN_READAHEAD_STREAMS];
	struct lend_rng rng;

	lend_rng_seed(&rng, 1);
	for (int i = 0; i < CN_READAHEAD_STREAMS; i++) {
		next[i] = (uint64_t)i << 20;
		window[i] = touch_page(&ahead, next[i]);
		next[i] += window[i];
	}
	for (int step = 0; step < 1000; step++) {
		int i = (int)lend_rng_below(&rng, CN_READAHEAD_STREAMS);
		uint32_t now = touch_page(&ahead, next[i]);

		cr_assert_eq(now, window[i] == 1                  ? CN_READAHEAD_MIN
				  : window[i] == CN_READAHEAD_MAX ? CN_READAHEAD_MAX
								  : window[i] * 2);
		window[i] = now;
		next[i] += now;
	}
}

/* A stray touch replaces the scan that was idle longest. */
Test(readahead, touch__stray__replaces_the_idle_scan)
{
	struct cn_readahead ahead = {0};
	uint32_t window = touch_page(&ahead, 100), before;
	uint64_t next = 100 + window;

	for (uint64_t i = 0; i < 100; i++) {
		for (uint64_t k = 1; k < CN_READAHEAD_STREAMS; k++)
			cr_assert_eq(touch_page(&ahead, 1000000 + i * 50 + k * 10), 1);
		before = window;
		window = touch_page(&ahead, next);
		cr_assert_geq(window, before);
		next += window;
	}
	cr_assert_eq(window, CN_READAHEAD_MAX);
}
