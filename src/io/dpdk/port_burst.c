/* port_burst - bursts on a network device that endpoints of this process share.
 *
 * A poll of a queue holds its lock. An endpoint that finds a queue locked skips it, because the
 * holder of the lock passes it its frames: a frame for another endpoint of this process goes to
 * that endpoint's ring.
 *
 * Layer: io. Threads: the carrier's; see struct dpdk_shared_port for the shared state.
 */
#include "io/dpdk/port_burst.h"

#include <errno.h>
#include <string.h>

#include <rte_ring.h>

#include "sys/clock.h"
#include "sys/last_error.h"

enum { TICK_NS = 1000000, TICKS = 16 };

static const struct dpdk_owner *owner_of(const struct dpdk_shared_port *share,
					 const struct lend_eth_frame *frame)
{
	uint32_t n = atomic_load_explicit(&share->owners, memory_order_relaxed);

	for (uint32_t i = 0; i < n; i++) {
		const struct lend_eth_end *end = &share->owner[i]->end;

		if (end->udp == frame->to_udp && end->vlan == frame->vlan &&
		    lend_ip_same(&end->ip, &frame->to))
			return share->owner[i];
	}
	return NULL;
}

/* Keeps frames for this endpoint and frames without an owner, and passes the others to their
 * owners. Returns the number kept. */
static uint16_t sort_frames(const struct dpdk_port *port, struct rte_mbuf **buf, uint16_t n)
{
	uint16_t kept = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *one = buf[i];
		struct lend_eth_frame frame;
		const struct dpdk_owner *owner = NULL;

		if (lend_eth_read(rte_pktmbuf_mtod(one, const uint8_t *), one->data_len, &frame) ==
		    LEND_ETH_UDP)
			owner = owner_of(port->share, &frame);
		if (owner == NULL || owner == port->owner)
			buf[kept++] = one;
		else if (rte_ring_enqueue(owner->ring, one) != 0) {
			atomic_fetch_add(&((struct dpdk_owner *)(uintptr_t)owner)->overrun, 1);
			rte_pktmbuf_free(one);
		}
	}
	if (kept < n)
		dpdk_wake_owners(port->share);
	return kept;
}

static uint16_t rx_queue(struct dpdk *io, uint16_t queue, struct rte_mbuf **buf, uint16_t cap)
{
	const struct dpdk_port *port = io->port[0];
	struct dpdk_shared_port *share = port->share;
	uint16_t n;

	if (!rte_spinlock_trylock(&share->rx[queue].spin))
		return 0;
	n = rte_eth_rx_burst(share->id, queue, buf, cap);
	io->took |= n > 0;
	if (n > 0 && atomic_load_explicit(&share->owners, memory_order_relaxed) > 1)
		n = sort_frames(port, buf, n);
	rte_spinlock_unlock(&share->rx[queue].spin);
	return n;
}

uint16_t dpdk_device_rx(struct dpdk *io, struct rte_mbuf **buf, uint16_t cap)
{
	const struct dpdk_port *port = io->port[0];
	const struct dpdk_shared_port *share = port->share;
	uint64_t taken = atomic_load_explicit(&share->taken, memory_order_relaxed);
	uint16_t n = (uint16_t)rte_ring_dequeue_burst(port->owner->ring, (void **)buf, cap, NULL);

	io->io.stats.rx_handed += n;
	io->took = false;
	for (uint16_t i = 0; i < share->queues && n < cap; i++) {
		uint16_t queue = (uint16_t)(port->owner->queue + i);

		if (queue >= share->queues)
			queue = (uint16_t)(queue - share->queues);
		/* A queue with a rule is polled by its owner, and an owner with a rule polls that
		 * queue alone. Frames without a rule may wait elsewhere while others are busy, so
		 * one tick in TICKS polls all queues. Every tick would be too often: the first poll
		 * after a sleep is a tick. */
		if (i > 0 && (port->owner->rule || (taken >> queue & 1)) &&
		    (io->turns > 0 || io->ticks % TICKS))
			continue;
		n = (uint16_t)(n + rx_queue(io, queue, buf + n, (uint16_t)(cap - n)));
	}
	return n;
}

uint16_t dpdk_device_tx(struct dpdk_port *port, uint16_t way, struct rte_mbuf **buf, uint16_t n)
{
	struct dpdk_shared_port *share = port->share;
	uint16_t queue = (uint16_t)(port->owner->queue + way * share->queues), sent;

	rte_spinlock_lock(&share->tx[queue].spin);
	sent = rte_eth_tx_burst(share->id, queue, buf, n);
	rte_spinlock_unlock(&share->tx[queue].spin);
	return sent;
}

uint64_t dpdk_device_queued(struct lend_io *base)
{
	const struct dpdk_port *port = ((struct dpdk *)base)->port[0];
	struct dpdk_shared_port *share = port->share;
	uint16_t queue = port->owner->queue;
	uint64_t n;

	rte_spinlock_lock(&share->tx[queue].spin);
	n = dpdk_tx_waiting(share->id, queue, share->tx_slots);
	rte_spinlock_unlock(&share->tx[queue].spin);
	return n * base->path.mtu;
}

uint16_t dpdk_device_loop(struct dpdk_port *port, struct rte_mbuf **buf, uint16_t n)
{
	struct dpdk_shared_port *share = port->share;
	uint16_t sent = 0;

	rte_spinlock_lock(&share->lock);
	for (bool room = true; sent < n && room; sent += room) {
		struct rte_mbuf *one = buf[sent];
		struct lend_eth_frame frame;
		const struct dpdk_owner *owner;

		(void)lend_eth_read(rte_pktmbuf_mtod(one, const uint8_t *), one->data_len, &frame);
		owner = owner_of(share, &frame);
		if (owner == NULL)
			rte_pktmbuf_free(one); /* its owner was closed */
		else
			room = rte_ring_enqueue(owner->ring, one) == 0;
	}
	dpdk_wake_owners(share);
	rte_spinlock_unlock(&share->lock);
	return sent;
}

bool dpdk_device_good(struct dpdk *io, const struct rte_mbuf *buf,
		      const struct lend_eth_frame *frame)
{
	uint64_t sum = buf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	bool ours = memcmp(frame->to_mac, io->self.mac, 6) == 0 || (frame->to_mac[0] & 1);
	bool fits = frame->ip_len <= io->mtu, good;

	good = sum == RTE_MBUF_F_RX_L4_CKSUM_UNKNOWN ? lend_eth_sum_good(frame)
						     : sum != RTE_MBUF_F_RX_L4_CKSUM_BAD;
	if (!ours || frame->vlan != io->self.vlan)
		io->io.stats.rx_foreign++;
	else if (!fits)
		io->io.stats.rx_truncated++;
	else if (!good)
		io->io.stats.rx_checksum++;
	else
		return true;
	return false;
}

void dpdk_device_sum(const struct dpdk_shared_port *share, struct rte_mbuf *buf,
		     const struct lend_eth_head *head, uint32_t len)
{
	uint8_t *bytes = rte_pktmbuf_mtod(buf, uint8_t *);

	if (!share->tx_sums) {
		if (!head->ip4)
			lend_eth_sum(bytes, head, len);
		return;
	}
	lend_eth_sum_begin(bytes, head, len);
	buf->l2_len = head->ip;
	buf->l3_len = (uint16_t)(head->len - 8 - head->ip) & 0x1ff;
	buf->ol_flags |=
	    RTE_MBUF_F_TX_UDP_CKSUM | (head->ip4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
}

int dpdk_device_resolve(struct dpdk *io, const struct dpdk_address *to, uint8_t mac[6])
{
	struct dpdk_port *port = io->port[0];
	int rc = dpdk_link_check(port->share);

	if (rc < 0)
		return rc;
	if (lend_ip_is4(&to->ip) != lend_ip_is4(&io->self.ip))
		return lend_fail(EINVAL,
				 "dpdk:%s: one end has an IPv4 address, the other an IPv6 one: "
				 "open an endpoint of that kind",
				 io->device);
	if (to->vlan && to->vlan != io->self.vlan)
		return lend_fail(EINVAL, "dpdk:%s: not on VLAN %u: open an endpoint with ?vlan=%u",
				 io->device, to->vlan, to->vlan);
	if (to->has_mac) {
		memcpy(mac, to->mac, 6);
		return 0;
	}
	return dpdk_neigh_find(io, port, to->has_via ? &to->via : &to->ip, mac);
}

void dpdk_device_tick(struct dpdk *io)
{
	lend_ns now = lend_clock_now();
	bool polls = io->turns >= DPDK_TICK_TURNS;

	io->turns = 0;
	io->ticks++;
	if (now < io->tick_ns)
		return;
	io->tick_ns = now + TICK_NS;
	dpdk_wake_tick(io, polls, now);
	dpdk_link_tick(io, io->port[0], now);
	dpdk_neigh_tick(io, io->port[0], now);
}
