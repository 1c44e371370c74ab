#include "core/call_slot.h"

#include "core/rto.h"

__attribute__((noinline, cold)) void lend_call_prepare(struct lend_call_rec *k, uint32_t i)
{
	k->gen = 1;
	k->self = i;
	k->timer = LEND_NEVER;
	k->serial = 0;
	k->tx.win = LEND_NONE;
	k->rx.frags = LEND_NONE;
}

void lend_short_show(struct lend_core *c, const struct lend_sess *s, uint32_t slot,
		     struct lend_call_rec *k)
{
	const struct lend_cslot *cs = lend_cslot_at(c, lend_sess_index(c, s), slot);
	/* One probe per session is enough. */
	bool probed = cs->stamp + s->pto <= c->now && lend_loss_probed(s, c->now);

	*k = (struct lend_call_rec){
	    .sess_id = s->id,
	    .sess = lend_sess_index(c, s),
	    .wire = lend_pkt_call(slot, cs->seq),
	    .phase = lend_call_phase(LEND_CALL_OPEN, cs->class, false, cs->fast, true) |
		     probed * lend_call_tried(),
	    .method = cs->method,
	    .number = cs->number,
	    .stamp = cs->stamp,
	    .deadline = cs->deadline,
	    .timer = cs->stamp + lend_call_timeout(s, probed),
	    .tag = cs->tag,
	    .serial = (uint32_t)(cs->handle >> 32),
	    .tx = {.buf = cs->buf,
		   .seg = cs->buf,
		   .len = cs->len,
		   .charged = cs->len,
		   .total = 1,
		   .next = 1,
		   .win = LEND_NONE},
	    .rx = {.frags = LEND_NONE, .granted = cs->grant}};
}

struct lend_call_rec *lend_short_promote(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	struct lend_call_rec *k = lend_call_take(c);
	uint32_t gen = k->gen, self = k->self;

	lend_short_show(c, s, slot, k);
	k->gen = gen;
	k->self = self;
	lend_cslot_at(c, k->sess, slot)->rec = k->self;
	return k;
}

struct lend_call_rec *lend_call_of_slot(struct lend_core *c, uint64_t handle, bool promote)
{
	uint32_t i = (uint32_t)handle & ~LEND_HANDLE_SLOT, slot = i % LEND_CALLS_MAX;
	struct lend_sess *s = lend_sess_at(c, i / LEND_CALLS_MAX);
	const struct lend_cslot *cs;
	struct lend_call_rec *k;

	if (i / LEND_CALLS_MAX >= c->cfg.sessions || s->state == LEND_SESS_FREE ||
	    slot >= s->cslots || *lend_slots_at(c, s, slot / 64) >> (slot % 64) & 1)
		return NULL;
	cs = lend_cslot_at(c, lend_sess_index(c, s), slot);
	if (cs->rec == LEND_SLOT_SHORT && (!promote || cs->handle != handle))
		return NULL;
	k = lend_call_in(c, s, slot, NULL);
	return k->serial && lend_call_handle(k) == handle ? k : NULL;
}
