/* Goal: freed memory goes to the messages that wait for it: the most urgent class first, FIFO order
 * within a class, each class at its share. Only a more urgent message may overtake. The charges
 * always add up, and no free memory stays idle while a message waits. Method: a table of waiting
 * messages; seeded histories against a naive model of the queues. Covers: src/core/memory_queue.c,
 * src/core/rx.c, src/core/fair_share.h */
#include <criterion/criterion.h>

#include "core/memory_queue.h"
#include "rxkit.h"
#include "util/rng.h"

enum { PIECE = 2 * RX_PAYLOAD };

static struct lend_core *c;

static void feed(void)
{
	c->fed = 0;
	lend_memq_serve(c);
	rx_drain(c);
}

/* A message of this class that needs one piece of the budget. */
static struct lend_call_rec *ask(uint8_t class)
{
	struct lend_call_rec *k = rx_begin(c, class, PIECE, LEND_NEVER);

	(void)lend_rx_grant(c, k);
	return k;
}

Test(receive_budget, queue__two_waiting__urgent_first)
{
	static const struct {
		enum lend_order order;
		uint8_t class[3];
		uint8_t want[3]; /* the order of the grants */
	} row[] = {
	    {LEND_ORDER_SHORTEST, {7, 3, 0}, {2, 1, 0}},
	    {LEND_ORDER_SHORTEST, {3, 3, 3}, {0, 1, 2}},
	    {LEND_ORDER_DEADLINE, {7, 0, 7}, {1, 0, 2}},
	    {LEND_ORDER_FIFO, {7, 3, 0}, {0, 1, 2}},
	    {LEND_ORDER_SHORTEST, {0, 7, 0}, {0, 2, 1}},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *before, *k[3];

		c = rx_open(row[i].order, true, PIECE);
		before = ask(7);
		cr_assert_eq(before->rx.granted, PIECE);
		for (int j = 0; j < 3; j++)
			k[j] = ask(row[i].class[j]);
		for (int j = 0; j < 3; j++) {
			rx_end(c, before);
			feed();
			before = k[row[i].want[j]];
			cr_expect_eq(before->rx.granted, PIECE, "row %zu, turn %d", i, j);
		}
		free(c);
	}
}

/* Freed memory is not taken by a new message before the core's next iteration, unless that message
 * is more urgent. */
Test(receive_budget, queue__new_message__does_not_overtake)
{
	static const struct {
		uint8_t waits, asks;
		bool gets;
	} row[] = {{3, 3, false}, {3, 7, false}, {3, 2, true}, {0, 0, false}, {7, 6, true}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *has, *waits, *asks;

		c = rx_open(LEND_ORDER_SHORTEST, true, PIECE);
		has = ask(7);
		waits = ask(row[i].waits);
		rx_end(c, has);
		asks = ask(row[i].asks);
		feed();
		cr_expect_eq(asks->rx.granted, row[i].gets ? PIECE : 0, "row %zu", i);
		cr_expect_eq(waits->rx.granted, row[i].gets ? 0 : PIECE, "row %zu", i);
		free(c);
	}
}

/* A message that finds only part of the memory it needs takes that part and stays at the head of
 * the queue. */
Test(receive_budget, queue__part_granted__stays_at_the_head)
{
	struct lend_call_rec *has, *first, *second;

	c = rx_open(LEND_ORDER_SHORTEST, true, PIECE);
	has = ask(7);
	first = rx_begin(c, 3, 2 * PIECE, LEND_NEVER);
	cr_assert_not(lend_rx_grant(c, first));
	second = ask(3);
	rx_end(c, has);
	feed();
	cr_assert_eq(first->rx.granted, PIECE);
	cr_assert_eq(second->rx.granted, 0);
	/* The first half of the message arrived. */
	first->rx.charged -= PIECE;
	c->budget_used -= PIECE;
	feed();
	cr_assert_eq(first->rx.granted, 2 * PIECE);
	rx_end(c, first);
	feed();
	cr_assert_eq(second->rx.granted, PIECE);
	free(c);
}

/* The model: the waiting messages in FIFO order, and the share that each class is owed. */
struct model {
	struct lend_call_rec *waits[RX_MESSAGES];
	uint32_t n, owed[8];
};

static int model_next(const struct model *m)
{
	int best = -1;

	for (uint32_t class = 0; class < 8; class ++)
		for (uint32_t i = 0; i < m->n; i++)
			if (m->waits[i]->class == class) {
				if (best < 0 || m->owed[class] >= LEND_FAIR_SHARE_DUE)
					best = (int)i;
				break;
			}
	return best;
}

static void model_granted(struct model *m, uint32_t class)
{
	uint32_t waits = 0;

	for (uint32_t i = 0; i < m->n; i++)
		waits |= 1u << m->waits[i]->class;
	m->owed[class] -= lend_min_u32(m->owed[class], LEND_FLOOR * LEND_FAIR_UNITS);
	for (uint32_t i = class + 1; i < 8; i++)
		m->owed[i] += waits >> i & 1 ? LEND_FAIR_UNITS : 0;
}

static void model_leave(struct model *m, uint32_t i)
{
	memmove(&m->waits[i], &m->waits[i + 1], (--m->n - i) * sizeof(m->waits[0]));
}

static void model_feed(struct model *m, uint64_t *room)
{
	while (m->n && *room >= PIECE) {
		uint32_t i = (uint32_t)model_next(m);
		struct lend_call_rec *k = m->waits[i];

		cr_assert_eq(k->rx.granted, PIECE);
		*room -= PIECE;
		model_leave(m, i);
		model_granted(m, k->class);
	}
}

static void history(uint64_t seed)
{
	struct lend_call_rec *all[RX_MESSAGES];
	struct model m = {.n = 0};
	uint64_t room = 4 * PIECE;
	struct lend_rng rng;
	uint32_t n = 0;

	lend_rng_seed(&rng, seed);
	c = rx_open(LEND_ORDER_SHORTEST, true, room);
	for (int step = 0; step < 2000; step++) {
		if (n < RX_MESSAGES && lend_rng_below(&rng, 16) >= n) {
			struct lend_call_rec *k = ask((uint8_t)lend_rng_below(&rng, 8));

			all[n++] = k;
			if (k->rx.granted) {
				room -= PIECE;
				model_granted(&m, k->class);
			} else {
				m.waits[m.n++] = k;
			}
		} else {
			uint32_t i = (uint32_t)lend_rng_below(&rng, n);

			for (uint32_t j = 0; j < m.n; j++)
				if (m.waits[j] == all[i])
					model_leave(&m, j--);
			room += all[i]->rx.charged;
			rx_end(c, all[i]);
			all[i] = all[--n];
		}
		feed();
		model_feed(&m, &room);
		cr_assert(c->budget_queue.n == m.n && c->budget_used == 4 * PIECE - room,
			  "seed %llu, step %d: %u wait, %u should", (unsigned long long)seed, step,
			  c->budget_queue.n, m.n);
	}
	free(c);
}

Test(receive_budget, agrees_with_a_naive_model)
{
	for (uint64_t seed = 1; seed <= 50; seed++)
		history(seed);
}
