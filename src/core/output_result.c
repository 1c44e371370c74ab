/* output_result - the carrier's result for each datagram of an output. Layer: core (pure). */
#include "core/call_record.h"
#include "core/coalesce.h"
#include "core/control.h"
#include "core/flight.h"
#include "core/kept_reply.h"
#include "core/zero_rtt.h"
#include "core/loss.h"
#include "core/sched.h"
#include "core/sess.h"
#include "core/tx.h"
#include "core/short_burst.h"

/* Reverts the transmission of a request under this number. first: no byte of it was sent before. */
static void revert_request(struct lend_core *c, struct lend_call_rec *k, uint64_t number,
			   bool first, uint32_t frag)
{
	if (first && k->state == LEND_CALL_OPEN && k->number == number)
		k->state = LEND_CALL_QUEUED; /* no byte of it was sent */
	lend_tx_lost(c, &k->tx, frag);
	if (k->tx.resend)
		lend_sched_ready(c, k);
}

/* Reverts each frame of a coalesced datagram. */
static void revert_coalesced(struct lend_core *c, struct lend_sess *s, const struct lend_out_rec *r)
{
	const struct lend_coalesced *d = lend_coalesced_at(c, r->ctl.call);
	struct lend_pkt_view v;
	uint32_t at = 0;

	for (uint32_t i = 0; i < d->frames; i++) {
		struct lend_call_rec *k;

		LEND_CHECK(lend_pkt_decode_frame(&v, d->bytes + d->start, d->at - d->start, &at));
		if (v.head.flags & LEND_PKT_SERVED) {
			lend_kept_again(c, s, v.head.call);
			continue;
		}
		k = lend_call_of_wire(c, s, v.head.call);
		if (k && k->state != LEND_CALL_DRAINING)
			revert_request(c, k, d->head.pkt.number, !(k->marks & LEND_MARK_REPEATED),
				       0);
	}
}

static void revert_send(struct lend_core *c, struct lend_sess *s, const struct lend_out_rec *r)
{
	const struct lend_pkt *head = &r->head.pkt;
	struct lend_call_rec *k = lend_call_at(c, r->call);

	if (r->acks)
		lend_sess_schedule_ack(c, s, 0);
	if (r->ctl.kind == LEND_PKT_CALLS) {
		revert_coalesced(c, s, r);
		return;
	}
	if (r->ctl.kind) {
		if (r->ctl.kind == LEND_PKT_REPLY && r->ctl.flags)
			lend_kept_again(c, s, r->ctl.call);
		else
			lend_ctl_requeue(c, s, &r->ctl);
		if (r->first)
			lend_zero_rtt_unsent(c, s, k);
		return;
	}
	if (k->state == LEND_CALL_DRAINING)
		return;
	lend_loss_unsent(c, s, head->number);
	if (k->tx.win != LEND_NONE)
		lend_flight_sent(c, s, -1);
	revert_request(c, k, head->number, r->first, head->offset / lend_tx_unit(s, &k->tx));
}

/* Blocks a session after a full carrier, longer each time: a stopped peer costs nothing. */
static void block_session(struct lend_core *c, struct lend_sess *s, bool fast)
{
	uint32_t *for_ns = &s->block_ns[fast];

	if (s->blocked[fast] > c->now)
		return;
	*for_ns = (uint32_t)lend_min_u64(lend_max_u64(2 * *for_ns, 2 * LEND_US), 5 * LEND_MS);
	s->blocked[fast] = c->now + *for_ns;
}

/* Ends the backoff when the carrier took a datagram, and the block if its time is over: the results
 * of later datagrams that were sent then need no handling. */
static void unblock_session(struct lend_core *c, struct lend_sess *s, bool fast)
{
	if (s->blocked[fast] == 0)
		return;
	s->block_ns[fast] = 0;
	if (s->blocked[fast] <= c->now)
		s->blocked[fast] = 0;
}

/* Returns the session of a datagram; NULL if another datagram's result has ended it. */
static struct lend_sess *sess_of(struct lend_core *c, const struct lend_out_rec *r)
{
	const struct lend_call_rec *k = lend_call_at(c, r->call);
	struct lend_sess *s;

	if (r->ctl.kind) {
		s = r->ctl.sess == LEND_NONE ? NULL : lend_sess_at(c, r->ctl.sess);
		return s && s->state != LEND_SESS_FREE && s->id == r->ctl.id ? s : NULL;
	}
	return k->state == LEND_CALL_FREE || k->state == LEND_CALL_ORPHAN
		   ? NULL
		   : lend_sess_at(c, k->sess);
}

/* Fills in the fields that the record of a coalesced datagram left out. */
static void complete_record(struct lend_core *c, struct lend_out_rec *r)
{
	const struct lend_coalesced *d = lend_coalesced_at(c, r->ctl.call);

	r->ctl.sess = (uint32_t)(d->id & LEND_INDEX_MASK);
	r->ctl.id = d->id;
	r->acks = d->acks;
}

static void note_result(struct lend_core *c, const struct lend_out *out, struct lend_out_rec *r)
{
	struct lend_sess *s;

	if (r->ctl.kind == LEND_PKT_CALLS)
		complete_record(c, r);
	s = sess_of(c, r);
	if (!s)
		return;
	if (out->sent == LEND_SENT) {
		unblock_session(c, s, out->fast);
		s->bye_taken |= r->ctl.kind == LEND_PKT_BYE;
	} else if (out->sent == LEND_SENT_DEAD) {
		lend_sess_down(c, s, UNAVAILABLE, false);
	} else {
		LEND_COUNT(c, tx_full);
		revert_send(c, s, r);
		block_session(c, s, out->fast);
	}
}

static __attribute__((noinline)) void note_results(struct lend_core *c, const struct lend_out *out,
						   uint32_t n)
{
	struct lend_unhashed *a = lend_unhashed(c);

	for (uint32_t i = 0; i < n; i++)
		if (out[i].sent != LEND_SENT || a->out[i].news)
			note_result(c, &out[i], &a->out[i]);
}

/* Mostly, everything was sent and no session waits for that. */
void lend_core_sent(struct lend_core *c, const struct lend_out *out, uint32_t n)
{
	bool news = lend_unhashed(c)->news;

	for (uint32_t i = 0; i < n && !news; i++)
		news = out[i].sent != LEND_SENT;
	if (news) {
		lend_burst_end(c);
		note_results(c, out, n);
	}
}
