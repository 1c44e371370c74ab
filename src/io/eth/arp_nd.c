/* arp_nd - address resolution messages: ARP over Ethernet, and IPv6's neighbour solicitations and
 * advertisements.
 *
 * Layer: io. Threads: any; pure.
 */
#include "io/eth/eth.h"

enum { TYPE_ARP = 0x0806, TYPE_IP6 = 0x86dd, TYPE_VLAN = 0x8100, FRAME_MIN = 60 };
enum { ICMP6 = 58, SOLICIT = 135, ADVERT = 136, SOLICITED = 0x40, OVERRIDE = 0x20 };
enum { OPTION_SOURCE = 1, OPTION_TARGET = 2 };

static bool is_station(const uint8_t mac[6])
{
	return !(mac[0] & 1) && memcmp(mac, "\0\0\0\0\0", 6) != 0;
}

static bool read_arp(const uint8_t *arp, uint32_t room, struct lend_eth_neigh *ask)
{
	static const uint8_t ether_ip4[6] = {0, 1, 8, 0, 6, 4};
	uint32_t kind;

	if (room < 28 || memcmp(arp, ether_ip4, 6) != 0)
		return false;
	kind = lend_eth_get16(arp + 6);
	if (kind != 1 && kind != 2)
		return false;
	ask->question = kind == 1;
	memcpy(ask->mac, arp + 8, 6);
	ask->from = lend_ip_of4(arp + 14);
	ask->target = kind == 1 ? lend_ip_of4(arp + 24) : ask->from;
	if (memcmp(arp + 14, "\0\0\0", 4) == 0)
		memset(&ask->from, 0, sizeof(ask->from));
	return true;
}

/* Finds the MAC in an option of that kind. False: the options are not well formed. */
static bool read_option(const uint8_t *at, uint32_t room, uint8_t kind, uint8_t mac[6])
{
	while (room >= 2) {
		uint32_t len = at[1] * 8u;

		if (len == 0 || len > room)
			return false;
		if (at[0] == kind && len == 8)
			memcpy(mac, at + 2, 6);
		at += len;
		room -= len;
	}
	return room == 0;
}

static uint32_t icmp_sum(const uint8_t *ip, uint32_t len)
{
	return lend_eth_add(lend_eth_add(ICMP6 + len, ip + 8, 32), ip + 40, len);
}

static bool read_nd(const uint8_t *ip, uint32_t room, struct lend_eth_neigh *ask)
{
	const uint8_t *icmp = ip + 40;
	uint32_t len;

	if (room < 40 + 24 || ip[0] >> 4 != 6 || ip[6] != ICMP6 || ip[7] != 255)
		return false;
	len = lend_eth_get16(ip + 4);
	if (len < 24 || len > room - 40 || (icmp[0] != SOLICIT && icmp[0] != ADVERT) ||
	    icmp[1] != 0 || icmp[8] == 0xff || lend_eth_fold(icmp_sum(ip, len)) != 0xffff)
		return false;
	ask->question = icmp[0] == SOLICIT;
	memcpy(&ask->from, ask->question ? ip + 8 : icmp + 8, 16);
	memcpy(&ask->target, icmp + 8, 16);
	return read_option(icmp + 24, len - 24, ask->question ? OPTION_SOURCE : OPTION_TARGET,
			   ask->mac);
}

bool lend_eth_neigh_read(const uint8_t *bytes, uint32_t len, struct lend_eth_neigh *ask)
{
	uint32_t type, at = 14;
	bool good = false;

	memset(ask, 0, sizeof(*ask));
	if (len < 18)
		return false;
	type = lend_eth_get16(bytes + 12);
	if (type == TYPE_VLAN) {
		ask->vlan = (uint16_t)(lend_eth_get16(bytes + 14) & 0xfff);
		type = lend_eth_get16(bytes + 16);
		at = 18;
	}
	memcpy(ask->mac, bytes + 6, 6); /* a reply to our request may have no MAC option */
	if (type == TYPE_ARP)
		good = read_arp(bytes + at, len - at, ask);
	else if (type == TYPE_IP6)
		good = read_nd(bytes + at, len - at, ask);
	/* Rejects a message with another MAC inside than its frame's source. */
	return good && is_station(ask->mac) && memcmp(ask->mac, bytes + 6, 6) == 0;
}

static uint8_t *write_ether(uint8_t *bytes, const struct lend_eth_end *from, const uint8_t *to,
			    uint32_t type)
{
	uint8_t *at = bytes + 12;

	memset(bytes, 0, LEND_ETH_NEIGH_MAX);
	memcpy(bytes, to, 6);
	memcpy(bytes + 6, from->mac, 6);
	if (from->vlan) {
		lend_eth_put16(at, TYPE_VLAN);
		lend_eth_put16(at + 2, from->vlan);
		at += 4;
	}
	lend_eth_put16(at, type);
	return at + 2;
}

static uint32_t write_arp(uint8_t *bytes, const struct lend_eth_end *from, const uint8_t *to,
			  uint32_t kind, const struct lend_ip *target)
{
	static const uint8_t everybody[6] = {255, 255, 255, 255, 255, 255};
	uint8_t *arp = write_ether(bytes, from, to ? to : everybody, TYPE_ARP);

	memcpy(arp, (const uint8_t[8]){0, 1, 8, 0, 6, 4, 0, (uint8_t)kind}, 8);
	memcpy(arp + 8, from->mac, 6);
	memcpy(arp + 14, from->ip.b + 12, 4);
	if (to)
		memcpy(arp + 18, to, 6);
	memcpy(arp + 24, target->b + 12, 4);
	return FRAME_MIN;
}

/* Writes an ICMPv6 message to an IP address, at mac or, if NULL, at its multicast MAC. */
static uint32_t write_nd(uint8_t *bytes, const struct lend_eth_end *from, const struct lend_ip *to,
			 const uint8_t *mac, const uint8_t icmp_head[8],
			 const struct lend_ip *target)
{
	const uint8_t group[6] = {0x33, 0x33, to->b[12], to->b[13], to->b[14], to->b[15]};
	uint8_t *ip = write_ether(bytes, from, mac ? mac : group, TYPE_IP6), *icmp = ip + 40;

	ip[0] = 0x60;
	lend_eth_put16(ip + 4, 32);
	ip[6] = ICMP6;
	ip[7] = 255;
	memcpy(ip + 8, &from->ip, 16);
	memcpy(ip + 24, to, 16);
	memcpy(icmp, icmp_head, 8);
	memcpy(icmp + 8, target, 16);
	icmp[24] = icmp_head[0] == SOLICIT ? OPTION_SOURCE : OPTION_TARGET;
	icmp[25] = 1;
	memcpy(icmp + 26, from->mac, 6);
	lend_eth_put16(icmp + 2, (uint16_t)~lend_eth_fold(icmp_sum(ip, 32)));
	return (uint32_t)(icmp + 32 - bytes);
}

uint32_t lend_eth_neigh_request_write(uint8_t bytes[LEND_ETH_NEIGH_MAX],
				      const struct lend_eth_end *from, const struct lend_ip *target,
				      const uint8_t *to)
{
	static const uint8_t solicit[8] = {SOLICIT};
	struct lend_ip group = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}};

	if (lend_ip_is4(target))
		return write_arp(bytes, from, to, 1, target);
	memcpy(group.b + 13, target->b + 13, 3);
	return write_nd(bytes, from, to ? target : &group, to, solicit, target);
}

uint32_t lend_eth_neigh_reply_write(uint8_t bytes[LEND_ETH_NEIGH_MAX],
				    const struct lend_eth_end *from,
				    const struct lend_eth_neigh *question)
{
	static const struct lend_ip unspecified, all_nodes = {{0xff, 2, [15] = 1}};
	/* A reply to a sender without an address goes to all nodes. */
	bool known = question && !lend_ip_same(&question->from, &unspecified);
	const uint8_t advert[8] = {ADVERT, [4] = known ? SOLICITED | OVERRIDE : OVERRIDE};

	if (lend_ip_is4(&from->ip))
		return write_arp(bytes, from, question ? question->mac : NULL, question ? 2 : 1,
				 known ? &question->from : &from->ip);
	return write_nd(bytes, from, known ? &question->from : &all_nodes,
			known ? question->mac : NULL, advert, &from->ip);
}
