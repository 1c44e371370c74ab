#include "core/kept_reply.h"

#include "core/loss.h"
#include "core/packet_build.h"
#include "core/sess.h"

static uint32_t delay_of(const struct lend_core *c, const struct lend_sslot *sl)
{
	lend_ns delay = c->now - sl->arrived;

	return sl->arrived == LEND_NEVER || delay > UINT32_MAX ? UINT32_MAX : (uint32_t)delay;
}

/* Writes head, block and payload, and the report if one is due. Returns their length. */
LEND_HOT uint32_t put_kept(struct lend_core *c, struct lend_sess *s, size_t position, uint32_t call,
			   union lend_head *to)
{
	uint32_t len = sizeof(to->pkt) + sizeof(to->reply);
	const struct lend_sslot *sl = lend_sslot_in(c, position);

	to->first = lend_pkt_first(LEND_PKT_REPLY, sl->class | (uint32_t)LEND_PKT_SERVED);
	to->pkt.call = call;
	to->pkt.session = s->peer_id;
	to->pkt.number = s->number;
	to->pkt.offset = 0;
	to->pkt.length = sl->len;
	to->reply = (struct lend_pkt_reply){.status = sl->status,
					    .ran = sl->ran,
					    .patience_ms = LEND_PATIENCE_KEPT,
					    .window = c->share_sent,
					    .delay_ns = delay_of(c, sl),
					    .acked = sl->number};
	if (s->ack_due)
		len += lend_make_report(c, s, to, len);
	memcpy(to->bytes + len, lend_kept_bytes(c, position), LEND_KEPT_MAX);
	lend_loss_number(c, s, sl->class, false);
	return len + sl->len;
}
_Static_assert(sizeof(struct lend_pkt) + sizeof(struct lend_pkt_reply) +
		       sizeof(struct lend_pkt_seen) + LEND_KEPT_MAX <=
		   LEND_HEAD_BYTES,
	       "a kept reply is all head");

void lend_kept_make(struct lend_core *c, struct lend_sess *s, struct lend_sslot *sl, uint32_t call,
		    struct lend_making *m)
{
	size_t position = lend_slot_position(c, lend_sess_index(c, s), lend_pkt_slot(call));

	sl->queued = 0;
	m->rec->acks = s->ack_due;
	m->out->class = sl->class;
	m->out->head_len = (uint8_t)put_kept(c, s, position, call, &m->rec->head);
}

/* Builds the first datagram of a kept reply. False: there is nothing to send now. */
LEND_HOT bool make_first(struct lend_core *c, const struct lend_kept *e,
			 const struct lend_bufs *bufs, struct lend_out *out,
			 struct lend_out_rec *rec)
{
	struct lend_sess *s = lend_sess_at(c, e->sess);
	struct lend_sslot *sl = lend_sslot_in(c, e->position);
	bool fast;

	if (s->state != LEND_SESS_UP || !lend_kept_is_of(s, sl, e->call))
		return false;
	sl->queued = 0;
	fast = sl->class < LEND_CLASS_NORMAL && c->cfg.order != LEND_ORDER_FIFO;
	if (s->blocked[fast]) {
		lend_kept_again(c, s, e->call);
		return false;
	}
	rec->ctl = (struct lend_ctl){.sess = e->sess,
				     .peer = s->peer,
				     .id = s->id,
				     .call = e->call,
				     .kind = LEND_PKT_REPLY,
				     .flags = LEND_PKT_SERVED};
	rec->first = 0;
	rec->acks = s->ack_due;
	rec->news = 0;
	out->head_len = (uint8_t)put_kept(c, s, e->position, e->call, &rec->head);
	sl->arrived = LEND_NEVER;
	out->head = &rec->head;
	out->tail = NULL;
	out->peer = s->peer;
	out->tail_len = 0;
	out->class = sl->class;
	out->sent = 0;
	out->fast = fast;
	out->n = 0;
	if (!s->checked)
		lend_make_trailer(out, &rec->tail, bufs);
	return true;
}

uint32_t lend_kept_send(struct lend_core *c, const struct lend_bufs *bufs, struct lend_out *out,
			struct lend_out_rec *rec, uint32_t cap)
{
	uint32_t i, n = 0;

	for (i = 0; i < c->kept_n && n < cap; i++)
		n += make_first(c, &c->kept[i], bufs, out + n, rec + n);
	c->kept_n -= i;
	if (c->kept_n)
		memmove(c->kept, c->kept + i, c->kept_n * sizeof(c->kept[0]));
	return n;
}
