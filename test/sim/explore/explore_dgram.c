/* explore_dgram - datagrams by number: out of a core, and into one. Part of explore_node.h and
 * explore_prog.h. Layer: test. */
#include "core/arena.h"
#include "sim/explore/explore_prog.h"
#include "wire/pkt.h"

static struct ex_blobs dgrams;

void ex_dgrams_open(void)
{
	static const struct ex_dgram none;

	ex_blobs_open(&dgrams, &none, sizeof(none));
}

void ex_dgrams_close(void)
{
	ex_blobs_close(&dgrams);
}

uint64_t ex_dgrams_stats(uint64_t *bytes)
{
	*bytes = ex_blobs_bytes(&dgrams);
	return dgrams.table.n;
}

void ex_send(struct ex_node *n, struct ex_dgram *g)
{
	bool fresh;

	if (n->fx->n_out == EX_OUT_MAX) {
		ex_bad(n, "more datagrams than a step can hold"); /* the explorer's own limit */
		return;
	}
	n->fx->out[n->fx->n_out++] = ex_blobs_add(&dgrams, g, &fresh);
}

static void mask_frame_delays(struct ex_dgram *g)
{
	const size_t seen = g->bytes[3] & LEND_PKT_ACKED ? sizeof(struct lend_pkt_seen) : 0;
	struct lend_pkt_frame f;
	struct lend_pkt head;

	memcpy(&head, g->bytes, sizeof(head));
	for (size_t at = sizeof(head) + seen, end = at + head.length; at < end;
	     at += lend_pkt_frame_len(f.length)) {
		memcpy(&f, g->bytes + at, sizeof(f));
		if (f.flags & LEND_PKT_SERVED)
			f.reply.delay_ns = 0;
		memcpy(g->bytes + at, &f, sizeof(f));
	}
}

/* Clears the delay of the answer, which is for round-trip times only; these are frozen. */
static void mask_delay(struct ex_dgram *g)
{
	uint8_t kind = g->bytes[2], flags = g->bytes[3];
	size_t at = sizeof(struct lend_pkt) + lend_pkt_block_len(kind);

	if (kind == LEND_PKT_CALLS)
		mask_frame_delays(g);
	if (kind == LEND_PKT_REPLY)
		memset(g->bytes + sizeof(struct lend_pkt) +
			   offsetof(struct lend_pkt_reply, delay_ns),
		       0, 4);
	if (kind == LEND_PKT_ACK || kind == LEND_PKT_PROBE || flags & LEND_PKT_ACKED)
		memset(g->bytes + at + offsetof(struct lend_pkt_seen, delay_ns), 0, 4);
}

static void attach_piece(struct ex_node *n, struct ex_dgram *g, const struct lend_piece *p)
{
	const uint8_t *data = n->seg[p->buf].data;

	if (!(n->app.lent >> p->buf & 1)) {
		ex_bad(n, "sent from a returned buffer");
	} else if (p->buf < EX_BUF_DYN) {
		g->message = (uint8_t)p->buf;
		g->offset = p->offset;
		g->len = p->len;
	} else {
		memcpy(g->bytes + g->head_len, data + p->offset, p->len);
		g->data_len = (uint8_t)p->len;
	}
}

void ex_emit(struct ex_node *n, const struct lend_out *o)
{
	struct ex_dgram g = {.from = (uint8_t)n->index,
			     .to = (uint8_t)(LEND_PEER_INDEX(o->peer) - 1),
			     .head_len = (uint8_t)o->head_len};

	LEND_CHECK((size_t)o->head_len + o->tail_len < sizeof(g.bytes));
	LEND_CHECK(g.to < n->scope->nodes && o->n + (o->tail_len > 0) <= 1);
	memcpy(g.bytes, o->head, o->head_len);
	if (o->tail_len)
		memcpy(g.bytes + o->head_len, o->tail, o->tail_len);
	g.head_len = (uint8_t)(g.head_len + o->tail_len);
	mask_delay(&g);
	if (o->n)
		attach_piece(n, &g, &o->piece[0]);
	ex_send(n, &g);
}

const struct ex_dgram *ex_dgram_at(uint32_t i, struct ex_dgram *space)
{
	ex_blobs_get(&dgrams, i, space);
	return space;
}

uint64_t ex_dgram_rank(uint32_t i)
{
	return ex_blobs_at(&dgrams, i)->hash[0];
}

void ex_deliver(struct ex_node *n, uint32_t id)
{
	static uint8_t bytes[EX_MESSAGE_MAX];
	struct ex_dgram g;
	struct lend_in in = {.data = bytes};

	ex_dgram_at(id, &g);
	if (g.app) {
		ex_mem_passed(n, &g);
		return;
	}
	in.peer = LEND_PEER(0, g.from + 1u);
	in.len = g.head_len + (uint32_t)g.data_len;
	memcpy(bytes, g.bytes, in.len);
	if (g.message) {
		memcpy(bytes + in.len, (uint8_t *)n->seg[g.message].data + g.offset, g.len);
		in.len += g.len;
	}
	lend_core_input(n->core, n->now, &n->bufs, &in, 1);
}

uint32_t ex_dgram_len(uint32_t id)
{
	struct ex_dgram g;

	ex_dgram_at(id, &g);
	return g.head_len + g.data_len + g.len;
}
