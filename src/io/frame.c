/* frame - see frame.h.
 *
 * The IPv4 checksum is computed here, from a sum over the constant words that each peer keeps. The
 * UDP checksum is sent as zero, which IPv4 allows (RFC 768), and not looked at when it comes from a
 * kernel: the datagram's own CRC32C covers more, and summing each payload a second time would buy
 * nothing. Options and fragments in IPv4 are not ours.
 */
#include "io/frame.h"

#include <string.h>

static uint16_t load_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t load_be32(const uint8_t *p)
{
	return (uint32_t)load_be16(p) << 16 | load_be16(p + 2);
}

static void store_be16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static uint32_t sum_head(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += load_be16(ip + i);
	return sum;
}

enum lend_frame_verdict lend_frame_read(const uint8_t *bytes, uint32_t len, uint32_t ip,
					uint16_t udp, struct lend_frame *frame)
{
	const uint8_t *ip4 = bytes + 14, *udp4 = ip4 + 20;
	uint32_t total, udp_len;

	if (len < LEND_FRAME_HEAD)
		return LEND_FRAME_BAD;
	if (load_be16(bytes + 12) != 0x0800 || ip4[0] != 0x45 || ip4[9] != 17)
		return LEND_FRAME_FOREIGN;
	total = load_be16(ip4 + 2);
	udp_len = load_be16(udp4 + 4);
	if (total < 28 || total > len - 14 || udp_len != total - 20)
		return LEND_FRAME_BAD;
	if ((load_be16(ip4 + 6) & 0x3fff) != 0 || fold(sum_head(ip4)) != 0xffff)
		return LEND_FRAME_FOREIGN;
	if (load_be32(ip4 + 16) != ip || load_be16(udp4 + 2) != udp)
		return LEND_FRAME_FOREIGN;
	frame->mac = bytes + 6;
	frame->key = ip4 + 12;
	frame->ip = load_be32(ip4 + 12);
	frame->udp = load_be16(udp4);
	frame->data = udp4 + 8;
	frame->len = udp_len - 8;
	frame->ecn = (ip4[1] & 3) == 3;
	return LEND_FRAME_OURS;
}

void lend_frame_head(struct lend_frame_head *head, const struct lend_frame_end *to,
		     const struct lend_frame_end *from)
{
	uint8_t *h = head->bytes, *ip4 = h + 14;

	memset(h, 0, LEND_FRAME_HEAD);
	memcpy(h, to->mac, 6);
	memcpy(h + 6, from->mac, 6);
	store_be16(h + 12, 0x0800);
	ip4[0] = 0x45;
	ip4[6] = 0x40; /* do not fragment */
	ip4[8] = 64;
	ip4[9] = 17;
	store_be16(ip4 + 12, from->ip >> 16);
	store_be16(ip4 + 14, from->ip);
	store_be16(ip4 + 16, to->ip >> 16);
	store_be16(ip4 + 18, to->ip);
	store_be16(ip4 + 20, from->udp);
	store_be16(ip4 + 22, to->udp);
	head->sum = sum_head(ip4);
}

void lend_frame_write(uint8_t *bytes, const struct lend_frame_head *head, uint32_t len)
{
	memcpy(bytes, head->bytes, LEND_FRAME_HEAD);
	store_be16(bytes + 16, len + 28);
	store_be16(bytes + 24, (uint16_t)~fold(head->sum + len + 28));
	store_be16(bytes + 38, len + 8);
}
