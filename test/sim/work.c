#include "sim/work.h"

#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/work_state.h"
#include "util/bits.h"

enum { HANG_UP = 1 };

/* The ledger grows by blocks, so that entries never move. */
struct sim_call *sim_work_at(struct sim *sim, uint32_t call)
{
	return &sim->work->block[call / SIM_BLOCK][call % SIM_BLOCK];
}

static struct sim_call *enter_call(struct sim *sim, uint32_t *index)
{
	struct sim_work *w = sim->work;

	if (w->n % SIM_BLOCK == 0) {
		SIM_CHECK(sim, w->n / SIM_BLOCK < SIM_BLOCKS, "more calls than the ledger holds");
		w->block[w->n / SIM_BLOCK] = malloc(SIM_BLOCK * sizeof(struct sim_call));
		LEND_CHECK(w->block[w->n / SIM_BLOCK]);
	}
	*index = w->n++;
	memset(sim_work_at(sim, *index), 0, sizeof(struct sim_call));
	return sim_work_at(sim, *index);
}

void sim_work_open(struct sim *sim)
{
	sim->work = calloc(1, sizeof(*sim->work));
	LEND_CHECK(sim->work);
	if (sim->plan.calls)
		sim_at(sim, sim->now, SIM_WORK, 0, 0);
}

void sim_work_close(struct sim *sim)
{
	for (uint32_t i = 0; sim->work && i < SIM_BLOCKS; i++)
		free(sim->work->block[i]);
	free(sim->work);
	sim->work = NULL;
}

/* Half of the lengths are at a boundary of something. */
uint32_t sim_work_len(struct sim *sim, enum sim_stream stream)
{
	const struct sim_plan *p = &sim->plan;
	uint64_t payload =
	    (p->mtu - sizeof(struct lend_pkt_trailer) - LEND_PKT_OVERHEAD) & ~UINT64_C(15);
	const uint64_t edge[] = {0,    p->mtu,       payload,        2 * payload,
				 4096, 64 * payload, p->unscheduled, p->message_max};
	uint64_t len, max = p->len_max - p->len_min;

	if (!max)
		return (uint32_t)p->len_max;
	if (sim_below(sim, stream, 2) == 0) {
		len = edge[sim_below(sim, stream, 8)] + sim_below(sim, stream, 3);
		len -= len > 0;
		if (len >= p->len_min && len <= p->len_max + 1)
			return (uint32_t)len;
	}
	/* Each magnitude with the same probability. */
	max >>= sim_below(sim, stream, 64 - (unsigned)__builtin_clzll(max));
	return (uint32_t)(p->len_min + sim_below(sim, stream, max + 1));
}

bool sim_work_head(const struct sim *sim, uint32_t call, bool reply)
{
	uint64_t key = sim_bytes_key(sim->plan.seed, call, reply);

	return key * UINT64_C(0x9e3779b97f4a7c15) >> 60 == 0;
}

uint32_t sim_work_message(struct sim *sim, uint32_t node, uint32_t len, uint64_t key)
{
	const struct sim_plan *p = &sim->plan;
	bool chain = len > 1 && sim_odds(sim, SIM_RNG_WORK, p->chain_ppm);
	uint32_t first = 0, last = 0, at = 0, here, b;

	/* A datagram has at most four pieces, so a segment is at least a third of a datagram
	 * long. */
	while (at < len || !first) {
		here = len - at;
		if (chain && here > p->mtu / 2)
			here = (uint32_t)lend_min_u64(here, p->mtu / 2 +
								sim_below(sim, SIM_RNG_WORK, here));
		b = sim_node_buf(sim, node, here, here);
		sim->node[node].bufs.seg[b].shared = sim_odds(sim, SIM_RNG_SHARED, p->shared_ppm);
		sim_bytes_fill(sim->node[node].bufs.seg[b].data, at, here, key);
		if (last)
			sim->node[node].bufs.seg[last].next = b;
		else
			first = b;
		last = b;
		at += here;
		if (!here)
			break;
	}
	return first;
}

static bool refused_rightly(const struct sim *sim, const struct sim_call *k, int rc)
{
	/* -EAGAIN: no slot; -ESTALE: its session ended and the event has not arrived yet. */
	return rc == -11 || rc == -116 || (rc == -90 && k->len > sim->plan.message_max);
}

static bool make_call(struct sim *sim, uint32_t index, uint64_t session, struct lend_core_call *c)
{
	struct sim_call *k = sim_work_at(sim, index);
	struct sim_node *n = &sim->node[k->from];
	int rc;

	c->class = (uint8_t)(index % sim->plan.classes);
	if (!k->mem && sim_work_head(sim, index, false))
		c->class |= LEND_CALL_HEAD;
	c->deadline = k->due;
	c->zero_rtt = sim_odds(sim, SIM_RNG_ZERO_RTT, sim->plan.zero_rtt_ppm);
	c->tag = index;
	k->session = session;
	k->began = sim->now;
	rc = lend_core_call(n->core, sim->now, session, &n->bufs, c, &k->handle);
	sim_trace_add(&sim->trace, sim->now, rc ? "cannot call" : "calls", k->from, k->to, index,
		      rc ? (uint64_t)-rc : k->len);
	sim_note(sim, index, (uint64_t)rc);
	if (rc) {
		SIM_CHECK(sim, refused_rightly(sim, k, rc), "call %u of %u bytes returns %d", index,
			  k->len, rc);
		k->handle = 0;
		k->ended = 1;
		return false;
	}
	sim->count.calls++;
	sim->work->open++;
	sim_node_lend(sim, k->from, c->request);
	sim_node_lend(sim, k->from, c->reply);
	sim_node_kick(sim, k->from);
	return true;
}

bool sim_work_call(struct sim *sim, uint32_t from, uint32_t to, uint32_t request, uint32_t arg,
		   uint32_t *call)
{
	struct lend_core_call c = {.method = LEND_MEM_METHOD, .request = request};
	uint64_t session;
	struct sim_call *k;

	if (!sim_node_session(sim, from, to, &session))
		return false;
	k = enter_call(sim, call);
	*k = (struct sim_call){.from = (uint16_t)from,
			       .to = (uint16_t)to,
			       .life = sim->node[from].life,
			       .due = LEND_NEVER,
			       .mem = 1,
			       .arg = arg};
	return make_call(sim, *call, session, &c);
}

static uint8_t script_call(struct sim *sim, uint32_t depth)
{
	const struct sim_plan *p = &sim->plan;

	if (sim_odds(sim, SIM_RNG_HANDLER, p->later_ppm))
		return SIM_LATER;
	if (sim_odds(sim, SIM_RNG_HANDLER, p->never_ppm))
		return SIM_NEVER;
	if (sim_odds(sim, SIM_RNG_HANDLER, p->twice_ppm))
		return SIM_TWICE;
	return depth < 3 && p->nodes > 1 && sim_odds(sim, SIM_RNG_HANDLER, p->nest_ppm) ? SIM_NEST
											: SIM_NOW;
}

/* The reply buffer may be one byte too short. */
static uint32_t name_reply(struct sim *sim, struct sim_call *k)
{
	uint32_t cap = k->reply_len + (uint32_t)sim_below(sim, SIM_RNG_WORK, 8);

	cap -= cap > 0 && cap == k->reply_len;
	k->named = cap + 1;
	return sim_node_buf(sim, k->from, cap, 0);
}

static bool session_of(struct sim *sim, uint32_t from, uint32_t to, uint64_t *session)
{
	*session = sim->node[from].link[to].accepted;
	if (*session && sim_odds(sim, SIM_RNG_WORK, sim->plan.back_ppm))
		return true;
	return sim_node_session(sim, from, to, session);
}

bool sim_work_ask(struct sim *sim, uint32_t from, uint32_t to, lend_ns due, uint32_t parent)
{
	const struct sim_plan *p = &sim->plan;
	struct lend_core_call c = {0};
	uint32_t index, depth = parent ? sim_work_at(sim, parent - 1)->depth + 1u : 0;
	uint64_t session;
	struct sim_call *k;

	if (!session_of(sim, from, to, &session))
		return false;
	k = enter_call(sim, &index);
	*k = (struct sim_call){.from = (uint16_t)from,
			       .to = (uint16_t)to,
			       .life = sim->node[from].life,
			       .due = due,
			       .arg = parent,
			       .depth = (uint8_t)depth};
	k->len = sim_work_len(sim, SIM_RNG_WORK);
	k->reply_len = sim_work_len(sim, SIM_RNG_WORK);
	k->script = script_call(sim, depth);
	if (sim_odds(sim, SIM_RNG_HANDLER, p->fail_ppm))
		k->code = sim_below(sim, SIM_RNG_HANDLER, 2) ? 3 : 12 | LEND_REPLY_NOT_RUN;
	k->code |= sim_work_head(sim, index, true) ? LEND_REPLY_HEAD : 0;
	c.method = index;
	c.class = sim_below(sim, SIM_RNG_WORK, 8) & 7;
	c.request = k->len || sim_below(sim, SIM_RNG_WORK, 2)
			? sim_work_message(sim, from, k->len, sim_bytes_key(p->seed, index, false))
			: 0;
	if (sim_odds(sim, SIM_RNG_WORK, p->named_ppm))
		c.reply = name_reply(sim, k);
	if (!make_call(sim, index, session, &c)) {
		sim_node_unbuf(sim, from, c.request);
		sim_node_unbuf(sim, from, c.reply);
		return false;
	}
	if (sim_odds(sim, SIM_RNG_WORK, p->hangup_ppm / 2))
		sim_at(sim, sim->now + sim_below(sim, SIM_RNG_WORK, 1000 * p->deadline_us),
		       SIM_CANCEL, index, HANG_UP);
	if (sim_odds(sim, SIM_RNG_WORK, p->cancel_ppm))
		sim_at(sim, sim->now + sim_below(sim, SIM_RNG_WORK, 1000 * p->deadline_us),
		       SIM_CANCEL, index, 0);
	return true;
}

static bool is_awake(const struct sim *sim, uint32_t node)
{
	return sim->node[node].up && sim->node[node].paused <= sim->now;
}

static void start_one(struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;
	uint64_t nodes = p->nodes - (p->hoard > 0);
	uint32_t from = (uint32_t)sim_below(sim, SIM_RNG_WORK, nodes);
	uint32_t to = (uint32_t)sim_below(sim, SIM_RNG_WORK, nodes - 1);
	lend_ns due = LEND_NEVER;

	to += to >= from;
	if (sim_odds(sim, SIM_RNG_WORK, p->deadline_ppm))
		due = sim->now + sim_below(sim, SIM_RNG_WORK, 1000 * p->deadline_us + 1);
	if (is_awake(sim, from))
		sim_work_ask(sim, from, to, due, 0);
}

/* Makes the next calls of the script. The idle time is in the middle of it. */
static void next_calls(struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;
	struct sim_work *w = sim->work;
	uint64_t bursts = (p->calls + p->burst - 1) / p->burst;
	lend_ns gap;

	if (sim->healing)
		return;
	for (uint64_t i = 0; i < p->burst && w->asked < p->calls; i++, w->asked++)
		start_one(sim);
	gap = 2000 * p->span_us / (bursts + 1);
	gap = gap ? sim_below(sim, SIM_RNG_WORK, gap) : 0;
	if (!w->rested && 2 * w->asked >= p->calls) {
		gap += 1000 * p->idle_us;
		w->rested = true;
	}
	if (w->asked < p->calls)
		sim_at(sim, sim->now + gap, SIM_WORK, 0, 0);
}

/* Cancels this call, or closes its session. */
static void cancel_call(struct sim *sim, uint32_t call, uint32_t what)
{
	struct sim_call *k = sim_work_at(sim, call);
	struct sim_node *n = &sim->node[k->from];

	if (!n->up || n->life != k->life)
		return;
	if (n->paused > sim->now) {
		sim_at(sim, n->paused, SIM_CANCEL, call, what);
		return;
	}
	k->cancelled = 1;
	sim_trace_add(&sim->trace, sim->now, "cancels", k->from, k->to, call, k->ended);
	lend_core_cancel(n->core, k->handle, 1); /* cancels a call that has ended: no effect */
	sim_node_kick(sim, k->from);
}

void sim_work_pause_bulk(struct sim *sim, struct sim_node *n)
{
	lend_ns most = 1000 * sim->plan.bulk_pause_us;

	lend_ns until;

	if (sim->healing || !sim_odds(sim, SIM_RNG_BULK_PAUSE, sim->plan.bulk_pause_ppm))
		return;
	until = sim->now - most + sim_below(sim, SIM_RNG_BULK_PAUSE, 2 * most);
	lend_core_pause_bulk(n->core, until);
	lend_core_cut_fine(n->core, until);
}

void sim_work_heal(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->work->n; i++) {
		struct sim_call *k = sim_work_at(sim, i);

		if (!k->ended && k->script == SIM_NEVER && k->due == LEND_NEVER)
			cancel_call(sim, i, 0);
	}
}

void sim_work_event(struct sim *sim, enum sim_what what, uint32_t a, uint32_t b)
{
	if (what == SIM_WORK)
		next_calls(sim);
	else if (what == SIM_CANCEL)
		cancel_call(sim, a, b);
	else
		sim_work_answer(sim, a, b);
}

const char *sim_work_unfinished(struct sim *sim)
{
	if (sim->work->open)
		return "a call has not ended";
	return sim->work->serving ? "a handler still has a request" : NULL;
}
