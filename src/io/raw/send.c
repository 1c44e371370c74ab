/* raw/send - writes frames into registered slots and sends them, one doorbell per burst.
 *
 * One send in RAW_SIGNAL is signalled; its completion frees its slot and all earlier ones. Small
 * frames are sent inline. A queue that stopped is restarted; the frames in it are lost, as any
 * datagram may be.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/raw/raw.h"

#include <string.h>

#include "io/builtin.h"

static uint8_t *slot_at(const struct raw *io, uint32_t position)
{
	return io->slots + (size_t)(position & (RAW_SEND_SLOTS - 1)) * io->slot_len;
}

void raw_send_reap(struct raw *io)
{
	int signals = io->device->ops->sent(io->device);

	if (signals >= 0) {
		io->tail += (uint32_t)signals * RAW_SIGNAL;
		if (io->head - io->tail > RAW_SEND_SLOTS) /* more completions than sends */
			io->tail = io->head;
		return;
	}
	io->io.stats.resets++;
	io->removed |= io->device->ops->revive(io->device, RAW_SENDING) < 0;
	io->head = io->tail = 0;
}

bool raw_send_is_full(const struct raw *io)
{
	return io->head - io->tail >= RAW_SEND_SLOTS;
}

static uint32_t send_room(struct raw *io)
{
	if (io->head - io->tail >= RAW_SEND_SLOTS / 2)
		raw_send_reap(io);
	return io->removed ? 0 : RAW_SEND_SLOTS - (io->head - io->tail);
}

static uint32_t post_sends(struct raw *io, const struct raw_send *send, uint32_t n)
{
	uint32_t took = n > 0 ? io->device->ops->send(io->device, send, n) : 0;

	io->head += took;
	return took;
}

static void fill_slot(struct raw *io, uint8_t *at, const struct lend_bufs *bufs,
		      const struct lend_out *out, uint32_t len)
{
	struct lend_eth_head *head = &io->peer[out->peer].head;
	uint8_t *bytes = at;

	lend_eth_write(bytes, head, out->class, len);
	at = mempcpy(at + head->len, out->head, out->head_len);
	for (uint32_t i = 0; i < out->n; i++)
		at = mempcpy(at, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
	if (out->tail_len)
		memcpy(at, out->tail, out->tail_len);
	if (io->device->facts.checksums)
		lend_eth_sum_begin(bytes, head, len);
	else if (!head->ip4)
		lend_eth_sum(bytes, head, len);
}

static void put_send(const struct raw *io, uint32_t ahead, uint32_t len, struct raw_send *send)
{
	uint32_t position = io->head + ahead;

	*send = (struct raw_send){
	    .data = slot_at(io, position), .len = len, .signal = (position + 1) % RAW_SIGNAL == 0};
}

/* Sends the first datagrams of out[0..n), at most one burst. Returns how many were taken. */
static uint32_t send_burst(struct raw *io, const struct lend_bufs *bufs, struct lend_out *out,
			   uint32_t n)
{
	struct raw_send send[RAW_BURST];
	uint32_t most = send_room(io);

	n = n < most ? n : most;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = lend_out_len(&out[i]);

		fill_slot(io, slot_at(io, io->head + i), bufs, &out[i], len);
		put_send(io, i, io->peer[out[i].peer].head.len + len, &send[i]);
	}
	return post_sends(io, send, n);
}

static bool can_go(const struct raw *io, const struct lend_out *out)
{
	return !io->removed && out->peer < io->peer_n && io->peer[out->peer].head.len > 0 &&
	       lend_udp_peers_at(&io->peers, out->peer) && lend_out_len(out) <= io->io.path.mtu;
}

static void mark_sent(struct lend_out *out, uint32_t n, enum lend_sent sent)
{
	for (uint32_t i = 0; i < n; i++)
		out[i].sent = (uint8_t)sent;
}

/* Counts up to the last signalled frame: of those behind it nothing is known. */
uint64_t raw_queued(struct lend_io *base)
{
	struct raw *io = (struct raw *)base;
	uint32_t unknown = io->head % RAW_SIGNAL;

	raw_send_reap(io);
	return io->head - io->tail > unknown
		   ? (uint64_t)(io->head - io->tail - unknown) * io->io.path.mtu
		   : 0;
}

void raw_tx(struct lend_io *base, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct raw *io = (struct raw *)base;
	bool full = false;

	for (uint32_t i = 0, run; i < n; i += run) {
		uint32_t took = 0;

		run = 1;
		if (!can_go(io, &out[i])) {
			io->io.stats.tx_dead++;
			out[i].sent = LEND_SENT_DEAD;
			continue;
		}
		while (run < RAW_BURST && i + run < n && can_go(io, &out[i + run]))
			run++;
		if (!full)
			took = send_burst(io, bufs, out + i, run);
		full = took < run;
		mark_sent(out + i, took, LEND_SENT);
		mark_sent(out + i + took, run - took, LEND_SENT_FULL);
		io->io.stats.tx_full += run - took;
	}
}

void raw_send_frame(struct raw *io, const uint8_t *bytes, uint32_t len)
{
	struct raw_send send;

	if (len == 0 || io->removed || send_room(io) == 0)
		return;
	memcpy(slot_at(io, io->head), bytes, len);
	put_send(io, 0, len, &send);
	(void)post_sends(io, &send, 1);
}
