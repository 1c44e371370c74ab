/* dpdk/peer - a carrier's table of peers, by link, IP and UDP port.
 *
 * A sender gets an index with its first frame. It keeps the index until the entry is needed for
 * another sender, or longer if it is pinned. When a link goes down, its peers leave the hash at
 * once, so that the next process on that link is a new peer. A dead peer's index becomes free after
 * it was reported as gone and unpinned.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/dpdk/dpdk.h"

#include <string.h>

static uint32_t bucket_of(uint16_t port, const struct lend_ip *ip, uint16_t udp)
{
	uint64_t half[2], key;

	memcpy(half, ip, sizeof(half));
	key = (half[0] ^ half[1] * 31 ^ ((uint64_t)udp << 16 | port)) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(key >> 54) & (DPDK_PEERS_MAX - 1);
}

void dpdk_peer_init(struct dpdk *io)
{
	memset(io->hash, 0xff, sizeof(io->hash));
}

uint32_t dpdk_peer_find(const struct dpdk *io, uint16_t port, const struct lend_ip *ip,
			uint16_t udp)
{
	uint16_t i = io->hash[bucket_of(port, ip, udp)];

	while (i != DPDK_NONE && (!lend_ip_same(&io->peer[i].ip, ip) || io->peer[i].udp != udp ||
				  io->peer[i].port != port))
		i = io->peer[i].next;
	return i;
}

uint32_t dpdk_peer_any(const struct dpdk *io, const struct lend_ip *ip, uint16_t udp)
{
	for (uint32_t p = 0; p < io->ports_n; p++) {
		uint32_t i = io->port[p] && !io->port[p]->closing
				 ? dpdk_peer_find(io, (uint16_t)p, ip, udp)
				 : DPDK_NONE;

		if (i != DPDK_NONE)
			return i;
	}
	return DPDK_NONE;
}

static void unhash_peer(struct dpdk *io, uint32_t index)
{
	const struct dpdk_peer *peer = &io->peer[index];
	uint16_t *link = &io->hash[bucket_of(peer->port, &peer->ip, peer->udp)];

	while (*link != index)
		link = &io->peer[*link].next;
	*link = peer->next;
	if (io->port[peer->port] && io->port[peer->port]->last_peer == index)
		io->port[peer->port]->last_peer = DPDK_NONE;
}

/* Finds an unused entry: a free one, or one of a sender that is not pinned. */
static uint32_t take_entry(struct dpdk *io)
{
	for (uint32_t i = 0; i < DPDK_PEERS_MAX; i++) {
		uint32_t at = (io->evict + i) & (DPDK_PEERS_MAX - 1);
		const struct dpdk_peer *peer = &io->peer[at];

		if (peer->life != DPDK_FREE &&
		    (peer->life == DPDK_DEAD || peer->kept || peer->held))
			continue;
		if (peer->life == DPDK_ALIVE)
			unhash_peer(io, at);
		io->evict = at + 1;
		return at;
	}
	return DPDK_NONE;
}

static void make_key(struct dpdk_peer *peer)
{
	uint32_t n = lend_ip_is4(&peer->ip) ? 4 : 16;

	memcpy(peer->key, peer->ip.b + 16 - n, n);
	lend_eth_put16(peer->key + n, peer->udp);
	peer->key_len = (uint8_t)(n + 2);
}

uint32_t dpdk_peer_add(struct dpdk *io, uint16_t port, const struct lend_ip *ip, uint16_t udp,
		       const uint8_t mac[6])
{
	struct lend_eth_end end = {.ip = *ip, .udp = udp};
	uint32_t at = take_entry(io);
	uint32_t bucket = bucket_of(port, ip, udp);
	struct dpdk_peer *peer;

	if (at == DPDK_NONE) {
		io->io.stats.peers_refused++;
		return at;
	}
	peer = &io->peer[at];
	memset(peer, 0, sizeof(*peer));
	peer->life = DPDK_ALIVE;
	peer->port = port;
	peer->ip = *ip;
	peer->udp = udp;
	make_key(peer);
	memcpy(end.mac, mac, 6);
	lend_eth_head(&peer->head, &end, &io->self);
	peer->next = io->hash[bucket];
	io->hash[bucket] = (uint16_t)at;
	return at;
}

static void free_if_done(struct dpdk_peer *peer)
{
	if (peer->life == DPDK_DEAD && peer->gone_reported && !peer->kept)
		peer->life = DPDK_FREE;
}

void dpdk_peer_pin(struct dpdk *io, uint32_t index, bool kept)
{
	struct dpdk_peer *peer = &io->peer[index & (DPDK_PEERS_MAX - 1)];

	if (peer->life == DPDK_FREE)
		return;
	peer->kept = kept;
	peer->held = false;
	free_if_done(peer);
}

void dpdk_peer_hangup(struct dpdk *io, uint16_t port)
{
	for (uint32_t i = 0; i < DPDK_PEERS_MAX; i++) {
		struct dpdk_peer *peer = &io->peer[i];

		if (peer->life != DPDK_ALIVE || peer->port != port)
			continue;
		unhash_peer(io, i);
		peer->life = DPDK_DEAD;
		io->gone_n++;
	}
}

uint32_t dpdk_peer_gone(struct dpdk *io, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < DPDK_PEERS_MAX && n < cap && io->gone_n > 0; i++) {
		struct dpdk_peer *peer = &io->peer[i];

		if (peer->life != DPDK_DEAD || peer->gone_reported)
			continue;
		peer->gone_reported = true;
		io->gone_n--;
		in[n++] = (struct lend_in){
		    .peer = i, .gone = 1, .addr = peer->key, .addr_len = peer->key_len};
		free_if_done(peer);
	}
	return n;
}
