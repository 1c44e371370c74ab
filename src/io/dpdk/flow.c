/* flow - steers frames in a device with several queues: an endpoint's frames to its own queue.
 *
 * Queue 0 is shared. Frames without a rule, such as ARP, arrive there or are spread by RSS, and are
 * sorted in software. If the driver has no rules, all frames are sorted that way.
 *
 * Layer: io. Threads: any, with dpdk_world held.
 */
#include "io/dpdk/port_burst.h"

#include <rte_flow.h>

#define SPREAD (RTE_ETH_RSS_IP | RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP)

void dpdk_flow_spread(const struct rte_eth_dev_info *info, uint16_t queues,
		      struct rte_eth_conf *conf)
{
	uint64_t fields = info->flow_type_rss_offloads & SPREAD;

	if (queues == 1 || fields == 0)
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = fields;
}

static uint16_t free_queue(const struct dpdk_shared_port *share)
{
	uint64_t taken = atomic_load(&share->taken);

	for (uint16_t q = 1; q < share->queues; q++) {
		if (!(taken >> q & 1))
			return q;
	}
	return 0;
}

static struct rte_flow *make_rule(const struct dpdk_shared_port *share,
				  const struct lend_eth_end *end, uint16_t queue)
{
	static const struct rte_flow_attr attr = {.ingress = 1};
	struct rte_flow_item_vlan vlan = {.tci = rte_cpu_to_be_16(end->vlan)};
	struct rte_flow_item_vlan vlan_mask = {.tci = rte_cpu_to_be_16(0xfff)};
	struct rte_flow_item_ipv4 ip4 = {0}, ip4_mask = {.hdr.dst_addr = 0xffffffff};
	struct rte_flow_item_ipv6 ip6 = {0}, ip6_mask = {0};
	struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(end->udp)};
	struct rte_flow_item_udp udp_mask = {.hdr.dst_port = 0xffff};
	struct rte_flow_action_queue to = {.index = queue};
	struct rte_flow_action action[] = {{RTE_FLOW_ACTION_TYPE_QUEUE, &to},
					   {RTE_FLOW_ACTION_TYPE_END, NULL}};
	struct rte_flow_item item[5] = {{.type = RTE_FLOW_ITEM_TYPE_ETH}};
	struct rte_flow_error why;
	uint32_t n = 1;

	memcpy(&ip4.hdr.dst_addr, end->ip.b + 12, 4);
	memcpy(ip6.hdr.dst_addr, &end->ip, 16);
	memset(ip6_mask.hdr.dst_addr, 0xff, 16);
	if (end->vlan)
		item[n++] =
		    (struct rte_flow_item){RTE_FLOW_ITEM_TYPE_VLAN, &vlan, NULL, &vlan_mask};
	if (lend_ip_is4(&end->ip))
		item[n++] = (struct rte_flow_item){RTE_FLOW_ITEM_TYPE_IPV4, &ip4, NULL, &ip4_mask};
	else
		item[n++] = (struct rte_flow_item){RTE_FLOW_ITEM_TYPE_IPV6, &ip6, NULL, &ip6_mask};
	item[n++] = (struct rte_flow_item){RTE_FLOW_ITEM_TYPE_UDP, &udp, NULL, &udp_mask};
	item[n] = (struct rte_flow_item){.type = RTE_FLOW_ITEM_TYPE_END};
	if (rte_flow_validate(share->id, &attr, item, action, &why) != 0)
		return NULL;
	return rte_flow_create(share->id, &attr, item, action, &why);
}

void dpdk_flow_make(struct dpdk_shared_port *share, struct dpdk_owner *owner)
{
	uint16_t queue = free_queue(share);

	if (queue == 0)
		return;
	owner->rule = make_rule(share, &owner->end, queue);
	if (owner->rule == NULL)
		return;
	owner->queue = queue;
	atomic_fetch_or(&share->taken, UINT64_C(1) << queue);
}

void dpdk_flow_drop(struct dpdk_shared_port *share, struct dpdk_owner *owner)
{
	struct rte_flow_error why;

	if (owner->rule == NULL)
		return;
	(void)rte_flow_destroy(share->id, owner->rule, &why);
	owner->rule = NULL;
	atomic_fetch_and(&share->taken, ~(UINT64_C(1) << owner->queue));
}
