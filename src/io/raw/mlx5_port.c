/* mlx5_port - an mlx5 device's Ethernet interface, and its steering rules for received frames.
 *
 * Layer: io. Threads: any.
 */
#include "io/raw/mlx5.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>

#include "sys/last_error.h"

static void append_spec(struct raw_rule *rule, const void *spec, uint16_t len)
{
	memcpy(rule->spec + rule->attr.size - sizeof(rule->attr), spec, len);
	rule->attr.size = (uint16_t)(rule->attr.size + len);
	rule->attr.num_of_specs++;
}

static void append_ether(struct raw_rule *rule, const struct raw_flow *flow, uint16_t type)
{
	struct ibv_flow_spec_eth spec = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(spec)};

	spec.val.ether_type = htobe16(type);
	spec.mask.ether_type = 0xffff;
	if (flow->to.vlan) {
		spec.val.vlan_tag = htobe16(flow->to.vlan);
		spec.mask.vlan_tag = htobe16(0x0fff);
	}
	if (flow->kind == RAW_FLOW_UDP) {
		memcpy(spec.val.dst_mac, flow->to.mac, 6);
		memset(spec.mask.dst_mac, 0xff, 6);
	}
	append_spec(rule, &spec, sizeof(spec));
}

static void append_ip4(struct raw_rule *rule, const struct lend_ip *to)
{
	struct ibv_flow_spec_ipv4 spec = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(spec)};

	memcpy(&spec.val.dst_ip, to->b + 12, 4);
	memset(&spec.mask.dst_ip, 0xff, 4);
	append_spec(rule, &spec, sizeof(spec));
}

/* Appends a match of the destination IP; if to is NULL, of the protocol only. */
static void append_ip6(struct raw_rule *rule, const struct lend_ip *to, uint8_t protocol)
{
	struct ibv_flow_spec_ipv6 spec = {.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(spec)};

	if (to) {
		memcpy(spec.val.dst_ip, to, 16);
		memset(spec.mask.dst_ip, 0xff, 16);
	} else {
		spec.val.next_hdr = protocol;
		spec.mask.next_hdr = 0xff;
	}
	append_spec(rule, &spec, sizeof(spec));
}

static void append_udp(struct raw_rule *rule, uint16_t port)
{
	struct ibv_flow_spec_tcp_udp spec = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(spec)};

	spec.val.dst_port = htobe16(port);
	spec.mask.dst_port = 0xffff;
	append_spec(rule, &spec, sizeof(spec));
}

void raw_rule_write(struct raw_rule *rule, const struct raw_flow *flow)
{
	enum { TYPE_IP4 = 0x0800, TYPE_ARP = 0x0806, TYPE_IP6 = 0x86dd, ICMP6 = 58 };
	bool four = lend_ip_is4(&flow->to.ip), udp = flow->kind == RAW_FLOW_UDP;

	memset(rule, 0, sizeof(*rule));
	rule->attr.type = IBV_FLOW_ATTR_NORMAL;
	rule->attr.size = sizeof(rule->attr);
	rule->attr.port = 1;
	/* The kernel and other endpoints need ARP and neighbour discovery, too. */
	rule->attr.flags = udp ? 0 : IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	append_ether(rule, flow, !four ? TYPE_IP6 : udp ? TYPE_IP4 : TYPE_ARP);
	if (!four)
		append_ip6(rule, udp ? &flow->to.ip : NULL, ICMP6);
	else if (udp)
		append_ip4(rule, &flow->to.ip);
	if (udp)
		append_udp(rule, flow->to.udp);
}

static bool read_line(const char *path, char *text, int cap)
{
	FILE *file = fopen(path, "re");
	bool good = file && fgets(text, cap, file);

	if (file)
		fclose(file);
	if (good)
		text[strcspn(text, "\n")] = '\0';
	return good;
}

static bool find_name(const char *device, char name[16])
{
	char path[160];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0",
		       device);
	if (read_line(path, name, 16) && name[0])
		return true;
	(void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/net", device);
	dir = opendir(path);
	name[0] = '\0';
	for (struct dirent *e = dir ? readdir(dir) : NULL; e && !name[0]; e = readdir(dir)) {
		if (e->d_name[0] != '.')
			(void)snprintf(name, 16, "%.15s", e->d_name);
	}
	if (dir)
		closedir(dir);
	return name[0] != '\0';
}

int raw_netdev_find(const char *device, struct raw_facts *facts)
{
	char path[160], text[64];
	unsigned b[6];

	if (!find_name(device, facts->netdev))
		return lend_fail(
		    ENODEV,
		    "raw:%s: has no Ethernet interface here: move it into this network "
		    "namespace, or load mlx5_core",
		    device);
	(void)snprintf(path, sizeof(path), "/sys/class/net/%s/address", facts->netdev);
	if (!read_line(path, text, sizeof(text)) ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != 6)
		return lend_fail(ENODEV, "raw:%s: %s has no MAC: bring it up (ip link set %s up)",
				 device, facts->netdev, facts->netdev);
	for (int i = 0; i < 6; i++)
		facts->mac[i] = (uint8_t)b[i];
	(void)snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", facts->netdev);
	facts->mtu = read_line(path, text, sizeof(text)) ? (uint32_t)strtoul(text, NULL, 10) : 1500;
	return 0;
}

uint64_t raw_netdev_overruns(const char *device)
{
	char path[160], text[32];

	(void)snprintf(path, sizeof(path),
		       "/sys/class/infiniband/%s/ports/1/hw_counters/out_of_buffer", device);
	return read_line(path, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}
