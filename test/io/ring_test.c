/* Goal: the shared-memory ring keeps its order and its bounds whatever the other side writes, and
 * its sequence numbers wrap.
 * Method: both ends in one thread, step by step.
 * Covers: src/io/shm/ring.h */
#include <criterion/criterion.h>

#include "io/shm/ring.h"

/* A full ring stays full for every invalid position that the consumer writes. */
Test(ring, invalid_positions__are_a_full_ring)
{
	static struct lend_ring ring;
	struct lend_ring_tx tx = {.ring = &ring};

	while (lend_ring_room(&tx, 8))
		lend_ring_commit(&tx, 1);
	cr_assert_eq(tx.next, LEND_RING_SLOTS);
	atomic_store(&ring.taken, LEND_RING_SLOTS + 1);
	cr_assert_not(lend_ring_room(&tx, 8), "more than was sent was taken");
	atomic_store(&ring.taken, UINT32_MAX);
	cr_assert_not(lend_ring_room(&tx, 8), "fewer were taken than before");
	atomic_store(&ring.taken, 1);
	cr_assert(lend_ring_room(&tx, 8));
}

Test(ring, invalid_lengths__are_skipped)
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

/* There are fewer bodies than slots. A long datagram waits for a body where a short one does not,
 * and no body is overwritten before it was taken. */
Test(ring, long_datagrams__have_fewer_bodies)
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

/* Sequence numbers wrap after 2^32 datagrams. */
Test(ring, numbers_wrap)
{
	static struct lend_ring ring;
	uint32_t start = UINT32_MAX - 300;
	struct lend_ring_tx tx = {.ring = &ring, .next = start, .taken = start};
	struct lend_ring_rx rx = {.ring = &ring, .next = start, .published = start};
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

/* A producer that found the ring full checks for room once more before it sleeps. The consumer
 * wakes it when there is room. */
Test(ring, full__checks_for_room_before_sleep)
{
	static struct lend_ring ring;
	struct lend_ring_tx tx = {.ring = &ring};
	struct lend_ring_rx rx = {.ring = &ring};
	const void *data;
	uint32_t len;

	while (lend_ring_room(&tx, 8))
		lend_ring_commit(&tx, 8);
	cr_assert(lend_ring_await_room(&tx, 8), "full: may sleep");
	for (int i = 1; i < LEND_RING_LAZY; i++)
		cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
	cr_assert_not(lend_ring_done(&rx), "not signalled yet");
	cr_assert(lend_ring_await_room(&tx, 8));
	cr_assert_eq(lend_ring_next(&rx, &data, &len), LEND_RING_DATA);
	cr_assert(lend_ring_done(&rx), "signalled: wake the producer");
	cr_assert_not(lend_ring_done(&rx), "once");
	cr_assert_not(lend_ring_await_room(&tx, 8), "there is room after all");
}
