/* Goal: udp's peer table gives each address one index for as long as it is pinned, whatever unknown
 * senders do, and grows.
 * Method: seeded lookups, pins and unpins against an array of pinned peers.
 * Covers: src/io/peer_table.c */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "io/peer_table.h"
#include "sys/clock.h"
#include "util/rng.h"

enum { KEYS = 3000, STEPS = 200000 };

static struct lend_udp_key key_of(uint32_t i)
{
	struct lend_udp_key key = {.ip = {0xfd, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i},
				   .port = (uint16_t)(i % 7)};

	return key;
}

Test(peer_table, pinned_ones_stay)
{
	static uint32_t pins[KEYS], index[KEYS], owner[2 * KEYS];
	struct lend_udp_peers peers;
	struct lend_rng rng;
	uint64_t seed = lend_clock_cycles();

	fprintf(stderr, "seed %lu\n", (unsigned long)seed);
	lend_rng_seed(&rng, seed);
	cr_assert_eq(lend_udp_peers_init(&peers), 0);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)lend_rng_below(&rng, KEYS);
		struct lend_udp_key key = key_of(i);
		int32_t at = lend_udp_peers_find(&peers, &key);
		const struct lend_udp_peer *peer = lend_udp_peers_at(&peers, (uint32_t)at);

		cr_assert(at >= 0 && at < 2 * KEYS);
		cr_assert_not_null(peer);
		cr_assert_eq(memcmp(&peer->key, &key, sizeof(key)), 0);
		if (pins[i] > 0)
			cr_assert_eq((uint32_t)at, index[i], "key %u moved at step %u", i, step);
		else if (owner[at] != 0 && index[owner[at] - 1] == (uint32_t)at &&
			 owner[at] != i + 1)
			cr_assert_eq(pins[owner[at] - 1], 0, "took a pinned index");
		index[i] = (uint32_t)at;
		owner[at] = i + 1;
		if (lend_rng_below(&rng, 3) > 0) {
			lend_udp_peers_pin(&peers, index[i], true);
			pins[i]++;
		} else if (pins[i] > 0) {
			lend_udp_peers_pin(&peers, index[i], false);
			pins[i]--;
		}
		cr_assert_leq(peers.loose, LEND_UDP_LOOSE_MAX);
	}
	lend_udp_peers_pin(&peers, UINT32_MAX, true);
	cr_assert_null(lend_udp_peers_at(&peers, UINT32_MAX));
	lend_udp_peers_free(&peers);
}

Test(peer_table, an_address_is_written_as_its_socket_does)
{
	struct sockaddr_storage four = {.ss_family = AF_INET}, back;
	struct lend_udp_key key;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&four;

	in->sin_addr.s_addr = htonl(0x7f000001);
	in->sin_port = htons(7);
	cr_assert(lend_udp_key_from(&key, &four));
	cr_assert_eq(lend_udp_key_to(&key, AF_INET, &back), sizeof(struct sockaddr_in));
	cr_assert_eq(memcmp(&four, &back, sizeof(*in)), 0);
	cr_assert_eq(lend_udp_key_to(&key, AF_INET6, &back), sizeof(struct sockaddr_in6));
	key.ip[0] = 0xfd;
	cr_assert_eq(lend_udp_key_to(&key, AF_INET, &back), 0, "IPv4 does not reach it");
	four.ss_family = AF_UNIX;
	cr_assert_not(lend_udp_key_from(&key, &four));
}
