/* world_net - the datagrams between the two cores: taken out, kept on a tape, counted, delivered or
 * not. Part of world.h. Layer: test. */
#include "fuzz/finding.h"
#include "fuzz/world.h"

/* The datagram is at the very end of its memory. */
void world_input(int side, const uint8_t *data, uint32_t len, uint32_t index)
{
	static uint8_t room[1024];
	struct lend_in in = {.data = room + sizeof(room) - len,
			     .len = len,
			     .peer = world_peer(index),
			     .ecn = len & 1,
			     .addr = &index,
			     .addr_len = sizeof(index)};

	memcpy(room + sizeof(room) - len, data, len);
	world.side[side].bytes_in[index % WORLD_PEERS] += len;
	lend_core_input(world.side[side].core, world.now, &world.side[side].bufs, &in, 1);
	if (!world.deaf)
		world_poll(side);
}

static void take_down(int side, const struct lend_out *out, struct world_dgram *d)
{
	const struct world_side *s = &world.side[side];

	memcpy(d->data, out->head, out->head_len);
	d->len = out->head_len;
	for (int p = 0; p < out->n; p++) {
		const struct lend_piece *w = &out->piece[p];

		FUZZ_CHECK(w->buf && w->buf < WORLD_BUFS && s->taken[w->buf] &&
			       w->offset + w->len <= s->seg[w->buf].len &&
			       d->len + w->len <= sizeof(d->data),
			   "a piece of memory that was not lent");
		memcpy(d->data + d->len, (uint8_t *)s->seg[w->buf].data + w->offset, w->len);
		d->len += w->len;
	}
	if (out->tail_len)
		memcpy(d->data + d->len, out->tail, out->tail_len);
	d->len += out->tail_len;
	FUZZ_CHECK(d->len <= s->core->cfg.path[world.carrier].mtu, "longer than the carrier's MTU");
}

/* An unproven address may not receive more than came from it, forged or not. */
static void charge_bytes(int side, uint32_t peer, uint32_t len)
{
	struct world_side *s = &world.side[side];
	uint32_t i = LEND_PEER_INDEX(peer) % WORLD_PEERS;

	s->bytes_out[i] += len;
	FUZZ_CHECK(i == 1 || s->bytes_out[i] <= s->bytes_in[i], "an amplifier");
}

static void record_datagram(int to, const struct world_dgram *d)
{
	struct world_side *s = &world.side[to];
	struct lend_pkt head;

	memcpy(&head, d->data, sizeof(head));
	s->number = lend_max_u64(s->number, head.number);
	s->tape[s->tape_n++ % WORLD_TAPE] = *d;
}

uint32_t world_flush(int side, uint32_t cap, uint8_t drop, uint8_t full)
{
	static struct world_dgram d[16];
	struct lend_out out[16];
	struct world_side *s = &world.side[side];
	uint32_t n = lend_core_output(s->core, world.now, &s->bufs, out, lend_min_u32(cap, 16));

	for (uint32_t i = 0; i < n; i++) {
		out[i].sent = full >> i % 8 & 1 ? LEND_SENT_FULL : LEND_SENT;
		take_down(side, &out[i], &d[i]);
		if (out[i].sent == LEND_SENT)
			charge_bytes(side, out[i].peer, d[i].len);
		if (out[i].sent == LEND_SENT && LEND_PEER_INDEX(out[i].peer) == 1)
			record_datagram(!side, &d[i]);
		else
			d[i].len = 0;
	}
	lend_core_sent(s->core, out, n);
	for (uint32_t i = 0; i < n; i++)
		if (d[i].len && !(drop >> i % 8 & 1))
			world_input(!side, d[i].data, d[i].len, 1);
	if (!world.deaf)
		world_poll(side);
	return n;
}
