/* oracle_order - checks of the order of sent datagrams: classes, guaranteed shares, starvation.
 * Part of oracle.h. Layer: test/sim. */
#include "core/sched.h"
#include "core/arena.h"
#include "core/peer_window.h"
#include "sim/hoard.h"
#include "sim/oracle/oracle.h"
#include "util/traffic_class.h"

/* A class is due after this many datagrams of others; the seven others may be due at the same
 * time. */
enum { TURN = LEND_SCHED_BURST * LEND_FAIR_UNITS };
enum { PATIENCE = LEND_FLOOR * TURN + 7 * TURN + 2 * LEND_OUT * LEND_FAIR_UNITS };
enum { URGENT = (1 << LEND_CLASS_NORMAL) - 1 }; /* classes for which bulk data is paused */

/* Counts in favour of the class when it had something to send only at the start or at the end of
 * output(). */
static void count_class(struct sim_order *o, uint32_t class, uint8_t all, uint8_t some,
			const uint32_t *sent)
{
	uint32_t above = 0, others = 0;
	bool before = (all & ((1u << class) - 1)) != 0;

	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		above += i < class ? sent[i] : 0;
		others += i != class ? sent[i] : 0;
	}
	o->above[class] += some >> class & 1 ? above : 0;
	o->early[class] += before ? sent[class] : 0;
	if (all >> class & 1 && sent[class] == 0)
		o->overtaken[class] += others;
	else
		o->overtaken[class] = 0;
}

/* A call is not sent any more after its deadline. */
static void check_due(struct sim *sim, struct sim_node *n, const struct lend_out_rec *r)
{
	const struct lend_call_rec *k = lend_call_at(n->core, r->call);

	SIM_CHECK(sim, r->ctl.kind || k->server || k->deadline > sim->now,
		  "node %u: a datagram of a call whose deadline has passed", n->id);
}

/* Returns the class of the call that a datagram belongs to. Messages of more than three datagrams,
 * or with grants, go out one class lower on networks, as do short requests of a backlog; all others
 * in their class. */
static uint32_t class_of(struct sim *sim, struct sim_node *n, const struct lend_out *out,
			 const struct lend_out_rec *r)
{
	const struct lend_sess *s = lend_sess_at(n->core, lend_call_at(n->core, r->call)->sess);
	const struct lend_pkt *head = out->head;
	uint32_t class = head->flags & LEND_PKT_CLASS;
	uint32_t few = s->first < 3 * s->payload ? s->first : 3 * s->payload;
	bool yields = head->length > s->payload && head->length > few && !s->lossless &&
		      class < LEND_CLASSES - 1;

	if (head->kind == LEND_PKT_REQUEST && head->length <= s->payload)
		yields = lend_peer_class(n->core, s, (uint8_t) class) > class;
	SIM_CHECK(sim, out->class == class + yields,
		  "node %u: %u bytes of class %u go out as class %u", n->id, head->length, class,
		  out->class);
	return class;
}

/* Returns the units of fair_share.h in a datagram. */
static uint32_t units_of(struct sim_node *n, const struct lend_out *out)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < out->n; i++)
		len += out->piece[i].len;
	len = len * LEND_FAIR_UNITS / lend_sess_at(n->core, out->sess)->payload;
	return 1 + (len < LEND_FAIR_UNITS ? (uint32_t)len : LEND_FAIR_UNITS - 1);
}

/* Returns how many datagrams the cores declared lost. The filter of a hoarder loses its own. */
static uint64_t declared_lost(const struct sim *sim)
{
	uint32_t last = (uint32_t)sim->plan.nodes - 1;
	uint64_t lost = sim->marks.core_lost;

	return sim_hoard_is(sim, last) ? lost - lend_core_stats(sim->node[last].core)->lost : lost;
}

/* Where no datagram was lost, dropped or delayed, a datagram out of order was overtaken. Under
 * keys, urgent requests may overtake the PROOF of their session, and are dropped. */
void sim_oracle_end(struct sim *sim)
{
	const struct sim_marks *m = &sim->marks;
	uint64_t troubles = sim->count.faults + sim->count.crashes + sim->count.hostile +
			    sim->plan.jitter_ns + sim->plan.spread + m->switch_full + m->ring_full +
			    m->core_rx_memory + (sim->plan.queues > 1 ? sim->plan.keyed : 0);
	bool calm = troubles == 0;

	SIM_CHECK(sim, !calm || declared_lost(sim) == 0,
		  "%llu datagrams were declared lost, but none was",
		  (unsigned long long)declared_lost(sim));
	if (calm && sim->plan.queues > 1 && sim->plan.classes > 1)
		SIM_MARK(sim, overtaken_in_queues);
}

void sim_oracle_rest(struct sim *sim, struct sim_node *n)
{
	struct lend_core *c = n->core;

	if (!c->ready.n)
		return;
	SIM_CHECK(sim, c->bulk_paused_until > sim->now && !(lend_sched_classes(c) & URGENT),
		  "node %u: data that can be sent is not sent", n->id);
	SIM_CHECK(sim, lend_core_deadline(c) <= c->bulk_paused_until,
		  "node %u: a pause without end", n->id);
	SIM_MARK(sim, silent);
}

/* During a pause, bulk data is sent only next to urgent data, as its guaranteed share. */
static void check_silence(struct sim *sim, struct sim_node *n, uint8_t before, const uint32_t *sent)
{
	uint32_t fast = 0, slow = 0;

	for (uint32_t i = 0; i < LEND_CLASSES; i++)
		*(URGENT >> i & 1 ? &fast : &slow) += sent[i];
	SIM_CHECK(sim, n->core->bulk_paused_until <= sim->now || before & URGENT || fast >= slow,
		  "node %u: %u datagrams of bulk data go out during a pause", n->id, slow);
}

void sim_oracle_order(struct sim *sim, struct sim_node *n, uint8_t before,
		      const struct lend_out *out, uint32_t k)
{
	struct sim_order *o = &n->order;
	uint8_t after = (uint8_t)lend_sched_classes(n->core);
	uint32_t sent[LEND_CLASSES] = {0}, units[LEND_CLASSES] = {0}, class;

	for (uint32_t i = 0; i < k; i++)
		check_due(sim, n, &lend_unhashed(n->core)->out[i]);
	if (n->cfg.order == LEND_ORDER_FIFO)
		return;
	for (uint32_t i = 0; i < k; i++)
		if (!lend_unhashed(n->core)->out[i].ctl.kind) {
			class = class_of(sim, n, &out[i], &lend_unhashed(n->core)->out[i]);
			sent[class]++;
			units[class] += units_of(n, &out[i]);
		}
	check_silence(sim, n, before, sent);
	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		count_class(o, i, before & after, before | after, units);
		SIM_CHECK(
		    sim, o->early[i] * LEND_FLOOR <= o->above[i] + LEND_FLOOR * TURN,
		    "node %u: class %u sent %llu units before higher classes, which sent %llu",
		    n->id, i, (unsigned long long)o->early[i], (unsigned long long)o->above[i]);
		SIM_CHECK(sim, o->overtaken[i] <= PATIENCE,
			  "node %u: class %u starves, %llu of others went before it", n->id, i,
			  (unsigned long long)o->overtaken[i]);
		if (o->overtaken[i] > LEND_FLOOR * TURN / 2)
			SIM_MARK(sim, class_waited);
		if (o->early[i] > TURN)
			SIM_MARK(sim, class_share);
	}
}
