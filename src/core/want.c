#include "core/want.h"

#include "core/ctl.h"
#include "core/loss.h"
#include "core/rx.h"
#include "core/sched.h"

static struct lend_hungry *line_of(struct lend_core *c, const struct lend_call_rec *k)
{
	return &c->hungry[k->rx.buf != 0];
}

static void enter(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_hungry *h = line_of(c, k);

	if (k->rx.want == LEND_WANT_MEMORY)
		return;
	k->rx.want = LEND_WANT_MEMORY;
	lend_list_push(&h->of[k->class], lend_links_starved(c), lend_call_index(c, k));
	h->classes = (uint8_t)(h->classes | 1u << k->class);
	h->n++;
}

void lend_want_leave(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_hungry *h = line_of(c, k);

	if (k->rx.want == LEND_WANT_MEMORY) {
		lend_list_remove(&h->of[k->class], lend_links_starved(c), lend_call_index(c, k));
		if (h->of[k->class].n == 0)
			h->classes = (uint8_t)(h->classes & ~(1u << k->class));
		h->n--;
	}
	k->rx.want = LEND_WANT_NOTHING;
}

/* Forgets a message of which nothing came for two timeouts; its sender is told once there is memory
 * again. */
static void evict(struct lend_core *c, struct lend_call_rec *k)
{
	uint32_t granted = k->rx.granted, len = k->rx.len;

	LEND_COUNT(c, evicted);
	lend_rx_drop(c, k);
	lend_rx_begin(&k->rx, granted);
	k->rx.len = len;
	enter(c, k);
}

/* Looks at one partial message per want of memory: the one that was not looked at for longest. A
 * reply of which something is here never gives way: its sender lets go of it when all numbers were
 * seen, forgotten ones too. */
static void make_room(struct lend_core *c)
{
	uint32_t i = lend_list_pop(&c->partials, lend_links_partial(c));
	struct lend_call_rec *k;

	if (i == LEND_NONE)
		return;
	k = lend_call_at(c, i);
	lend_list_push(&c->partials, lend_links_partial(c), i);
	if ((k->server || k->rx.got == 0) && !k->rx.attached && !k->rx.needed &&
	    c->now - k->rx.last > 2 * lend_loss_rto(lend_sess_at(c, k->sess), 0))
		evict(c, k);
}

void lend_want_look(struct lend_core *c, const struct lend_call_rec *k)
{
	if (k->rx.want == LEND_WANT_MEMORY)
		make_room(c);
}

static bool has_room(const struct lend_core *c, const struct lend_rx *r)
{
	return (r->buf || c->supply_n > 0) && c->free_frags.free > 0;
}

static void seat(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	bool waited = k->rx.want == LEND_WANT_MEMORY;

	lend_want_leave(c, k);
	lend_rx_seat(c, k, len);
	if (!waited)
		return;
	k->rx.want = LEND_WANT_WORD;
	lend_ctl_ack(c, k);
}

/* Nobody is before it: who brought a buffer must not take the reassembly of those who need one. */
static bool is_next(struct lend_core *c, const struct lend_call_rec *k)
{
	bool others = c->supply_n > 0 && c->hungry[0].n > 0;

	if (k->rx.want == LEND_WANT_MEMORY)
		return line_of(c, k)->n == 1 && !(k->rx.buf && others);
	return line_of(c, k)->n == 0 && !others;
}

bool lend_want_sit(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	if (is_next(c, k) && has_room(c, &k->rx)) {
		seat(c, k, len);
		return true;
	}
	make_room(c);
	k->rx.len = len;
	enter(c, k);
	LEND_COUNT(c, rx_memory);
	lend_ctl_ack(c, k);
	return false;
}

static bool feed_one(struct lend_core *c, struct lend_hungry *h)
{
	uint32_t class;
	struct lend_call_rec *k;

	if (h->n == 0)
		return false;
	class = lend_sched_pick(h->classes, h->passed);
	k = lend_call_at(c, h->of[class].head);
	if (!has_room(c, &k->rx))
		return false;
	seat(c, k, k->rx.len);
	lend_sched_account(h->classes, h->passed, class, 1);
	return true;
}

void lend_want_feed(struct lend_core *c)
{
	while (feed_one(c, &c->hungry[0]) || feed_one(c, &c->hungry[1]))
		;
}
