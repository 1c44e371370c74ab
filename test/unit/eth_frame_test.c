/* Goal: frames, ARP and NDP messages have the standard byte layout, and reading a frame never
 * trusts a length beyond the frame. Method: bytes written out by hand, a naive checksum, every
 * truncation and every flipped byte of valid frames. Covers: src/io/eth/frame.c,
 * src/io/eth/eth.h */
#include <criterion/criterion.h>

#include "io/eth/eth.h"

static const uint8_t mac_a[6] = {2, 0, 0, 0, 0, 0xa}, mac_b[6] = {2, 0, 0, 0, 0, 0xb};

static struct lend_eth_end end_of(bool four, uint8_t last, uint16_t vlan)
{
	struct lend_eth_end end = {.udp = (uint16_t)(7000 + last), .vlan = vlan};

	end.ip = four ? lend_ip_of4((const uint8_t[4]){10, 0, 0, last})
		      : (struct lend_ip){{0xfd, 0, [15] = last}};
	memcpy(end.mac, last == 1 ? mac_a : mac_b, 6);
	return end;
}

/* A frame from host 1 to host 2 with len payload bytes that follow from their index. */
static uint32_t make(uint8_t *bytes, bool four, uint16_t vlan, uint32_t len, bool sum)
{
	struct lend_eth_end a = end_of(four, 1, vlan), b = end_of(four, 2, vlan);
	struct lend_eth_head head;

	lend_eth_head(&head, &b, &a);
	lend_eth_write(bytes, &head, LEND_CLASS_NORMAL, len);
	for (uint32_t i = 0; i < len; i++)
		bytes[head.len + i] = (uint8_t)(i * 7 + 3);
	if (sum)
		lend_eth_sum(bytes, &head, len);
	return head.len + len;
}

/* RFC 1071, two bytes at a time. */
static uint16_t naive_sum(uint32_t sum, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

Test(eth_frame, known_bytes)
{
	static const uint8_t want[] = {2,    0,    0,    0,  0, 0xb, 2,  0,  0,    0, 0,    0xa,
				       0x08, 0x00, 0x45, 2,  0, 31,  0,  0,  0x40, 0, 64,   17,
				       0x26, 0xca, 10,   0,  0, 1,   10, 0,  0,    2, 0x1b, 0x59,
				       0x1b, 0x5a, 0,    11, 0, 0,   3,  10, 17};
	uint8_t got[128];

	cr_assert(make(got, true, 0, 3, false) == sizeof(want));
	cr_assert(naive_sum(0, want + 14, 20) == 0xffff, "the table itself");
	cr_assert(memcmp(got, want, sizeof(want)) == 0);
}

/* All frames of a route share one header template: no frame shows bytes of the previous one. */
Test(eth_frame, frames_of_one_way_differ)
{
	for (uint32_t kind = 0; kind < 4; kind++) {
		uint16_t vlan = kind & 2 ? 5 : 0;
		struct lend_eth_end a = end_of(kind & 1, 1, vlan), b = end_of(kind & 1, 2, vlan);
		struct lend_eth_head head, fresh;

		lend_eth_head(&head, &b, &a);
		for (uint32_t i = 0; i < 2 * 8 * 3; i++) {
			uint8_t got[128] = {0}, want[128] = {0}, class = (uint8_t)(i / 2 % 8);
			uint32_t len = i / 16 + i % 2;

			lend_eth_head(&fresh, &b, &a);
			lend_eth_write(got, &head, class, len);
			lend_eth_write(want, &fresh, class, len);
			cr_assert_arr_eq(got, want, sizeof(got), "kind %u, frame %u", kind, i);
		}
	}
}

Test(eth_frame, classes_are_marked)
{
	static const uint8_t want[] = {5, 4, 2, 0, 1, 1, 1, 1};

	for (uint32_t i = 0; i < 2 * 2 * 8; i++) {
		struct lend_eth_end a = end_of(i & 1, 1, i & 2 ? 5 : 0),
				    b = end_of(i & 1, 2, i & 2 ? 5 : 0);
		uint8_t got[128] = {0}, class = (uint8_t)(i / 4), *ip = got + (i & 2 ? 18 : 14);
		struct lend_eth_frame frame;
		struct lend_eth_head head;

		lend_eth_head(&head, &b, &a);
		lend_eth_write(got, &head, class, 2);
		lend_eth_sum(got, &head, 2);
		cr_expect_eq(lend_eth_read(got, head.len + 2u, &frame), LEND_ETH_UDP);
		cr_expect(lend_eth_sum_good(&frame) && frame.ecn == 0);
		cr_expect_eq(i & 1 ? ip[1] : (ip[0] & 15) << 4 | ip[1] >> 4, want[class] << 5 | 2);
		if (i & 2)
			cr_expect(got[14] == want[class] << 5 && frame.vlan == 5);
	}
}

Test(eth_frame, sums_as_the_naive_one)
{
	uint8_t bytes[300];

	for (uint32_t len = 0; len < sizeof(bytes); len++) {
		for (uint32_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)(i % 3 ? i * 41 : 255);
		for (uint32_t from = 0; from < 3 && from <= len; from++)
			cr_assert(lend_eth_fold(lend_eth_add(77, bytes + from, len - from)) ==
				  naive_sum(77, bytes + from, len - from));
	}
}

/* All shapes of frames that the carrier sends are read back. */
Test(eth_frame, read_back)
{
	uint8_t bytes[2048];
	struct lend_eth_frame f;

	for (int shape = 0; shape < 8; shape++) {
		bool four = shape & 1, sum = !four || (shape & 4);
		uint16_t vlan = shape & 2 ? 5 : 0;
		struct lend_eth_end a = end_of(four, 1, vlan), b = end_of(four, 2, vlan);

		for (uint32_t len = 0; len < 1500; len += len < 20 ? 1 : 97) {
			uint32_t n = make(bytes, four, vlan, len, sum);

			cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP);
			cr_assert(f.len == len && f.data == bytes + n - len && f.vlan == vlan);
			cr_assert(f.ip_len == n - 14 - (vlan ? 4 : 0) && !f.ecn);
			cr_assert(lend_ip_same(&f.from, &a.ip) && lend_ip_same(&f.to, &b.ip));
			cr_assert(f.udp == a.udp && f.to_udp == b.udp);
			cr_assert(memcmp(f.mac, mac_a, 6) == 0 && memcmp(f.to_mac, mac_b, 6) == 0);
			cr_assert(lend_eth_sum_good(&f));
			memset(bytes + n, 0xee, 46); /* short frames are padded */
			cr_assert(lend_eth_read(bytes, n + 46, &f) == LEND_ETH_UDP && f.len == len);
		}
	}
}

Test(eth_frame, every_truncation)
{
	struct lend_eth_frame f;

	for (int shape = 0; shape < 4; shape++) {
		uint8_t bytes[256];
		uint32_t n = make(bytes, shape & 1, shape & 2 ? 9 : 0, 40, true);

		for (uint32_t len = 0; len < n; len++) {
			uint8_t *cut = malloc(len + 1); /* heap block of exact size: the sanitizer
							 * sees a read past its end */

			memcpy(cut, bytes, len);
			cr_assert(lend_eth_read(cut, len, &f) != LEND_ETH_UDP, "%u of %u", len, n);
			free(cut);
		}
	}
}

/* The fast path recognises a frame by the beginning of an earlier one; a full parse gives the same
 * result. */
Test(eth_frame, fast_path__any_frame__equals_full_parse)
{
	struct lend_eth_expected usual = {.to_udp = 0};
	struct lend_eth_frame f, g;
	uint8_t bytes[256], copy[256];
	uint32_t n = make(bytes, true, 0, 40, false), len, seen = 0;

	cr_assert(!lend_eth_is_expected(&usual, bytes, n, &len));
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP);
	lend_eth_expected(&usual, bytes, &f);
	cr_assert(lend_eth_is_expected(&usual, bytes, n, &len) && len == 40);
	for (uint32_t cut = 0; cut < n; cut++)
		cr_assert(!lend_eth_is_expected(&usual, bytes, cut, &len), "%u of %u", cut, n);
	for (uint32_t bit = 0; bit < LEND_ETH_HEAD4 * 8; bit++) {
		memcpy(copy, bytes, n);
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!lend_eth_is_expected(&usual, copy, n, &len))
			continue;
		seen++;
		lend_eth_put16(copy + 24, 0);
		lend_eth_put16(copy + 24, (uint16_t)~naive_sum(0, copy + 14, 20));
		cr_assert(lend_eth_read(copy, n, &g) == LEND_ETH_UDP, "bit %u", bit);
		cr_assert(g.len == len && g.ecn == lend_eth_is_marked4(copy));
		cr_assert(lend_ip_same(&g.from, &f.from) && lend_ip_same(&g.to, &f.to));
		cr_assert(g.udp == f.udp && g.to_udp == f.to_udp);
	}
	cr_assert_eq(seen, 96 + 8 + 16 + 16 + 16, "MACs, TOS, id and both checksums");
}

/* Only IPv4 without a VLAN tag takes the fast path; other frames get the full parse. */
Test(eth_frame, fast_path__tag_or_ipv6__full_parse)
{
	for (int shape = 0; shape < 3; shape++) {
		struct lend_eth_expected usual = {.to_udp = 0};
		struct lend_eth_frame f;
		uint8_t bytes[256];
		uint32_t n = make(bytes, shape & 1, shape == 1 || shape == 2 ? 9 : 0, 40, true),
			 len;

		cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP);
		lend_eth_expected(&usual, bytes, &f);
		cr_assert(!lend_eth_is_expected(&usual, bytes, n, &len), "shape %d", shape);
	}
}

/* A flipped byte after the MAC addresses fails a check, or is one that no check covers: IPv6's
 * traffic class, flow label and hop limit, the VLAN's priority. */
Test(eth_frame, every_flipped_byte)
{
	for (int shape = 0; shape < 4; shape++) {
		bool four = shape & 1;
		uint32_t ip = shape & 2 ? 18 : 14;
		uint8_t bytes[256];
		uint32_t n = make(bytes, four, shape & 2 ? 9 : 0, 40, true);

		for (uint32_t at = 12; at < n; at++) {
			struct lend_eth_frame f;
			bool unseen = (ip == 18 && at == 14) ||
				      (!four && at >= ip + 1 && at < ip + 4) ||
				      (!four && at == ip + 7);
			uint8_t flip = at == 14 && ip == 18 ? 0x20 : at == ip ? 0x10 : 0x11;
			bool good;

			bytes[at] ^= flip;
			good = lend_eth_read(bytes, n, &f) == LEND_ETH_UDP &&
			       lend_eth_sum_good(&f) && f.vlan == (ip == 18 ? 9 : 0);
			cr_assert(good == unseen, "shape %d, byte %u", shape, at);
			bytes[at] ^= flip;
		}
	}
}

Test(eth_frame, verdicts)
{
	static const struct {
		bool four;
		uint8_t at, value;
		enum lend_eth_verdict verdict;
	} table[] = {
	    {true, 12, 0x86, LEND_ETH_FOREIGN},  /* unknown EtherType */
	    {true, 13, 0x06, LEND_ETH_NEIGH},    /* ARP */
	    {true, 14, 0x46, LEND_ETH_FOREIGN},  /* IPv4 options */
	    {true, 14, 0x44, LEND_ETH_FOREIGN},  /* IHL below 5 */
	    {true, 16, 0xff, LEND_ETH_BAD},      /* longer than the frame */
	    {true, 17, 19, LEND_ETH_BAD},        /* shorter than its header */
	    {true, 20, 0x20, LEND_ETH_FRAGMENT}, /* more fragments */
	    {true, 20, 0x60, LEND_ETH_FRAGMENT},
	    {true, 21, 0x01, LEND_ETH_FRAGMENT}, /* a later fragment */
	    {true, 23, 6, LEND_ETH_FOREIGN},     /* TCP */
	    {true, 39, 7, LEND_ETH_BAD},         /* UDP length below its header's */
	    {true, 39, 200, LEND_ETH_BAD},
	    {false, 14, 0x40, LEND_ETH_BAD},
	    {false, 18, 0xff, LEND_ETH_BAD},
	    {false, 20, 44, LEND_ETH_FRAGMENT},
	    {false, 20, 0, LEND_ETH_FOREIGN},  /* hop-by-hop options */
	    {false, 20, 58, LEND_ETH_FOREIGN}, /* ICMPv6, but not neighbour discovery */
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint8_t bytes[128];
		uint32_t n = make(bytes, table[i].four, 0, 20, true);
		struct lend_eth_frame f;
		uint16_t sum;

		bytes[table[i].at] = table[i].value;
		if (table[i].four && table[i].at > 14 && table[i].at < 34) {
			memset(bytes + 24, 0, 2);
			sum = (uint16_t)~naive_sum(0, bytes + 14, 20);
			lend_eth_put16(bytes + 24, sum);
		}
		cr_assert(lend_eth_read(bytes, n, &f) == table[i].verdict, "row %zu", i);
	}
}

Test(eth_frame, checksums)
{
	uint8_t bytes[128];
	struct lend_eth_frame f;
	struct lend_eth_end a, b;
	struct lend_eth_head head;
	uint32_t n;

	n = make(bytes, true, 0, 20, false); /* no checksum over IPv4 */
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP && lend_eth_sum_good(&f));
	n = make(bytes, false, 0, 20, false); /* no checksum over IPv6: RFC 8200 forbids it */
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP && !lend_eth_sum_good(&f));
	n = make(bytes, true, 0, 20, true);
	bytes[24] ^= 1;
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_CHECKSUM);
	for (int four = 0; four < 2; four++) { /* partial checksums, as a veth sends them */
		a = end_of(four, 1, 0);
		b = end_of(four, 2, 0);
		lend_eth_head(&head, &b, &a);
		n = make(bytes, four, 0, 21, false);
		lend_eth_sum_begin(bytes, &head, 21);
		cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP && lend_eth_sum_good(&f));
		bytes[head.len - 1] ^= 1;
		cr_assert(!lend_eth_sum_good(&f));
	}
}

/* A checksum that computes to 0 is sent as 0xffff, because 0 means no checksum. */
Test(eth_frame, a_sum_of_zero)
{
	uint8_t bytes[128];
	struct lend_eth_frame f;
	uint32_t n = make(bytes, false, 0, 2, true);
	uint32_t sum = lend_eth_get16(bytes + n - 4);

	sum += lend_eth_get16(bytes + n - 2); /* the payload that makes the sum 0 */
	{
		struct lend_eth_end a = end_of(false, 1, 0), b = end_of(false, 2, 0);
		struct lend_eth_head head;

		lend_eth_head(&head, &b, &a);
		lend_eth_write(bytes, &head, LEND_CLASS_NORMAL, 2);
		lend_eth_put16(bytes + head.len, lend_eth_fold(sum));
		lend_eth_sum(bytes, &head, 2);
		cr_assert(lend_eth_get16(bytes + head.len - 2) == 0xffff);
	}
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP && lend_eth_sum_good(&f));
}

Test(eth_frame, read__ecn_mark__is_reported)
{
	uint8_t bytes[128];
	struct lend_eth_frame f;
	uint32_t n = make(bytes, false, 0, 4, true);

	bytes[15] |= 0x30;
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP && f.ecn);
	bytes[15] ^= 0x10;
	cr_assert(lend_eth_read(bytes, n, &f) == LEND_ETH_UDP && !f.ecn);
}
