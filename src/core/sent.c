/* sent - what became of the datagrams that went out. Layer: core (pure). */
#include "core/ctl.h"
#include "core/early.h"
#include "core/loss.h"
#include "core/sched.h"
#include "core/sess.h"
#include "core/tx.h"

static void unsend(struct lend_core *c, struct lend_sess *s, const struct lend_out_rec *r)
{
	const struct lend_pkt *head = &r->head.pkt;
	struct lend_call_rec *k = lend_call_at(c, r->call);

	if (r->ctl.kind) {
		lend_ctl_push(c, &r->ctl);
		if (r->first)
			lend_early_unsent(c, s, k);
		return;
	}
	if (r->acks)
		lend_sess_owe_ack(c, s, 0);
	if (k->gen != r->gen || k->state == LEND_CALL_FREE || k->state == LEND_CALL_DRAINING)
		return;
	lend_loss_unsent(c, s, head->number);
	if (r->first && k->state == LEND_CALL_OPEN && k->number == head->number)
		k->state = LEND_CALL_QUEUED; /* still not a byte of it out */
	lend_tx_lost(c, &k->tx, head->offset / s->payload);
	if (k->tx.resend)
		lend_sched_ready(c, k);
}

/* The carrier was full: wait a little, longer each time, so that a stopped peer costs nothing. */
static void block(struct lend_core *c, struct lend_sess *s, bool fast)
{
	uint32_t *for_ns = &s->block_ns[fast];

	if (s->blocked[fast] > c->now)
		return;
	*for_ns = (uint32_t)lend_min_u64(lend_max_u64(2 * *for_ns, 2 * LEND_US), 5 * LEND_MS);
	s->blocked[fast] = c->now + *for_ns;
}

/* It takes more: what comes after the wait is no news any more. */
static void unblock(struct lend_core *c, struct lend_sess *s, bool fast)
{
	if (s->blocked[fast] == 0)
		return;
	s->block_ns[fast] = 0;
	if (s->blocked[fast] <= c->now)
		s->blocked[fast] = 0;
}

void lend_core_sent(struct lend_core *c, const struct lend_out *out, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct lend_out_rec *r = &lend_aside(c)->out[i];
		struct lend_sess *s;

		if (out[i].sent == LEND_SENT && !r->news)
			continue;
		s = r->sess == LEND_NONE ? NULL : lend_sess_at(c, r->sess);
		if (!s || s->state == LEND_SESS_FREE || s->id != r->sess_id)
			continue;
		if (out[i].sent == LEND_SENT) {
			unblock(c, s, out[i].fast);
			s->bye_taken |= r->ctl.kind == LEND_PKT_BYE;
		} else if (out[i].sent == LEND_SENT_DEAD) {
			lend_sess_down(c, s, UNAVAILABLE, false);
		} else {
			LEND_COUNT(c, tx_full);
			unsend(c, s, r);
			block(c, s, out[i].fast);
		}
	}
}
