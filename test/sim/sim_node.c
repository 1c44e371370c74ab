#include "sim/sim_node.h"

#include <stdlib.h>
#include <string.h>

#include "core/sched.h"
#include "core/arena.h"
#include "scen/proof.h"
#include "sim/hoard.h"
#include "sim/memory/sim_mem.h"
#include "sim/oracle/oracle.h"
#include "sim/work.h"
#include "util/bits.h"
#include "wire/head.h"

enum { LINE = 64, TURNS_MAX = 20000, SIM_SALT = 7 };

static void fill_random(uint8_t *at, size_t len, uint64_t seed)
{
	struct lend_rng r;

	lend_rng_seed(&r, seed);
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)lend_rng_next(&r);
}

static struct lend_core_config make_config(const struct sim *sim, const struct sim_node *n)
{
	const struct sim_plan *p = &sim->plan;
	struct lend_core_config c = {.sessions = (uint32_t)p->sessions,
				     .calls = (uint32_t)p->slots,
				     .inflight = (uint32_t)p->inflight,
				     .reassemblies = (uint32_t)p->reassemblies,
				     .message_max = p->message_max,
				     .receive_budget = p->budget,
				     .unscheduled = (uint32_t)p->unscheduled,
				     .order = (uint8_t)p->order,
				     .fast = (uint8_t)p->fast,
				     .probe = p->probe_us * 1000,
				     .dead = p->dead_us * 1000,
				     .congestion = (uint8_t)p->cc,
				     .ticket_ns = p->ticket_us * 1000,
				     .attempts = (uint32_t)p->attempts,
				     .features =
					 LEND_FEATURE_REPLY_HEADS | LEND_FEATURE_REQUEST_HEADS};
	uint64_t identity = p->seed << 20 ^ (uint64_t)n->id << 10 ^ n->life;
	bool narrow = p->mtu_last && n->id == p->nodes - 1;
	bool few = p->slots_last && n->id == p->nodes - 1;
	uint64_t mtu = narrow ? lend_min_u64(p->mtu, p->mtu_last) : p->mtu;

	if (few)
		c.calls = (uint32_t)lend_min_u64(p->slots, p->slots_last);
	c.path[0] = (struct lend_path){.mtu = (uint32_t)mtu - LEND_RECORD_TRAILER,
				       .lossless = p->lossless,
				       .proven = p->proven,
				       .shares = p->shared_ppm ? SIM_SHARES : 0,
				       .joins = p->joins,
				       .counts = p->host_queue == 1,
				       .room = (uint32_t)p->room};
	fill_random(c.incarnation, sizeof(c.incarnation), identity);
	fill_random(c.seed, sizeof(c.seed), ~identity);
	return c;
}

static void start_life(struct sim *sim, struct sim_node *n)
{
	size_t size;

	n->life++;
	n->up = true;
	n->paused = 0;
	n->turn = LEND_NEVER;
	n->late = LEND_NEVER;
	n->cfg = make_config(sim, n);
	size = lend_core_size(&n->cfg);
	SIM_CHECK(sim, size, "the plan gives an invalid core configuration");
	if (!n->core)
		n->core = aligned_alloc(LINE, size);
	LEND_CHECK(n->core);
	memset((void *)n->core, 0, size);
	lend_core_init(n->core, &n->cfg, sim->now);
	sim_node_seal_open(sim, n);
	memset(n->link, 0, (sim->plan.nodes + SIM_STRANGERS) * sizeof(*n->link));
	memset(&n->order, 0, sizeof(n->order));
	memset(n->line, 0, sizeof(n->line));
	n->no_budget = 0;
	n->evicted = 0;
	n->host_queued = 0;
	memset(n->cookie, 0, sizeof(n->cookie));
	memset(n->proven, 0, sizeof(n->proven));
	n->cookies = n->provens = 0;
	memset(n->was, 0, 2 * sim->plan.inflight * sizeof(*n->was));
	memset(n->serving, 0, 2 * sim->plan.inflight * sizeof(*n->serving));
	sim_node_kick(sim, n->id);
}

void sim_node_open(struct sim *sim)
{
	sim->node = calloc(sim->plan.nodes, sizeof(*sim->node));
	LEND_CHECK(sim->node);
	for (uint32_t i = 0; i < sim->plan.nodes; i++) {
		struct sim_node *n = &sim->node[i];

		n->id = i;
		n->ring = calloc(SIM_RING + sim->plan.nodes, sizeof(*n->ring));
		n->link = calloc(sim->plan.nodes + SIM_STRANGERS, sizeof(*n->link));
		n->serving = calloc(2 * sim->plan.inflight, sizeof(*n->serving));
		n->was = calloc(2 * sim->plan.inflight, sizeof(*n->was));
		LEND_CHECK(n->ring && n->link && n->serving && n->was);
		sim_node_bufs_open(n);
		start_life(sim, n);
	}
}

void sim_node_close(struct sim *sim)
{
	for (uint32_t i = 0; sim->node && i < sim->plan.nodes; i++) {
		struct sim_node *n = &sim->node[i];

		if (n->bufs.seg)
			sim_node_bufs_close(n);
		free(n->ring);
		free(n->link);
		free(n->serving);
		free(n->was);
		sim_node_seal_close(n);
		free((void *)n->core);
	}
	free(sim->node);
	sim->node = NULL;
}

static void forget_ring(struct sim *sim, struct sim_node *n)
{
	for (uint32_t i = 0; i < n->ring_n; i++)
		sim_net_free(sim, n->ring[i]);
	n->ring_n = 0;
}

void sim_node_crash(struct sim *sim, uint32_t node)
{
	struct sim_node *n = &sim->node[node];

	if (!n->up)
		return;
	sim->count.crashes++;
	sim_marks_fault(&sim->marks, offsetof(struct sim_marks, crashed_none), n);
	sim_marks_life(&sim->marks, n);
	sim_trace_add(&sim->trace, sim->now, "dies", node, node, n->life, 0);
	n->up = false;
	n->turn = LEND_NEVER;
	sim_work_crashed(sim, node);
	if (n->store)
		sim_mem_crash(sim, node);
	forget_ring(sim, n);
	sim_node_bufs_drop(n);
	sim_net_crash(sim, node);
}

void sim_node_birth(struct sim *sim, uint32_t node)
{
	struct sim_node *n = &sim->node[node];

	if (n->up)
		return;
	start_life(sim, n);
	sim_trace_add(&sim->trace, sim->now, "is born", node, node, n->life, 0);
	if (node < sim->plan.stores)
		sim_mem_birth(sim, node);
}

static void ask_at(struct sim *sim, const struct sim_node *n, lend_ns at)
{
	sim_at(sim, at, SIM_TURN, n->id, n->life);
}

/* A deadline that moves to later keeps its event, so that the heap stays small. */
static void look_at(struct sim *sim, struct sim_node *n, lend_ns at)
{
	if (at >= n->late)
		return;
	n->late = at;
	ask_at(sim, n, at);
}

static void turn_at(struct sim *sim, struct sim_node *n, lend_ns at)
{
	at = lend_max_u64(at, lend_max_u64(sim->now, n->paused));
	if (at >= n->turn)
		return;
	n->turn = at;
	if (at < n->late)
		ask_at(sim, n, at);
}

void sim_node_kick(struct sim *sim, uint32_t node)
{
	if (sim->node[node].up && !sim->node[node].turning)
		turn_at(sim, &sim->node[node], sim->now);
}

void sim_node_arrive(struct sim *sim, uint32_t node, uint32_t flight)
{
	struct sim_node *n = &sim->node[node];
	lend_ns wait = sim->plan.turn_ns ? sim_below(sim, SIM_RNG_TURN, sim->plan.turn_ns + 1) : 0;

	/* A lossless carrier checks the ring before it accepts a datagram; hang-ups come in
	 * addition. */
	SIM_CHECK(sim, n->ring_n < SIM_RING + sim->plan.nodes, "a ring overflows");
	if (!n->up || (n->ring_n >= sim_node_ring(sim) && !sim->plan.lossless)) {
		if (n->up)
			SIM_MARK(sim, ring_full);
		sim_net_free(sim, flight);
		return;
	}
	n->ring[n->ring_n++] = flight;
	turn_at(sim, n, sim->now + wait);
}

static void supply_buffers(struct sim *sim, struct sim_node *n)
{
	if (!sim->healing && sim_odds(sim, SIM_RNG_TURN, sim->plan.dry_ppm))
		return;
	for (uint32_t i = lend_core_supply_wanted(n->core); i > 0; i--) {
		uint32_t b = sim_node_buf(sim, n->id, n->cfg.unscheduled, 0);

		sim_node_lend(sim, n->id, b);
		lend_core_supply(n->core, b);
	}
}

static void session_event(struct sim *sim, struct sim_node *n, const struct lend_event *e)
{
	struct sim_link *l = &n->link[LEND_PEER_INDEX(e->peer)];
	bool is_up = e->kind == LEND_EV_SESSION_UP;

	sim_trace_add(&sim->trace, sim->now, is_up ? "session up" : "session down", n->id,
		      LEND_PEER_INDEX(e->peer), e->session, e->status);
	if (is_up)
		sim_oracle_up(sim, n, e);
	if (is_up && !e->tag)
		l->accepted = e->session;
	else if (!is_up && e->session == l->session)
		l->session = 0;
	else if (!is_up && e->session == l->accepted)
		l->accepted = 0;
	if (sim_hoard_is(sim, n->id))
		sim_hoard_core_event(sim, e);
	if (n->store)
		sim_mem_session(sim, n->id, e);
}

static void prove_session(struct sim *sim, struct sim_node *n, const struct lend_event *e)
{
	uint8_t transcript[LEND_TRANSCRIPT];
	bool known = lend_core_transcript(n->core, e, transcript) == 0;

	proof_answer(n->core, sim->now, e, SIM_SALT);
	if (known)
		sim_node_seal_proven(sim, n, e->session, transcript);
}

static void handle_event(struct sim *sim, struct sim_node *n, const struct lend_event *e)
{
	struct sim_link *l = &n->link[LEND_PEER_INDEX(e->peer)];

	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_SESSION_UP:
	case LEND_EV_SESSION_DOWN:
		session_event(sim, n, e);
		return;
	case LEND_EV_PROVE:
		prove_session(sim, n, e);
		return;
	case LEND_EV_PEER_KEEP:
		l->kept++;
		return;
	case LEND_EV_PEER_DROP:
		lend_records_remove(&n->records, e->session);
		SIM_CHECK(sim, l->kept > 0, "node %u releases a peer that it did not keep", n->id);
		l->kept--;
		return;
	case LEND_EV_BUF_BACK:
		sim_node_back(sim, n->id, e->buf);
		sim_node_unbuf(sim, n->id, e->buf);
		return;
	case LEND_EV_NEED:
	case LEND_EV_REQUEST:
	case LEND_EV_CANCELLED:
	case LEND_EV_REPLY_END:
	case LEND_EV_CALL_END:
		sim_work_core_event(sim, n->id, e);
		return;
	}
	sim_fail(sim, "node %u: an event of kind %u", n->id, e->kind);
}

static void handle_events(struct sim *sim, struct sim_node *n)
{
	const struct lend_event *ev;

	while ((ev = lend_core_next(n->core)))
		handle_event(sim, n, ev);
}

static void hand_over(struct sim *sim, struct sim_node *n, struct lend_in *in, uint32_t k,
		      bool forged)
{
	sim->count.hostile += forged ? k : 0;
	k = sim_node_open_burst(sim, n, in, k);
	if (forged)
		sim_oracle_forged(sim, n, in, k);
	else
		lend_core_input(n->core, sim->now, &n->bufs, in, k);
	handle_events(sim, n);
}

/* Forged datagrams are passed to the core separately, so that their effects can be checked. */
static void receive_flights(struct sim *sim, struct sim_node *n, const uint32_t *flight, uint32_t k)
{
	struct lend_in in[SIM_BURST];
	uint32_t m = 0;
	bool forged = false;

	for (uint32_t i = 0; i < k; i++) {
		const struct sim_flight *f = sim_net_flight(sim, flight[i]);

		if (f->forged != forged && m > 0) {
			hand_over(sim, n, in, m, forged);
			m = 0;
		}
		forged = f->forged;
		in[m] = (struct lend_in){.data = f->data,
					 .len = f->len,
					 .peer = LEND_PEER(0, f->from),
					 .ecn = f->ecn,
					 .gone = f->gone,
					 .addr = &f->from,
					 .addr_len = sizeof(f->from),
					 .reads = sim_net_reads(sim, f->from, n->id),
					 .parts = f->parts,
					 .body = f->parts ? (const void *)f->part : f->body,
					 .body_len = f->body_len};
		sim_oracle_in(sim, n, &in[m++]);
	}
	hand_over(sim, n, in, m, forged);
}

static void transmit_burst(struct sim *sim, struct sim_node *n)
{
	struct lend_out out[SIM_BURST];
	uint32_t k, turns = 0;
	uint8_t ready = (uint8_t)lend_sched_classes(n->core);
	const char *why = n->core->coalesced_n ? sim_audit_coalesced(n->core) : NULL;

	SIM_CHECK(sim, !why, "node %u: audit: %s", n->id, why);
	while ((k = lend_core_output(n->core, sim->now, &n->bufs, out, SIM_BURST)) > 0) {
		sim_oracle_order(sim, n, ready, out, k);
		SIM_CHECK(sim, ++turns < TURNS_MAX, "node %u sends without end", n->id);
		sim_node_send_burst(sim, n, out, k);
		for (uint32_t i = 0; i < k; i++) {
			if (out[i].sent == LEND_SENT)
				sim_oracle_out(sim, n, &out[i], i);
			sim_note(sim, out[i].peer, out[i].sent);
		}
		lend_core_sent(n->core, out, k);
		handle_events(sim, n);
		ready = (uint8_t)lend_sched_classes(n->core);
	}
	sim_oracle_rest(sim, n);
}

static void run_turn(struct sim *sim, uint32_t node)
{
	struct sim_node *n = &sim->node[node];
	uint32_t taken = n->ring_n;
	lend_ns next;

	n->turn = LEND_NEVER;
	n->turning = true;
	supply_buffers(sim, n);
	for (uint32_t i = 0; i < taken; i += SIM_BURST)
		receive_flights(sim, n, n->ring + i, lend_min_u32(taken - i, SIM_BURST));
	forget_ring(sim, n);
	if (n->store)
		sim_mem_turn(sim, node);
	if (sim->plan.host_queue == 1 && lend_core_host_queue_due(n->core, 0)) {
		n->host_queued = sim_net_queued(sim, node);
		lend_core_host_queue(n->core, sim->now, 0, n->host_queued);
	}
	if (lend_core_deadline(n->core) <= sim->now)
		lend_core_tick(n->core, sim->now);
	handle_events(sim, n);
	supply_buffers(sim, n);
	sim_work_pause_bulk(sim, n);
	transmit_burst(sim, n);
	n->turning = false;
	sim_oracle_turn(sim, n);
	sim_oracle_queues(sim, n);
	sim_note(sim, (uint64_t)node << 32 | taken, n->bufs_out);
	next = lend_core_deadline(n->core);
	if (n->store)
		next = lend_min_u64(next, sim_mem_deadline(sim, node));
	if (next == LEND_NEVER)
		return;
	n->turn = lend_max_u64(next, sim->now + 1);
	look_at(sim, n, n->turn);
}

void sim_node_wake(struct sim *sim, uint32_t node, uint32_t life)
{
	struct sim_node *n = &sim->node[node];

	if (n->life != life)
		return;
	if (n->late == sim->now)
		n->late = LEND_NEVER;
	if (n->turn <= sim->now)
		run_turn(sim, node);
	else
		look_at(sim, n, n->turn);
}
