/* Goal: whether an argument is lent, from calls that are tried both ways: windows of calls, times
 * that change, one block that other work slowed down, calls that end late or never. Covers:
 * cn/args/way_trial.c */
#include <criterion/criterion.h>

#include "cn/args/way_trial.h"

/* A closed loop: `window` calls in flight, of which one ends per step, in order. */
struct loop {
	struct cn_way_trial trial;
	uint64_t ns[2];   /* time per call; [1]: lent */
	uint32_t window;  /* 1 to 64 */
	uint32_t slow_at; /* this call and the 40 after it take ten times as long */
	uint32_t calls, lent;
	struct {
		uint8_t tag;
		bool lent;
	} flying[64];
};

static void run_calls(struct loop *loop, uint32_t n)
{
	loop->lent = 0;
	for (uint32_t end = loop->calls + n; loop->calls < end; loop->calls++) {
		uint32_t at = loop->calls % loop->window;
		bool slow = loop->slow_at && loop->calls - loop->slow_at < 40;

		if (loop->flying[at].tag)
			cn_trial_ended(&loop->trial, loop->flying[at].tag,
				       loop->ns[loop->flying[at].lent] * (slow ? 10 : 1));
		loop->flying[at].lent = cn_trial_choose(&loop->trial, &loop->flying[at].tag);
		loop->lent += loop->flying[at].lent;
	}
}

static const struct {
	uint64_t inline_ns, lent_ns;
	uint32_t window, slow_at;
	bool lends;
} cases[] = {
    {100, 130, 1, 0, false},  {100, 130, 4, 0, false}, {100, 130, 64, 0, false},
    {130, 100, 1, 0, true},   {130, 100, 64, 0, true}, {100, 100, 4, 0, true},
    {100, 104, 4, 0, true},   {100, 107, 4, 0, false}, {1, 1000000000000, 4, 0, false},
    {100, 130, 4, 36, false}, {130, 100, 4, 2, true},  {100, 130, 4, 100, false},
};

enum { TRIED = 600 }; /* calls in which a trial has ended */

Test(way_trial, the_faster_way_is_used_after_one_trial__whatever_the_window)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct loop loop = {.ns = {cases[i].inline_ns, cases[i].lent_ns},
				    .window = cases[i].window,
				    .slow_at = cases[i].slow_at};

		run_calls(&loop, TRIED);
		cr_assert_lt(loop.lent, TRIED, "case %zu: inline was never tried", i);
		run_calls(&loop, 1000);
		cr_assert_eq(loop.lent, cases[i].lends ? 1000 : 0, "case %zu: %u of 1000 lent", i,
			     loop.lent);
	}
}

Test(way_trial, times_that_change__are_found_by_the_next_trial)
{
	struct loop loop = {.ns = {100, 130}, .window = 4};

	run_calls(&loop, TRIED);
	loop.ns[0] = 200;
	run_calls(&loop, CN_TRIAL_PAUSE_MIN + TRIED);
	run_calls(&loop, 1000);
	cr_assert_eq(loop.lent, 1000);
}

Test(way_trial, the_same_result_again__pauses_longer__up_to_the_longest_pause)
{
	struct loop loop = {.ns = {130, 100}, .window = 4};
	uint32_t inlined, n = 1 << 20;

	run_calls(&loop, n);
	inlined = n - loop.lent;
	cr_assert_leq(inlined, n / 500, "%u of %u calls went the slower way", inlined, n);
	cr_assert_eq(loop.trial.pause, CN_TRIAL_PAUSE_MAX);
}

Test(way_trial, calls_of_an_earlier_block__do_not_count)
{
	struct cn_way_trial trial = {0};
	uint8_t tag, first;

	cn_trial_choose(&trial, &first);
	for (int i = 0; i < CN_TRIAL_BLOCK; i++) {
		cn_trial_ended(&trial, first, 100);
		cn_trial_choose(&trial, &tag);
	}
	cr_assert_neq(tag, first);
	for (int i = 0; i < 1000; i++)
		cn_trial_ended(&trial, first, 1);
	cr_assert_eq(trial.ended, 0);
}

Test(way_trial, calls_that_never_end__keep_the_block_open)
{
	struct cn_way_trial trial = {0};
	uint8_t tag, first;

	cn_trial_choose(&trial, &first);
	for (int i = 0; i < 10000; i++) {
		cr_assert(cn_trial_choose(&trial, &tag));
		cr_assert_eq(tag, first);
	}
}
