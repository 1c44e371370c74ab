/* raw/peer - a carrier's peers and their MACs.
 *
 * A peer that sent first is sent to at the MAC of its last frame. A resolved peer is sent to at its
 * next hop's MAC, which is requested from the network. A frame from another MAC only triggers a new
 * request.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/raw/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/last_error.h"

enum { ASKS_MAX = 16 };
static const lend_ns renew_ns = 1000000000;

static struct lend_udp_key key_of(const struct lend_ip *ip, uint16_t udp)
{
	struct lend_udp_key key = {0};

	memcpy(key.ip, ip, sizeof(key.ip));
	lend_eth_put16((uint8_t *)&key.port, udp);
	return key;
}

/* Returns the index for an address, with an allocated struct raw_peer; -1: no room. */
static int32_t place_peer(struct raw *io, const struct lend_ip *ip, uint16_t udp)
{
	struct lend_udp_key key = key_of(ip, udp);
	int32_t index = lend_udp_peers_find(&io->peers, &key);
	struct raw_peer *more;

	if (index < 0)
		return -1;
	if ((uint32_t)index < io->peer_n)
		return index;
	more = realloc(io->peer, io->peers.cap * sizeof(*more));
	if (more == NULL)
		return -1;
	memset(more + io->peer_n, 0, (io->peers.cap - io->peer_n) * sizeof(*more));
	io->peer = more;
	io->peer_n = io->peers.cap;
	return index;
}

static void write_head(struct raw *io, uint32_t index, const struct lend_ip *ip, uint16_t udp,
		       const uint8_t mac[6])
{
	struct lend_eth_end to = {.ip = *ip, .udp = udp, .vlan = io->self.vlan};

	memcpy(to.mac, mac, 6);
	lend_eth_head(&io->peer[index].head, &to, &io->self);
}

/* Returns whether the header belongs to this address: an index may be reused for another one. */
static bool is_head_of(const struct lend_eth_head *head, const struct lend_ip *ip, uint16_t udp)
{
	const uint8_t *at = head->bytes + head->len - 8;

	if (head->len == 0 || head->ip4 != lend_ip_is4(ip) || lend_eth_get16(at + 2) != udp)
		return false;
	return head->ip4 ? memcmp(at - 4, ip->b + 12, 4) == 0 : memcmp(at - 16, ip, 16) == 0;
}

/* Handles a peer's frame from another MAC than the one we send to. */
static void handle_moved(struct raw *io, struct raw_peer *peer, const struct lend_eth_frame *frame)
{
	struct lend_host *host;
	lend_ns now;

	if (peer->fixed)
		return;
	if (!peer->has_hop) {
		memcpy(peer->head.bytes, frame->mac, 6);
		return;
	}
	if (!lend_ip_same(&peer->hop, &frame->from))
		return; /* a router may send from another MAC than it receives at */
	now = lend_clock_now();
	host = lend_host_use(&io->hosts, &io->self, &peer->hop, now);
	if (host)
		lend_host_recheck(host, now);
}

int32_t raw_peer_of(struct raw *io, const struct lend_eth_frame *frame)
{
	int32_t index = place_peer(io, &frame->from, frame->udp);
	struct raw_peer *peer;

	if (index < 0) {
		io->io.stats.peers_refused++;
		return -1;
	}
	peer = &io->peer[index];
	if (!is_head_of(&peer->head, &frame->from, frame->udp)) {
		peer->fixed = peer->has_hop = false;
		write_head(io, (uint32_t)index, &frame->from, frame->udp, frame->mac);
	} else if (memcmp(peer->head.bytes, frame->mac, 6) != 0) {
		handle_moved(io, peer, frame);
	}
	return index;
}

/* Copies neighbours' MACs to their peers, and marks these neighbours as in use. */
static void copy_macs(struct raw *io, lend_ns now)
{
	for (uint32_t i = 0; i < io->peers.top; i++) {
		const struct lend_host *host;

		if (i >= io->peer_n || !io->peer[i].has_hop || !lend_udp_peers_at(&io->peers, i))
			continue;
		host = lend_host_use(&io->hosts, &io->self, &io->peer[i].hop, now);
		if (host && lend_host_is_known(host))
			memcpy(io->peer[i].head.bytes, host->mac, 6);
	}
}

void raw_peer_tick(struct raw *io, lend_ns now)
{
	uint8_t bytes[LEND_ETH_NEIGH_MAX];
	uint32_t len = 1;

	for (int i = 0; i < ASKS_MAX && len > 0; i++) {
		len = lend_host_next_request(&io->hosts, now, bytes);
		raw_send_frame(io, bytes, len);
	}
	if (io->hosts_seen == io->hosts.version && now < io->renew)
		return;
	io->hosts_seen = io->hosts.version;
	io->renew = now + renew_ns;
	copy_macs(io, now);
}

void raw_peer_update(struct raw *io, const uint8_t *bytes, uint32_t len)
{
	uint8_t answer[LEND_ETH_NEIGH_MAX];
	struct lend_eth_neigh ask;

	if (!lend_eth_neigh_read(bytes, len, &ask)) {
		io->io.stats.rx_bad++;
		return;
	}
	if (ask.vlan != io->self.vlan || memcmp(ask.mac, io->self.mac, 6) == 0)
		return; /* a frame of another VLAN, or our own frame, looped back */
	if (lend_ip_same(&ask.from, &io->self.ip))
		io->io.stats.address_clash++;
	else
		lend_host_update(&io->hosts, &ask, lend_clock_now());
	if (ask.question && lend_ip_same(&ask.target, &io->self.ip))
		raw_send_frame(io, answer, lend_eth_neigh_reply_write(answer, &io->self, &ask));
}

/* Returns a neighbour's MAC: 0, -EINPROGRESS, or -errno with lend_why(). */
static int ask_mac(struct raw *io, const struct lend_ip *hop, uint8_t mac[6])
{
	lend_ns now = lend_clock_now();
	struct lend_host *host;

	if (io->deaf)
		return lend_fail(EHOSTUNREACH,
				 "raw:%s: the device does not deliver ARP or neighbour discovery: "
				 "give the MAC of the peer or its router (?mac=)",
				 io->name);
	host = lend_host_use(&io->hosts, &io->self, hop, now);
	if (host == NULL)
		return lend_fail(ENOSPC,
				 "raw:%s: more than %d neighbours are in use: close some sessions",
				 io->name, LEND_HOSTS);
	memcpy(mac, host->mac, 6);
	if (lend_host_is_known(host))
		return 0;
	if (lend_host_next_round(host, now))
		return lend_fail(EHOSTDOWN,
				 "raw:%s: no answer from that IP address: is the host up, on this "
				 "link and VLAN? Else name its router by ?via= or its MAC by "
				 "?mac=",
				 io->name);
	raw_peer_tick(io, now);
	return -EINPROGRESS;
}

int raw_peer_resolve(struct raw *io, const struct lend_eth_address *to, uint32_t *peer)
{
	const struct lend_ip *hop = to->given & LEND_ETH_VIA ? &to->via : &to->ip;
	bool fixed = to->given & LEND_ETH_MAC || lend_ip_same(&to->ip, &io->self.ip);
	uint8_t mac[6];
	int32_t index;
	int rc = 0;

	if (fixed)
		memcpy(mac, to->given & LEND_ETH_MAC ? to->mac : io->self.mac, 6);
	else
		rc = ask_mac(io, hop, mac);
	if (rc < 0)
		return rc;
	index = place_peer(io, &to->ip, to->udp);
	if (index < 0)
		return lend_fail(ENOSPC, "no memory for another peer: close some sessions");
	write_head(io, (uint32_t)index, &to->ip, to->udp, mac);
	io->peer[index].fixed = fixed;
	io->peer[index].has_hop = !fixed;
	io->peer[index].hop = *hop;
	*peer = (uint32_t)index;
	return 0;
}
