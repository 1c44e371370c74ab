/* neigh - ARP and neighbour discovery of our own on a network device.
 *
 * The device's endpoints share one table of neighbours: a reply that one endpoint receives serves
 * all of them, and the endpoint that receives a request replies for all. A resolved peer is sent to
 * at the MAC of its next hop. A peer that sent first, and was not resolved, is sent to at the MAC
 * of its last frame.
 *
 * Layer: io. Threads: any carrier's; the table is under the share's lock.
 */
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/last_error.h"

enum { RENEW_NS = 1000000000, ASKS_MAX = 16 };

/* Sends a frame once. If the device refuses it, it is lost. */
static void send_frame(struct dpdk_port *port, const uint8_t *bytes, uint32_t len)
{
	struct rte_mempool *pool = port->share->pool[port->owner->queue];
	struct rte_mbuf *buf = len > 0 ? rte_pktmbuf_alloc(pool) : NULL;

	if (buf == NULL)
		return;
	memcpy(rte_pktmbuf_mtod(buf, uint8_t *), bytes, len);
	buf->data_len = (uint16_t)len;
	buf->pkt_len = len;
	if (dpdk_device_tx(port, 0, &buf, 1) != 1)
		rte_pktmbuf_free(buf);
}

/* Returns whether an endpoint of this process has that address; *end is that endpoint. share->lock
 * held. */
static bool is_ours(const struct dpdk_shared_port *share, const struct lend_ip *ip, uint16_t vlan,
		    struct lend_eth_end *end)
{
	for (uint32_t i = 0; i < share->owners; i++) {
		*end = share->owner[i]->end;
		if (end->vlan == vlan && lend_ip_same(&end->ip, ip))
			return true;
	}
	return false;
}

void dpdk_neigh_update(struct dpdk *io, struct dpdk_port *port, const uint8_t *bytes, uint32_t len)
{
	struct dpdk_shared_port *share = port->share;
	struct lend_eth_neigh ask;
	struct lend_eth_end end;
	uint8_t answer[LEND_ETH_NEIGH_MAX];
	uint32_t n = 0;

	if (!lend_eth_neigh_read(bytes, len, &ask)) {
		io->io.stats.rx_bad++;
		return;
	}
	if (memcmp(ask.mac, share->mac, 6) == 0)
		return; /* our own frame, looped back */
	rte_spinlock_lock(&share->lock);
	if (is_ours(share, &ask.from, ask.vlan, &end)) {
		io->io.stats.address_clash++;
	} else {
		lend_host_update(&share->hosts, &ask, lend_clock_now());
		atomic_store(&share->version, share->hosts.version);
	}
	if (ask.question && is_ours(share, &ask.target, ask.vlan, &end))
		n = lend_eth_neigh_reply_write(answer, &end, &ask);
	rte_spinlock_unlock(&share->lock);
	send_frame(port, answer, n);
}

void dpdk_neigh_moved(struct dpdk *io, struct dpdk_port *port, struct dpdk_peer *peer,
		      const uint8_t mac[6])
{
	struct dpdk_shared_port *share = port->share;
	struct lend_host *host;
	lend_ns now;

	if (peer->fixed)
		return;
	if (!peer->has_hop) {
		memcpy(peer->head.bytes, mac, 6);
		return;
	}
	if (!lend_ip_same(&peer->hop, &peer->ip))
		return; /* a gateway may send from another MAC than it receives at */
	now = lend_clock_now();
	rte_spinlock_lock(&share->lock);
	host = lend_host_use(&share->hosts, &io->self, &peer->hop, now);
	if (host)
		lend_host_recheck(host, now);
	rte_spinlock_unlock(&share->lock);
}

/* Sends the requests that are due. */
static void send_requests(struct dpdk_port *port, lend_ns now)
{
	struct dpdk_shared_port *share = port->share;
	uint8_t bytes[LEND_ETH_NEIGH_MAX];
	uint32_t n = 1;

	for (int i = 0; i < ASKS_MAX && n > 0; i++) {
		rte_spinlock_lock(&share->lock);
		n = lend_host_next_request(&share->hosts, now, bytes);
		atomic_store(&share->version, share->hosts.version);
		rte_spinlock_unlock(&share->lock);
		send_frame(port, bytes, n);
	}
}

int dpdk_neigh_find(struct dpdk *io, struct dpdk_port *port, const struct lend_ip *ip,
		    uint8_t mac[6])
{
	struct dpdk_shared_port *share = port->share;
	lend_ns now = lend_clock_now();
	struct lend_host *host;
	struct lend_eth_end end;
	bool known = false, silent = false;

	rte_spinlock_lock(&share->lock);
	if (is_ours(share, ip, io->self.vlan, &end)) {
		rte_spinlock_unlock(&share->lock);
		memcpy(mac, share->mac, 6);
		return 0;
	}
	host = lend_host_use(&share->hosts, &io->self, ip, now);
	if (host) {
		known = lend_host_is_known(host);
		silent = lend_host_next_round(host, now);
		memcpy(mac, host->mac, 6);
	}
	rte_spinlock_unlock(&share->lock);
	if (host == NULL)
		return lend_fail(ENOSPC,
				 "dpdk:%s: more than %d neighbours are in use: close some sessions",
				 share->device, LEND_HOSTS);
	if (silent && !atomic_load(&share->up))
		return lend_fail(ENETDOWN, "dpdk:%s: its link is down: check cable and peer",
				 share->device);
	if (silent)
		return lend_fail(EHOSTDOWN,
				 "dpdk:%s: no answer from that IP address: is the host up, on this "
				 "link and VLAN? Else name its gateway by ?via= or its MAC "
				 "by ?mac=",
				 share->device);
	send_requests(port, now);
	return known ? 0 : -EINPROGRESS;
}

/* Copies neighbours' MACs to their peers, and marks these neighbours as in use. */
static void copy_macs(struct dpdk *io, struct dpdk_shared_port *share, lend_ns now)
{
	rte_spinlock_lock(&share->lock);
	for (uint32_t i = 0; i < DPDK_PEERS_MAX; i++) {
		struct dpdk_peer *peer = &io->peer[i];
		const struct lend_host *host;

		if (peer->life != DPDK_ALIVE || !peer->has_hop ||
		    memcmp(peer->head.bytes, share->mac, 6) == 0)
			continue;
		host = lend_host_use(&share->hosts, &io->self, &peer->hop, now);
		if (host && lend_host_is_known(host))
			memcpy(peer->head.bytes, host->mac, 6);
	}
	rte_spinlock_unlock(&share->lock);
}

void dpdk_neigh_tick(struct dpdk *io, struct dpdk_port *port, lend_ns now)
{
	uint32_t version = atomic_load(&port->share->version);

	send_requests(port, now);
	if (version == io->version && now < io->renew_ns)
		return;
	io->version = version;
	io->renew_ns = now + RENEW_NS;
	copy_macs(io, port->share, now);
}

void dpdk_neigh_announce(struct dpdk *io, struct dpdk_port *port)
{
	uint8_t bytes[LEND_ETH_NEIGH_MAX];

	send_frame(port, bytes, lend_eth_neigh_reply_write(bytes, &io->self, NULL));
}
