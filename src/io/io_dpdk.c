/* io_dpdk - the carrier over DPDK's devices: bursts of frames, one device per link.
 *
 * Sending copies a datagram's head, pieces and tail into a frame; receiving lends the frames
 * themselves.
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

#include "io/carriers.h"
#include "sys/why.h"

enum { ENTER_TRIES = 10000 };

static struct dpdk *self(struct lend_io *io)
{
	return (struct dpdk *)io;
}

/* The peer that a frame came from, which may be new: its index, or DPDK_NONE. */
static uint32_t sender_of(struct dpdk *io, uint32_t index, const struct lend_frame *frame)
{
	struct dpdk_port *port = io->port[index];
	struct dpdk_peer *peer;
	uint32_t i = port->last_peer;

	if (i == DPDK_NONE || io->peer[i].life != DPDK_ALIVE || io->peer[i].ip != frame->ip ||
	    io->peer[i].udp != frame->udp || io->peer[i].port != index)
		i = dpdk_peer_find(io, (uint16_t)index, frame->ip, frame->udp);
	if (i == DPDK_NONE)
		i = dpdk_peer_add(io, (uint16_t)index, frame->ip, frame->udp, frame->mac);
	port->last_peer = (uint16_t)i;
	if (i == DPDK_NONE || io->kind != DPDK_DEVICE)
		return i;
	peer = &io->peer[i];
	if (memcmp(peer->head.bytes, frame->mac, 6) != 0)
		memcpy(peer->head.bytes, frame->mac, 6);
	return i;
}

/* True when the frame became a datagram; else it is counted. */
static bool take_frame(struct dpdk *io, uint32_t index, const struct rte_mbuf *buf,
		       struct lend_in *in)
{
	const uint8_t *bytes = rte_pktmbuf_mtod(buf, const uint8_t *);
	struct lend_frame frame;
	enum lend_frame_verdict verdict;
	uint32_t peer;

	if (buf->nb_segs != 1) {
		io->io.stats.rx_truncated++;
		return false;
	}
	verdict = lend_frame_read(bytes, buf->data_len, io->ip, io->udp, &frame);
	if (verdict != LEND_FRAME_OURS) {
		io->io.stats.rx_foreign += verdict == LEND_FRAME_FOREIGN;
		io->io.stats.rx_bad += verdict == LEND_FRAME_BAD;
		return false;
	}
	peer = sender_of(io, index, &frame);
	if (peer == DPDK_NONE)
		return false;
	*in = (struct lend_in){.data = frame.data,
			       .len = frame.len,
			       .peer = peer,
			       .ecn = frame.ecn,
			       .addr = io->peer[peer].key,
			       .addr_len = 6};
	return true;
}

static uint32_t rx_port(struct dpdk *io, uint32_t index, struct lend_in *in, uint32_t cap)
{
	struct rte_mbuf **buf = io->held + io->held_n;
	struct dpdk_port *port = io->port[index];
	uint32_t n = 0;
	uint16_t got;

	if (cap > DPDK_BURST)
		cap = DPDK_BURST;
	got = rte_eth_rx_burst(port->id, 0, buf, (uint16_t)cap);
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

static uint32_t rx(struct lend_io *base, struct lend_in *in, uint32_t cap)
{
	struct dpdk *io = self(base);
	uint32_t n = 0, ports;

	if (!dpdk_enter(io))
		return 0;
	if (atomic_load_explicit(&io->changed, memory_order_relaxed))
		dpdk_port_reconcile(io);
	ports = io->ports_n;
	for (uint32_t i = 0; i < ports; i++) {
		uint32_t room = DPDK_HELD_MAX - io->held_n;
		uint32_t at = io->turn + i < ports ? io->turn + i : io->turn + i - ports;

		room = room < cap - n ? room : cap - n;
		if (room == 0)
			break;
		if (at < DPDK_PORTS_MAX && io->port[at] && io->port[at]->active)
			n += rx_port(io, at, in + n, room);
	}
	io->turn = io->turn + 1 < ports ? io->turn + 1 : 0;
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

static void fill(struct rte_mbuf *buf, const struct dpdk_peer *peer, const struct lend_bufs *bufs,
		 const struct lend_out *out, uint32_t len)
{
	uint8_t *at = rte_pktmbuf_mtod(buf, uint8_t *);

	lend_frame_write(at, &peer->head, len);
	at += LEND_FRAME_HEAD;
	memcpy(at, out->head, out->head_len);
	at += out->head_len;
	for (uint32_t i = 0; i < out->n; i++)
		at = mempcpy(at, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
	if (out->tail_len)
		memcpy(at, out->tail, out->tail_len);
	buf->data_len = (uint16_t)(len + LEND_FRAME_HEAD);
	buf->pkt_len = len + LEND_FRAME_HEAD;
}

static void mark(struct lend_out *out, uint32_t n, enum lend_sent sent)
{
	for (uint32_t i = 0; i < n; i++)
		out[i].sent = (uint8_t)sent;
}

/* Frames of out[0..n) in buf; how many were made. One that is too long ends here. */
static uint32_t build(struct dpdk *io, const struct lend_bufs *bufs, struct lend_out *out,
		      uint32_t n, struct rte_mbuf **buf)
{
	if (rte_pktmbuf_alloc_bulk(io->pool, buf, n) != 0)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		fill(buf[i], &io->peer[out[i].peer], bufs, &out[i], lend_out_len(&out[i]));
	return n;
}

/* At most a burst, less while the device refuses, so that little is built in vain; how many were
 * sent. */
static uint32_t send_some(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t n)
{
	struct rte_mbuf *buf[DPDK_BURST];
	uint32_t room = port->window, made;
	uint16_t sent;

	if (port->link && rte_ring_free_count(port->link->ring[1 - port->side]) < room)
		room = rte_ring_free_count(port->link->ring[1 - port->side]);
	made = build(io, bufs, out, n < room ? n : room, buf);
	if (made == 0)
		return 0;
	sent = rte_eth_tx_burst(port->id, 0, buf, (uint16_t)made);
	rte_pktmbuf_free_bulk(buf + sent, made - sent);
	if (sent < made)
		port->window = sent > 0 ? sent : 1;
	else
		port->window = port->window < DPDK_BURST / 2 ? port->window * 2 : DPDK_BURST;
	return sent;
}

static void send_run(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
		     struct lend_out *out, uint32_t n)
{
	uint32_t done = 0, sent = 1;

	while (port->active && done < n && sent > 0) {
		sent = send_some(io, port, bufs, out + done, n - done);
		done += sent;
	}
	mark(out, done, LEND_SENT);
	mark(out + done, n - done, LEND_SENT_FULL);
	io->io.stats.tx_full += n - done;
}

/* The interrupt thread's rounds are short: better wait for one than call the device full. */
static bool enter_patiently(struct dpdk *io)
{
	for (int tries = 0; tries < ENTER_TRIES; tries++) {
		if (dpdk_enter(io))
			return true;
	}
	return false;
}

static bool can_go(struct dpdk *io, const struct lend_out *out)
{
	return out->peer < DPDK_PEERS_MAX && io->peer[out->peer].life == DPDK_ALIVE &&
	       lend_out_len(out) <= io->io.path.mtu;
}

static void tx(struct lend_io *base, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct dpdk *io = self(base);

	if (!enter_patiently(io)) {
		io->io.stats.tx_full += n;
		mark(out, n, LEND_SENT_FULL);
		return;
	}
	for (uint32_t i = 0, run; i < n; i += run) {
		run = 1;
		if (!can_go(io, &out[i])) {
			io->io.stats.tx_dead++;
			out[i].sent = LEND_SENT_DEAD;
			continue;
		}
		while (i + run < n && out[i + run].peer == out[i].peer && can_go(io, &out[i + run]))
			run++;
		send_run(io, io->port[io->peer[out[i].peer].port], bufs, out + i, run);
	}
	dpdk_leave(io);
}

static bool flush(struct lend_io *base, uint32_t buf)
{
	(void)base;
	(void)buf;
	return true; /* tx() copied it */
}

static int fd(struct lend_io *base)
{
	(void)base;
	return -1;
}

static bool arm(struct lend_io *base)
{
	struct dpdk *io = self(base);

	if (io->gone_n > 0 || atomic_load(&io->changed))
		return false;
	for (uint32_t i = 0; i < io->ports_n; i++) {
		const struct dpdk_port *port = io->port[i];

		if (port && (port->closing ||
			     (port->link && !rte_ring_empty(port->link->ring[port->side]))))
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

static int add_peer(struct dpdk *io, uint32_t port, const struct dpdk_address *to, uint32_t *peer)
{
	static const uint8_t broadcast[6] = {255, 255, 255, 255, 255, 255};
	uint32_t i = dpdk_peer_find(io, (uint16_t)port, to->ip, to->udp);

	if (i == DPDK_NONE)
		i = dpdk_peer_add(io, (uint16_t)port, to->ip, to->udp,
				  to->has_mac ? to->mac : broadcast);
	if (i == DPDK_NONE)
		return lend_fail(ENOSPC,
				 "all %d peers of this carrier are in use: close some sessions",
				 DPDK_PEERS_MAX);
	io->peer[i].held = !io->peer[i].kept;
	*peer = i;
	return 0;
}

static int resolve(struct lend_io *base, const char *address, uint32_t *peer)
{
	struct dpdk *io = self(base);
	struct dpdk_address to;
	uint32_t port = 0;
	int rc = dpdk_address_parse(address, &to);

	if (rc < 0)
		return rc;
	if (to.udp == 0 || strcmp(to.device, io->device) != 0)
		return lend_fail(EINVAL,
				 "%.100s: not an address that a dpdk:%s carrier reaches: name one "
				 "on that device",
				 address, io->device);
	if (atomic_load(&io->changed))
		dpdk_port_reconcile(io);
	*peer = dpdk_peer_any(io, to.ip, to.udp);
	if (*peer != DPDK_NONE && io->port[io->peer[*peer].port]->active) {
		io->peer[*peer].held = !io->peer[*peer].kept;
		return 0;
	}
	pthread_mutex_lock(&dpdk_world);
	if (io->kind == DPDK_RING)
		rc = dpdk_ring_resolve(io, &to, &port);
	else if (io->kind == DPDK_MEMIF)
		rc = dpdk_memif_resolve(io, &to, &port);
	pthread_mutex_unlock(&dpdk_world);
	return rc < 0 ? rc : add_peer(io, port, &to, peer);
}

static void pin(struct lend_io *base, uint32_t peer, bool kept)
{
	dpdk_peer_pin(self(base), peer, kept);
}

static void who(struct lend_io *base, uint32_t index, struct lend_io_who *who)
{
	struct dpdk *io = self(base);
	const struct dpdk_peer *peer = &io->peer[index & (DPDK_PEERS_MAX - 1)];

	memset(who, 0, sizeof(*who));
	who->uid = io->kind == DPDK_DEVICE ? -1 : (int64_t)getuid();
	(void)dpdk_address_print(io->device, peer->ip, peer->udp, who->address,
				 sizeof(who->address));
}

static int name(struct lend_io *base, char *address, size_t cap)
{
	struct dpdk *io = self(base);

	return dpdk_address_print(io->device, io->ip, io->udp, address, cap);
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
    .tx = tx,
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
