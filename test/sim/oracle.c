#include "sim/oracle.h"

#include "core/state.h"
#include "wire/pkt.h"

static const char *const gets[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = "gets CONNECT", [LEND_PKT_ACCEPT] = "gets ACCEPT",
    [LEND_PKT_RESET] = "gets RESET",     [LEND_PKT_BYE] = "gets BYE",
    [LEND_PKT_BYE_ACK] = "gets BYE_ACK", [LEND_PKT_PING] = "gets PING",
    [LEND_PKT_REQUEST] = "gets REQUEST", [LEND_PKT_REPLY] = "gets REPLY",
    [LEND_PKT_ACK] = "gets ACK",         [LEND_PKT_PROBE] = "gets PROBE",
    [LEND_PKT_CANCEL] = "gets CANCEL",   [LEND_PKT_GONE] = "gets GONE",
};
static const char *const sends[LEND_PKT_KINDS] = {
    [LEND_PKT_CONNECT] = "sends CONNECT", [LEND_PKT_ACCEPT] = "sends ACCEPT",
    [LEND_PKT_RESET] = "sends RESET",     [LEND_PKT_BYE] = "sends BYE",
    [LEND_PKT_BYE_ACK] = "sends BYE_ACK", [LEND_PKT_PING] = "sends PING",
    [LEND_PKT_REQUEST] = "sends REQUEST", [LEND_PKT_REPLY] = "sends REPLY",
    [LEND_PKT_ACK] = "sends ACK",         [LEND_PKT_PROBE] = "sends PROBE",
    [LEND_PKT_CANCEL] = "sends CANCEL",   [LEND_PKT_GONE] = "sends GONE",
};

/* A datagram's number, and where its payload goes. */
static void tell(struct sim *sim, uint32_t node, uint32_t peer, const char *const *words,
		 const struct lend_pkt *head)
{
	const char *word = head->kind < LEND_PKT_KINDS ? words[head->kind] : NULL;

	sim_trace_add(&sim->trace, sim->now, word ? word : "gets noise", node, peer, head->number,
		      head->offset);
}

void sim_oracle_in(struct sim *sim, struct sim_node *n, const struct lend_in *in)
{
	struct sim_link *l = &n->link[LEND_PEER_INDEX(in->peer)];
	struct lend_pkt head = {0};

	if (in->len >= sizeof(head))
		memcpy(&head, in->data, sizeof(head));
	tell(sim, n->id, LEND_PEER_INDEX(in->peer), gets, &head);
	if (head.kind == LEND_PKT_CONNECT)
		l->connect_in += in->len;
	else
		l->other_in += in->len;
}

static uint32_t bytes_of(const struct lend_out *o)
{
	uint32_t len = (uint32_t)o->head_len + o->tail_len;

	for (uint32_t i = 0; i < o->n; i++)
		len += o->piece[i].len;
	return len;
}

/* An address that was not proven gets no more bytes than came in its name. */
void sim_oracle_out(struct sim *sim, struct sim_node *n, const struct lend_out *out, uint32_t i)
{
	struct sim_link *l = &n->link[LEND_PEER_INDEX(out->peer)];
	const struct lend_out_rec *r = &lend_aside(n->core)->out[i];
	uint32_t len = bytes_of(out);
	struct lend_pkt head;
	uint8_t state, kind;

	memcpy(&head, out->head, sizeof(head));
	kind = head.kind;
	tell(sim, n->id, LEND_PEER_INDEX(out->peer), sends, &head);
	SIM_CHECK(sim, len <= n->cfg.path[0].mtu, "node %u sends %u bytes", n->id, len);
	if (kind == LEND_PKT_CONNECT)
		return;
	if (kind == LEND_PKT_ACCEPT) {
		l->accept_out += len;
		SIM_CHECK(sim, l->accept_out <= l->connect_in,
			  "node %u answers CONNECT with more bytes than came", n->id);
	} else if (r->ctl.kind && r->ctl.sess == LEND_NONE) {
		l->reset_out += len;
		SIM_CHECK(sim, l->reset_out <= l->other_in,
			  "node %u sends more to a stranger than came from it", n->id);
	} else {
		state = lend_sess_at(n->core, r->sess)->state;
		SIM_CHECK(sim, state == LEND_SESS_UP || state == LEND_SESS_CLOSING,
			  "node %u sends kind %u to an address that was not proven", n->id, kind);
	}
}

/* What the core does with a datagram that is none of its sessions' is at most to queue an answer:
 * taken out for the comparison. */
void sim_oracle_forged(struct sim *sim, struct sim_node *n, const struct lend_in *in)
{
	struct lend_core *c = n->core;
	struct lend_ctl *slot, was;
	struct lend_pkt_view v;
	bool sound = in->len <= c->cfg.path[0].mtu &&
		     lend_pkt_decode(&v, in->data, in->len, c->cfg.path[0].checked) == LEND_PKT_OK;
	uint64_t before;
	uint32_t waiting = c->ctl_n;

	sim->count.hostile++;
	if (sound && v.head.kind == LEND_PKT_CONNECT) { /* anybody may ask */
		lend_core_input(c, sim->now, &n->bufs, in, 1);
		return;
	}
	lend_core_input(c, sim->now, &n->bufs, NULL, 0);
	slot = LEND_AT(c, at_ctl, struct lend_ctl) + (c->ctl_head + waiting) % LEND_CTL;
	was = *slot;
	before = lend_core_hash(c);
	lend_core_input(c, sim->now, &n->bufs, in, 1);
	if (sound && c->ctl_n == waiting + 1 && slot->kind == LEND_PKT_RESET) {
		struct lend_ctl answer = *slot;

		*slot = was;
		c->ctl_n--;
		SIM_CHECK(sim, lend_core_hash(c) == before,
			  "node %u: a stranger's datagram of kind %u changes its state", n->id,
			  v.head.kind);
		*slot = answer;
		c->ctl_n++;
		return;
	}
	SIM_CHECK(sim, lend_core_hash(c) == before, "node %u: a forged datagram changes its state",
		  n->id);
}

void sim_oracle_turn(struct sim *sim, struct sim_node *n)
{
	struct lend_core *c = n->core;

	SIM_CHECK(sim, c->budget_used <= c->cfg.receive_budget, "node %u: over its budget", n->id);
	SIM_CHECK(sim,
		  c->used[0] <= c->cfg.inflight && c->used[1] <= c->cfg.inflight &&
		      c->free_calls.free + c->used[0] + c->used[1] == c->records,
		  "node %u: call records %u + %u + %u free", n->id, c->used[0], c->used[1],
		  c->free_calls.free);
	SIM_CHECK(sim, c->half.n <= c->half_max, "node %u: %u half-open sessions", n->id,
		  c->half.n);
	SIM_CHECK(sim, c->timers <= c->cfg.sessions - c->free_sess.free,
		  "node %u: %u timers for %u sessions", n->id, c->timers,
		  c->cfg.sessions - c->free_sess.free);
	SIM_CHECK(sim, n->bufs_out >= c->supply_n, "node %u: a buffer of the pool is free", n->id);
}
