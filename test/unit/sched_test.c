/* Goal: the scheduler sends the most urgent class first, and within it the shortest message or the
 * earliest deadline; equals take turns. Every class and size that waits gets its share, and no
 * more. Method: a table of two calls each; shares counted over saturated classes; then seeded
 * histories against a naive model that searches an array. Covers: src/core/sched.c,
 * src/core/fair_share.h */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/sched.h"
#include "core/arena.h"
#include "util/rng.h"

enum { CALLS = 64 };

static struct lend_core *c;

static void open_core(enum lend_order order)
{
	struct lend_core_config cfg = {.sessions = 1,
				       .calls = 64,
				       .inflight = CALLS,
				       .reassemblies = 2,
				       .message_max = 1 << 20,
				       .unscheduled = 65536,
				       .probe = 5,
				       .dead = 10,
				       .order = (uint8_t)order};
	size_t size = lend_core_size(&cfg);

	c = lend_core_init(memset(aligned_alloc(64, size), 0, size), &cfg, LEND_MS);
	for (uint32_t i = 0; i < CALLS; i++) /* the keys as taking them would have */
		lend_call_at(c, i)->self = i;
}

static struct lend_call_rec *make_call(uint32_t i, uint32_t class, uint32_t left, lend_ns due)
{
	struct lend_call_rec *k = lend_call_at(c, i);

	k->class = (uint8_t) class;
	k->tx.total = left;
	k->tx.next = 0;
	k->tx.win = left > 1 ? 0 : LEND_NONE;
	k->deadline = due;
	lend_sched_ready(c, k);
	lend_sched_settle(c);
	return k;
}

static struct lend_call_rec *send_next(void)
{
	uint32_t queue;
	struct lend_call_rec *k = lend_sched_next(c, &queue);

	if (k)
		lend_sched_sent(c, queue, LEND_FAIR_UNITS);
	return k;
}

Test(sched, next__two_calls__order)
{
	static const struct {
		enum lend_order order;
		uint32_t class[2], left[2];
		lend_ns due[2]; /* ms from now */
		int first;
	} row[] = {
	    {LEND_ORDER_SHORTEST, {7, 0}, {1, 1000}, {1, 9}, 1},
	    {LEND_ORDER_SHORTEST, {3, 3}, {1000, 1}, {1, 9}, 1},
	    {LEND_ORDER_SHORTEST, {3, 3}, {1, 1000}, {9, 1}, 0},
	    {LEND_ORDER_SHORTEST, {3, 3}, {3, 1}, {9, 1}, 1},
	    {LEND_ORDER_SHORTEST, {3, 3}, {3, 2}, {9, 1}, 0},
	    {LEND_ORDER_SHORTEST, {3, 3}, {4, 3}, {1, 9}, 1},
	    {LEND_ORDER_DEADLINE, {3, 3}, {1, 1000}, {9, 1}, 1},
	    {LEND_ORDER_DEADLINE, {3, 3}, {1, 1000}, {500, 499}, 1},
	    {LEND_ORDER_DEADLINE, {3, 3}, {1, 1}, {5, 5}, 0},
	    {LEND_ORDER_DEADLINE, {2, 3}, {1, 1}, {9, 1}, 0},
	    {LEND_ORDER_FIFO, {7, 0}, {1000, 1}, {9, 1}, 0},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *k[2];

		open_core(row[i].order);
		for (uint32_t j = 0; j < 2; j++)
			k[j] = make_call(j, row[i].class[j], row[i].left[j],
					 LEND_MS + row[i].due[j] * LEND_MS);
		cr_expect_eq(send_next(), k[row[i].first], "row %zu", i);
		cr_expect_eq(send_next(), k[!row[i].first], "row %zu", i);
		cr_expect_null(send_next());
		free(c);
	}
}

/* After the first choice, only calls that nothing may overtake. */
Test(sched, next__burst__same_as_one_by_one)
{
	static const struct {
		enum lend_order order;
		uint32_t class[2], left[2];
		bool more;
	} row[] = {
	    {LEND_ORDER_SHORTEST, {3, 3}, {1, 1}, true},
	    {LEND_ORDER_SHORTEST, {3, 3}, {1, 2}, false},
	    {LEND_ORDER_SHORTEST, {3, 3}, {4, 4}, false},
	    {LEND_ORDER_SHORTEST, {3, 4}, {1, 1}, false},
	    {LEND_ORDER_DEADLINE, {3, 3}, {1, 1}, false},
	    {LEND_ORDER_FIFO, {0, 7}, {1, 1000}, true},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *k[2], *more;
		uint32_t queue;

		open_core(row[i].order);
		for (uint32_t j = 0; j < 2; j++)
			k[j] = make_call(j, row[i].class[j], row[i].left[j], LEND_MS);
		cr_assert_eq(lend_sched_next(c, &queue), k[0], "row %zu", i);
		more = lend_sched_more(c, queue);
		cr_expect_eq(more, row[i].more ? k[1] : NULL, "row %zu", i);
		cr_expect_eq(send_next(), row[i].more ? NULL : k[1], "row %zu", i);
		free(c);
	}
}

Test(sched, next__equal_calls__take_turns)
{
	open_core(LEND_ORDER_SHORTEST);
	for (uint32_t i = 0; i < 3; i++)
		make_call(i, 3, 1, 0);
	for (uint32_t turn = 0; turn < 9; turn++) {
		struct lend_call_rec *k = send_next();

		cr_assert_eq(k, lend_call_at(c, turn % 3));
		lend_sched_ready(c, k);
	}
	free(c);
}

/* Sends datagrams of saturated queues, n calls for each class and size; counts the datagrams of
 * each. */
static void saturate_queues(uint32_t n, uint32_t datagrams, uint32_t *got)
{
	memset(got, 0, n * sizeof(*got));
	for (uint32_t i = 0; i < datagrams; i += LEND_SCHED_BURST) {
		uint32_t queue;
		struct lend_call_rec *k = lend_sched_next(c, &queue);

		got[lend_call_index(c, k)] += LEND_SCHED_BURST;
		lend_sched_ready(c, k);
		lend_sched_sent(c, queue, LEND_SCHED_BURST * LEND_FAIR_UNITS);
	}
}

Test(sched, every_class_gets_its_share)
{
	uint32_t got[LEND_CLASSES], all = 1 << 18;

	open_core(LEND_ORDER_SHORTEST);
	for (uint32_t i = 0; i < LEND_CLASSES; i++)
		make_call(i, i, 1, 0);
	saturate_queues(LEND_CLASSES, all, got);
	for (uint32_t i = 1; i < LEND_CLASSES; i++) {
		uint32_t above = 0;

		for (uint32_t j = 0; j < i; j++)
			above += got[j];
		cr_expect(got[i] * LEND_FLOOR >= above * 0.98 &&
			      got[i] * LEND_FLOOR <= above * 1.02,
			  "class %u: %u of %u", i, got[i], above);
	}
	free(c);
}

Test(sched, the_longest_gets_its_share)
{
	uint32_t got[2], all = 1 << 16;

	open_core(LEND_ORDER_SHORTEST);
	make_call(0, 5, 1, 0);
	make_call(1, 5, 100000, 0);
	saturate_queues(2, all, got);
	cr_expect(got[1] * LEND_FLOOR >= got[0] * 0.98 && got[1] * LEND_FLOOR <= got[0] * 1.02,
		  "%u and %u", got[0], got[1]);
	free(c);
}

/* The model: the calls that wait, since when, and how often each class and size was overtaken. */
struct waiting {
	bool is;
	uint64_t since;
	uint32_t class, size;
};
static struct waiting model[CALLS];
static double class_owed[LEND_CLASSES], size_owed[LEND_CLASSES][LEND_SIZES];

static uint32_t size_of(uint32_t left)
{
	uint32_t size = 1; /* 0 is for messages of one datagram */

	while (left >= 4 && size < LEND_SIZES - 1) {
		left /= 4;
		size++;
	}
	return size;
}

static bool any_waits(uint32_t class, int size)
{
	for (uint32_t i = 0; i < CALLS; i++)
		if (model[i].is && model[i].class == class &&
		    (size < 0 || model[i].size == (uint32_t)size))
			return true;
	return false;
}

static int model_next(void)
{
	int class = -1, size = -1, best = -1;

	for (uint32_t i = 0; i < LEND_CLASSES; i++)
		if (any_waits(i, -1) && (class < 0 || class_owed[i] >= LEND_SCHED_BURST))
			class = (int)i;
	for (uint32_t i = 0; class >= 0 && i < LEND_SIZES; i++)
		if (any_waits((uint32_t) class, (int)i) &&
		    (size < 0 || size_owed[class][i] >= LEND_SCHED_BURST))
			size = (int)i;
	for (int i = 0; i < CALLS; i++)
		if (model[i].is && (int)model[i].class == class && (int)model[i].size == size &&
		    (best < 0 || model[i].since < model[best].since))
			best = i;
	return best;
}

static void model_sent(uint32_t class, uint32_t size, uint32_t n)
{
	double *mine[2] = {&class_owed[class], &size_owed[class][size]};

	for (int i = 0; i < 2; i++)
		*mine[i] = *mine[i] > n ? *mine[i] - n : 0;
	for (uint32_t i = class + 1; i < LEND_CLASSES; i++)
		if (any_waits(i, -1))
			class_owed[i] += (double)n / LEND_FLOOR;
	for (uint32_t i = size + 1; i < LEND_SIZES; i++)
		if (any_waits(class, (int)i))
			size_owed[class][i] += (double)n / LEND_FLOOR;
}

static void model_ready(uint32_t i, uint64_t now, uint32_t class, uint32_t left)
{
	if (!model[i].is)
		model[i] = (struct waiting){true, now, class, size_of(left)};
}

static void run_history(uint64_t seed)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	memset(model, 0, sizeof(model));
	memset(class_owed, 0, sizeof(class_owed));
	memset(size_owed, 0, sizeof(size_owed));
	open_core(LEND_ORDER_SHORTEST);
	for (uint64_t now = 0; now < 3000; now++) {
		uint32_t i = (uint32_t)(lend_rng_next(&rng) % CALLS), queue;
		struct lend_call_rec *k = lend_call_at(c, i);
		int want;

		switch (lend_rng_next(&rng) % 5) {
		case 0:
			lend_sched_remove(c, k);
			model[i].is = false;
			break;
		case 1:
		case 2:
			if (!k->tx.ready.in) {
				k->class = (uint8_t)(lend_rng_next(&rng) % LEND_CLASSES);
				k->tx.total = 1u << lend_rng_next(&rng) % 20;
			}
			lend_sched_ready(c, k);
			model_ready(i, now, k->class, k->tx.total);
			break;
		default:
			want = model_next();
			k = lend_sched_next(c, &queue);
			cr_assert_eq(k ? (int)lend_call_index(c, k) : -1, want,
				     "seed %llu, step %llu", (unsigned long long)seed,
				     (unsigned long long)now);
			if (!k)
				break;
			model[want].is = false;
			if (now % 3) {
				lend_sched_ready(c, k);
				model_ready((uint32_t)want, now, k->class, k->tx.total);
			}
			lend_sched_sent(c, queue, 8 * LEND_FAIR_UNITS);
			model_sent(model[want].class, model[want].size, 8);
		}
	}
	free(c);
}

Test(sched, agrees_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		run_history(seed);
}

/* The next call to send, as core/output picks it: first the fast-path array, then the scheduler. */
static uint32_t drain_order(struct lend_core *core, uint32_t *order)
{
	uint32_t n = lend_sched_take_single(core), queue;
	struct lend_call_rec *k;

	for (uint32_t i = 0; i < n; i++) {
		order[i] = core->ready.single[i];
		lend_call_at(core, order[i])->tx.ready.in = 0;
	}
	core->ready.n -= n;
	if (lend_sched_counts(core, core->ready.single_queue))
		lend_sched_sent(core, core->ready.single_queue, n);
	while ((k = lend_sched_next(core, &queue))) {
		lend_sched_sent(core, queue, 1);
		order[n++] = k->self;
	}
	return n;
}

/* Two cores with the same calls; in one of them no call uses the fast path, because its messages
 * seem long. */
static void compare_twins(uint64_t seed, struct lend_core *twin[2], uint32_t *quick)
{
	uint32_t order[2][CALLS];
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (uint32_t step = 0; step < 400; step++) {
		uint32_t i = (uint32_t)(lend_rng_next(&rng) % CALLS), n[2];
		uint8_t class = lend_rng_next(&rng) % 8 ? 3 : lend_rng_next(&rng) % LEND_CLASSES;
		uint32_t what = lend_rng_next(&rng) % 16;

		for (int t = 0; t < 2; t++) {
			struct lend_call_rec *k = lend_call_at(twin[t], i);

			k->tx.win = t ? 0 : LEND_NONE;
			k->tx.total = 1;
			if (what == 0)
				lend_sched_remove(twin[t], k);
			else if (!k->tx.ready.in)
				k->class = class;
			if (what > 1)
				lend_sched_ready(twin[t], k);
		}
		*quick += twin[0]->ready.single_n;
		cr_assert_eq(lend_sched_classes(twin[0]), lend_sched_classes(twin[1]));
		cr_assert_eq(twin[0]->ready.n, twin[1]->ready.n);
		if (what != 1)
			continue;
		for (int t = 0; t < 2; t++)
			n[t] = drain_order(twin[t], order[t]);
		cr_assert(n[0] == n[1] &&
			      memcmp(order[0], order[1], n[0] * sizeof(order[0][0])) == 0,
			  "seed %llu, step %u", (unsigned long long)seed, step);
	}
}

Test(sched, fast_path__any_history__order_of_the_queues)
{
	uint32_t quick = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct lend_core *twin[2];

		for (int t = 0; t < 2; t++) {
			open_core(LEND_ORDER_SHORTEST);
			twin[t] = c;
		}
		compare_twins(seed, twin, &quick);
		free(twin[0]);
		free(twin[1]);
	}
	cr_expect_gt(quick, 0);
}
