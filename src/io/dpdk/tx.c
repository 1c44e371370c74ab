/* dpdk/tx - writes datagrams into frames, and sends frames to devices in bursts.
 *
 * A datagram's head, pieces and tail are copied into a frame. On a link within this machine, frames
 * of one burst share buffers, because each buffer costs as much as a short call. If the driver can
 * take it (tx_zerocopy), a long last piece is not copied: it is chained to the frame in place,
 * followed by the tail. A device that refuses buffers is offered fewer at once. A memif link has a
 * second queue for urgent datagrams.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/dpdk/bell.h"
#include "io/dpdk/port_burst.h"
#include "io/dpdk/mbuf_cache.h"

#include <string.h>

#include <rte_ring.h>

#include "io/builtin.h"

enum {
	ENTER_TRIES = 10000,
	IN_PLACE = 2048, /* bytes of a piece from which an extra buffer is cheaper than a copy */
};

/* A burst of buffers. n[i] is the number of datagrams in buffers 0 to i. */
struct dpdk_load {
	struct rte_mbuf *buf[DPDK_BURST];
	uint32_t n[DPDK_BURST];
};

/* Returns whether the peer is another endpoint of this process on the same device. */
static bool is_near(const struct dpdk *io, const struct dpdk_peer *peer)
{
	return memcmp(peer->head.bytes, io->self.mac, 6) == 0;
}

/* Returns whether frames to the peer may have several segments: no software checksum reads them,
 * and no endpoint of this process receives them. */
static __rte_noinline bool takes_pieces(const struct dpdk *io, const struct dpdk_peer *peer)
{
	const struct dpdk_port *port = io->port[peer->port];

	if (port->reads == DPDK_COPIED || port->share == NULL)
		return port->reads != DPDK_COPIED;
	return (peer->head.ip4 || port->share->tx_sums) && !is_near(io, peer);
}

/* Returns whether the last piece is to be sent in place. */
static inline bool is_chained(const struct dpdk *io, const struct lend_out *out)
{
	return out->n > 0 && out->piece[out->n - 1].len >= IN_PLACE &&
	       takes_pieces(io, &io->peer[out->peer]);
}

/* Returns a buffer with a datagram's tail. NULL: none is left. */
static struct rte_mbuf *tail_of(struct dpdk *io, const struct lend_out *out)
{
	struct rte_mbuf *tail = dpdk_mbuf_cache_take(io);

	if (tail == NULL)
		return NULL;
	memcpy(rte_pktmbuf_mtod(tail, uint8_t *), out->tail, out->tail_len);
	tail->data_len = out->tail_len;
	return tail;
}

/* Chains the last piece to its frame in place, and then the tail. Returns their length; 0: they
 * must be copied. */
static uint32_t chain_piece(struct dpdk *io, struct rte_mbuf *buf, const struct lend_bufs *bufs,
			    const struct lend_out *out)
{
	const struct lend_piece *piece;
	struct rte_mbuf *more;

	if (!is_chained(io, out))
		return 0;
	piece = &out->piece[out->n - 1];
	more = dpdk_zerocopy_lend(io, io->port[io->peer[out->peer].port], piece,
				  lend_piece_data(bufs, piece));
	if (more == NULL)
		return 0;
	buf->nb_segs = more->nb_segs + 1 + (out->tail_len > 0);
	if (out->tail_len > 0 && (rte_pktmbuf_lastseg(more)->next = tail_of(io, out)) == NULL) {
		rte_pktmbuf_free(more);
		buf->nb_segs = 1;
		return 0;
	}
	buf->next = more;
	io->io.stats.tx_in_place++;
	return piece->len + out->tail_len;
}

/* Copies len bytes; short copies need no function call. Returns the end. */
static inline uint8_t *put_bytes(uint8_t *at, const void *from, uint32_t len)
{
	const uint8_t *bytes = from;

	if (len - 8 > 128 - 8)
		return len > 0 ? mempcpy(at, from, len) : at;
	if (len > 64) {
		memcpy(at, bytes, 64);
		memcpy(at + len - 64, bytes + len - 64, 64);
	} else if (len > 32) {
		memcpy(at, bytes, 32);
		memcpy(at + len - 32, bytes + len - 32, 32);
	} else if (len >= 16) {
		memcpy(at, bytes, 16);
		memcpy(at + len - 16, bytes + len - 16, 16);
	} else {
		memcpy(at, bytes, 8);
		memcpy(at + len - 8, bytes + len - 8, 8);
	}
	return at + len;
}

/* Writes a datagram's frame, with len bytes behind the header. If chained, leaves out the last
 * piece and the tail. Returns the end. */
static __rte_always_inline uint8_t *write_frame(uint8_t *at, struct lend_eth_head *head,
						const struct lend_bufs *bufs,
						const struct lend_out *out, uint32_t len,
						bool chained)
{
	uint32_t pieces = chained ? out->n - 1u : out->n;

	lend_eth_write(at, head, out->class, len);
	at = put_bytes(at + head->len, out->head, out->head_len);
	if (pieces > 0)
		at = put_bytes(at, lend_piece_data(bufs, out->piece), out->piece->len);
	for (uint32_t i = 1; i < pieces; i++)
		at = put_bytes(at, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
	return chained ? at : put_bytes(at, out->tail, out->tail_len);
}

/* Fills a buffer with frames of out[0..n), as many as fit. Returns their number. */
static uint32_t fill_buf(struct dpdk *io, struct rte_mbuf *buf, const struct lend_bufs *bufs,
			 const struct lend_out *out, uint32_t n)
{
	struct lend_eth_head *head = &io->peer[out->peer].head;
	uint8_t *start = rte_pktmbuf_mtod(buf, uint8_t *), *end;
	uint32_t chained = chain_piece(io, buf, bufs, out), i = 1;

	end = write_frame(start, head, bufs, out, lend_out_len(out), chained > 0);
	if (chained > 0 || io->kind == DPDK_DEVICE)
		n = 1;
	for (; i < n && !is_chained(io, &out[i]); i++) {
		uint32_t at = dpdk_next_frame((uint32_t)(end - start)), len = lend_out_len(&out[i]);

		if (at + head->len + len > DPDK_FRAME_MAX)
			break;
		end = write_frame(start + at, head, bufs, &out[i], len, false);
	}
	buf->data_len = (uint16_t)(end - start);
	buf->pkt_len = buf->data_len + chained;
	return i;
}

static void mark_sent(struct lend_out *out, uint32_t n, enum lend_sent sent)
{
	for (uint32_t i = 0; i < n; i++)
		out[i].sent = (uint8_t)sent;
}

static uint16_t way_of(const struct dpdk_port *port, const struct lend_out *out)
{
	return out->fast && port->ways > 1;
}

/* Returns how many buffers to offer to that queue of the device now. */
static uint32_t room_of(const struct dpdk_port *port, uint16_t way)
{
	uint32_t room = port->window[way];

	if (port->link && rte_ring_free_count(port->link->ring[1 - port->side]) < room)
		room = rte_ring_free_count(port->link->ring[1 - port->side]);
	return room;
}

/* Builds frames of out[0..n), all for one peer, in at most `most` buffers. Returns the number of
 * buffers. */
static uint16_t build_frames(struct dpdk *io, const struct dpdk_shared_port *share,
			     const struct lend_bufs *bufs, const struct lend_out *out, uint32_t n,
			     struct dpdk_load *load, uint32_t most)
{
	const struct lend_eth_head *head = &io->peer[out->peer].head;
	uint16_t made = 0;

	for (uint32_t i = 0; i < n && made < most; load->n[made++] = i) {
		struct rte_mbuf *buf = dpdk_mbuf_cache_take(io);

		if (buf == NULL)
			break;
		load->buf[made] = buf;
		i += fill_buf(io, buf, bufs, out + i, n - i);
		if (share)
			dpdk_device_sum(share, buf, head, buf->pkt_len - head->len);
	}
	return made;
}

static uint16_t send_burst(const struct dpdk *io, struct dpdk_port *port,
			   const struct lend_out *out, struct rte_mbuf **buf, uint16_t n)
{
	if (port->share == NULL)
		return rte_eth_tx_burst(port->id, way_of(port, out), buf, n);
	if (is_near(io, &io->peer[out->peer]))
		return dpdk_device_loop(port, buf, n);
	return dpdk_device_tx(port, way_of(port, out), buf, n);
}

/* Sends at most one burst of datagrams of one queue; fewer while the device refuses some, so that
 * few buffers are built for nothing. Returns how many datagrams were sent. */
static uint32_t send_some(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
			  struct lend_out *out, uint32_t n)
{
	uint16_t way = way_of(port, out), made, sent;
	uint32_t *window = &port->window[way];
	struct dpdk_load load;

	made = build_frames(io, port->share, bufs, out, n, &load, room_of(port, way));
	if (made == 0)
		return 0;
	sent = send_burst(io, port, out, load.buf, made);
	dpdk_bell_sent(io, port);
	if (sent == made) {
		*window = *window < DPDK_BURST / 2 ? *window * 2 : DPDK_BURST;
		return load.n[made - 1];
	}
	for (uint16_t i = sent; i < made; i++)
		dpdk_mbuf_cache_give(io, load.buf[i]);
	*window = sent > 0 ? sent : 1;
	return sent > 0 ? load.n[sent - 1] : 0;
}

static void send_run(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
		     struct lend_out *out, uint32_t n)
{
	uint32_t done = 0, sent = 1;

	while (port->active && !port->down && done < n && sent > 0) {
		sent = send_some(io, port, bufs, out + done, n - done);
		done += sent;
	}
	port->refused = done < n;
	mark_sent(out, done, LEND_SENT);
	mark_sent(out + done, n - done, LEND_SENT_FULL);
	io->io.stats.tx_full += n - done;
}

/* Enters a burst, with retries: the interrupt thread's rounds are short, so to wait for one is
 * better than to report the device full. */
static bool enter_patiently(struct dpdk *io)
{
	for (int tries = 0; tries < ENTER_TRIES; tries++) {
		if (dpdk_enter(io))
			return true;
	}
	return false;
}

static inline bool can_go(const struct dpdk *io, const struct lend_out *out, uint32_t len)
{
	return out->peer < DPDK_PEERS_MAX && io->peer[out->peer].life == DPDK_ALIVE &&
	       len <= io->io.path.mtu;
}

/* Returns whether a datagram can be sent and has the same peer and queue as the one before it. */
static inline bool goes_along(const struct dpdk *io, const struct lend_out *out)
{
	return out->peer == out[-1].peer && out->fast == out[-1].fast &&
	       lend_out_len(out) <= io->io.path.mtu;
}

/* Sends datagrams of one queue of a port. */
static void send_way(struct dpdk *io, struct dpdk_port *port, const struct lend_bufs *bufs,
		     struct lend_out *out, uint32_t n)
{
	uint32_t *full_in = &port->full_in[way_of(port, out)];

	if (*full_in == io->bursts) {
		mark_sent(out, n, LEND_SENT_FULL);
		io->io.stats.tx_full += n;
	} else {
		send_run(io, port, bufs, out, n);
	}
	if (out[n - 1].sent == LEND_SENT_FULL)
		*full_in = io->bursts;
}

static __rte_noinline void send_runs(struct dpdk *io, const struct lend_bufs *bufs,
				     struct lend_out *out, uint32_t n)
{
	io->bursts++;
	for (uint32_t i = 0, run; i < n; i += run) {
		run = 1;
		if (!can_go(io, &out[i], lend_out_len(&out[i]))) {
			io->io.stats.tx_dead++;
			out[i].sent = LEND_SENT_DEAD;
			continue;
		}
		while (i + run < n && goes_along(io, &out[i + run]))
			run++;
		send_way(io, io->port[io->peer[out[i].peer].port], bufs, out + i, run);
	}
}

/* Sends one short datagram over a link: the usual case when each end waits for the other. False: it
 * goes another way. */
static __rte_always_inline bool send_single(struct dpdk *io, const struct lend_bufs *bufs,
					    struct lend_out *out)
{
	uint32_t len = out->head_len + (out->n ? out->piece->len : 0);
	struct dpdk_peer *peer = &io->peer[out->peer & (DPDK_PEERS_MAX - 1)];
	struct dpdk_port *port;
	struct rte_mbuf *buf;
	uint8_t *start, *end;

	if (unlikely(out->n > 1 || out->tail_len > 0 || len >= IN_PLACE || !can_go(io, out, len)))
		return false;
	port = io->port[peer->port];
	buf = port->active ? dpdk_mbuf_cache_take(io) : NULL;
	if (unlikely(buf == NULL))
		return false;
	start = rte_pktmbuf_mtod(buf, uint8_t *);
	lend_eth_write(start, &peer->head, out->class, len);
	end = put_bytes(start + peer->head.len, out->head, out->head_len);
	if (out->n)
		end = put_bytes(end, lend_piece_data(bufs, out->piece), out->piece->len);
	buf->data_len = (uint16_t)(end - start);
	buf->pkt_len = buf->data_len;
	out->sent = LEND_SENT;
	if (rte_eth_tx_burst(port->id, way_of(port, out), &buf, 1) == 1) {
		dpdk_bell_sent(io, port);
		return true;
	}
	dpdk_mbuf_cache_give(io, buf);
	return false;
}

static __rte_noinline void tx_any(struct dpdk *io, const struct lend_bufs *bufs,
				  struct lend_out *out, uint32_t n)
{
	if (!enter_patiently(io)) {
		io->io.stats.tx_full += n;
		mark_sent(out, n, LEND_SENT_FULL);
		return;
	}
	io->found = true;
	if (n != 1 || io->kind != DPDK_MEMIF || !send_single(io, bufs, out))
		send_runs(io, bufs, out, n);
	dpdk_leave(io);
}

void dpdk_tx(struct lend_io *base, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct dpdk *io = (struct dpdk *)base;

	if (unlikely(n != 1 || io->kind != DPDK_RING || !send_single(io, bufs, out)))
		tx_any(io, bufs, out, n);
}
