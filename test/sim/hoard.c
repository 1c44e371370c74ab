#include "sim/hoard.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "util/bits.h"
#include "wire/pkt.h"

enum {
	SESSIONS = 256,
	CLAIM = 1 << 20,
	EVERY_NS = 20000,
	EACH = 16,
	CONTINUED = 40 << 10,
	SLOWER = 20
};

struct sim_hoard {
	uint64_t session[SESSIONS];
	uint32_t n;
	uint64_t begun; /* number of attempts; they take the sessions in turn */
	lend_ns slowest, began;
};

void sim_hoard_open(struct sim *sim)
{
	if (!sim->plan.hoard)
		return;
	sim->hoard = calloc(1, sizeof(*sim->hoard));
	LEND_CHECK(sim->hoard);
	sim->hoard->began = SIM_START + sim->plan.span_us * 1000 / 3;
	sim_at(sim, sim->hoard->began, SIM_HOARD, 0, 0);
}

void sim_hoard_close(struct sim *sim)
{
	free(sim->hoard);
	sim->hoard = NULL;
}

static uint32_t length_of(const struct sim *sim)
{
	switch (sim->plan.hoard) {
	case SIM_HOARD_PARTS:
		return (uint32_t)(3 * sim->plan.mtu);
	case SIM_HOARD_MEMORY:
	case SIM_HOARD_CONTINUED:
		return CLAIM;
	default:
		return 8;
	}
}

/* The server evicts no session with calls, so those of the other nodes must fit into the table. */
static uint32_t sessions_of(const struct sim *sim)
{
	if (sim->plan.hoard == SIM_HOARD_SESSIONS || sim->plan.hoard == SIM_HOARD_BUSY)
		return SESSIONS;
	return (uint32_t)lend_min_u64(SESSIONS, sim->plan.sessions / 2);
}

static void connect_more(struct sim *sim, struct sim_node *n)
{
	struct sim_hoard *h = sim->hoard;
	uint32_t tag = (uint32_t)sim->plan.nodes + 1;

	for (uint32_t i = 0; i < EACH && h->n < sessions_of(sim); i++) {
		if (lend_core_connect(n->core, sim->now, LEND_PEER(0, 0), tag, NULL,
				      &h->session[h->n]) < 0)
			return;
		h->n++;
	}
}

static bool call_once(struct sim *sim, struct sim_node *n)
{
	struct sim_hoard *h = sim->hoard;
	uint32_t len = length_of(sim);
	struct lend_core_call c = {.method = SIM_HOARD_METHOD, .deadline = LEND_NEVER};
	uint64_t handle;

	c.class = h->begun & 7;
	c.request = sim_node_buf(sim, n->id, len, len);
	if (lend_core_call(n->core, sim->now, h->session[h->begun++ % h->n], &n->bufs, &c,
			   &handle) < 0) {
		sim_node_unbuf(sim, n->id, c.request);
		return false;
	}
	memset(n->bufs.seg[c.request].data, 0, len);
	sim_node_lend(sim, n->id, c.request);
	return true;
}

/* Requests that go on are begun slowly: their bytes must not fill the link of node 0. */
static uint32_t calls_of(const struct sim *sim)
{
	const struct sim_hoard *h = sim->hoard;

	if (sim->plan.hoard == SIM_HOARD_CONTINUED)
		return 1;
	if (sim->plan.hoard == SIM_HOARD_BUSY) /* one per session */
		return h->begun < h->n ? EACH : 0;
	return sim->plan.hoard == SIM_HOARD_SESSIONS ? 0 : EACH;
}

void sim_hoard_event(struct sim *sim)
{
	struct sim_node *n = &sim->node[sim->plan.nodes - 1];
	bool slow = sim->plan.hoard == SIM_HOARD_CONTINUED;

	if (sim->healing)
		return;
	connect_more(sim, n);
	for (uint32_t i = 0; sim->hoard->n && i < calls_of(sim); i++)
		(void)call_once(sim, n);
	sim_node_kick(sim, n->id);
	sim_at(sim, sim->now + (slow ? SLOWER : 1) * EVERY_NS, SIM_HOARD, 0, 0);
}

void sim_hoard_heal(struct sim *sim)
{
	for (uint32_t i = 0; sim->hoard && i < sim->hoard->n; i++)
		lend_core_disconnect(sim->node[sim->plan.nodes - 1].core, sim->hoard->session[i]);
}

/* True for all that the server sends because of the hoarder's calls, except replies that refuse
 * one. */
static bool drops_in(const struct sim *sim, const struct lend_pkt *head,
		     const struct lend_pkt_reply *reply)
{
	if (sim->plan.hoard == SIM_HOARD_CONTINUED && head->kind == LEND_PKT_ACK)
		return false;
	if (head->kind == LEND_PKT_CALLS)
		return true;
	if (head->kind == LEND_PKT_REPLY)
		return reply->status != RESOURCE_EXHAUSTED || head->length > 0;
	return (head->kind == LEND_PKT_ACK && head->call) || head->kind == LEND_PKT_PROBE;
}

static bool drops_datagram(const struct sim *sim, uint32_t from, uint32_t to, const void *data)
{
	struct lend_pkt head;
	struct lend_pkt_reply reply;

	if (sim->healing || !(sim_hoard_is(sim, from) || sim_hoard_is(sim, to)))
		return false;
	memcpy(&head, data, sizeof(head));
	if (sim_hoard_is(sim, to)) {
		if (head.kind != LEND_PKT_REPLY)
			return drops_in(sim, &head, NULL);
		memcpy(&reply, (const uint8_t *)data + sizeof(head), sizeof(reply));
		return drops_in(sim, &head, &reply);
	}
	if (head.kind == LEND_PKT_REQUEST)
		return head.offset > (sim->plan.hoard == SIM_HOARD_CONTINUED ? CONTINUED : 0);
	return (head.kind == LEND_PKT_ACK && head.call) || head.kind == LEND_PKT_PROBE ||
	       head.kind == LEND_PKT_CANCEL;
}

enum lend_sent sim_hoard_send(struct sim *sim, uint32_t from, const struct lend_bufs *bufs,
			      const struct lend_out *out)
{
	if (sim->hoard && drops_datagram(sim, from, LEND_PEER_INDEX(out->peer), out->head))
		return LEND_SENT;
	return sim_net_send(sim, from, bufs, out);
}

void sim_hoard_core_event(struct sim *sim, const struct lend_event *e)
{
	struct sim_hoard *h = sim->hoard;
	uint32_t node = (uint32_t)sim->plan.nodes - 1;

	if (e->kind == LEND_EV_CALL_END) {
		sim_node_back(sim, node, e->buf);
		sim_node_unbuf(sim, node, e->buf);
		sim_node_back(sim, node, e->reply);
		sim_node_unbuf(sim, node, e->reply);
	}
	for (uint32_t i = 0; e->kind == LEND_EV_SESSION_DOWN && i < h->n; i++)
		if (h->session[i] == e->session) {
			h->session[i] = h->session[--h->n];
			return;
		}
}

void sim_hoard_serve(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_node *n = &sim->node[node];
	int rc;

	if (sim->plan.hoard == SIM_HOARD_BUSY && e->kind == LEND_EV_REQUEST)
		return; /* until it is cancelled */
	rc = lend_core_reply(n->core, sim->now, e->call, &n->bufs, 0, 0);

	SIM_CHECK(sim, rc == 0, "a call of the hoarder: reply returns %d", rc);
	sim_node_kick(sim, node);
}

static uint64_t memory_out(struct lend_core *c)
{
	uint64_t out = 0;

	for (uint32_t i = 0; i < c->records; i++) {
		const struct lend_call_rec *k = lend_call_at(c, i);

		if (k->state != LEND_CALL_FREE && k->server && k->received && k->rx.attached)
			out += k->rx.len;
	}
	return out;
}

bool sim_hoard_memory(struct sim *sim, uint32_t node, const struct lend_event *e, bool *later)
{
	struct sim_node *n = &sim->node[node];
	uint64_t out = memory_out(n->core), all = sim->plan.hoard_mib << 20;

	*later = false;
	if (!sim->plan.hoard || node || e->tag)
		return true;
	if (e->len > 8 * n->cfg.unscheduled && out + e->len > all / 2 &&
	    lend_core_defer(n->core, e->call)) {
		*later = true;
		return false;
	}
	if (out + e->len > all - all / 8 && lend_core_over_share(n->core, e->call, all))
		return false;
	if (out + e->len <= all)
		return true;
	*later = lend_core_reclaim(n->core, e->call, &n->bufs);
	return false;
}

void sim_hoard_judge(struct sim *sim, uint32_t call, const struct sim_call *k,
		     const struct lend_event *e)
{
	struct sim_hoard *h = sim->hoard;
	lend_ns took = sim->now - k->began;

	if (!h || sim->healing)
		return;
	/* The caller itself closed the session while another of its calls was open. */
	if (e->status == CANCELLED && sim->plan.hangup_ppm)
		return;
	SIM_CHECK(sim, e->status == OK, "call %u ends with %u while a node hoards", call,
		  e->status);
	if (k->began < h->began) {
		h->slowest = lend_max_u64(h->slowest, took);
		return;
	}
	SIM_MARK(sim, hoarded);
	SIM_CHECK(sim, took <= 2 * h->slowest,
		  "call %u takes %llu ns while a node hoards, %llu at most before", call,
		  (unsigned long long)took, (unsigned long long)h->slowest);
}
