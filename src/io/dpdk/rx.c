/* dpdk/rx - receives frames of devices and lends their datagrams in place.
 *
 * A link within this machine may carry several frames in one buffer, one behind the other, so that
 * the driver's cost per buffer is paid once per burst. Datagrams that the caller has no room for
 * stay in the buffer, and are split off in the next receive call, before any new frames.
 *
 * Ring and memif links lose nothing and identify the sender by the link itself: a frame with the
 * same header bytes as the link's last one is not parsed field by field.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/dpdk/bell.h"
#include "io/dpdk/port_burst.h"
#include "io/dpdk/mbuf_cache.h"

#include <rte_prefetch.h>
#include <rte_ring.h>

enum {
	FAIR = 8,   /* one receive call in this many starts with the normal queue */
	SELDOM = 4, /* when idle, one receive call in this many polls the urgent queue */
};

/* Returns the index of a frame's sender, which may be new, or DPDK_NONE. */
static uint32_t sender_of(struct dpdk *io, uint32_t index, const struct lend_eth_frame *frame)
{
	struct dpdk_port *port = io->port[index];
	struct dpdk_peer *peer;
	uint32_t i = port->last_peer;

	if (i == DPDK_NONE || io->peer[i].udp != frame->udp ||
	    !lend_ip_same(&io->peer[i].ip, &frame->from))
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

/* Fills *in with a datagram of peer i. Returns its end, behind which the next frame may begin. */
static inline const uint8_t *hand_out(const struct dpdk_peer *peer, uint32_t i, const uint8_t *data,
				      uint32_t len, uint8_t ecn, struct lend_in *in)
{
	in->data = data;
	in->len = len;
	in->peer = i;
	in->ecn = ecn;
	in->gone = 0;
	in->addr_len = peer->key_len;
	in->reads = 0;
	in->parts = 0;
	in->addr = peer->key;
	in->body = NULL;
	in->body_len = 0;
	return data + len;
}

/* Parses the frame at bytes into a datagram. Returns its end. NULL: the frame was dropped and
 * counted, or used for address resolution; no frame follows it. */
static const uint8_t *take_frame(struct dpdk *io, uint32_t index, const struct rte_mbuf *buf,
				 const uint8_t *bytes, uint32_t len, struct lend_in *in)
{
	uint32_t i;
	struct lend_eth_frame frame;
	enum lend_eth_verdict verdict = lend_eth_read(bytes, len, &frame);

	if (verdict == LEND_ETH_NEIGH && io->kind == DPDK_DEVICE)
		dpdk_neigh_update(io, io->port[index], bytes, len);
	else if (verdict == LEND_ETH_UDP &&
		 (frame.to_udp != io->self.udp || !lend_ip_same(&frame.to, &io->self.ip)))
		verdict = LEND_ETH_FOREIGN;
	if (verdict != LEND_ETH_UDP) {
		count_dropped(&io->io.stats, verdict);
		return NULL;
	}
	if (io->kind == DPDK_DEVICE && !dpdk_device_good(io, buf, &frame))
		return NULL;
	i = sender_of(io, index, &frame);
	if (i == DPDK_NONE)
		return NULL;
	if (io->kind != DPDK_DEVICE)
		lend_eth_expected(&io->peer[i].usual, bytes, &frame);
	return hand_out(&io->peer[i], i, frame.data, frame.len, frame.ecn, in);
}

/* Like take_frame(), for a frame with the same header bytes as the last one of the link's last
 * sender. NULL: they differ. */
static inline const uint8_t *take_usual(const struct dpdk *io, const struct dpdk_port *port,
					const uint8_t *bytes, uint32_t room, struct lend_in *in)
{
	uint32_t len, i = port->last_peer;
	const struct dpdk_peer *peer = &io->peer[i & (DPDK_PEERS_MAX - 1)];

	if (i == DPDK_NONE || !lend_eth_is_expected(&peer->usual, bytes, room, &len))
		return NULL;
	return hand_out(peer, i, bytes + LEND_ETH_HEAD4, len, lend_eth_is_marked4(bytes), in);
}

/* Ends the current buffer: keeps it if a datagram in it was lent, else frees it. */
static void next_buffer(struct dpdk *io, struct dpdk_rx *rx)
{
	if (rx->lent)
		io->held[io->held_n++] = rx->frame[rx->at];
	else
		dpdk_mbuf_cache_give(io, rx->frame[rx->at]);
	rx->at++;
	rx->offset = 0;
	rx->lent = false;
}

/* Joins the segments of a frame, if its first buffer has room. False: it has none. */
static bool is_whole(struct dpdk *io, struct rte_mbuf *buf)
{
	if (buf->nb_segs == 1 || rte_pktmbuf_linearize(buf) == 0)
		return true;
	io->io.stats.rx_truncated++;
	return false;
}

/* Splits the current buffer into at most cap datagrams. */
static uint32_t split_one(struct dpdk *io, struct dpdk_rx *rx, struct lend_in *in, uint32_t cap)
{
	struct rte_mbuf *buf = rx->frame[rx->at];
	bool more = is_whole(io, buf), many = io->kind != DPDK_DEVICE;
	const uint8_t *start = rte_pktmbuf_mtod(buf, const uint8_t *), *end;
	uint32_t n = 0, len = buf->data_len, offset = rx->offset;

	while (n < cap && more) {
		end = take_usual(io, io->port[rx->port], start + offset, len - offset, &in[n]);
		if (end == NULL)
			end = take_frame(io, rx->port, buf, start + offset, len - offset, &in[n]);
		if (end == NULL)
			break;
		n++;
		offset = dpdk_next_frame((uint32_t)(end - start));
		more = many && offset + LEND_ETH_HEAD4 <= len;
	}
	rx->offset = offset;
	rx->lent |= n > 0;
	if (n < cap || !more)
		next_buffer(io, rx);
	return n;
}

/* Splits received buffers into at most cap datagrams. */
static uint32_t split_bufs(struct dpdk *io, struct dpdk_rx *rx, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	while (n < cap && rx->at < rx->n)
		n += split_one(io, rx, in + n, cap - n);
	return n;
}

/* Removes a ring link after its last frame: its other end closed. */
static void end_ring(struct dpdk *io, uint32_t index)
{
	dpdk_peer_hangup(io, (uint16_t)index);
	pthread_mutex_lock(&dpdk_world);
	dpdk_port_drop(io, index);
	pthread_mutex_unlock(&dpdk_world);
}

static void end_rings(struct dpdk *io)
{
	io->ending = false;
	for (uint32_t i = 0; i < io->ports_n; i++) {
		const struct dpdk_port *port = io->port[i];

		if (port == NULL || !port->closing)
			continue;
		if (rte_ring_empty(port->link->ring[port->side]))
			end_ring(io, i);
		else
			io->ending = true;
	}
}

/* Takes up to cap frames from a queue of a device. */
static __rte_always_inline uint16_t poll_port(struct dpdk *io, const struct dpdk_port *port,
					      uint16_t way, struct rte_mbuf **frame, uint16_t cap)
{
	return port->share ? dpdk_device_rx(io, frame, cap)
			   : rte_eth_rx_burst(port->id, way, frame, cap);
}

/* Returns how many more frames there is room for. */
static uint32_t room_for(const struct dpdk *io, uint32_t cap)
{
	uint32_t room = io->held_n < DPDK_LENT_MAX ? DPDK_LENT_MAX - io->held_n : 0;

	room = room < cap ? room : cap;
	return room < DPDK_BURST ? room : DPDK_BURST;
}

/* Fast path for a buffer with one frame from the link's last sender. */
static inline bool take_single(struct dpdk *io, const struct dpdk_port *port, struct rte_mbuf *buf,
			       struct lend_in *in)
{
	const uint8_t *start = rte_pktmbuf_mtod(buf, const uint8_t *), *end;

	end = buf->nb_segs == 1 ? take_usual(io, port, start, buf->data_len, in) : NULL;
	if (end == NULL || (uint32_t)(end - start) + LEND_ETH_HEAD4 <= buf->data_len)
		return false;
	io->held[io->held_n++] = buf;
	return true;
}

/* Notes that rx has `got` buffers, received from that port. */
static inline void note_frames(struct dpdk_rx *rx, const struct dpdk_rx_source *look, uint16_t got)
{
	rx->n = got;
	rx->at = 0;
	rx->port = (uint16_t)look->index;
}

/* Processes `got` buffers received from that queue of a port. */
static __rte_noinline uint32_t rx_some(struct dpdk *io, const struct dpdk_rx_source *look,
				       uint16_t way, uint16_t got, struct lend_in *in, uint32_t cap)
{
	struct dpdk_rx *rx = &io->rx[way];
	uint32_t n = 0;

	for (uint16_t i = 1; i < got; i++)
		rte_prefetch0(rte_pktmbuf_mtod(rx->frame[i], void *));
	note_frames(rx, look, got);
	for (; n < cap && rx->at < rx->n; n++, rx->at++)
		if (!take_single(io, look->port, rx->frame[rx->at], &in[n]))
			break;
	return n + split_bufs(io, rx, in + n, cap - n);
}

/* Polls that queue of a port. */
static __rte_always_inline uint32_t rx_port(struct dpdk *io, const struct dpdk_rx_source *look,
					    uint16_t way, struct lend_in *in, uint32_t cap)
{
	uint32_t room = room_for(io, cap);
	uint16_t got;

	if (way >= look->port->ways || room == 0)
		return 0;
	got = poll_port(io, look->port, way, io->rx[way].frame, (uint16_t)room);
	dpdk_bell_polled(io, look->port, got);
	if (got == 1 && take_single(io, look->port, io->rx[way].frame[0], in))
		return 1;
	return got > 0 ? rx_some(io, look, way, got, in, cap) : 0;
}

static __rte_noinline uint32_t rx_port_of(struct dpdk *io, const struct dpdk_rx_source *look,
					  uint16_t way, struct lend_in *in, uint32_t cap)
{
	return rx_port(io, look, way, in, cap);
}

/* Splits buffers left from the previous call, then polls that queue of each port. */
static __rte_always_inline uint32_t rx_way(struct dpdk *io, uint16_t way, struct lend_in *in,
					   uint32_t cap)
{
	struct dpdk_rx *rx = &io->rx[way];
	uint32_t n = rx->at < rx->n ? split_bufs(io, rx, in, cap) : 0, at = io->turn;

	if (io->looks == 1 && rx->at == rx->n)
		return n + rx_port(io, io->look, way, in + n, cap - n);
	for (uint32_t left = io->looks; left > 0 && rx->at == rx->n; left--) {
		n += rx_port_of(io, &io->look[at], way, in + n, cap - n);
		at = at + 1 < io->looks ? at + 1 : 0;
	}
	return n;
}

static __rte_noinline uint32_t rx_urgent(struct dpdk *io, struct lend_in *in, uint32_t cap)
{
	return rx_way(io, 1, in, cap);
}

/* Polls the urgent queue first, and the normal queue only if it is empty, so that urgent datagrams
 * are answered before long ones are copied. One call in FAIR starts with the normal queue, so
 * urgent traffic cannot starve it. While the carrier is idle the urgent queue is mostly empty, so
 * most calls skip it to stay short. */
static uint32_t rx_ports(struct dpdk *io, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	if (io->kind == DPDK_MEMIF && (io->found ? io->turns % FAIR != 0 : io->turns % SELDOM == 0))
		n = rx_urgent(io, in, cap);
	if (n == 0)
		n = rx_way(io, 0, in, cap);
	io->found = n > 0;
	io->turn = io->turn + 1 < io->looks ? io->turn + 1 : 0;
	return n;
}

/* Changes the links after a burst. Returns the number of peers reported as gone. */
static __rte_noinline uint32_t change_links(struct dpdk *io, struct lend_in *in, uint32_t cap)
{
	if (io->grow)
		dpdk_memif_grow(io);
	if (io->ending && dpdk_rx_waiting(io) == 0)
		end_rings(io);
	return dpdk_rx_waiting(io) == 0 ? dpdk_peer_gone(io, in, cap) : 0;
}

void dpdk_rx_end_sleep(struct dpdk *io)
{
	if (io->kind != DPDK_DEVICE) {
		dpdk_bell_end_sleep(io);
		return;
	}
	dpdk_wake_end(io);
	dpdk_device_tick(io);
}

static __rte_noinline uint32_t rx_any(struct dpdk *io, struct lend_in *in, uint32_t cap)
{
	uint32_t n;

	if (io->armed)
		dpdk_rx_end_sleep(io);
	if (!dpdk_enter(io))
		return 0;
	if (atomic_load_explicit(&io->changed, memory_order_relaxed))
		dpdk_port_reconcile(io);
	if (io->turns >= DPDK_TICK_TURNS && io->kind == DPDK_DEVICE)
		dpdk_device_tick(io);
	n = rx_ports(io, in, cap);
	dpdk_leave(io);
	if (io->gone_n > 0 || io->grow || io->ending)
		n += change_links(io, in + n, cap - n);
	return n;
}

/* The usual case is a carrier with one ring, whose buffers were all given back. */
uint32_t dpdk_rx(struct lend_io *base, struct lend_in *in, uint32_t cap)
{
	struct dpdk *io = (struct dpdk *)base;
	struct dpdk_rx *rx = &io->rx[0];
	uint16_t got;

	io->turns++;
	if (!io->one_ring || rx->at != rx->n || io->held_n | io->gone_n | io->ending ||
	    atomic_load_explicit(&io->changed, memory_order_relaxed))
		return rx_any(io, in, cap);
	got = rte_eth_rx_burst(io->look->port->id, 0, rx->frame,
			       (uint16_t)RTE_MIN(cap, (uint32_t)DPDK_BURST));
	if (got == 0 || (got == 1 && take_single(io, io->look->port, rx->frame[0], in)))
		return got;
	return rx_some(io, io->look, 0, got, in, cap);
}

/* Gives the lent buffers from `first` on back, to the cache or to their pool. */
static __rte_noinline void release_held(struct dpdk *io, uint32_t first)
{
	for (uint32_t i = first; i < io->held_n; i++)
		dpdk_mbuf_cache_give(io, io->held[i]);
}

void dpdk_rx_done(struct lend_io *base)
{
	struct dpdk *io = (struct dpdk *)base;

	uint32_t kept = dpdk_mbuf_cache_keep(io, io->held, io->held_n);

	if (unlikely(kept < io->held_n))
		release_held(io, kept);
	io->held_n = 0;
}

bool dpdk_rx_look(struct dpdk *io)
{
	if (!dpdk_enter(io))
		return true;
	for (uint32_t i = 0; i < io->looks; i++) {
		const struct dpdk_rx_source *look = &io->look[i];

		for (uint16_t way = 0; way < look->port->ways; way++) {
			struct dpdk_rx *rx = &io->rx[way];

			if (rx->at == rx->n)
				note_frames(rx, look,
					    poll_port(io, look->port, way, rx->frame, DPDK_BURST));
		}
	}
	dpdk_leave(io);
	return dpdk_rx_waiting(io) > 0;
}

void dpdk_rx_drop(struct dpdk *io)
{
	dpdk_rx_done(&io->io);
	for (struct dpdk_rx *rx = io->rx; rx < io->rx + DPDK_ROUTES; rx++) {
		rte_pktmbuf_free_bulk(rx->frame + rx->at, rx->n - rx->at);
		rx->at = rx->n = 0;
	}
}
