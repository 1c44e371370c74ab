/* queue_plan - how many queues to ask a network device for.
 * Layer: io. Threads: any; nothing here has state. */
#include "io/dpdk/port_burst.h"

#include <string.h>

/* Returns how many of these queues the device has. net_e1000_em reports two of each for every card,
 * and loses what is sent in the second one of an 82540, which has one. */
static uint16_t real_queues(const struct rte_eth_dev_info *info, uint16_t reported)
{
	return strcmp(info->driver_name, "net_e1000_em") == 0 ? 1 : reported;
}

uint16_t dpdk_queue_count(const struct rte_eth_dev_info *info, uint32_t wanted)
{
	uint32_t most =
	    real_queues(info, info->max_rx_queues < info->max_tx_queues ? info->max_rx_queues
									: info->max_tx_queues);

	most = most < DPDK_QUEUES_MAX ? most : DPDK_QUEUES_MAX;
	/* net_tap sends the descriptors of all its queues, for receive and for send, in one message
	 * with room for RTE_MP_MAX_FD_NUM of them, whatever the number of queues that it reports.
	 */
	if (most > RTE_MP_MAX_FD_NUM / 2 && strcmp(info->driver_name, "net_tap") == 0)
		most = RTE_MP_MAX_FD_NUM / 2;
	if (wanted == 0) /* software devices have the number that was configured, and use all */
		wanted = info->if_index ? most : 1;
	return (uint16_t)(wanted < most ? wanted : most);
}

uint16_t dpdk_queue_ways(const struct rte_eth_dev_info *info, uint16_t queues)
{
	return real_queues(info, info->max_tx_queues) >= DPDK_ROUTES * queues ? DPDK_ROUTES : 1;
}

bool dpdk_queue_fewer(uint16_t *queues, uint16_t *ways)
{
	if (*ways == 1 && *queues == 1)
		return false;
	if (*ways == 1)
		*queues /= 2;
	*ways = 1;
	return true;
}
