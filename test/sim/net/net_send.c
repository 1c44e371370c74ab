/* net_send - what a carrier does with a datagram: copies it, copies only the header and what the
 * receiver does not read in place, or refuses it. Layer: test/sim. */
#include <stdlib.h>
#include <string.h>

#include "sim/net/net_state.h"
#include "util/bits.h"
#include "util/traffic_class.h"

static uint32_t out_length(const struct lend_out *out)
{
	uint32_t len = out->head_len + out->tail_len;

	for (uint32_t i = 0; i < out->n; i++)
		len += out->piece[i].len;
	return len;
}

static void gather_out(struct sim_flight *f, const struct lend_bufs *bufs,
		       const struct lend_out *out)
{
	uint8_t *at = f->data;

	memcpy(at, out->head, out->head_len);
	at += out->head_len;
	for (uint32_t i = 0; i < out->n; i++) {
		const struct lend_piece *p = &out->piece[i];

		memcpy(at, (const uint8_t *)bufs->seg[p->buf].data + p->offset, p->len);
		at += p->len;
	}
	if (out->tail_len)
		memcpy(at, out->tail, out->tail_len);
}

uint64_t sim_net_queued(const struct sim *sim, uint32_t node)
{
	const struct sim_net *net = sim->net;
	uint64_t now = sim->now * 1000;

	return (lend_max_u64(net->nic[node].free, now) - now) / net->nic_ps;
}

uint32_t sim_net_room(const struct sim *sim, uint32_t node, uint32_t n)
{
	const struct sim_net *net = sim->net;
	uint64_t most = net->plan.host_queue ? NET_NIC : NET_SHORT;
	uint64_t now = sim->now * 1000, until = now + most * net->nic_ps;
	uint64_t free = lend_max_u64(net->nic[node].free, now);

	if (free >= until)
		return 0;
	return (uint32_t)lend_min_u64(n, 1 + (until - free) / (net->plan.mtu * net->nic_ps));
}

lend_ns sim_net_drained(const struct sim *sim, uint32_t node)
{
	const struct sim_net *net = sim->net;
	uint64_t half = NET_SHORT / 2 * net->nic_ps / 1000, free = net->nic[node].free / 1000 + 1;

	return lend_max_u64(free, sim->now + 1 + half) - half;
}

static enum lend_sent find_refusal(struct sim *sim, uint32_t from, uint32_t to)
{
	struct sim_net *n = sim->net;

	if (n->hung && (n->hung[from * n->nodes + to] || !sim->node[to].up)) {
		SIM_MARK(sim, carrier_dead);
		return LEND_SENT_DEAD;
	}
	if (n->hung && n->under_way[to] >= sim_node_ring(sim))
		return LEND_SENT_FULL;
	if (n->nic[from].free > sim->now * 1000 + NET_NIC * n->nic_ps)
		return LEND_SENT_FULL;
	if (sim_odds(sim, SIM_RNG_FULL, n->plan.full_ppm)) {
		sim->count.faults++;
		SIM_MARK(sim, carrier_full);
		return LEND_SENT_FULL;
	}
	return LEND_SENT;
}

/* Switches sort by precedence; 1 is below 0. */
static uint8_t queue_of(const struct sim_net *n, uint8_t class)
{
	static const uint8_t by_precedence[LEND_PRECEDENCES] = {4, 5, 3, 2, 1, 0};

	/* A lossless carrier keeps the order of all datagrams. */
	if (n->plan.lossless)
		return 0;
	return (uint8_t)lend_min_u64(by_precedence[lend_class_precedence(class)],
				     n->plan.queues - 1);
}

bool sim_net_reads(const struct sim *sim, uint32_t reader, uint32_t of)
{
	return sim->plan.shared_ppm && (reader * 5 + of * 3 + sim->plan.seed) % 4 != 0;
}

static bool is_chain(const struct lend_bufs *bufs, const struct lend_out *out)
{
	return out->n == 1 && out->piece[0].len > bufs->seg[out->piece[0].buf].len;
}

/* Copies the segments of a chain, and lists those that the receiver reads in place and the bytes
 * between them. */
static void give_chain(struct sim *sim, struct sim_flight *f, const struct lend_bufs *bufs,
		       const struct lend_piece *p)
{
	uint32_t at = 0, places = 0, rest = 0;
	bool grows = false;

	f->body = calloc(1, p->len);
	SIM_CHECK(sim, f->body && p->offset == 0, "a chain from byte %u on", p->offset);
	f->body_len = p->len;
	for (uint32_t i = p->buf; i; i = bufs->seg[i].next) {
		const struct lend_seg *seg = &bufs->seg[i];
		bool place = lend_seg_is_place(seg);

		places += place;
		rest += place ? 0 : seg->len;
		SIM_CHECK(sim, places <= LEND_PLACES && rest <= LEND_INLINE_MAX,
			  "a chain with %u places and %u bytes beside them", places, rest);
		if (seg->len == 0)
			continue;
		memcpy(f->body + at, seg->data, seg->len);
		if (grows && !place)
			f->part[f->parts - 1].len += seg->len;
		else
			f->part[f->parts++] = (struct lend_part){f->body + at, seg->len};
		grows = !place;
		at += seg->len;
	}
	SIM_CHECK(sim, at == p->len && places > 0, "a chain of %u bytes, not %u", at, p->len);
}

/* True when the single piece, or the chain that it is, is in memory that the receiver reads. */
static bool is_read_in_place(struct sim *sim, uint32_t from, uint32_t to,
			     const struct lend_bufs *bufs, const struct lend_out *out)
{
	if (is_chain(bufs, out))
		return out->tail_len == 0 && sim_net_reads(sim, to, from);
	return out->n == 1 && out->tail_len == 0 && out->piece[0].len >= SIM_SHARES &&
	       bufs->seg[out->piece[0].buf].shared && sim_net_reads(sim, to, from);
}

static struct sim_flight *load_flight(struct sim *sim, uint32_t from, uint32_t to,
				      const struct lend_bufs *bufs, const struct lend_out *out)
{
	const struct lend_piece *p = &out->piece[0];
	struct sim_flight *f;

	if (!is_read_in_place(sim, from, to, bufs, out)) {
		f = net_take(sim, from, to, out_length(out));
		gather_out(f, bufs, out);
		return f;
	}
	if (out_length(out) > sim->plan.mtu)
		SIM_MARK(sim, read_in_place);
	f = net_take(sim, from, to, out->head_len);
	memcpy(f->data, out->head, out->head_len);
	if (is_chain(bufs, out)) {
		SIM_MARK(sim, read_chain);
		give_chain(sim, f, bufs, p);
		return f;
	}
	net_give_body(f, (const uint8_t *)bufs->seg[p->buf].data + p->offset, p->len);
	return f;
}

enum lend_sent sim_net_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			    const struct lend_out *out)
{
	struct sim_net *n = sim->net;
	uint32_t to = LEND_PEER_INDEX(out->peer), len = out_length(out);
	enum lend_sent sent;
	struct sim_flight *f;

	SIM_CHECK(sim, len <= n->plan.mtu || is_read_in_place(sim, from, to, bufs, out),
		  "node %u sends %u bytes over a path of %llu", from, len,
		  (unsigned long long)n->plan.mtu);
	if (to >= n->nodes)
		return LEND_SENT; /* to an address outside the network */
	sent = find_refusal(sim, from, to);
	if (sent != LEND_SENT)
		return sent;
	f = load_flight(sim, from, to, bufs, out);
	f->queue = queue_of(n, out->class);
	sim->count.datagrams++;
	n->ledger.sent++;
	if (n->plan.hostile_ppm)
		net_hostile(sim, f);
	if (n->faulty)
		net_faults(sim, f);
	else
		net_launch(sim, f);
	return LEND_SENT;
}
