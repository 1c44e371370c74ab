#include "core/kept_reply.h"

#include "core/loss.h"
#include "core/packet_build.h"
#include "core/sess.h"

/* Writes head, block and payload, and the report if one is due. Returns their length. */
static uint32_t put_kept(struct lend_core *c, struct lend_sess *s, size_t position, uint32_t call,
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
	to->reply = lend_kept_block(c, s, sl, c->now);
	if (s->ack_due)
		len += lend_make_report(c, s, to, len);
	memcpy(to->bytes + len, lend_kept_bytes(c, position), LEND_KEPT_MAX);
	lend_sent_number(c, s, sl->class, false);
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
