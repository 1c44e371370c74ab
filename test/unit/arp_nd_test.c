/* Goal: neighbours find each other by ARP and neighbour discovery (NDP), and answers without a
 * request are not believed. Method: messages read back, with every truncation and flipped byte; the
 * neighbour table called directly with chosen times. Covers: src/io/eth/arp_nd.c,
 * src/io/eth/neighbours.c */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "io/eth/eth.h"

#define MS 1000000ull

static const uint8_t mac_b[6] = {2, 0, 0, 0, 0, 0xb}, mac_c[6] = {2, 0, 0, 0, 0, 0xc};
static struct lend_hosts hosts;

static struct lend_eth_end end_of(bool four, uint8_t last, uint16_t vlan)
{
	struct lend_eth_end end = {.mac = {2, 0, 0, 0, 0, (uint8_t)(last + 9)}, .vlan = vlan};

	end.ip = four ? lend_ip_of4((const uint8_t[4]){10, 0, 0, last})
		      : (struct lend_ip){{0xfd, 0, [14] = 3, [15] = last}};
	return end;
}

Test(arp_nd, known_arp)
{
	static const uint8_t want[60] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0,  0xa, 8, 6,
					 0,   1,   8,   0,   6,   4,   0, 1, 2, 0, 0,  0,   0, 0xa,
					 10,  0,   0,   1,   0,   0,   0, 0, 0, 0, 10, 0,   0, 2};
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	uint8_t got[LEND_ETH_NEIGH_MAX];

	cr_assert(lend_eth_neigh_request_write(got, &a, &b.ip, NULL) == sizeof(want));
	cr_assert(memcmp(got, want, sizeof(want)) == 0);
}

Test(arp_nd, known_solicitation)
{
	struct lend_eth_end a = end_of(false, 1, 0), b = end_of(false, 2, 0);
	static const uint8_t group[6] = {0x33, 0x33, 0xff, 0, 3, 2};
	static const uint8_t to[16] = {0xff, 2, [11] = 1, [12] = 0xff, [14] = 3, [15] = 2};
	uint8_t got[LEND_ETH_NEIGH_MAX];

	cr_assert(lend_eth_neigh_request_write(got, &a, &b.ip, NULL) == 14 + 40 + 32);
	cr_assert(memcmp(got, group, 6) == 0 && got[12] == 0x86 && got[13] == 0xdd);
	cr_assert(memcmp(got + 14 + 24, to, 16) == 0 && got[14 + 7] == 255);
	cr_assert(got[54] == 135 && memcmp(got + 62, &b.ip, 16) == 0 && got[78] == 1);
}

/* Request, answer and announcement, of ARP and NDP, with or without a VLAN tag, unicast or to
 * all. */
Test(arp_nd, read_back)
{
	for (int shape = 0; shape < 8; shape++) {
		bool four = shape & 1;
		uint16_t vlan = shape & 2 ? 7 : 0;
		struct lend_eth_end a = end_of(four, 1, vlan), b = end_of(four, 2, vlan);
		uint8_t bytes[LEND_ETH_NEIGH_MAX];
		struct lend_eth_neigh ask, answer;
		uint32_t n =
		    lend_eth_neigh_request_write(bytes, &a, &b.ip, shape & 4 ? mac_b : NULL);

		cr_assert(lend_eth_neigh_read(bytes, n, &ask), "shape %d", shape);
		cr_assert(ask.question && ask.vlan == vlan && memcmp(ask.mac, a.mac, 6) == 0);
		cr_assert(lend_ip_same(&ask.from, &a.ip) && lend_ip_same(&ask.target, &b.ip));
		n = lend_eth_neigh_reply_write(bytes, &b, &ask);
		cr_assert(lend_eth_neigh_read(bytes, n, &answer));
		cr_assert(!answer.question && memcmp(answer.mac, mac_b, 6) == 0);
		cr_assert(lend_ip_same(&answer.from, &b.ip) && memcmp(bytes, a.mac, 6) == 0);
		n = lend_eth_neigh_reply_write(bytes, &b, NULL);
		cr_assert(lend_eth_neigh_read(bytes, n, &answer) && (bytes[0] & 1));
		cr_assert(lend_ip_same(&answer.from, &b.ip));
	}
}

/* A host without an address sends its probe from the unspecified address; the probe must be
 * answered all the same. */
Test(arp_nd, probe_without_an_address)
{
	for (int four = 0; four < 2; four++) {
		static const struct lend_ip nobody;
		struct lend_eth_end a = end_of(four, 1, 0), b = end_of(four, 2, 0);
		uint8_t bytes[LEND_ETH_NEIGH_MAX];
		struct lend_eth_neigh ask;
		uint32_t n;

		a.ip = four ? lend_ip_of4((const uint8_t[4]){0}) : nobody;
		n = lend_eth_neigh_request_write(bytes, &a, &b.ip, NULL);
		cr_assert(lend_eth_neigh_read(bytes, n, &ask));
		cr_assert(lend_ip_same(&ask.from, &nobody) && lend_ip_same(&ask.target, &b.ip));
		n = lend_eth_neigh_reply_write(bytes, &b, &ask);
		cr_assert(lend_eth_neigh_read(bytes, n, &ask) && lend_ip_same(&ask.from, &b.ip));
		cr_assert(four || bytes[0] == 0x33, "an advertisement to all nodes");
	}
}

Test(arp_nd, every_truncation_and_flipped_byte)
{
	for (int shape = 0; shape < 2; shape++) {
		struct lend_eth_end a = end_of(shape, 1, 0), b = end_of(shape, 2, 0);
		uint8_t bytes[LEND_ETH_NEIGH_MAX];
		struct lend_eth_neigh ask;
		uint32_t n = lend_eth_neigh_request_write(bytes, &a, &b.ip, NULL),
			 whole = shape ? 42 : n;

		for (uint32_t len = 0; len < whole; len++) {
			uint8_t *cut = malloc(len + 1);

			memcpy(cut, bytes, len);
			cr_assert(!lend_eth_neigh_read(cut, len, &ask), "%u of %u", len, n);
			free(cut);
		}
		for (uint32_t at = 12; at < whole; at++) {
			bytes[at] ^= 0x81;
			if (lend_eth_neigh_read(bytes, n, &ask)) /* if valid, then different */
				cr_assert(shape ? at >= 28 : at > 14 && at < 18, "byte %u", at);
			bytes[at] ^= 0x81;
		}
	}
}

Test(arp_nd, read__sender_differs_from_frame__refused)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	uint8_t bytes[LEND_ETH_NEIGH_MAX];
	struct lend_eth_neigh ask;
	uint32_t n = lend_eth_neigh_request_write(bytes, &a, &b.ip, NULL);

	bytes[11] ^= 4; /* the Ethernet source differs from the message's sender */
	cr_assert(!lend_eth_neigh_read(bytes, n, &ask));
	bytes[11] ^= 4;
	bytes[6] = bytes[22] = 3; /* a group address cannot be a host's */
	cr_assert(!lend_eth_neigh_read(bytes, n, &ask));
	memset(bytes + 6, 0, 6);
	memset(bytes + 22, 0, 6);
	cr_assert(!lend_eth_neigh_read(bytes, n, &ask));
}

/* Options that are longer than their message, or of length 0. */
Test(arp_nd, options_end_where_the_message_does)
{
	static const uint8_t lens[] = {0, 2, 32, 255};

	for (size_t i = 0; i < sizeof(lens); i++) {
		struct lend_eth_end a = end_of(false, 1, 0), b = end_of(false, 2, 0);
		uint8_t bytes[LEND_ETH_NEIGH_MAX];
		struct lend_eth_neigh ask;
		uint32_t n = lend_eth_neigh_request_write(bytes, &a, &b.ip, NULL);
		uint32_t sum = lend_eth_get16(bytes + 56) + lend_eth_get16(bytes + 78);

		bytes[79] = lens[i];
		sum += (uint16_t)~lend_eth_get16(bytes + 78);
		lend_eth_put16(bytes + 56, lend_eth_fold(sum));
		cr_assert(!lend_eth_neigh_read(bytes, n, &ask), "length %u", lens[i]);
		bytes[79] = 1;
		lend_eth_put16(bytes + 56, lend_eth_fold(sum + lens[i] - 1));
		cr_assert(lend_eth_neigh_read(bytes, n, &ask), "the sums of this test");
	}
}

static uint32_t count_requests(lend_ns now)
{
	uint8_t bytes[LEND_ETH_NEIGH_MAX];
	uint32_t n = 0;

	while (lend_host_next_request(&hosts, now, bytes) > 0)
		n++;
	return n;
}

static void send_reply(const struct lend_eth_end *from, const uint8_t mac[6], bool question,
		       lend_ns now)
{
	struct lend_eth_neigh ask = {.question = question, .from = from->ip, .vlan = from->vlan};

	memcpy(ask.mac, mac, 6);
	lend_host_update(&hosts, &ask, now);
}

Test(arp_nd, learn__requested__is_used)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host;
	lend_ns now = 1000 * MS;

	send_reply(&b, mac_b, false, now);
	cr_assert(hosts.n == 0, "nobody asked");
	host = lend_host_use(&hosts, &a, &b.ip, now);
	send_reply(&b, mac_b, false, now);
	cr_assert(!lend_host_is_known(host), "no request is in flight yet");
	cr_assert(count_requests(now) == 1 && count_requests(now) == 0);
	send_reply(&b, mac_b, true, now);
	cr_assert(!lend_host_is_known(host), "that was a request");
	b.vlan = 3;
	send_reply(&b, mac_b, false, now);
	cr_assert(!lend_host_is_known(host), "that was on another VLAN");
	b.vlan = 0;
	send_reply(&b, mac_b, false, now);
	cr_assert(lend_host_is_known(host) && memcmp(host->mac, mac_b, 6) == 0);
	cr_assert(lend_host_use(&hosts, &a, &b.ip, now) == host && hosts.version == 1);
}

Test(arp_nd, request__no_answer__six_tries)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host = lend_host_use(&hosts, &a, &b.ip, 0);
	lend_ns now = 0;
	uint32_t asked = 0;

	for (; !lend_host_next_round(host, now) && now < 60000 * MS; now += 10 * MS)
		asked += count_requests(now);
	cr_assert(asked >= 6 && asked <= 7 && now < 6000 * MS, "%u in %llu ms", asked,
		  (unsigned long long)(now / MS));
	cr_assert(count_requests(now) == 1, "the next round");
}

/* An unsolicited announcement changes nothing: the known MAC address is probed first, together with
 * the new one. */
Test(arp_nd, learn__unsolicited__probes_the_known_host)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host = lend_host_use(&hosts, &a, &b.ip, 0);
	lend_ns now = MS;

	(void)count_requests(now);
	send_reply(&b, mac_b, false, now);
	for (int round = 0; round < 3;
	     round++) { /* answers: 0 both, 1 the old one, 2 the new one */
		now += 1000 * MS;
		send_reply(&b, mac_c, round & 1, now); /* announcements of both kinds */
		cr_assert(memcmp(host->mac, mac_b, 6) == 0 && lend_host_is_known(host));
		send_reply(&b, mac_c, false, now);
		cr_assert(!host->others, "reported before it was probed");
		cr_assert(count_requests(now) == 1);
		if (round != 1)
			send_reply(&b, mac_c, false, now + MS);
		if (round != 2)
			send_reply(&b, mac_b, false, now + 2 * MS);
		cr_assert(count_requests(now + 400 * MS) == 0 && memcmp(host->mac, mac_b, 6) == 0);
		now += 600 * MS;
		(void)count_requests(now);
		cr_assert(memcmp(host->mac, round == 2 ? mac_c : mac_b, 6) == 0, "round %d", round);
	}
	cr_assert(hosts.version == 2);
}

Test(arp_nd, is_kept_up_to_date)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host = lend_host_use(&hosts, &a, &b.ip, 0);
	uint8_t bytes[LEND_ETH_NEIGH_MAX];
	lend_ns now = 0;

	(void)count_requests(now);
	send_reply(&b, mac_b, false, now);
	cr_assert(count_requests(29000 * MS) == 0);
	now = 30001 * MS;
	cr_assert(lend_host_next_request(&hosts, now, bytes) > 0 && memcmp(bytes, mac_b, 6) == 0,
		  "itself first");
	send_reply(&b, mac_b, false, now);
	cr_assert(count_requests(now + 5000 * MS) == 0);
	lend_host_use(&hosts, &a, &b.ip, now + 30000 * MS); /* another thread's clock is ahead */
	for (; lend_host_is_known(host) && now < 100000 * MS; now += 50 * MS)
		(void)count_requests(now);
	cr_assert(host->state == LEND_HOST_REQUESTED && now < 66000 * MS, "it went");
}

Test(arp_nd, has_a_limit)
{
	struct lend_eth_end a = end_of(true, 1, 0);
	lend_ns now = 0;

	for (uint32_t i = 0; i < LEND_HOSTS; i++) {
		struct lend_ip ip =
		    lend_ip_of4((const uint8_t[4]){10, 1, (uint8_t)(i >> 8), (uint8_t)i});

		cr_assert(lend_host_use(&hosts, &a, &ip, now));
	}
	cr_assert(lend_host_use(&hosts, &a, &a.ip, now + 1000 * MS) == NULL);
	cr_assert(lend_host_use(&hosts, &a, &a.ip, now + 61000 * MS) != NULL, "the oldest goes");
}
