/* dpdk/tx_waiting - how many frames of a transmit queue wait for a device.
 *
 * DPDK has no call for that number, but many drivers tell whether the device is done with one
 * descriptor. A ring is sent in order, so the newest descriptors wait, and a binary search finds
 * the oldest of them. Drivers answer for groups of descriptors: of the newest group nothing is
 * known.
 *
 * Layer: io. Threads: the one that holds the queue's lock.
 */
#include "io/dpdk/port_burst.h"

uint16_t dpdk_tx_slots(uint16_t id)
{
	struct rte_eth_txq_info info;

	if (rte_eth_tx_queue_info_get(id, 0, &info) != 0 ||
	    rte_eth_tx_descriptor_status(id, 0, 0) < 0)
		return 0;
	return info.nb_desc;
}

/* Offsets begin with the descriptor that is filled next, then come those filled longest ago. */
uint32_t dpdk_tx_waiting(uint16_t id, uint16_t queue, uint16_t slots)
{
	uint32_t low = 0, high = slots;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (rte_eth_tx_descriptor_status(id, queue, (uint16_t)middle) ==
		    RTE_ETH_TX_DESC_FULL)
			high = middle;
		else
			low = middle + 1;
	}
	return slots - high;
}
