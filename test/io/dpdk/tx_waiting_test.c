/* Goal: the frames that wait in a transmit queue are counted, for each fill of the ring; a device
 * that cannot tell counts none. Method: a driver that answers for a ring of descriptors, also in
 * groups, as drivers do that ask the device for one report per group.
 * Covers: src/io/dpdk/tx_waiting.c */
#include <criterion/criterion.h>

#include "io/dpdk/port_burst.h"

enum { PORT = 3, SLOTS = 512 };

/* A ring whose newest `full` descriptors wait. A group's last descriptor answers for all of it. */
struct fake_ring {
	uint32_t next, full, group, asked;
};

static int read_status(void *queue, uint16_t offset)
{
	struct fake_ring *r = queue;
	uint32_t at = (r->next + offset) % SLOTS, end = at - at % r->group + r->group - 1;
	uint32_t behind = (end - r->next) % SLOTS;

	r->asked++;
	return behind >= SLOTS - r->full ? RTE_ETH_TX_DESC_FULL : RTE_ETH_TX_DESC_DONE;
}

static void install_driver(struct fake_ring *r)
{
	static void *queues[1];

	queues[0] = r;
	rte_eth_fp_ops[PORT].txq.data = queues;
	rte_eth_fp_ops[PORT].tx_descriptor_status = read_status;
}

Test(dpdk_tx_waiting, each_descriptor__any_fill__exact)
{
	struct fake_ring r = {.group = 1};

	install_driver(&r);
	for (r.full = 0; r.full < SLOTS; r.full++) {
		r.next = r.full * 7 % SLOTS;
		r.asked = 0;
		cr_assert_eq(dpdk_tx_waiting(PORT, 0, SLOTS), r.full, "%u wait", r.full);
		cr_assert_leq(r.asked, 10);
	}
}

Test(dpdk_tx_waiting, groups__any_fill__within_a_group)
{
	struct fake_ring r = {.group = 32};

	install_driver(&r);
	for (r.full = 0; r.full < SLOTS - 32; r.full += 5) {
		uint32_t n;

		r.next = r.full * 7 % SLOTS;
		n = dpdk_tx_waiting(PORT, 0, SLOTS);
		cr_assert_geq(n + 32, r.full, "%u wait, %u counted", r.full, n);
		cr_assert_leq(n, r.full + 32, "%u wait, %u counted", r.full, n);
	}
}

Test(dpdk_tx_waiting, no_such_port__counts_none)
{
	cr_expect_eq(dpdk_tx_slots(PORT), 0);
}
