/* Goal: a ring hands every slot over once, in order and with its contents, and tells a broken peer.
 * Method: fill and drain by hand, counters at their wrap, nonsense in the shared counters, then two
 * threads that check each slot. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#include "util/rng.h"
#include "util/spsc.h"

Test(spsc, fills_and_drains)
{
	struct lend_spsc ring = {0};
	struct lend_spsc_end tx, rx;

	lend_spsc_end_init(&tx, 4);
	lend_spsc_end_init(&rx, 4);
	cr_assert_eq(lend_spsc_ready(&ring, &rx), 0);
	cr_assert_eq(lend_spsc_room(&ring, &tx), 4);
	lend_spsc_push(&ring, &tx, 3);
	cr_assert_eq(lend_spsc_room(&ring, &tx), 1);
	lend_spsc_push(&ring, &tx, 1);
	cr_assert_eq(lend_spsc_room(&ring, &tx), 0);
	cr_assert_eq(lend_spsc_ready(&ring, &rx), 4);
	lend_spsc_pop(&ring, &rx, 1);
	cr_assert_eq(lend_spsc_room(&ring, &tx), 1);
	lend_spsc_pop(&ring, &rx, 3);
	cr_assert_eq(lend_spsc_ready(&ring, &rx), 0);
}

Test(spsc, counters_wrap)
{
	struct lend_spsc ring = {.pushed = UINT32_MAX - 1, .popped = UINT32_MAX - 1};
	struct lend_spsc_end tx = {UINT32_MAX - 1, UINT32_MAX - 1, 8}, rx = tx;

	lend_spsc_push(&ring, &tx, 5);
	cr_assert_eq(tx.mine, 3);
	cr_assert_eq(lend_spsc_ready(&ring, &rx), 5);
	lend_spsc_push(&ring, &tx, 3);
	cr_assert_eq(lend_spsc_room(&ring, &tx), 0);
	lend_spsc_pop(&ring, &rx, 5);
	cr_assert_eq(lend_spsc_ready(&ring, &rx), 3);
	cr_assert_eq(lend_spsc_room(&ring, &tx), 5);
}

Test(spsc, nonsense_of_the_peer_is_told)
{
	struct lend_spsc ring = {0};
	struct lend_spsc_end tx, rx;

	lend_spsc_end_init(&tx, 4);
	lend_spsc_end_init(&rx, 4);
	ring.pushed = 5; /* more than there are slots */
	cr_assert_eq(lend_spsc_ready(&ring, &rx), LEND_SPSC_BROKEN);
	ring.pushed = UINT32_MAX; /* backwards */
	rx.other = 0;
	cr_assert_eq(lend_spsc_ready(&ring, &rx), LEND_SPSC_BROKEN);
	lend_spsc_push(&ring, &tx, 4);
	ring.popped = 5; /* read what was never written */
	cr_assert_eq(lend_spsc_room(&ring, &tx), LEND_SPSC_BROKEN);
}

enum { CAP = 16, MESSAGES = 300000 };
static struct lend_spsc shared;
static uint64_t slot[CAP];

/* What the i-th slot must hold: all bits depend on i. */
static uint64_t payload(uint32_t i)
{
	return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void *produce(void *arg)
{
	struct lend_spsc_end tx;
	struct lend_rng rng;

	lend_rng_seed(&rng, *(const uint64_t *)arg);
	lend_spsc_end_init(&tx, CAP);
	while (tx.mine < MESSAGES) {
		uint32_t room = lend_spsc_room(&shared, &tx), n;

		if (!room) {
			sched_yield();
			continue;
		}
		n = 1 + (uint32_t)lend_rng_below(&rng, room);
		n = n < MESSAGES - tx.mine ? n : MESSAGES - tx.mine;
		for (uint32_t i = tx.mine; i < tx.mine + n; i++)
			slot[i & (CAP - 1)] = payload(i);
		lend_spsc_push(&shared, &tx, n);
	}
	return NULL;
}

Test(spsc, two_threads_in_order)
{
	uint64_t seed = 42;
	struct lend_spsc_end rx;
	pthread_t producer;

	lend_spsc_end_init(&rx, CAP);
	cr_assert_eq(pthread_create(&producer, NULL, produce, &seed), 0);
	while (rx.mine < MESSAGES) {
		uint32_t n = lend_spsc_ready(&shared, &rx);

		cr_assert_leq(n, CAP);
		if (!n)
			sched_yield();
		for (uint32_t i = rx.mine; i < rx.mine + n; i++)
			cr_assert_eq(slot[i & (CAP - 1)], payload(i), "slot %u, seed %lu", i, seed);
		if (n)
			lend_spsc_pop(&shared, &rx, n);
	}
	pthread_join(producer, NULL);
	cr_assert_eq(lend_spsc_ready(&shared, &rx), 0);
}
