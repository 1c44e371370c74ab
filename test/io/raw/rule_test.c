/* Goal: the steering rules that a raw carrier gives to an mlx5 device match its own frames and no
 * others.
 * Method: the specs of each kind of rule are parsed as the kernel does, and compared with bytes.
 * Covers: src/io/raw/mlx5_port.c */
#include <arpa/inet.h>
#include <criterion/criterion.h>

#include "io/raw/mlx5.h"

static struct lend_eth_end end_of(const char *text, uint16_t vlan)
{
	struct lend_eth_end end = {.udp = 0x1234, .vlan = vlan, .mac = {2, 1, 2, 3, 4, 5}};
	uint8_t four[4];

	if (inet_pton(AF_INET, text, four) == 1)
		end.ip = lend_ip_of4(four);
	else
		cr_assert_eq(inet_pton(AF_INET6, text, &end.ip), 1);
	return end;
}

/* Returns the n-th spec, which must have that type. The rule's length must equal that of its
 * specs. */
static const void *spec_at(const struct raw_rule *rule, int n, uint32_t type, size_t size)
{
	const uint8_t *at = rule->spec, *found = NULL;

	for (int i = 0; i < rule->attr.num_of_specs; i++) {
		struct {
			uint32_t type;
			uint16_t size;
		} head;

		memcpy(&head, at, 6);
		if (i == n) {
			cr_assert_eq(head.type, type);
			cr_assert_eq(head.size, size);
			found = at;
		}
		at += head.size;
	}
	cr_assert_eq(at - rule->spec + sizeof(rule->attr), rule->attr.size);
	cr_assert_not_null(found);
	return found;
}

#define SPEC(rule, n, kind, name) ((const struct name *)spec_at(rule, n, kind, sizeof(struct name)))

Test(raw_rule, udp_over_ipv4)
{
	struct raw_flow flow = {.kind = RAW_FLOW_UDP, .to = end_of("10.77.0.1", 0)};
	const struct ibv_flow_spec_eth *eth;
	const struct ibv_flow_spec_ipv4 *ip;
	const struct ibv_flow_spec_tcp_udp *udp;
	struct raw_rule rule;

	raw_rule_write(&rule, &flow);
	cr_assert_eq(rule.attr.num_of_specs, 3);
	cr_assert_eq(rule.attr.flags, 0, "no other endpoint sees it");
	eth = SPEC(&rule, 0, IBV_FLOW_SPEC_ETH, ibv_flow_spec_eth);
	cr_assert_eq(memcmp(eth->val.dst_mac, "\2\1\2\3\4\5", 6), 0);
	cr_assert_eq(memcmp(eth->mask.dst_mac, "\xff\xff\xff\xff\xff\xff", 6), 0);
	cr_assert_eq(eth->val.ether_type, htons(0x0800));
	cr_assert_eq(eth->mask.vlan_tag, 0);
	ip = SPEC(&rule, 1, IBV_FLOW_SPEC_IPV4, ibv_flow_spec_ipv4);
	cr_assert_eq(ip->val.dst_ip, htonl(0x0a4d0001));
	cr_assert_eq(ip->mask.dst_ip, UINT32_MAX);
	cr_assert_eq(ip->mask.src_ip, 0);
	udp = SPEC(&rule, 2, IBV_FLOW_SPEC_UDP, ibv_flow_spec_tcp_udp);
	cr_assert_eq(udp->val.dst_port, htons(0x1234));
	cr_assert_eq(udp->mask.dst_port, 0xffff);
	cr_assert_eq(udp->mask.src_port, 0);
}

Test(raw_rule, udp_over_ipv6_and_a_vlan)
{
	struct raw_flow flow = {.kind = RAW_FLOW_UDP, .to = end_of("fd00::1", 77)};
	const struct ibv_flow_spec_eth *eth;
	const struct ibv_flow_spec_ipv6 *ip;
	struct raw_rule rule;

	raw_rule_write(&rule, &flow);
	cr_assert_eq(rule.attr.num_of_specs, 3);
	eth = SPEC(&rule, 0, IBV_FLOW_SPEC_ETH, ibv_flow_spec_eth);
	cr_assert_eq(eth->val.ether_type, htons(0x86dd));
	cr_assert_eq(eth->val.vlan_tag, htons(77));
	cr_assert_eq(eth->mask.vlan_tag, htons(0x0fff), "whatever its priority");
	ip = SPEC(&rule, 1, IBV_FLOW_SPEC_IPV6, ibv_flow_spec_ipv6);
	cr_assert_eq(memcmp(ip->val.dst_ip, &flow.to.ip, 16), 0);
	cr_assert_eq(ip->mask.dst_ip[15], 0xff);
	cr_assert_eq(ip->mask.next_hdr, 0);
	(void)SPEC(&rule, 2, IBV_FLOW_SPEC_UDP, ibv_flow_spec_tcp_udp);
}

Test(raw_rule, neighbours)
{
	struct raw_flow flow = {.kind = RAW_FLOW_NEIGHBOURS, .to = end_of("10.77.0.1", 0)};
	const struct ibv_flow_spec_eth *eth;
	const struct ibv_flow_spec_ipv6 *ip;
	struct raw_rule rule;

	raw_rule_write(&rule, &flow);
	cr_assert_eq(rule.attr.num_of_specs, 1);
	cr_assert_eq(rule.attr.flags, IBV_FLOW_ATTR_FLAGS_DONT_TRAP, "the kernel sees it too");
	eth = SPEC(&rule, 0, IBV_FLOW_SPEC_ETH, ibv_flow_spec_eth);
	cr_assert_eq(eth->val.ether_type, htons(0x0806));
	cr_assert_eq(eth->mask.dst_mac[0], 0, "requests are sent to all stations");
	flow.to = end_of("fd00::1", 0);
	raw_rule_write(&rule, &flow);
	cr_assert_eq(rule.attr.num_of_specs, 2);
	ip = SPEC(&rule, 1, IBV_FLOW_SPEC_IPV6, ibv_flow_spec_ipv6);
	cr_assert_eq(ip->val.next_hdr, 58);
	cr_assert_eq(ip->mask.next_hdr, 0xff);
	cr_assert_eq(ip->mask.dst_ip[0], 0);
}
