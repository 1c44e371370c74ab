/* Goal: neighbours find each other by ARP and neighbour discovery, and nobody who was not asked is
 * believed. Method: messages read back, with every truncation and flipped byte; the table of hosts
 * played by hand with chosen times.
 */
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

Test(eth_ask, known_arp)
{
	static const uint8_t want[60] = {255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0,  0xa, 8, 6,
					 0,   1,   8,   0,   6,   4,   0, 1, 2, 0, 0,  0,   0, 0xa,
					 10,  0,   0,   1,   0,   0,   0, 0, 0, 0, 10, 0,   0, 2};
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	uint8_t got[LEND_ETH_ASK_MAX];

	cr_assert(lend_eth_ask_write(got, &a, &b.ip, NULL) == sizeof(want));
	cr_assert(memcmp(got, want, sizeof(want)) == 0);
}

Test(eth_ask, known_solicitation)
{
	struct lend_eth_end a = end_of(false, 1, 0), b = end_of(false, 2, 0);
	static const uint8_t group[6] = {0x33, 0x33, 0xff, 0, 3, 2};
	static const uint8_t to[16] = {0xff, 2, [11] = 1, [12] = 0xff, [14] = 3, [15] = 2};
	uint8_t got[LEND_ETH_ASK_MAX];

	cr_assert(lend_eth_ask_write(got, &a, &b.ip, NULL) == 14 + 40 + 32);
	cr_assert(memcmp(got, group, 6) == 0 && got[12] == 0x86 && got[13] == 0xdd);
	cr_assert(memcmp(got + 14 + 24, to, 16) == 0 && got[14 + 7] == 255);
	cr_assert(got[54] == 135 && memcmp(got + 62, &b.ip, 16) == 0 && got[78] == 1);
}

/* Question, answer and announcement, of both kinds, tagged or not, asked of one or of all. */
Test(eth_ask, read_back)
{
	for (int shape = 0; shape < 8; shape++) {
		bool four = shape & 1;
		uint16_t vlan = shape & 2 ? 7 : 0;
		struct lend_eth_end a = end_of(four, 1, vlan), b = end_of(four, 2, vlan);
		uint8_t bytes[LEND_ETH_ASK_MAX];
		struct lend_eth_ask ask, answer;
		uint32_t n = lend_eth_ask_write(bytes, &a, &b.ip, shape & 4 ? mac_b : NULL);

		cr_assert(lend_eth_ask_read(bytes, n, &ask), "shape %d", shape);
		cr_assert(ask.question && ask.vlan == vlan && memcmp(ask.mac, a.mac, 6) == 0);
		cr_assert(lend_ip_same(&ask.from, &a.ip) && lend_ip_same(&ask.target, &b.ip));
		n = lend_eth_answer_write(bytes, &b, &ask);
		cr_assert(lend_eth_ask_read(bytes, n, &answer));
		cr_assert(!answer.question && memcmp(answer.mac, mac_b, 6) == 0);
		cr_assert(lend_ip_same(&answer.from, &b.ip) && memcmp(bytes, a.mac, 6) == 0);
		n = lend_eth_answer_write(bytes, &b, NULL);
		cr_assert(lend_eth_ask_read(bytes, n, &answer) && (bytes[0] & 1));
		cr_assert(lend_ip_same(&answer.from, &b.ip));
	}
}

/* Who has no address yet asks from nowhere, and must be told all the same. */
Test(eth_ask, probe_without_an_address)
{
	for (int four = 0; four < 2; four++) {
		static const struct lend_ip nobody;
		struct lend_eth_end a = end_of(four, 1, 0), b = end_of(four, 2, 0);
		uint8_t bytes[LEND_ETH_ASK_MAX];
		struct lend_eth_ask ask;
		uint32_t n;

		a.ip = four ? lend_ip_of4((const uint8_t[4]){0}) : nobody;
		n = lend_eth_ask_write(bytes, &a, &b.ip, NULL);
		cr_assert(lend_eth_ask_read(bytes, n, &ask));
		cr_assert(lend_ip_same(&ask.from, &nobody) && lend_ip_same(&ask.target, &b.ip));
		n = lend_eth_answer_write(bytes, &b, &ask);
		cr_assert(lend_eth_ask_read(bytes, n, &ask) && lend_ip_same(&ask.from, &b.ip));
		cr_assert(four || bytes[0] == 0x33, "an advertisement to all nodes");
	}
}

Test(eth_ask, every_truncation_and_flipped_byte)
{
	for (int shape = 0; shape < 2; shape++) {
		struct lend_eth_end a = end_of(shape, 1, 0), b = end_of(shape, 2, 0);
		uint8_t bytes[LEND_ETH_ASK_MAX];
		struct lend_eth_ask ask;
		uint32_t n = lend_eth_ask_write(bytes, &a, &b.ip, NULL), whole = shape ? 42 : n;

		for (uint32_t len = 0; len < whole; len++) {
			uint8_t *cut = malloc(len + 1);

			memcpy(cut, bytes, len);
			cr_assert(!lend_eth_ask_read(cut, len, &ask), "%u of %u", len, n);
			free(cut);
		}
		for (uint32_t at = 12; at < whole; at++) {
			bytes[at] ^= 0x81;
			if (lend_eth_ask_read(bytes, n, &ask)) /* then it says something else */
				cr_assert(shape ? at >= 28 : at > 14 && at < 18, "byte %u", at);
			bytes[at] ^= 0x81;
		}
	}
}

Test(eth_ask, a_station_speaks_for_itself_only)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	uint8_t bytes[LEND_ETH_ASK_MAX];
	struct lend_eth_ask ask;
	uint32_t n = lend_eth_ask_write(bytes, &a, &b.ip, NULL);

	bytes[11] ^= 4; /* another sender on the wire than in the message */
	cr_assert(!lend_eth_ask_read(bytes, n, &ask));
	bytes[11] ^= 4;
	bytes[6] = bytes[22] = 3; /* a group is nobody's address */
	cr_assert(!lend_eth_ask_read(bytes, n, &ask));
	memset(bytes + 6, 0, 6);
	memset(bytes + 22, 0, 6);
	cr_assert(!lend_eth_ask_read(bytes, n, &ask));
}

/* An option that is longer than its message, or has no length. */
Test(eth_ask, options_end_where_the_message_does)
{
	static const uint8_t lens[] = {0, 2, 32, 255};

	for (size_t i = 0; i < sizeof(lens); i++) {
		struct lend_eth_end a = end_of(false, 1, 0), b = end_of(false, 2, 0);
		uint8_t bytes[LEND_ETH_ASK_MAX];
		struct lend_eth_ask ask;
		uint32_t n = lend_eth_ask_write(bytes, &a, &b.ip, NULL);
		uint32_t sum = lend_eth_get16(bytes + 56) + lend_eth_get16(bytes + 78);

		bytes[79] = lens[i];
		sum += (uint16_t)~lend_eth_get16(bytes + 78);
		lend_eth_put16(bytes + 56, lend_eth_fold(sum));
		cr_assert(!lend_eth_ask_read(bytes, n, &ask), "length %u", lens[i]);
		bytes[79] = 1;
		lend_eth_put16(bytes + 56, lend_eth_fold(sum + lens[i] - 1));
		cr_assert(lend_eth_ask_read(bytes, n, &ask), "the sums of this test");
	}
}

static uint32_t questions(lend_ns now)
{
	uint8_t bytes[LEND_ETH_ASK_MAX];
	uint32_t n = 0;

	while (lend_host_due(&hosts, now, bytes) > 0)
		n++;
	return n;
}

static void says(const struct lend_eth_end *who, const uint8_t mac[6], bool question, lend_ns now)
{
	struct lend_eth_ask ask = {.question = question, .from = who->ip, .vlan = who->vlan};

	memcpy(ask.mac, mac, 6);
	lend_host_heard(&hosts, &ask, now);
}

Test(eth_ask, learns_what_it_asked_for)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host;
	lend_ns now = 1000 * MS;

	says(&b, mac_b, false, now);
	cr_assert(hosts.n == 0, "nobody asked");
	host = lend_host_want(&hosts, &a, &b.ip, now);
	says(&b, mac_b, false, now);
	cr_assert(!lend_host_is_known(host), "the question is not out yet");
	cr_assert(questions(now) == 1 && questions(now) == 0);
	says(&b, mac_b, true, now);
	cr_assert(!lend_host_is_known(host), "that was a question");
	b.vlan = 3;
	says(&b, mac_b, false, now);
	cr_assert(!lend_host_is_known(host), "that was on another VLAN");
	b.vlan = 0;
	says(&b, mac_b, false, now);
	cr_assert(lend_host_is_known(host) && memcmp(host->mac, mac_b, 6) == 0);
	cr_assert(lend_host_want(&hosts, &a, &b.ip, now) == host && hosts.version == 1);
}

Test(eth_ask, asks_six_times_and_gives_up)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host = lend_host_want(&hosts, &a, &b.ip, 0);
	lend_ns now = 0;
	uint32_t asked = 0;

	for (; !lend_host_give_up(host, now) && now < 60000 * MS; now += 10 * MS)
		asked += questions(now);
	cr_assert(asked >= 6 && asked <= 7 && now < 6000 * MS, "%u in %llu ms", asked,
		  (unsigned long long)(now / MS));
	cr_assert(questions(now) == 1, "the next round");
}

/* A claim alone changes nothing: the one we knew is asked, with all others. */
Test(eth_ask, a_claim_is_looked_into)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host = lend_host_want(&hosts, &a, &b.ip, 0);
	lend_ns now = MS;

	(void)questions(now);
	says(&b, mac_b, false, now);
	for (int round = 0; round < 3; round++) { /* 0: both answer; 1: the old one; 2: the new */
		now += 1000 * MS;
		says(&b, mac_c, round & 1, now); /* an announcement is either kind */
		cr_assert(memcmp(host->mac, mac_b, 6) == 0 && lend_host_is_known(host));
		says(&b, mac_c, false, now);
		cr_assert(!host->others, "said before anybody was asked");
		cr_assert(questions(now) == 1);
		if (round != 1)
			says(&b, mac_c, false, now + MS);
		if (round != 2)
			says(&b, mac_b, false, now + 2 * MS);
		cr_assert(questions(now + 400 * MS) == 0 && memcmp(host->mac, mac_b, 6) == 0);
		now += 600 * MS;
		(void)questions(now);
		cr_assert(memcmp(host->mac, round == 2 ? mac_c : mac_b, 6) == 0, "round %d", round);
	}
	cr_assert(hosts.version == 2);
}

Test(eth_ask, is_kept_up_to_date)
{
	struct lend_eth_end a = end_of(true, 1, 0), b = end_of(true, 2, 0);
	struct lend_host *host = lend_host_want(&hosts, &a, &b.ip, 0);
	uint8_t bytes[LEND_ETH_ASK_MAX];
	lend_ns now = 0;

	(void)questions(now);
	says(&b, mac_b, false, now);
	cr_assert(questions(29000 * MS) == 0);
	now = 30001 * MS;
	cr_assert(lend_host_due(&hosts, now, bytes) > 0 && memcmp(bytes, mac_b, 6) == 0,
		  "itself first");
	says(&b, mac_b, false, now);
	cr_assert(questions(now + 5000 * MS) == 0);
	lend_host_want(&hosts, &a, &b.ip, now + 30000 * MS); /* another thread's clock runs ahead */
	for (; lend_host_is_known(host) && now < 100000 * MS; now += 50 * MS)
		(void)questions(now);
	cr_assert(host->state == LEND_HOST_ASKED && now < 66000 * MS, "it went");
}

Test(eth_ask, has_a_limit)
{
	struct lend_eth_end a = end_of(true, 1, 0);
	lend_ns now = 0;

	for (uint32_t i = 0; i < LEND_HOSTS; i++) {
		struct lend_ip ip =
		    lend_ip_of4((const uint8_t[4]){10, 1, (uint8_t)(i >> 8), (uint8_t)i});

		cr_assert(lend_host_want(&hosts, &a, &ip, now));
	}
	cr_assert(lend_host_want(&hosts, &a, &a.ip, now + 1000 * MS) == NULL);
	cr_assert(lend_host_want(&hosts, &a, &a.ip, now + 61000 * MS) != NULL, "the oldest goes");
}
