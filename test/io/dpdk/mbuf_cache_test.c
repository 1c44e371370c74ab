/* Goal: a carrier's mbuf cache is small, is reused for the next datagrams, and goes back to the
 * pool at close.
 * Method: datagrams over a pair of rings; the pool's count of free buffers.
 * Covers: src/io/dpdk/mbuf_cache.c */
#include <stdio.h>
#include <stdlib.h>

#include <rte_mempool.h>

#include "io/conform.h"

enum { ROUNDS = 2000, ONE_WAY = 5000, MOST = 64 }; /* MOST: size of one carrier's cache */

static void ring_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:ring@127.0.0.1:0");
}

static const struct conform_row row = {.name = "ring", .address = ring_address};

static void open_pair(struct conform_pair *pair)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	conform_open(pair, &row);
}

static uint32_t free_mbufs(void)
{
	struct rte_mempool *pool = rte_mempool_lookup("lend-pool0");

	cr_assert_not_null(pool);
	return rte_mempool_avail_count(pool);
}

static void echo_back(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	cr_assert_eq(conform_send(arg, in->peer, id, seq, in->len), LEND_SENT);
}

/* Makes a round trip. Lengths vary, so that remains of an earlier datagram would be seen. */
static void go_and_return(const struct conform_pair *pair, uint32_t i)
{
	cr_assert_eq(conform_send(pair->client, pair->peer, 1, i, 16 + i * 37 % 2000), LEND_SENT);
	cr_assert_eq(conform_take(pair->server, echo_back, pair->server), 1);
	cr_assert_eq(conform_take(pair->client, NULL, NULL), 1);
}

TestSuite(dpdk_mbuf_cache, .timeout = 60);

Test(dpdk_mbuf_cache, calls__use_no_pool)
{
	struct conform_pair pair;
	uint32_t before;

	open_pair(&pair);
	go_and_return(&pair, 0);
	before = free_mbufs();
	for (uint32_t i = 1; i < ROUNDS; i++) {
		go_and_return(&pair, i);
		cr_assert_eq(free_mbufs(), before);
	}
	conform_close(&pair);
}

/* One end only allocates buffers, the other only frees them. */
Test(dpdk_mbuf_cache, is_bounded)
{
	struct conform_pair pair;
	uint32_t before;

	open_pair(&pair);
	before = free_mbufs();
	for (uint32_t i = 0; i < ONE_WAY; i++) {
		cr_assert_eq(conform_send(pair.client, pair.peer, 1, i, 100), LEND_SENT);
		cr_assert_eq(conform_take(pair.server, NULL, NULL), 1);
		cr_assert_geq(free_mbufs() + 2 * MOST, before);
	}
	conform_close(&pair);
}

/* Datagrams that were not received are freed with the ring. */
Test(dpdk_mbuf_cache, goes_back)
{
	struct conform_pair pair;
	uint32_t before;

	open_pair(&pair);
	before = free_mbufs();
	for (uint32_t i = 0; i < MOST; i++) {
		cr_assert_eq(conform_send(pair.client, pair.peer, 1, i, 100), LEND_SENT);
		cr_assert_eq(conform_send(pair.client, pair.peer, 1, i, 3000), LEND_SENT);
	}
	cr_assert_gt(conform_take(pair.server, echo_back, pair.server), 0);
	conform_close(&pair);
	cr_assert_eq(free_mbufs(), before);
}
