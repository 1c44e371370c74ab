/* work_serve - handlers of scripted calls, and the invariants of each call. Part of work.h. Layer:
 * test/sim. */
#include "core/client_call.h"
#include "core/sess.h"
#include "core/short_burst.h"
#include "sim/bytes.h"
#include "sim/hoard.h"
#include "sim/oracle/oracle.h"
#include "sim/memory/sim_mem.h"
#include "sim/work_state.h"
#include "util/bits.h"

enum { LATE = 1000 }; /* ns between a deadline and the turn that handles it */

static struct sim_serving *serving_at(struct sim *sim, uint32_t node, uint64_t handle)
{
	uint32_t i = (uint32_t)handle;

	SIM_CHECK(sim, i < 2 * sim->plan.inflight, "node %u: handle %llx", node,
		  (unsigned long long)handle);
	return &sim->node[node].serving[i];
}

static bool same_parts(const struct lend_event *e, uint64_t len, uint64_t key)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < e->parts; i++) {
		if (!sim_bytes_same(e->part[i].data, at, e->part[i].len, key))
			return false;
		at += e->part[i].len;
	}
	return at == len;
}

/* Compares a message with its expected content, in place, in parts or in the chain of buf. */
static bool same_bytes(const struct sim *sim, uint32_t node, const struct lend_event *e,
		       uint32_t buf, uint64_t len, uint64_t key)
{
	const struct lend_seg *seg = sim->node[node].bufs.seg;
	uint64_t at = 0, here;

	if (e->parts)
		return same_parts(e, len, key);
	if (e->data)
		return sim_bytes_same(e->data, 0, len, key);
	for (; buf && at < len; buf = seg[buf].next) {
		here = lend_min_u64(seg[buf].cap, len - at);
		if (!sim_bytes_same(seg[buf].data, at, here, key))
			return false;
		at += here;
	}
	return at == len;
}

/* Has the core copy half of the short replies. False: it takes the reply as a buffer. */
static bool copy_reply(const struct sim *sim, struct sim_node *n, const struct sim_serving *v,
		       const struct sim_call *k, uint32_t buf)
{
	const struct lend_seg *seg = &n->bufs.seg[buf];

	return k->reply_len <= LEND_KEPT_MAX && !(k->code & LEND_REPLY_HEAD) &&
	       !(buf && seg->next) && v->handle * UINT64_C(0x9e3779b97f4a7c15) >> 63 &&
	       lend_core_reply_short(n->core, sim->now, v->handle, k->code, seg->data,
				     (uint32_t)k->reply_len) == 0;
}

static void send_reply(struct sim *sim, uint32_t node, struct sim_serving *v, uint32_t call)
{
	struct sim_call *k = sim_work_at(sim, call);
	struct sim_node *n = &sim->node[node];
	uint32_t buf = 0;
	int rc;

	if (k->reply_len)
		buf = sim_work_message(sim, node, k->reply_len,
				       sim_bytes_key(sim->plan.seed, call, true));
	if (v->state == SIM_SERVE_CANCELLED)
		SIM_MARK(sim, answered_cancelled);
	sim_trace_add(&sim->trace, sim->now, "answers", node, k->from, call, k->reply_len);
	k->serves = 0;
	if (copy_reply(sim, n, v, k, buf)) {
		v->state = SIM_SERVE_FREE;
		sim->work->serving--;
		sim_node_unbuf(sim, node, buf);
	} else {
		sim_node_lend(sim, node, buf);
		rc = lend_core_reply(n->core, sim->now, v->handle, &n->bufs, k->code, buf);
		SIM_CHECK(sim, rc == 0, "call %u: reply returns %d", call, rc);
		v->state = SIM_SERVE_REPLIED;
		v->reply = buf;
	}
	if (k->script == SIM_TWICE) {
		rc = lend_core_reply(n->core, sim->now, v->handle, &n->bufs, 0, 0);
		SIM_CHECK(sim, rc == E_STALE, "call %u: a second reply returns %d", call, rc);
	}
	sim_node_kick(sim, node);
}

void sim_work_answer(struct sim *sim, uint32_t call, uint32_t life)
{
	struct sim_call *k = sim_work_at(sim, call);
	struct sim_node *n = &sim->node[k->to];

	if (!n->up || n->life != life || !k->serves)
		return;
	if (n->paused > sim->now)
		sim_at(sim, n->paused, SIM_ANSWER, call, life);
	else
		send_reply(sim, k->to, serving_at(sim, k->to, k->serves), call);
}

static void start_nested(struct sim *sim, uint32_t node, uint32_t call, lend_ns due)
{
	struct sim_node *n = &sim->node[node];
	lend_ns mine = sim->now + 1 + sim_below(sim, SIM_RNG_HANDLER, 1000 * sim->plan.deadline_us);
	uint32_t to = (uint32_t)sim_below(sim, SIM_RNG_HANDLER, sim->plan.nodes - 1);

	to += to >= node;
	due = lend_max_u64(sim->now, lend_min_u64(due, mine));
	if (!sim_work_ask(sim, node, to, due, call + 1))
		sim_work_answer(sim, call, n->life);
}

static void handle_request(struct sim *sim, uint32_t node, uint32_t call,
			   const struct lend_event *e)
{
	struct sim_call *k = sim_work_at(sim, call);
	uint32_t life = sim->node[node].life;

	switch ((enum sim_script)k->script) {
	case SIM_NOW:
	case SIM_TWICE:
		sim_work_answer(sim, call, life);
		return;
	case SIM_LATER:
		sim_at(sim,
		       sim->now + sim_below(sim, SIM_RNG_HANDLER, 1000 * sim->plan.later_us + 1),
		       SIM_ANSWER, call, life);
		return;
	case SIM_NEST:
		start_nested(sim, node, call, e->deadline);
		return;
	case SIM_NEVER:
		return; /* when it is cancelled */
	}
}

static struct sim_serving *take_request(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_serving *v = serving_at(sim, node, e->call);

	SIM_CHECK(sim, v->state == SIM_SERVE_FREE, "node %u: a request under a handle in use",
		  node);
	*v = (struct sim_serving){
	    .handle = e->call, .call = SIM_NO_CALL, .state = SIM_SERVE_RUNNING};
	sim->work->serving++;
	return v;
}

/* True when the caller's session lives and has forgotten the call: the server was notified that it
 * is gone. */
static bool is_gone(struct sim *sim, const struct sim_call *k)
{
	struct sim_node *n = &sim->node[k->from];
	const struct lend_sess *s;

	if (!n->up || n->life != k->life)
		return false;
	s = lend_sess_find(n->core, k->session);
	lend_burst_end(n->core);
	return s && s->state == LEND_SESS_UP && !lend_call_find(n->core, k->handle, true);
}

static void on_request(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	uint32_t call = e->method;
	struct sim_call *k;

	sim_node_back(sim, node, e->buf);
	take_request(sim, node, e)->call = e->method == LEND_MEM_METHOD ? SIM_NO_CALL : call;
	if (e->method == SIM_HOARD_METHOD) {
		sim_node_unbuf(sim, node, e->buf);
		sim_hoard_serve(sim, node, e);
		return;
	}
	if (e->method == LEND_MEM_METHOD) {
		sim_mem_request(sim, node, e);
		return;
	}
	SIM_CHECK(sim, call < sim->work->n, "node %u: request for call %u, which was not made",
		  node, call);
	k = sim_work_at(sim, call);
	sim_trace_add(&sim->trace, sim->now, "runs", node, k->from, call, e->len);
	SIM_CHECK(sim, k->to == node && !k->mem, "call %u runs at node %u", call, node);
	SIM_CHECK(sim, !k->runs, "call %u runs twice", call);
	SIM_CHECK(sim, !k->ended || k->ran != RAN_NO,
		  "call %u runs after it was reported as not run", call);
	SIM_CHECK(sim, !is_gone(sim, k), "call %u runs, although its caller reported it as gone",
		  call);
	SIM_CHECK(sim, e->head == sim_work_head(sim, call, false),
		  "call %u: the request's head flag is wrong", call);
	SIM_CHECK(sim, e->len == k->len, "call %u: request of %llu bytes, not %u", call,
		  (unsigned long long)e->len, k->len);
	SIM_CHECK(
	    sim,
	    same_bytes(sim, node, e, e->buf, k->len, sim_bytes_key(sim->plan.seed, call, false)),
	    "call %u: the request's bytes are wrong", call);
	if (k->ended)
		SIM_MARK(sim, late_run);
	k->runs++;
	k->server_life = sim->node[node].life;
	k->serves = e->call;
	sim_node_unbuf(sim, node, e->buf);
	handle_request(sim, node, call, e);
}

static void on_cancelled(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_serving *v = serving_at(sim, node, e->call);

	SIM_CHECK(sim,
		  v->handle == e->call &&
		      (v->state == SIM_SERVE_RUNNING || v->state == SIM_SERVE_REPLIED),
		  "node %u: a request is cancelled that does not run", node);
	if (v->state == SIM_SERVE_REPLIED)
		return; /* by its REQUEST, which came in the same turn */
	SIM_CHECK(sim, lend_core_request_cancelled(sim->node[node].core, e->call),
		  "node %u: cancelled, but not reported as such", node);
	v->state = SIM_SERVE_CANCELLED;
	if (v->call == SIM_HOARD_METHOD)
		sim_hoard_serve(sim, node, e);
	if (v->call == SIM_NO_CALL || v->call == SIM_HOARD_METHOD)
		return;
	sim_trace_add(&sim->trace, sim->now, "is notified to stop", node,
		      sim_work_at(sim, v->call)->from, v->call, 0);
	if (sim_work_at(sim, v->call)->script == SIM_NEVER)
		sim_work_answer(sim, v->call, sim->node[node].life);
}

static void on_reply_end(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_serving *v = serving_at(sim, node, e->call);
	bool mem = v->call == SIM_NO_CALL;

	SIM_CHECK(sim, v->handle == e->call && v->state != SIM_SERVE_FREE,
		  "node %u: the end of a reply that was not given", node);
	SIM_CHECK(sim,
		  mem || v->call == SIM_HOARD_METHOD ||
		      (v->state == SIM_SERVE_REPLIED && v->reply == e->buf),
		  "call %u: the end of another reply", v->call);
	v->state = SIM_SERVE_FREE;
	sim->work->serving--;
	if (mem) {
		sim_mem_reply_end(sim, node, e->buf);
		return;
	}
	sim_node_back(sim, node, e->buf);
	sim_node_unbuf(sim, node, e->buf);
}

/* Defers some requests' memory, once each. Not drawn: other plans keep their random numbers. */
static bool defer_some(const struct sim *sim, struct sim_node *n, const struct lend_event *e)
{
	return !e->tag && e->call * UINT64_C(0x9e3779b97f4a7c15) >> 44 < sim->plan.defer_ppm &&
	       lend_core_defer(n->core, e->call);
}

static void on_need(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_node *n = &sim->node[node];
	bool refuse = sim_odds(sim, SIM_RNG_WORK, sim->plan.refuse_ppm);
	uint32_t buf = 0;
	bool later;
	int rc;

	SIM_CHECK(sim,
		  e->len > n->cfg.unscheduled &&
		      e->len <= n->cfg.message_max + (e->head ? LEND_HEAD_MAX : 0),
		  "node %u: NEED of %llu bytes", node, (unsigned long long)e->len);
	SIM_CHECK(sim,
		  e->method >= sim->work->n ||
		      e->head ==
			  sim_work_head(sim, e->method, sim_work_at(sim, e->method)->from == node),
		  "call %u: NEED with a wrong head flag", e->method);
	SIM_CHECK(sim, e->data && e->data_len && e->data_len <= e->len,
		  "node %u: NEED without a message", node);
	if (defer_some(sim, n, e)) {
		SIM_MARK(sim, deferred);
		return;
	}
	if (e->method == LEND_MEM_METHOD) {
		refuse = false;
		buf = sim_mem_need(sim, node, e);
	}
	if (!buf && !refuse) {
		refuse = !sim_hoard_memory(sim, node, e, &later);
		if (later)
			return;
	}
	if (!buf && !refuse)
		buf = sim_node_buf(sim, node, (uint32_t)e->len, 0);
	sim_node_lend(sim, node, buf);
	rc = lend_core_attach(n->core, e->call, &n->bufs, buf);
	sim_trace_add(&sim->trace, sim->now, refuse ? "refuses memory" : "lends memory", node, 0,
		      e->method, e->len);
	SIM_CHECK(sim, rc == 0 || rc == E_STALE, "node %u: attach returns %d", node, rc);
	if (rc == 0)
		return;
	SIM_MARK(sim, need_unanswered);
	sim_node_back(sim, node, buf);
	sim_node_unbuf(sim, node, buf);
}

static void judge_end(struct sim *sim, uint32_t call, struct sim_call *k,
		      const struct lend_event *e)
{
	uint8_t code = k->code & (uint8_t) ~(LEND_REPLY_NOT_RUN | LEND_REPLY_HEAD);
	uint8_t ran = k->code & LEND_REPLY_NOT_RUN ? RAN_NO : RAN_YES;

	if (e->status != code || !k->runs || e->ran != ran) {
		sim_work_judge_failure(sim, call, k, e);
		return;
	}
	SIM_MARK(sim, call_ok);
	sim_oracle_adapts(sim, &sim->node[k->from], e->session, k->len);
	SIM_CHECK(sim, k->runs == 1, "call %u: answered, but it did not run", call);
	SIM_CHECK(sim, e->head == sim_work_head(sim, call, true),
		  "call %u: the reply's head flag is wrong", call);
	SIM_CHECK(sim, e->len == k->reply_len, "call %u: reply of %llu bytes, not %u", call,
		  (unsigned long long)e->len, k->reply_len);
	SIM_CHECK(sim,
		  !k->reply_len || same_bytes(sim, k->from, e, e->reply, k->reply_len,
					      sim_bytes_key(sim->plan.seed, call, true)),
		  "call %u: the reply's bytes are wrong", call);
}

/* Resumes the call of the handler that called. */
static void resume_asker(struct sim *sim, const struct sim_call *k)
{
	if (k->arg)
		sim_work_answer(sim, k->arg - 1, k->life);
}

static void on_call_end(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_call *k;
	uint32_t call = (uint32_t)e->tag;

	SIM_CHECK(sim, e->tag < sim->work->n, "node %u: the end of call %llu", node,
		  (unsigned long long)e->tag);
	k = sim_work_at(sim, call);
	sim_trace_add(&sim->trace, sim->now, "ends with status and ran", node, k->to, call,
		      (uint64_t)e->status * 10 + e->ran);
	SIM_CHECK(sim, k->from == node && k->life == sim->node[node].life && k->handle == e->call,
		  "call %u ends at node %u under handle %llx", call, node,
		  (unsigned long long)e->call);
	SIM_CHECK(sim, !k->ended, "call %u ends twice", call);
	sim_hoard_judge(sim, call, k, e);
	sim_node_back(sim, node, e->buf);
	sim_node_back(sim, node, e->reply);
	SIM_CHECK(sim,
		  k->due == LEND_NEVER || k->due + LATE >= sim->now ||
		      sim->node[node].paused + LATE >= sim->now,
		  "call %u ends %llu ns after its deadline", call,
		  (unsigned long long)(sim->now - k->due));
	k->ended = 1;
	k->status = e->status;
	k->ran = e->ran;
	sim->work->open--;
	sim_note(sim, call, (uint64_t)e->status << 8 | e->ran);
	if (k->mem) {
		sim_mem_end(sim, node, k, e,
			    e->data    ? e->data
			    : e->reply ? sim->node[node].bufs.seg[e->reply].data
				       : NULL);
	} else {
		judge_end(sim, call, k, e);
	}
	sim_node_unbuf(sim, node, e->buf);
	sim_node_unbuf(sim, node, e->reply);
	if (!k->mem) {
		resume_asker(sim, k);
		if (sim_odds(sim, SIM_RNG_WORK, sim->plan.hangup_ppm))
			lend_core_disconnect(sim->node[node].core, e->session);
	}
}

void sim_work_core_event(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	if (sim_hoard_is(sim, node)) {
		sim_hoard_core_event(sim, e);
		return;
	}
	switch ((enum lend_event_kind)e->kind) {
	case LEND_EV_NEED:
		on_need(sim, node, e);
		return;
	case LEND_EV_REQUEST:
		on_request(sim, node, e);
		return;
	case LEND_EV_CANCELLED:
		on_cancelled(sim, node, e);
		return;
	case LEND_EV_REPLY_END:
		on_reply_end(sim, node, e);
		return;
	case LEND_EV_CALL_END:
		on_call_end(sim, node, e);
		return;
	default:
		return; /* the node frees it */
	}
}

void sim_work_crashed(struct sim *sim, uint32_t node)
{
	struct sim_node *n = &sim->node[node];

	for (uint32_t i = 0; i < sim->work->n; i++) {
		struct sim_call *k = sim_work_at(sim, i);

		if (k->from == node && k->life == n->life && !k->ended) {
			k->ended = 1;
			k->ran = RAN_MAYBE;
			sim->work->open--;
		}
		if (k->to == node && k->server_life == n->life)
			k->serves = 0;
	}
	for (uint64_t i = 0; i < 2 * sim->plan.inflight; i++)
		sim->work->serving -= n->serving[i].state != SIM_SERVE_FREE;
}
