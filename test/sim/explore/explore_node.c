#include "sim/explore/explore_node.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "core/arena.h"
#include "sim/explore/explore_canon.h"
#include "sim/explore/explore_prog.h"

enum { TURNS = 64 };

static struct ex_node nodes[EX_NODES];
static uint32_t n_nodes;
static uint64_t steps;
static sigjmp_buf stop;

static void on_signal(int signal)
{
	siglongjmp(stop, signal);
}

static void fill_config(struct ex_node *n)
{
	const struct ex_scope *s = n->scope;

	n->cfg = (struct lend_core_config){
	    .sessions = s->sessions ? s->sessions : s->nodes,
	    .calls = s->slots,
	    .inflight = s->inflight ? s->inflight : s->slots,
	    .reassemblies = s->supply ? s->supply : 1,
	    .path = {{.mtu = s->mtu, .checked = true, .lossless = s->lossless}},
	    .message_max = EX_MESSAGE_MAX,
	    .receive_budget = 2 * EX_MESSAGE_MAX,
	    .unscheduled = EX_UNSCHEDULED,
	    .probe = 200 * LEND_MS,
	    .dead = 1000 * LEND_MS,
	    .fast = s->fast,
	};
}

/* Starts a node with an incarnation and random bits of its own. */
static void start_core(struct ex_node *n, uint32_t inc)
{
	memset(n->cfg.incarnation, (int)(0x10 * (n->index + 1) + inc), sizeof(n->cfg.incarnation));
	memset(n->cfg.seed, (int)(0x80 + 0x10 * n->index + inc), sizeof(n->cfg.seed));
	memset(n->core, 0, lend_core_size(&n->cfg));
	n->now = EX_NOW;
	lend_core_init(n->core, &n->cfg, n->now);
	memset(&n->app, 0, sizeof(n->app));
	n->app.inc = (uint8_t)inc;
	if (n->store)
		ex_mem_start(n);
}

static uint32_t node_extents(struct ex_node *n, struct ex_extent *e)
{
	uint32_t k = ex_core_extents(n->core, e);

	e[k++] = (struct ex_extent){&n->app, sizeof(n->app)};
	if (n->store)
		k += ex_store_extents(n->store, e + k);
	return k;
}

static void save_node(struct ex_node *n)
{
	struct ex_extent e[2 * EX_EXTENTS];
	uint32_t k = node_extents(n, e), at = 0;

	for (uint32_t i = 0; i < k; i++) {
		memcpy(n->image + at, e[i].at, e[i].len);
		at += e[i].len;
	}
}

static void load_node(struct ex_node *n, uint32_t state)
{
	struct ex_extent e[2 * EX_EXTENTS];
	uint32_t k = node_extents(n, e), at = 0;

	ex_blobs_get(&n->states, state, n->image);
	for (uint32_t i = 0; i < k; i++) {
		memcpy(e[i].at, n->image + at, e[i].len);
		at += e[i].len;
	}
	n->now = EX_NOW;
	ex_core_timers(n->core);
	memset(&lend_unhashed(n->core)->stats, 0, sizeof(struct lend_core_stats));
	ex_buf_refill(n);
}

static void open_node(struct ex_node *n, uint32_t index, const struct ex_scope *scope)
{
	struct ex_extent e[2 * EX_EXTENTS];
	uint32_t k;

	memset(n, 0, sizeof(*n));
	n->scope = scope;
	n->index = index;
	fill_config(n);
	LEND_CHECK(lend_core_size(&n->cfg) > 0);
	n->core = aligned_alloc(64, (lend_core_size(&n->cfg) + 63) & ~(size_t)63);
	LEND_CHECK(n->core != NULL);
	ex_buf_open(n);
	if (scope->mem[0][0] && ex_serves(n))
		ex_mem_open(n);
	start_core(n, 0);
	k = node_extents(n, e);
	for (uint32_t i = 0; i < k; i++)
		n->image_len += e[i].len;
	n->image_len = (n->image_len + 7) & ~7u;
	n->image = calloc(1, n->image_len);
	LEND_CHECK(n->image != NULL);
	ex_core_canon(n->core);
	save_node(n);
	ex_blobs_open(&n->states, n->image, n->image_len);
	ex_table_open(&n->steps, 16, 16 + sizeof(struct ex_effect));
}

void ex_nodes_open(const struct ex_scope *scope)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_NODEFER};

	sigaction(SIGABRT, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGFPE, &act, NULL);
	n_nodes = scope->nodes;
	steps = 0;
	ex_dgrams_open();
	for (uint32_t i = 0; i < n_nodes; i++)
		open_node(&nodes[i], i, scope);
}

static void close_node(struct ex_node *n)
{
	ex_blobs_close(&n->states);
	ex_table_close(&n->steps);
	free(n->image);
	free(n->core);
	ex_buf_close(n);
	if (n->store)
		ex_mem_close(n);
}

void ex_nodes_close(void)
{
	for (uint32_t i = 0; i < n_nodes; i++)
		close_node(&nodes[i]);
	ex_dgrams_close();
	signal(SIGABRT, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGFPE, SIG_DFL);
}

static lend_ns node_deadline(const struct ex_node *n)
{
	lend_ns at = lend_core_deadline(n->core);

	return n->store ? lend_min_u64(at, lend_store_deadline(n->store)) : at;
}

static void pass_time(struct ex_node *n, lend_ns t)
{
	n->now += t;
	lend_core_tick(n->core, n->now);
	if (n->store)
		lend_store_tick(n->store, n->now);
}

static void apply_input(struct ex_node *n, uint64_t input)
{
	uint64_t arg = input & ~(UINT64_C(0xff) << 56);
	enum ex_kind kind = (enum ex_kind)(input >> 56);

	if (kind == EX_DELIVER)
		ex_deliver(n, (uint32_t)arg);
	else if (kind == EX_TICK)
		pass_time(n, node_deadline(n) - n->now);
	else if (kind == EX_PASS)
		pass_time(n, arg);
	else
		ex_prog_act(n, input);
}

static uint32_t poll_events(struct ex_node *n)
{
	const struct lend_event *ev;
	uint32_t k = 0;

	for (; (ev = lend_core_next(n->core)); k++)
		ex_prog_event(n, ev);
	ex_buf_supply(n);
	return k;
}

static uint32_t flush_output(struct ex_node *n)
{
	struct lend_out out[16];
	uint32_t k = lend_core_output(n->core, n->now, &n->bufs, out, 16);

	for (uint32_t i = 0; i < k; i++) {
		ex_emit(n, &out[i]);
		out[i].sent = LEND_SENT;
	}
	lend_core_sent(n->core, out, k);
	return k;
}

/* Polls the core, as an endpoint's loop does, until it is idle. */
static void settle_events(struct ex_node *n)
{
	for (uint32_t i = 0; i < TURNS; i++) {
		uint32_t moved = poll_events(n);

		if (lend_core_deadline(n->core) <= n->now)
			lend_core_tick(n->core, n->now);
		moved += flush_output(n);
		if (!moved && node_deadline(n) > n->now)
			return;
		if (n->store && lend_store_deadline(n->store) <= n->now)
			lend_store_tick(n->store, n->now);
	}
	ex_bad(n, "a node that is never idle");
}

static void describe_node(struct ex_node *n, struct ex_attr *a)
{
	lend_ns at = node_deadline(n);

	memset(a, 0, sizeof(*a));
	a->wait = at == LEND_NEVER ? LEND_NEVER : at - n->now;
	a->api = ex_prog_api(n);
	a->open = n->app.session != 0;
	a->idle = 1;
	for (uint32_t i = 0; i < EX_PER; i++)
		a->idle &= n->app.call[i] == 0;
	for (uint32_t i = 0; i < EX_REQS; i++)
		a->idle &= !n->app.req[i].used;
	a->quiet = ex_core_quiet(n->core);
	a->clean = ex_core_clean(n->core) && !n->app.session;
	a->inc = n->app.inc;
	ex_mem_attr(n, a);
}

static void finish_step(struct ex_node *n)
{
	const char *bad = ex_core_audit(n->core);
	struct ex_attr attr;
	bool fresh;

	if (bad)
		ex_bad(n, bad);
	ex_prog_audit(n);
	if (n->store)
		bad = lend_store_audit(n->store, n->scratch);
	if (bad)
		ex_bad(n, bad);
	describe_node(n, &attr);
	if (n->store)
		ex_store_canon(n->store, n->now);
	ex_prog_canon(n);
	ex_core_canon(n->core);
	save_node(n);
	n->fx->node = ex_blobs_add(&n->states, n->image, &fresh);
	if (fresh)
		memcpy(ex_blobs_at(&n->states, n->fx->node)->attr, &attr, sizeof(attr));
}

uint32_t ex_node_start(uint32_t node, uint32_t inc)
{
	struct ex_effect fx = {0};
	struct ex_node *n = &nodes[node];

	n->fx = &fx;
	start_core(n, inc);
	settle_events(n);
	LEND_CHECK(fx.n_out == 0 && !fx.bad);
	finish_step(n);
	return fx.node;
}

/* Before an address is proven, the server never sends more bytes than it received. */
static bool proven_addresses(struct ex_node *n)
{
	bool yes = !ex_serves(n);

	for (uint32_t i = 0; i < n->cfg.sessions; i++)
		yes |= lend_sess_at(n->core, i)->state > LEND_SESS_HALF;
	return yes;
}

static void run_input(struct ex_node *n, uint64_t input)
{
	bool known = proven_addresses(n);
	uint32_t in = 0, out = 0;

	apply_input(n, input);
	settle_events(n);
	if (!known && !proven_addresses(n)) {
		in = input >> 56 == EX_DELIVER ? ex_dgram_len((uint32_t)input) : 0;
		for (uint32_t i = 0; i < n->fx->n_out; i++)
			out += ex_dgram_len(n->fx->out[i]);
		if (out > in)
			ex_bad(n, "more bytes sent than received, to an unproven address");
	}
	finish_step(n);
}

struct step {
	uint64_t state, input;
	struct ex_effect fx;
};

const struct ex_effect *ex_node_step(uint32_t node, uint32_t state, uint64_t input)
{
	struct ex_node *n = &nodes[node];
	uint64_t key[2] = {state, input};
	bool fresh;
	uint32_t i = ex_table_add(&n->steps, key, &fresh);
	struct step *s = ex_table_at(&n->steps, i);

	if (!fresh)
		return &s->fx;
	steps++;
	n->fx = &s->fx;
	s->fx.node = state;
	if (sigsetjmp(stop, 1)) {
		ex_bad(n, "stopped by a check");
		return &s->fx;
	}
	load_node(n, state);
	run_input(n, input);
	return &s->fx;
}

const struct ex_attr *ex_node_attr(uint32_t node, uint32_t state)
{
	return (const struct ex_attr *)(const void *)ex_blobs_at(&nodes[node].states, state)->attr;
}

uint64_t ex_api_input(uint32_t i)
{
	static const uint8_t plain[] = {EX_CONNECT, EX_CALL, EX_CLOSE, EX_OP, EX_AGAIN};

	if (i >= EX_API_REPLY)
		return EX_INPUT(EX_REPLY, i - EX_API_REPLY);
	return i >= EX_API_CANCEL ? EX_INPUT(EX_CANCEL, i - EX_API_CANCEL) : EX_INPUT(plain[i], 0);
}

struct ex_node_stats ex_nodes_stats(void)
{
	struct ex_node_stats s = {.steps = steps};

	s.dgrams = ex_dgrams_stats(&s.bytes);
	for (uint32_t i = 0; i < n_nodes; i++) {
		s.states[i] = nodes[i].states.table.n;
		s.bytes += ex_blobs_bytes(&nodes[i].states) + ex_table_bytes(&nodes[i].steps);
	}
	return s;
}
