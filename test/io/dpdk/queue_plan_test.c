/* Goal: a device gets the queues that it can have: up to 64, each with a pool of its own, fewer if
 * it refuses, and a second transmit queue for urgent datagrams where it has one.
 * Method: a table for the numbers; then devices that exist without hardware: net_null with 64
 * queues, an endpoint on each; net_tap, which refuses unequal numbers of queues; net_af_packet,
 * which counts per queue.
 * Covers: src/io/dpdk/queue_plan.c, src/io/dpdk/frame_pool.c, src/io/dpdk/shared_port.c */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/dpdk/port_burst.h"
#include "io/veth.h"
#include "sys/last_error.h"

enum { SENDS = 20 };

Test(dpdk_queue_plan, numbers)
{
	static const struct {
		const char *driver;
		uint16_t rx, tx, if_index, wanted; /* the device's most; ?queues= */
		uint16_t count, ways;              /* expected */
	} rows[] = {
	    {"net_ice", 256, 256, 0, 0, 1, 2},     {"net_ice", 256, 256, 0, 64, 64, 2},
	    {"net_ice", 256, 256, 0, 65, 64, 2},   {"net_ice", 64, 64, 0, 64, 64, 1},
	    {"net_ice", 64, 64, 0, 32, 32, 2},     {"net_ena", 8, 8, 0, 5, 5, 1},
	    {"net_ena", 8, 16, 0, 8, 8, 2},        {"net_ena", 16, 2, 0, 8, 2, 1},
	    {"net_af_packet", 4, 4, 7, 0, 4, 1},   {"net_af_packet", 4, 4, 7, 2, 2, 2},
	    {"net_af_packet", 1, 1, 7, 0, 1, 1},   {"net_tap", 16, 16, 7, 0, 4, 2},
	    {"net_virtio_user", 1, 1, 0, 9, 1, 1}, {"net_e1000_em", 2, 2, 0, 4, 1, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct rte_eth_dev_info info = {.driver_name = rows[i].driver,
						      .if_index = rows[i].if_index,
						      .max_rx_queues = rows[i].rx,
						      .max_tx_queues = rows[i].tx};
		uint16_t n = dpdk_queue_count(&info, rows[i].wanted);

		cr_expect_eq(n, rows[i].count, "row %zu: %u queues", i, n);
		cr_expect_eq(dpdk_queue_ways(&info, n), rows[i].ways, "row %zu", i);
	}
}

/* After a refusal, urgent queues are given up first, then half the queues, down to one. */
Test(dpdk_queue_plan, refusals)
{
	static const uint16_t want[][2] = {{6, 1}, {3, 1}, {1, 1}};
	uint16_t queues = 6, ways = 2;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		cr_assert(dpdk_queue_fewer(&queues, &ways));
		cr_expect_eq(queues, want[i][0]);
		cr_expect_eq(ways, want[i][1]);
	}
	cr_assert_not(dpdk_queue_fewer(&queues, &ways));
}

static void start_with(const char *devices)
{
	char eal[200];

	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) != 0)
		cr_skip_test("lend_io_dpdk.so was not built (libdpdk-dev)");
	(void)snprintf(eal, sizeof(eal), "--no-huge -m 288 --no-pci --no-shconf %s", devices);
	setenv("LEND_EAL", eal, 1);
}

static struct lend_io *open_at(const char *address)
{
	struct lend_io_config config = {.listen = address};
	struct lend_io *io;

	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	return io;
}

static void expect_queues(const char *device, uint16_t rx, uint16_t tx)
{
	struct rte_eth_dev_info info;
	uint16_t port;

	cr_assert_eq(rte_eth_dev_get_port_by_name(device, &port), 0);
	cr_assert_eq(rte_eth_dev_info_get(port, &info), 0);
	cr_expect_eq(info.nb_rx_queues, rx, "%s: %u rx queues", device, info.nb_rx_queues);
	cr_expect_eq(info.nb_tx_queues, tx, "%s: %u tx queues", device, info.nb_tx_queues);
}

/* Returns the number of pools, and checks that endpoints took buffers from all but the first, which
 * is that of rings. */
static uint32_t count_pools(void)
{
	uint32_t n = 0;
	char name[24];

	for (;; n++) {
		const struct rte_mempool *pool;

		(void)snprintf(name, sizeof(name), "lend-pool%u", n);
		pool = rte_mempool_lookup(name);
		if (pool == NULL)
			return n;
		cr_expect(n == 0 || rte_mempool_in_use_count(pool) > 0, "pool %u: not used", n);
	}
}

/* Opens that many endpoints on a device with as many queues; each sends in both its queues. */
static void open_all(uint32_t queues, uint32_t *pools)
{
	static struct lend_io *io[DPDK_QUEUES_MAX];
	char text[80];
	uint32_t peer;

	start_with("--vdev=net_null0,no-rx=1");
	for (uint32_t i = 0; i < queues; i++) {
		(void)snprintf(text, sizeof(text), "dpdk:net_null0@10.9.0.1:%u?queues=%u", 7000 + i,
			       queues);
		io[i] = open_at(text);
		cr_assert_eq(io[i]->ops->resolve(
				 io[i], "dpdk:net_null0@10.9.0.2:7?mac=02:00:00:00:00:02", &peer),
			     0, "%s", lend_why_text());
		cr_expect_eq(conform_send(io[i], peer, 0, 0, 1000), LEND_SENT, "endpoint %u", i);
		cr_expect_eq(conform_send_fast(io[i], peer, 0, 0, 100), LEND_SENT, "endpoint %u",
			     i);
	}
	expect_queues("net_null0", (uint16_t)queues, (uint16_t)(DPDK_ROUTES * queues));
	*pools = count_pools();
	for (uint32_t i = 0; i < queues; i++)
		io[i]->ops->close(io[i]);
}

Test(dpdk_queue_plan, a_pool_for_each_queue, .timeout = 60)
{
	uint32_t pools;

	open_all(8, &pools);
	cr_expect_eq(pools, 1 + 8, "%u pools", pools);
}

/* There is too little memory for a pool each: the last queues share one. */
Test(dpdk_queue_plan, endpoints_on_64_queues, .timeout = 60)
{
	uint32_t pools;

	open_all(DPDK_QUEUES_MAX, &pools);
	cr_expect(pools > 8 && pools < DPDK_QUEUES_MAX, "%u pools", pools);
}

/* net_tap takes as many transmit queues as receive queues only. */
Test(dpdk_queue_plan, refused_urgent_queues__goes_on_without, .timeout = 60)
{
	const char *absent = veth_make("net_af_packet", false);
	struct lend_io *io;

	if (absent)
		cr_skip_test("not on this machine: %s", absent);
	if (access("/dev/net/tun", R_OK | W_OK) != 0)
		cr_skip_test("not on this machine: no /dev/net/tun");
	start_with("--vdev=net_tap0,iface=lendtap0");
	io = open_at("dpdk:net_tap0@10.9.0.1:7000?queues=2");
	expect_queues("net_tap0", 2, 2);
	io->ops->close(io);
}

Test(dpdk_queue_plan, urgent_datagrams_have_a_queue, .timeout = 60)
{
	const char *absent = veth_make_queues("net_af_packet", 2, ",qpairs=2");
	struct rte_eth_stats before, after;
	struct lend_io *io;
	uint16_t port;
	uint32_t peer;

	if (absent)
		cr_skip_test("not on this machine: %s", absent);
	io = open_at("dpdk:net_af_packet0@10.9.0.1:7000?queues=1");
	expect_queues("net_af_packet0", 1, 2);
	cr_assert_eq(
	    io->ops->resolve(io, "dpdk:net_af_packet0@10.9.0.2:7?mac=02:00:00:00:00:02", &peer), 0,
	    "%s", lend_why_text());
	cr_assert_eq(rte_eth_dev_get_port_by_name("net_af_packet0", &port), 0);
	cr_assert_eq(rte_eth_stats_get(port, &before), 0);
	for (uint32_t i = 0; i < SENDS; i++) {
		cr_assert_eq(conform_send(io, peer, 0, i, 1000), LEND_SENT);
		cr_assert_eq(conform_send_fast(io, peer, 0, i, 100), LEND_SENT);
	}
	cr_assert_eq(rte_eth_stats_get(port, &after), 0);
	cr_expect_eq(after.q_opackets[0] - before.q_opackets[0], SENDS);
	cr_expect_eq(after.q_opackets[1] - before.q_opackets[1], SENDS);
	io->ops->close(io);
}
