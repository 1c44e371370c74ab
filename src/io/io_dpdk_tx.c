/* io_dpdk_tx - datagrams into frames, and frames to devices in bursts.
 *
 * A datagram's head, pieces and tail are copied into a frame. A long piece for a memif link is
 * chained to the frame where it lies instead, for that driver copies chains before it returns. A
 * device that refuses is offered fewer at once. A memif link has a second queue for what is urgent.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/io_dpdk.h"

#include <string.h>

#include <rte_ring.h>

#include "io/carriers.h"

enum {
	ENTER_TRIES = 10000,
	IN_PLACE = 2048, /* bytes of a piece from which one more buffer costs less than a copy */
};

/* Chains the last piece to its frame in place; 0: it is to be copied, else its length. */
static uint32_t chain(struct dpdk *io, struct rte_mbuf *buf, const struct lend_bufs *bufs,
		      const struct lend_out *out)
{
	const struct lend_piece *piece = &out->piece[out->n - 1];
	struct rte_mbuf *more;

	if (out->n == 0 || piece->len < IN_PLACE || io->kind != DPDK_MEMIF || out->tail_len > 0)
		return 0;
	more = rte_pktmbuf_alloc(io->pool);
	if (more == NULL)
		return 0;
	rte_mbuf_ext_refcnt_update(&io->lent, 1);
	rte_pktmbuf_attach_extbuf(more, lend_piece_data(bufs, piece), RTE_BAD_IOVA,
				  (uint16_t)piece->len, &io->lent);
	more->data_len = (uint16_t)piece->len;
	buf->next = more;
	buf->nb_segs = 2;
	return piece->len;
}

static void fill(struct dpdk *io, struct rte_mbuf *buf, const struct lend_bufs *bufs,
		 const struct lend_out *out, uint32_t len)
{
	const struct dpdk_peer *peer = &io->peer[out->peer];
	uint8_t *at = rte_pktmbuf_mtod(buf, uint8_t *);
	uint32_t chained = chain(io, buf, bufs, out);

	lend_eth_write(at, &peer->head, out->class, len);
	at += peer->head.len;
	at = mempcpy(at, out->head, out->head_len);
	for (uint32_t i = 0; i + (chained > 0) < out->n; i++)
		at = mempcpy(at, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
	if (out->tail_len)
		memcpy(at, out->tail, out->tail_len);
	buf->pkt_len = len + peer->head.len;
	buf->data_len = (uint16_t)(buf->pkt_len - chained);
}

static void mark(struct lend_out *out, uint32_t n, enum lend_sent sent)
{
	for (uint32_t i = 0; i < n; i++)
		out[i].sent = (uint8_t)sent;
}

/* Frames of out[0..n), all for one peer, in buf; how many were made. */
static uint32_t build(struct dpdk *io, const struct dpdk_share *share, const struct lend_bufs *bufs,
		      const struct lend_out *out, uint32_t n, struct rte_mbuf **buf)
{
	const struct dpdk_peer *peer = &io->peer[out->peer];

	if (rte_pktmbuf_alloc_bulk(io->pool, buf, n) != 0)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = lend_out_len(&out[i]);

		fill(io, buf[i], bufs, &out[i], len);
		if (share)
			dpdk_device_sum(share, buf[i], &peer->head, len);
	}
	return n;
}

static uint16_t way_of(const struct dpdk_port *port, const struct lend_out *out)
{
	return out->fast && port->ways > 1;
}

/* At most a burst, less while the device refuses, so that little is built in vain; how many were
 * sent. All for one queue. */
static uint32_t send_some(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t n)
{
	struct rte_mbuf *buf[DPDK_BURST];
	uint16_t way = way_of(port, out);
	uint32_t *window = &port->window[way], room = *window, made;
	uint16_t sent;

	if (port->link && rte_ring_free_count(port->link->ring[1 - port->side]) < room)
		room = rte_ring_free_count(port->link->ring[1 - port->side]);
	made = build(io, port->share, bufs, out, n < room ? n : room, buf);
	if (made == 0)
		return 0;
	if (port->share && memcmp(io->peer[out->peer].head.bytes, io->self.mac, 6) == 0)
		sent = dpdk_device_loop(port, buf, (uint16_t)made);
	else
		sent = port->share ? dpdk_device_tx(port, buf, (uint16_t)made)
				   : rte_eth_tx_burst(port->id, way, buf, (uint16_t)made);
	rte_pktmbuf_free_bulk(buf + sent, made - sent);
	if (sent < made)
		*window = sent > 0 ? sent : 1;
	else
		*window = *window < DPDK_BURST / 2 ? *window * 2 : DPDK_BURST;
	return sent;
}

static void send_run(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
		     struct lend_out *out, uint32_t n)
{
	uint32_t done = 0, sent = 1;

	while (port->active && !port->down && done < n && sent > 0) {
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

void dpdk_tx(struct lend_io *base, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct dpdk *io = (struct dpdk *)base;

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
		while (i + run < n && out[i + run].peer == out[i].peer &&
		       out[i + run].fast == out[i].fast && can_go(io, &out[i + run]))
			run++;
		send_run(io, io->port[io->peer[out[i].peer].port], bufs, out + i, run);
	}
	dpdk_leave(io);
}
