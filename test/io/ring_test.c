/* Goal: the ring of shared memory keeps order and room whatever the other side writes, and its
 * numbers wrap. Method: both ends by hand, step by step. */
#include <criterion/criterion.h>

#include "io/shm/ring.h"

/* A full ring stays full, however the consumer moves its position about. */
Test(ring, positions_that_cannot_be_are_a_full_ring)
{
	static struct lend_ring ring;
	struct lend_ring_tx tx = {.ring = &ring};

	while (lend_ring_room(&tx, 8))
		lend_ring_commit(&tx, 1);
	cr_assert_eq(tx.next, LEND_RING_SLOTS);
	atomic_store(&ring.taken, LEND_RING_SLOTS + 1);
	cr_assert_not(lend_ring_room(&tx, 8), "it took what we never sent");
	atomic_store(&ring.taken, UINT32_MAX);
	cr_assert_not(lend_ring_room(&tx, 8), "it gave back what it had");
	atomic_store(&ring.taken, 1);
	cr_assert(lend_ring_room(&tx, 8));
}

Test(ring, lengths_that_cannot_be_are_passed_over)
{
	static struct lend_ring ring;
	struct lend_ring_tx tx = {.ring = &ring};
	struct lend_ring_rx rx = {.ring = &ring};
	const void *data;
	uint32_t len;

	lend_ring_commit(&tx, LEND_RING_MTU + 1);
	lend_ring_commit(&tx, UINT32_MAX);
	lend_ring_commit(&tx, LEND_RING_MTU);
	cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_BAD);
	cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_BAD);
	cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
	cr_assert_eq(len, LEND_RING_MTU);
	cr_assert_eq(data, ring.body[2]);
	cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_EMPTY);
}

/* Bodies are fewer than slots: a long datagram waits for its body where a short one need not, and
 * none is written over before it was taken. */
Test(ring, long_ones_have_fewer_places)
{
	static struct lend_ring ring;
	struct lend_ring_tx tx = {.ring = &ring};
	struct lend_ring_rx rx = {.ring = &ring};
	uint32_t len, sent = 0, seen = 0, number;
	const void *data;

	for (int turns = 0; turns < 2000; turns++) {
		for (;; sent++) {
			len = sent % 5 ? LEND_RING_SHORT + 1 : LEND_RING_SHORT;
			if (!lend_ring_room(&tx, len))
				break;
			memcpy(lend_ring_reserve(&tx, len), &sent, sizeof(sent));
			lend_ring_commit(&tx, len);
		}
		/* One more: the short one before it. */
		cr_assert_leq(sent - seen,
			      len > LEND_RING_SHORT ? LEND_RING_BODIES + 1 : LEND_RING_SLOTS);
		cr_assert(lend_ring_room(&tx, LEND_RING_SHORT));
		for (int i = 0; i < LEND_RING_LAZY + turns % 7; i++, seen++) {
			cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
			memcpy(&number, data, sizeof(number));
			cr_assert_eq(number, seen);
		}
		(void)lend_ring_done(&rx);
	}
	while (lend_ring_room(&tx, LEND_RING_SHORT))
		lend_ring_commit(&tx, 1);
	cr_assert_eq(tx.next - tx.taken, LEND_RING_SLOTS);
}

/* Numbers wrap after 2^32 datagrams. */
Test(ring, numbers_wrap)
{
	static struct lend_ring ring;
	uint32_t start = UINT32_MAX - 300;
	struct lend_ring_tx tx = {.ring = &ring, .next = start, .taken = start};
	struct lend_ring_rx rx = {.ring = &ring, .next = start, .told = start};
	const void *data;
	uint32_t len;

	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert(lend_ring_room(&tx, 8));
		cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_EMPTY);
		lend_ring_commit(&tx, i % 300);
		cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
		cr_assert_eq(len, i % 300);
		(void)lend_ring_done(&rx);
	}
}

/* A producer that found the ring full is about to sleep: it must not when there is room, and is
 * told when there is. */
Test(ring, room_is_looked_for_once_more)
{
	static struct lend_ring ring;
	struct lend_ring_tx tx = {.ring = &ring};
	struct lend_ring_rx rx = {.ring = &ring};
	const void *data;
	uint32_t len;

	while (lend_ring_room(&tx, 8))
		lend_ring_commit(&tx, 8);
	cr_assert(lend_ring_want(&tx, 8), "full: may sleep");
	for (int i = 1; i < LEND_RING_LAZY; i++)
		cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
	cr_assert_not(lend_ring_done(&rx), "not told yet");
	cr_assert(lend_ring_want(&tx, 8));
	cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
	cr_assert(lend_ring_done(&rx), "told, and the producer is to be woken");
	cr_assert_not(lend_ring_done(&rx), "once");
	cr_assert_not(lend_ring_want(&tx, 8), "there is room after all");
}
