/* lent_carrier - simulated carriers "shm:nodeN" and "udp:10.0.0.N:1". shm maps the peer's shared
 * heap. Either may read pieces after tx(), as a device does. Layer: test/sim. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/builtin.h"
#include "sim/lent/lent_flight.h"
#include "sys/shared_arena.h"

static struct lent_io *self_of(struct lend_io *io)
{
	return (struct lent_io *)io;
}

void lent_carrier_address(enum lent_kind kind, uint32_t node, char *text, size_t cap)
{
	snprintf(text, cap, kind == LENT_SHM ? "shm:node%u" : "udp:10.0.0.%u:1", node + 1);
}

static uint32_t node_of(const char *address)
{
	unsigned n = 0;

	LENT_CHECK(sscanf(address, "shm:node%u", &n) == 1 ||
		       sscanf(address, "udp:10.0.0.%u:", &n) == 1,
		   "an address of no node: %s", address);
	return n - 1;
}

uint32_t lent_io_peer(struct lent_io *self, uint32_t node, uint32_t life)
{
	uint32_t i = 0;

	life = self->kind == LENT_SHM ? life : 0;
	while (i < self->peers && (self->peer[i].node != node || self->peer[i].life != life))
		i++;
	LENT_CHECK(i < LENT_PEERS, "too many peers for the simulated carrier");
	if (i == self->peers)
		self->peer[self->peers++] = (struct lent_io_peer){.node = node, .life = life};
	return i;
}

struct lent_io *lent_io_of(uint32_t node, enum lent_kind kind)
{
	struct lent_io *io = lent->node[node].io[kind];

	return io && !io->dead ? io : NULL;
}

static bool is_reached(const struct lent_io *self, const struct lent_io_peer *p)
{
	return self->kind == LENT_UDP ||
	       (lent_io_of(p->node, LENT_SHM) && lent->node[p->node].life == p->life);
}

static uint32_t carrier_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct lent_io *self = self_of(io);
	uint32_t n = 0;

	for (struct lent_flight *f; n < cap && (f = self->first); n++) {
		in[n] = (struct lend_in){.data = f->data,
					 .len = f->len,
					 .peer = f->peer,
					 .gone = f->gone,
					 .addr = f->addr,
					 .addr_len = sizeof(f->addr)};
		self->first = f->next;
		f->next = self->lent;
		self->lent = f;
	}
	return n;
}

static void carrier_rx_done(struct lend_io *io)
{
	struct lent_io *self = self_of(io);

	for (struct lent_flight *f; (f = self->lent);) {
		self->lent = f->next;
		lent_flight_drop(f);
	}
}

static void add_pieces(struct lent_flight *f, const struct lend_bufs *bufs,
		       const struct lend_out *out)
{
	uint32_t at = out->head_len;

	memcpy(f->data, out->head, out->head_len);
	for (uint32_t i = 0; i < out->n; i++) {
		f->piece[i].at = lend_piece_data(bufs, &out->piece[i]);
		f->piece[i].buf = out->piece[i].buf;
		f->piece[i].len = out->piece[i].len;
		f->piece[i].place = at;
		at += out->piece[i].len;
	}
	f->n = out->n;
	if (out->tail_len)
		memcpy(f->data + at, out->tail, out->tail_len);
}

/* The carrier reads the pieces some time later, over shm in order. */
static void read_later(struct lent_flight *f)
{
	lend_ns at = lent->now + 1 + lent_below(LENT_NET, lent->plan.dma);
	lend_ns *last = &f->from->last[f->to_node].read;

	if (f->kind == LENT_SHM)
		at = *last = at > *last ? at : *last;
	lent_at(at, LENT_READ, f->index, 0);
}

static void send_one(struct lent_io *self, const struct lend_bufs *bufs, struct lend_out *out)
{
	const struct lent_io_peer *p = &self->peer[out->peer];
	struct lent_flight *f = lent_flight_make(lend_out_len(out));

	f->from = self;
	f->kind = self->kind;
	f->node = self->node;
	f->life = self->life;
	f->to_node = p->node;
	f->to_life = p->life;
	f->addr[0] = (uint8_t)(1 + self->node);
	f->addr[1] = (uint8_t)(self->kind == LENT_SHM ? self->life : 0);
	add_pieces(f, bufs, out);
	f->pending = lent->plan.dma && (f->n || self->kind == LENT_SHM);
	if (f->pending) {
		read_later(f);
		return;
	}
	lent_flight_read(f);
	lent_flight_send(f);
}

static void carrier_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct lent_io *self = self_of(io);
	bool full = false;

	for (uint32_t i = 0; i < n; i++) {
		LENT_CHECK(out[i].peer < self->peers, "a datagram to an unknown peer");
		full |= !lent->healing && lent_odds(LENT_NET, lent->plan.full_ppm);
		if (!is_reached(self, &self->peer[out[i].peer])) {
			out[i].sent = LEND_SENT_DEAD;
			continue;
		}
		out[i].sent = full ? LEND_SENT_FULL : LEND_SENT;
		if (!full && !self->dead)
			send_one(self, bufs, &out[i]);
	}
}

/* Some reads of a buffer end within the time that flush() waits. */
static bool carrier_flush(struct lend_io *io, uint32_t buf)
{
	bool quick = self_of(io)->kind == LENT_UDP && lent_below(LENT_NET, 4) == 0;

	for (uint32_t i = 0; i < LENT_FLIGHTS && i < lent_flights_made; i++) {
		struct lent_flight *f = lent_flights[i];
		bool reads = false;

		for (uint32_t k = 0; f && f->from == self_of(io) && k < f->n; k++)
			reads |= f->piece[k].buf == buf;
		if (!reads)
			continue;
		lent_sums.flushed++;
		if (!quick)
			return false;
		lent_flight_read(f);
		lent_flight_send(f);
	}
	return true;
}

static int carrier_fd(struct lend_io *io)
{
	(void)io;
	return -1;
}

static bool carrier_arm(struct lend_io *io)
{
	(void)io;
	return false; /* the endpoint never sleeps */
}

static int carrier_resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	struct lent_io *self = self_of(io);
	uint32_t node = node_of(address);

	if (self->kind == LENT_SHM && !lent_io_of(node, LENT_SHM))
		return -ECONNREFUSED;
	*peer = lent_io_peer(self, node, lent->node[node].life);
	self->peer[*peer].named = true;
	return 0;
}

static void carrier_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	struct lent_io *self = self_of(io);

	LENT_CHECK(peer < self->peers && (kept || self->peer[peer].pins), "a pin that was not set");
	self->peer[peer].pins += kept ? 1 : UINT32_MAX;
	lent->pins += kept ? 1 : UINT64_MAX;
}

static void carrier_peer_info(struct lend_io *io, uint32_t peer, struct lend_io_peer_info *info)
{
	struct lent_io *self = self_of(io);

	*info = (struct lend_io_peer_info){.uid = -1};
	if (peer < self->peers && (self->kind == LENT_UDP || self->peer[peer].named))
		lent_carrier_address(self->kind, self->peer[peer].node, info->address,
				     sizeof(info->address));
}

static const void *carrier_peer_memory(struct lend_io *io, uint32_t peer, uint64_t *len)
{
	struct lent_io *self = self_of(io);

	*len = LEND_ARENA_LEN;
	return self->kind == LENT_SHM && peer < self->peers
		   ? atomic_load_explicit(&lend_arena_base, memory_order_relaxed)
		   : NULL;
}

static int carrier_name(struct lend_io *io, char *address, size_t cap)
{
	lent_carrier_address(self_of(io)->kind, self_of(io)->node, address, cap);
	return 0;
}

void lent_io_silence(struct lent_io *self)
{
	carrier_rx_done(&self->io);
	for (struct lent_flight *f; (f = self->first);) {
		self->first = f->next;
		lent_flight_drop(f);
	}
	for (uint32_t i = 0; i < LENT_FLIGHTS && i < lent_flights_made; i++)
		if (lent_flights[i] && lent_flights[i]->from == self && lent_flights[i]->pending)
			lent_flight_drop(lent_flights[i]);
}

static void carrier_close(struct lend_io *io)
{
	struct lent_io *self = self_of(io);

	lent_io_silence(self);
	for (uint32_t i = 0; i < self->peers; i++)
		lent->pins -= self->peer[i].pins;
	if (lent->node[self->node].io[self->kind] == self)
		lent->node[self->node].io[self->kind] = NULL;
	free(self);
}

static uint64_t carrier_queued(struct lend_io *io)
{
	(void)io;
	return 0;
}

static const struct lend_io_ops reads_at_once = {
    .rx = carrier_rx,
    .rx_done = carrier_rx_done,
    .tx = carrier_tx,
    .queued = carrier_queued,
    .fd = carrier_fd,
    .arm = carrier_arm,
    .resolve = carrier_resolve,
    .pin = carrier_pin,
    .peer_info = carrier_peer_info,
    .peer_memory = carrier_peer_memory,
    .name = carrier_name,
    .close = carrier_close,
};
static struct lend_io_ops reads_later;

int lent_carrier_open(enum lent_kind kind, const struct lend_io_config *config, struct lend_io **io)
{
	struct lent_io *self = calloc(1, sizeof(*self));

	LEND_CHECK(self && config->listen);
	reads_later = reads_at_once;
	reads_later.flush = carrier_flush;
	self->kind = kind;
	self->node = node_of(config->listen);
	self->life = lent->node[self->node].life;
	self->io.ops = lent->plan.dma ? &reads_later : &reads_at_once;
	self->io.path = (struct lend_path){
	    .mtu = kind == LENT_SHM ? 16384 : 1472, .lossless = kind == LENT_SHM, .checked = true};
	self->io.cheap_poll = true;
	lent->node[self->node].io[kind] = self;
	*io = &self->io;
	return 0;
}
