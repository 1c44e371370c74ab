/* explore_drain - continues from a state without faults. Part of explore_world.h.
 *
 * There is one order: datagrams in flight arrive, handlers answer, then all clocks advance to the
 * next deadline together. Every call must end, sessions are closed, and every pool must be full
 * again, within a bound of virtual time. States that were drained once are not drained again.
 * Layer: test. */
#include <string.h>

#include "core/arena.h"
#include "sim/explore/explore_world.h"

enum { STEPS_MAX = 20000 };
#define TIME_MAX (60000 * LEND_MS)

/* States, by hash, and the walk that visited them. */
struct proof {
	uint64_t hash[2];
	uint64_t walk;
};
static struct ex_table proven;
static uint64_t walks;

struct walk {
	const struct ex_scope *scope;
	struct ex_state s;
	lend_ns passed;
	const char *bad;
	FILE *trace;
	bool over;
};

void ex_world_forget(void)
{
	if (proven.index)
		ex_table_close(&proven);
}

uint64_t ex_world_drained(void)
{
	return proven.n;
}

/* True when an earlier walk visited this state and ended well. */
static bool seen_before(struct walk *w)
{
	struct ex_state key = w->s;
	struct proof *p;
	uint64_t hash[2];
	bool fresh;

	key.drops = key.dups = key.ticks = key.crashes = 0;
	ex_hash(&key, sizeof(key), hash);
	if (!proven.index)
		ex_table_open(&proven, sizeof(hash), sizeof(struct proof));
	p = ex_table_at(&proven, ex_table_add(&proven, hash, &fresh));
	if (fresh)
		p->walk = walks;
	else if (p->walk == walks)
		w->bad = "an endless loop";
	return !fresh;
}

static const struct ex_attr *node_attr(const struct walk *w, uint32_t node)
{
	return w->s.node[node] & EX_DOWN ? NULL : ex_node_attr(node, w->s.node[node]);
}

static void step_input(struct walk *w, uint32_t node, uint64_t in)
{
	const char *bad = NULL;

	ex_world_step(w->scope, &w->s, node, in, &bad);
	if (!w->bad)
		w->bad = bad;
}

/* True when the node has tried this bit of api. */
static bool was_tried(struct walk *w, uint32_t node, uint32_t bit)
{
	struct ex_move move = {(uint8_t)(ex_api_input(bit) >> 56), (uint8_t)node, (uint8_t)bit};

	if (w->trace)
		ex_world_print(w->scope, &w->s, move, w->trace);
	step_input(w, node, ex_api_input(bit));
	return true;
}

static bool answer_all(struct walk *w)
{
	for (uint32_t i = 0; i < w->scope->nodes; i++) {
		const struct ex_attr *a = node_attr(w, i);

		if (a && a->api >> EX_API_REPLY)
			return was_tried(
			    w, i, (uint32_t)__builtin_ctz(a->api >> EX_API_REPLY) + EX_API_REPLY);
		if (a && a->settle)
			return was_tried(w, i, a->settle == 1 ? EX_API_OP : EX_API_CONNECT);
	}
	return false;
}

static bool all_drained(const struct walk *w, size_t member)
{
	for (uint32_t i = 0; i < w->scope->nodes; i++) {
		const struct ex_attr *a = node_attr(w, i);

		if (a && !((const uint8_t *)a)[member])
			return false;
	}
	return true;
}

/* A client and its memory node must agree on holds. */
static void sides_agree(struct walk *w)
{
	const struct ex_attr *m = node_attr(w, w->scope->nodes - 1);
	uint32_t holders = 0;

	for (uint32_t i = 0; i + 1 < w->scope->nodes && m; i++) {
		const struct ex_attr *a = node_attr(w, i);

		for (uint32_t p = 0; a && p < EX_PROCESSES; p++) {
			bool known = a->lives[p] && a->lives[p] == m->lives[p];

			holders += known && a->holds[p];
			if (known && a->holds[p] != m->holds[p])
				w->bad = "a client and its memory node disagree on its holds";
		}
	}
	if (holders > w->scope->holders)
		w->bad = "more clients hold a snapshot than the scope allows";
}

static bool close_one(struct walk *w)
{
	sides_agree(w);
	for (uint32_t i = 0; i < w->scope->nodes; i++)
		if (node_attr(w, i) && node_attr(w, i)->open)
			return was_tried(w, i, EX_API_CLOSE);
	return false;
}

static void wait_next(struct walk *w)
{
	lend_ns t = LEND_NEVER;

	for (uint32_t i = 0; i < w->scope->nodes; i++)
		if (node_attr(w, i) && node_attr(w, i)->wait < t)
			t = node_attr(w, i)->wait;
	if (t == LEND_NEVER) {
		w->bad = "stuck: something is open, and no timer is armed";
		return;
	}
	w->passed += t;
	if (w->passed > TIME_MAX)
		w->bad = "not over within 60 s of virtual time";
	if (w->trace)
		fprintf(w->trace, "  wait %llu us\n", (unsigned long long)(t / LEND_US));
	for (uint32_t i = 0; i < w->scope->nodes; i++)
		if (node_attr(w, i))
			step_input(w, i, EX_INPUT(EX_PASS, t));
}

static void deliver_next(struct walk *w)
{
	const char *bad = NULL;

	if (w->trace)
		ex_world_print(w->scope, &w->s, (struct ex_move){EX_DELIVER, 0, 0}, w->trace);
	ex_world_deliver(w->scope, &w->s, 0, &bad);
	if (!w->bad)
		w->bad = bad;
}

static void step_next(struct walk *w)
{
	uint32_t mn = w->scope->nodes - 1;
	const char *bad;

	if (w->s.n)
		deliver_next(w);
	else if (w->scope->mem[0][0] && !node_attr(w, mn))
		ex_world_do(w->scope, &w->s, (struct ex_move){EX_START, (uint8_t)mn, 0}, &bad);
	else if (answer_all(w))
		return;
	else if (all_drained(w, offsetof(struct ex_attr, clean)))
		w->over = true;
	else if (!all_drained(w, offsetof(struct ex_attr, idle)) ||
		 !all_drained(w, offsetof(struct ex_attr, quiet)) || !close_one(w))
		wait_next(w);
}

const char *ex_world_drain(const struct ex_scope *scope, const struct ex_state *s, FILE *trace)
{
	struct walk w = {.scope = scope, .s = *s, .trace = trace};
	uint32_t i;

	walks++;
	for (i = 0; i < STEPS_MAX && !w.bad && !w.over; i++) {
		if (!trace && seen_before(&w))
			break;
		step_next(&w);
	}
	return i < STEPS_MAX ? w.bad : "not over within 20,000 steps";
}
