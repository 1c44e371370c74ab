/* Goal: a scan's window doubles up to its limit, whatever scans run beside it; other touches ask
 * for one page each. Method: a table of touches and windows; then scans that take turns among
 * random touches. */
#include <criterion/criterion.h>

#include "cn/paging/readahead.h"
#include "util/rng.h"

/* A touch, and where its pages end. */
static uint32_t touch(struct cn_ahead *ahead, uint64_t page)
{
	struct cn_stream *s = cn_ahead_touch(ahead, page);

	s->next = page + s->window;
	return s->window;
}

Test(ahead, table)
{
	static const struct {
		uint64_t page;
		uint32_t want;
	} row[] = {
	    {0, 1},     {1, 4},     {5, 8},     {13, 16},   {29, 32},
	    {61, 64},   {125, 128}, {253, 256}, {509, 256}, /* the limit */
	    {509, 1},                                       /* once more where it was: a new one */
	    {765, 256}, {1, 1},     {700, 1},   {510, 4},   {UINT64_MAX, 1},
	};
	struct cn_ahead ahead = {0};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_assert_eq(touch(&ahead, row[i].page), row[i].want, "row %zu", i);
}

Test(ahead, scans_beside_each_other)
{
	struct cn_ahead ahead = {0};
	uint64_t next[CN_AHEAD_STREAMS];
	uint32_t window[CN_AHEAD_STREAMS];
	struct lend_rng rng;

	lend_rng_seed(&rng, 1);
	for (int i = 0; i < CN_AHEAD_STREAMS; i++) {
		next[i] = (uint64_t)i << 20;
		window[i] = touch(&ahead, next[i]);
		next[i] += window[i];
	}
	for (int step = 0; step < 1000; step++) {
		int i = (int)lend_rng_below(&rng, CN_AHEAD_STREAMS);
		uint32_t now = touch(&ahead, next[i]);

		cr_assert_eq(now, window[i] == 1              ? CN_AHEAD_MIN
				  : window[i] == CN_AHEAD_MAX ? CN_AHEAD_MAX
							      : window[i] * 2);
		window[i] = now;
		next[i] += now;
	}
}

/* One that was quiet makes room first. */
Test(ahead, a_stray_touch_spares_the_busy)
{
	struct cn_ahead ahead = {0};
	uint32_t window = touch(&ahead, 100), before;
	uint64_t next = 100 + window;

	for (uint64_t i = 0; i < 100; i++) {
		for (uint64_t k = 1; k < CN_AHEAD_STREAMS; k++)
			cr_assert_eq(touch(&ahead, 1000000 + i * 50 + k * 10), 1);
		before = window;
		window = touch(&ahead, next);
		cr_assert_geq(window, before);
		next += window;
	}
	cr_assert_eq(window, CN_AHEAD_MAX);
}
