/* eth/frame - Ethernet, IPv4 or IPv6, and UDP headers around a datagram.
 *
 * Each path keeps a sum over its constant words, from which IPv4's header checksum is computed. The
 * UDP checksum is optional over IPv4 and left at zero there (the datagram's own CRC32C covers
 * more); over IPv6 it is mandatory. IP options and extension headers are not supported.
 *
 * Layer: io. Threads: any; pure.
 */
#include "io/eth/eth.h"

enum { TYPE_IP4 = 0x0800, TYPE_ARP = 0x0806, TYPE_IP6 = 0x86dd, TYPE_VLAN = 0x8100 };
enum { PROTO_UDP = 17, PROTO_FRAGMENT = 44, PROTO_ICMP6 = 58 };

uint32_t lend_eth_add(uint32_t sum, const uint8_t *bytes, uint32_t len)
{
	uint64_t wide = 0, words;

	/* Eight bytes at a time: one's complement sums do not depend on byte order, except in the
	 * result. */
	for (; len >= 8; len -= 8, bytes += 8) {
		memcpy(&words, bytes, 8);
		wide += (uint32_t)words;
		wide += words >> 32;
	}
	while (wide >> 16)
		wide = (wide & 0xffff) + (wide >> 16);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	wide = (wide & 0xff) << 8 | wide >> 8;
#endif
	sum += (uint32_t)wide;
	for (; len >= 2; len -= 2, bytes += 2)
		sum += lend_eth_get16(bytes);
	return len ? sum + (uint32_t)(bytes[0] << 8) : sum;
}

/* Reads the UDP header at udp; room is the number of bytes from there on. */
static enum lend_eth_verdict read_udp(const uint8_t *udp, uint32_t room,
				      struct lend_eth_frame *frame)
{
	uint32_t len;

	if (room < 8)
		return LEND_ETH_BAD;
	len = lend_eth_get16(udp + 4);
	if (len != room)
		return LEND_ETH_BAD;
	frame->udp = (uint16_t)lend_eth_get16(udp);
	frame->to_udp = (uint16_t)lend_eth_get16(udp + 2);
	frame->data = udp + 8;
	frame->len = len - 8;
	return LEND_ETH_UDP;
}

/* A correct IPv4 header sums to all ones, in any byte order. */
static bool is_head_good(const uint8_t *ip)
{
	uint64_t half[2], sum;
	uint32_t last;

	memcpy(half, ip, 16);
	memcpy(&last, ip + 16, 4);
	sum = (half[0] & 0xffffffff) + (half[0] >> 32) + (half[1] & 0xffffffff) + (half[1] >> 32) +
	      last;
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ((sum & 0xffff) + (sum >> 16)) == 0xffff;
}

static enum lend_eth_verdict read_ip4(const uint8_t *ip, uint32_t room,
				      struct lend_eth_frame *frame)
{
	uint32_t total;

	if (room < 20)
		return LEND_ETH_BAD;
	if (ip[0] != 0x45)
		return LEND_ETH_FOREIGN;
	total = lend_eth_get16(ip + 2);
	if (total < 20 || total > room)
		return LEND_ETH_BAD;
	if (!is_head_good(ip))
		return LEND_ETH_CHECKSUM;
	if ((lend_eth_get16(ip + 6) & 0x3fff) != 0)
		return LEND_ETH_FRAGMENT;
	if (ip[9] != PROTO_UDP)
		return LEND_ETH_FOREIGN;
	frame->ip = ip;
	frame->ip4 = true;
	frame->ip_len = (uint16_t)total;
	frame->from = lend_ip_of4(ip + 12);
	frame->to = lend_ip_of4(ip + 16);
	frame->ecn = (ip[1] & 3) == 3;
	return read_udp(ip + 20, total - 20, frame);
}

static enum lend_eth_verdict read_ip6(const uint8_t *ip, uint32_t room,
				      struct lend_eth_frame *frame)
{
	uint32_t len;

	if (room < 40 || ip[0] >> 4 != 6)
		return LEND_ETH_BAD;
	len = lend_eth_get16(ip + 4);
	if (len > room - 40)
		return LEND_ETH_BAD;
	if (ip[6] == PROTO_FRAGMENT)
		return LEND_ETH_FRAGMENT;
	if (ip[6] == PROTO_ICMP6 && len >= 24 && (ip[40] == 135 || ip[40] == 136))
		return LEND_ETH_NEIGH;
	if (ip[6] != PROTO_UDP)
		return LEND_ETH_FOREIGN;
	frame->ip = ip;
	frame->ip4 = false;
	frame->ip_len = (uint16_t)(len + 40);
	memcpy(&frame->from, ip + 8, 16);
	memcpy(&frame->to, ip + 24, 16);
	frame->ecn = (ip[1] & 0x30) == 0x30;
	return read_udp(ip + 40, len, frame);
}

enum lend_eth_verdict lend_eth_read(const uint8_t *bytes, uint32_t len,
				    struct lend_eth_frame *frame)
{
	uint32_t type, at = 14;

	if (len < 14)
		return LEND_ETH_BAD;
	type = lend_eth_get16(bytes + 12);
	frame->to_mac = bytes;
	frame->mac = bytes + 6;
	frame->vlan = 0;
	if (type == TYPE_VLAN && len >= 18) {
		frame->vlan = (uint16_t)(lend_eth_get16(bytes + 14) & 0xfff);
		type = lend_eth_get16(bytes + 16);
		at = 18;
	}
	if (type == TYPE_IP4)
		return read_ip4(bytes + at, len - at, frame);
	if (type == TYPE_IP6)
		return read_ip6(bytes + at, len - at, frame);
	return type == TYPE_ARP ? LEND_ETH_NEIGH : LEND_ETH_FOREIGN;
}

void lend_eth_expected(struct lend_eth_expected *usual, const uint8_t *bytes,
		       const struct lend_eth_frame *frame)
{
	if (!frame->ip4 || frame->ip != bytes + 14)
		return;
	lend_eth_expected_words(bytes, usual->word);
	memcpy(&usual->ends, bytes + 28, sizeof(usual->ends));
	memcpy(&usual->to_udp, bytes + 36, sizeof(usual->to_udp));
}

/* Sums the pseudo header: addresses, protocol, length of UDP. */
static uint32_t pseudo_sum(const struct lend_eth_frame *frame)
{
	uint32_t sum = PROTO_UDP + frame->len + 8;

	return frame->ip4 ? lend_eth_add(sum, frame->ip + 12, 8)
			  : lend_eth_add(sum, frame->ip + 8, 32);
}

bool lend_eth_sum_good(const struct lend_eth_frame *frame)
{
	uint32_t check = lend_eth_get16(frame->data - 2), pseudo;

	if (check == 0)
		return frame->ip4;
	pseudo = pseudo_sum(frame);
	if (lend_eth_fold(lend_eth_add(pseudo, frame->data - 8, frame->len + 8)) == 0xffff)
		return true;
	return check == lend_eth_fold(pseudo);
}

static void head_ip4(struct lend_eth_head *head, uint8_t *ip, const struct lend_eth_end *to,
		     const struct lend_eth_end *from)
{
	ip[0] = 0x45;
	ip[1] = LEND_ECN_CAPABLE;
	ip[6] = 0x40; /* do not fragment */
	ip[8] = 64;
	ip[9] = PROTO_UDP;
	memcpy(ip + 12, from->ip.b + 12, 4);
	memcpy(ip + 16, to->ip.b + 12, 4);
	head->sum = lend_eth_add(0, ip, 20);
	head->pseudo = lend_eth_add(PROTO_UDP, ip + 12, 8);
}

static void head_ip6(struct lend_eth_head *head, uint8_t *ip, const struct lend_eth_end *to,
		     const struct lend_eth_end *from)
{
	ip[0] = 0x60;
	ip[1] = LEND_ECN_CAPABLE << 4;
	ip[6] = PROTO_UDP;
	ip[7] = 64;
	memcpy(ip + 8, &from->ip, 16);
	memcpy(ip + 24, &to->ip, 16);
	head->pseudo = lend_eth_add(PROTO_UDP, ip + 8, 32);
}

void lend_eth_head(struct lend_eth_head *head, const struct lend_eth_end *to,
		   const struct lend_eth_end *from)
{
	uint8_t *h = head->bytes, *udp;

	memset(head, 0, sizeof(*head));
	memcpy(h, to->mac, 6);
	memcpy(h + 6, from->mac, 6);
	head->ip = 14;
	head->ip4 = lend_ip_is4(&to->ip);
	if (from->vlan) {
		lend_eth_put16(h + 12, TYPE_VLAN);
		lend_eth_put16(h + 14, from->vlan);
		head->ip = 18;
	}
	lend_eth_put16(h + head->ip - 2, head->ip4 ? TYPE_IP4 : TYPE_IP6);
	head->len = (uint8_t)(head->ip + (head->ip4 ? LEND_ETH_UDP4 : LEND_ETH_UDP6));
	if (head->ip4)
		head_ip4(head, h + head->ip, to, from);
	else
		head_ip6(head, h + head->ip, to, from);
	udp = h + head->len - 8;
	lend_eth_put16(udp, from->udp);
	lend_eth_put16(udp + 2, to->udp);
	head->payload = UINT32_MAX; /* no frame uses it yet */
}

void lend_eth_head_set(struct lend_eth_head *head, uint8_t class, uint32_t len)
{
	uint8_t *ip = head->bytes + head->ip, precedence = lend_class_precedence(class);

	head->class = class;
	head->payload = len;
	if (head->ip > LEND_ETH_AROUND_IP - 4)
		ip[-4] = (uint8_t)((ip[-4] & 0x1f) | precedence << 5);
	if (head->ip4) {
		ip[1] = (uint8_t)(LEND_ECN_CAPABLE | precedence << 5);
		lend_eth_put16(ip + 2, len + LEND_ETH_UDP4);
		lend_eth_put16(ip + 10, (uint16_t)~lend_eth_fold(head->sum + (precedence << 5) +
								 len + LEND_ETH_UDP4));
		lend_eth_put16(ip + 24, len + 8);
	} else {
		ip[0] = (uint8_t)(0x60 | precedence << 1);
		lend_eth_put16(ip + 4, len + 8);
		lend_eth_put16(ip + 44, len + 8);
	}
}

void lend_eth_sum_begin(uint8_t *bytes, const struct lend_eth_head *head, uint32_t len)
{
	lend_eth_put16(bytes + head->len - 2, lend_eth_fold(head->pseudo + len + 8));
}

void lend_eth_sum(uint8_t *bytes, const struct lend_eth_head *head, uint32_t len)
{
	uint8_t *udp = bytes + head->len - 8;
	uint16_t sum = lend_eth_fold(lend_eth_add(head->pseudo + len + 8, udp, len + 8));

	lend_eth_put16(udp + 6, sum == 0xffff ? 0xffff : (uint16_t)~sum);
}
