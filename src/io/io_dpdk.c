/* io_dpdk - the carrier over DPDK's devices: what they bring, and its operations.
 *
 * Receiving lends the frames themselves.
 *
 * Ring and memif links lose nothing and name their sender by the link itself.
 *
 * Layer: io. Threads: one per carrier.
 */
#include "io/io_dpdk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_prefetch.h>
#include <rte_ring.h>

#include "sys/why.h"

enum { TICK_TURNS = 32, FAIR = 8 }; /* FAIR: one turn in so many begins with what is not urgent */

static struct dpdk *self(struct lend_io *io)
{
	return (struct dpdk *)io;
}

/* The peer that a frame came from, which may be new: its index, or DPDK_NONE. */
static uint32_t sender_of(struct dpdk *io, uint32_t index, const struct lend_eth_frame *frame)
{
	struct dpdk_port *port = io->port[index];
	struct dpdk_peer *peer;
	uint32_t i = port->last_peer;

	if (i == DPDK_NONE || io->peer[i].life != DPDK_ALIVE || io->peer[i].udp != frame->udp ||
	    !lend_ip_same(&io->peer[i].ip, &frame->from) || io->peer[i].port != index)
		i = dpdk_peer_find(io, (uint16_t)index, &frame->from, frame->udp);
	if (i == DPDK_NONE)
		i = dpdk_peer_add(io, (uint16_t)index, &frame->from, frame->udp, frame->mac);
	port->last_peer = (uint16_t)i;
	if (i == DPDK_NONE || io->kind != DPDK_DEVICE)
		return i;
	peer = &io->peer[i];
	if (memcmp(peer->head.bytes, frame->mac, 6) != 0)
		dpdk_neigh_moved(io, port, peer, frame->mac);
	return i;
}

static void count_dropped(struct lend_io_stats *stats, enum lend_eth_verdict verdict)
{
	stats->rx_foreign += verdict == LEND_ETH_FOREIGN;
	stats->rx_bad += verdict == LEND_ETH_BAD;
	stats->rx_fragment += verdict == LEND_ETH_FRAGMENT;
	stats->rx_checksum += verdict == LEND_ETH_CHECKSUM;
}

/* True when the frame became a datagram; else it is counted. */
static bool take_frame(struct dpdk *io, uint32_t index, const struct rte_mbuf *buf,
		       struct lend_in *in)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(buf, const uint8_t *);
	struct lend_eth_frame frame;
	enum lend_eth_verdict verdict;
	uint32_t peer;

	if (buf->nb_segs != 1) {
		io->io.stats.rx_truncated++;
		return false;
	}
	verdict = lend_eth_read(bytes, buf->data_len, &frame);
	if (verdict == LEND_ETH_NEIGH && io->kind == DPDK_DEVICE)
		dpdk_neigh_heard(io, io->port[index], bytes, buf->data_len);
	else if (verdict == LEND_ETH_UDP &&
		 (frame.to_udp != io->self.udp || !lend_ip_same(&frame.to, &io->self.ip)))
		verdict = LEND_ETH_FOREIGN;
	if (verdict != LEND_ETH_UDP) {
		count_dropped(&io->io.stats, verdict);
		return false;
	}
	if (io->kind == DPDK_DEVICE && !dpdk_device_good(io, buf, &frame))
		return false;
	peer = sender_of(io, index, &frame);
	if (peer == DPDK_NONE)
		return false;
	*in = (struct lend_in){.data = frame.data,
			       .len = frame.len,
			       .peer = peer,
			       .ecn = frame.ecn,
			       .addr = io->peer[peer].key,
			       .addr_len = io->peer[peer].key_len};
	return true;
}

static uint32_t rx_port(struct dpdk *io, uint32_t index, uint16_t way, struct lend_in *in,
			uint32_t cap)
{
	struct rte_mbuf **buf = io->held + io->held_n;
	struct dpdk_port *port = io->port[index];
	uint32_t n = 0;
	uint16_t got;

	if (cap > DPDK_BURST)
		cap = DPDK_BURST;
	got = port->share ? dpdk_device_rx(io, buf, (uint16_t)cap)
			  : rte_eth_rx_burst(port->id, way, buf, (uint16_t)cap);
	for (uint16_t i = 0; i < got; i++)
		rte_prefetch0(rte_pktmbuf_mtod(buf[i], void *));
	for (uint16_t i = 0; i < got; i++) {
		struct rte_mbuf *taken = buf[i];

		if (take_frame(io, index, taken, &in[n]))
			buf[n++] = taken;
		else
			rte_pktmbuf_free(taken);
	}
	io->held_n += n;
	if (got == 0 && port->closing) {
		dpdk_peer_hangup(io, (uint16_t)index);
		pthread_mutex_lock(&dpdk_world);
		dpdk_port_drop(io, index);
		pthread_mutex_unlock(&dpdk_world);
	}
	return n;
}

/* What came by that queue of each port that has it. */
static uint32_t rx_way(struct dpdk *io, uint16_t way, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0, ports = io->ports_n;

	for (uint32_t i = 0; i < ports; i++) {
		uint32_t room = DPDK_HELD_MAX - io->held_n;
		uint32_t at = io->turn + i < ports ? io->turn + i : io->turn + i - ports;

		room = room < cap - n ? room : cap - n;
		if (room == 0)
			break;
		if (at < DPDK_PORTS_MAX && io->port[at] && io->port[at]->active &&
		    way < io->port[at]->ways)
			n += rx_port(io, at, way, in + n, room);
	}
	return n;
}

/* What is urgent comes alone, so that it is answered before long ones are copied; but they have a
 * turn of their own, however much of it there is. */
static uint32_t rx_ports(struct dpdk *io, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	if (io->kind == DPDK_MEMIF && io->turns % FAIR != 0)
		n = rx_way(io, 1, in, cap);
	if (n == 0)
		n = rx_way(io, 0, in, cap);
	io->turn = io->turn + 1 < io->ports_n ? io->turn + 1 : 0;
	return n;
}

static uint32_t rx(struct lend_io *base, struct lend_in *in, uint32_t cap)
{
	struct dpdk *io = self(base);
	uint32_t n;

	if (!dpdk_enter(io))
		return 0;
	if (atomic_load_explicit(&io->changed, memory_order_relaxed))
		dpdk_port_reconcile(io);
	if (++io->turns >= TICK_TURNS && io->kind == DPDK_DEVICE)
		dpdk_device_tick(io);
	n = rx_ports(io, in, cap);
	dpdk_leave(io);
	if (io->grow)
		dpdk_memif_grow(io);
	if (io->gone_n > 0)
		n += dpdk_peer_gone(io, in + n, cap - n);
	return n;
}

static void rx_done(struct lend_io *base)
{
	struct dpdk *io = self(base);

	rte_pktmbuf_free_bulk(io->held, io->held_n);
	io->held_n = 0;
}

/* Drivers that are given pieces in place have copied them when tx() returns. */
static bool flush(struct lend_io *base, uint32_t buf)
{
	(void)buf;
	return rte_mbuf_ext_refcnt_read(&self(base)->lent) == 1;
}

static int fd(struct lend_io *base)
{
	(void)base;
	return -1;
}

static bool arm(struct lend_io *base)
{
	struct dpdk *io = self(base);

	if (io->kind == DPDK_DEVICE)
		dpdk_device_tick(io);
	if (io->gone_n > 0 || atomic_load(&io->changed))
		return false;
	for (uint32_t i = 0; i < io->ports_n; i++) {
		const struct dpdk_port *port = io->port[i];

		if (port && (port->closing ||
			     (port->link && !rte_ring_empty(port->link->ring[port->side])) ||
			     (port->owner && !rte_ring_empty(port->owner->ring))))
			return false;
	}
	return true;
}

static int reg(struct lend_io *base, void *memory, size_t len)
{
	(void)base;
	(void)memory;
	(void)len;
	return 0;
}

static int add_peer(struct dpdk *io, uint32_t port, const struct dpdk_address *to,
		    const uint8_t mac[6], uint32_t *peer)
{
	uint32_t i = dpdk_peer_find(io, (uint16_t)port, &to->ip, to->udp);

	if (i == DPDK_NONE)
		i = dpdk_peer_add(io, (uint16_t)port, &to->ip, to->udp, mac);
	if (i == DPDK_NONE)
		return lend_fail(ENOSPC,
				 "all %d peers of this carrier are in use: close some sessions",
				 DPDK_PEERS_MAX);
	if (io->kind == DPDK_DEVICE) {
		memcpy(io->peer[i].head.bytes, mac, 6);
		io->peer[i].fixed = to->has_mac;
		io->peer[i].has_hop = !to->has_mac;
		io->peer[i].hop = to->has_via ? to->via : to->ip;
	}
	io->peer[i].held = !io->peer[i].kept;
	*peer = i;
	return 0;
}

/* Makes the link to an address that has no peer on any yet, or finds who is next on the way. */
static int link_to(struct dpdk *io, const struct dpdk_address *to, uint32_t *port, uint8_t mac[6])
{
	int rc = 0;

	if (io->kind == DPDK_DEVICE)
		return dpdk_device_resolve(io, to, mac);
	pthread_mutex_lock(&dpdk_world);
	if (io->kind == DPDK_RING)
		rc = dpdk_ring_resolve(io, to, port);
	else
		rc = dpdk_memif_resolve(io, to, port);
	pthread_mutex_unlock(&dpdk_world);
	return rc;
}

/* By our device; a name that is no device of this host is another host's for its own. */
static bool is_reached(const struct dpdk *io, const struct dpdk_address *to)
{
	uint16_t id;

	return io->kind != DPDK_DEVICE || strcmp(to->device, io->device) == 0 ||
	       rte_eth_dev_get_port_by_name(to->device, &id) != 0;
}

static int resolve(struct lend_io *base, const char *address, uint32_t *peer)
{
	struct dpdk *io = self(base);
	struct dpdk_address to;
	uint8_t mac[6] = {0};
	uint32_t port = 0;
	int rc = dpdk_address_parse(address, &to);

	if (rc < 0)
		return rc;
	if (to.udp == 0 || to.kind != io->kind || !is_reached(io, &to))
		return lend_fail(EINVAL,
				 "%.100s: not an address that a dpdk:%s carrier reaches: name one "
				 "on that device",
				 address, io->device);
	if (atomic_load(&io->changed))
		dpdk_port_reconcile(io);
	*peer = dpdk_peer_any(io, &to.ip, to.udp);
	if (*peer != DPDK_NONE && io->kind != DPDK_DEVICE &&
	    io->port[io->peer[*peer].port]->active) {
		io->peer[*peer].held = !io->peer[*peer].kept;
		return 0;
	}
	rc = link_to(io, &to, &port, mac);
	return rc < 0 ? rc : add_peer(io, port, &to, mac, peer);
}

static void pin(struct lend_io *base, uint32_t peer, bool kept)
{
	dpdk_peer_pin(self(base), peer, kept);
}

static void who(struct lend_io *base, uint32_t index, struct lend_io_who *who)
{
	struct dpdk *io = self(base);
	const struct dpdk_peer *peer = &io->peer[index & (DPDK_PEERS_MAX - 1)];
	const struct lend_eth_end end = {peer->ip, peer->udp, io->self.vlan, {0}};

	memset(who, 0, sizeof(*who));
	who->uid = io->kind == DPDK_DEVICE ? -1 : (int64_t)getuid();
	(void)dpdk_address_print(io->device, &end, who->address, sizeof(who->address));
}

static int name(struct lend_io *base, char *address, size_t cap)
{
	struct dpdk *io = self(base);

	return dpdk_address_print(io->device, &io->self, address, cap);
}

void dpdk_close(struct lend_io *base)
{
	struct dpdk *io = self(base);

	rx_done(base);
	if (io->kind == DPDK_MEMIF)
		dpdk_memif_settle(io);
	pthread_mutex_lock(&dpdk_world);
	dpdk_world_remove(io);
	for (uint32_t i = 0; i < DPDK_PORTS_MAX; i++) {
		if (io->port[i])
			dpdk_port_drop(io, i);
	}
	while (io->inbox_n > 0)
		dpdk_port_free(io->inbox[--io->inbox_n]);
	if (io->kind == DPDK_MEMIF)
		dpdk_memif_close(io);
	pthread_mutex_unlock(&dpdk_world);
	free(io);
}

const struct lend_io_ops dpdk_ops = {
    .rx = rx,
    .rx_done = rx_done,
    .tx = dpdk_tx,
    .flush = flush,
    .fd = fd,
    .arm = arm,
    .reg = reg,
    .resolve = resolve,
    .pin = pin,
    .who = who,
    .name = name,
    .close = dpdk_close,
};
