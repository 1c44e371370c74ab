#include "core/sched.h"

void lend_sched_remove(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_list *l = k->waits ? &lend_sess_at(c, k->sess)->waiting : &c->ready;

	lend_list_remove(l, lend_links_ready(c), lend_call_index(c, k));
	k->waits = 0;
}

void lend_sched_ready(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->tx.ready.in && !k->waits)
		return;
	lend_sched_remove(c, k);
	lend_list_push(&c->ready, lend_links_ready(c), lend_call_index(c, k));
}

void lend_sched_wait(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->tx.ready.in && k->waits)
		return;
	lend_sched_remove(c, k);
	k->waits = 1;
	lend_list_push(&lend_sess_at(c, k->sess)->waiting, lend_links_ready(c),
		       lend_call_index(c, k));
}

void lend_sched_wake(struct lend_core *c, struct lend_sess *s)
{
	while (s->waiting.head != LEND_NONE)
		lend_sched_ready(c, lend_call_at(c, s->waiting.head));
}
