#include "sim/explore/explore_world.h"

#include <string.h>

#include "core/arena.h"
#include "util/check.h"

static bool is_up(const struct ex_state *s, uint32_t node)
{
	return !(s->node[node] & EX_DOWN);
}

static const struct ex_attr *node_attr(const struct ex_state *s, uint32_t node)
{
	return ex_node_attr(node, s->node[node]);
}

/* Sorts the datagrams that may overtake. By content, because numbers depend on what was explored
 * before, and a replay has explored less. */
static void sort_window(const struct ex_scope *scope, struct ex_state *s)
{
	uint32_t n = s->n < scope->window ? s->n : scope->window;

	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i;
		     k > 0 && ex_dgram_rank(s->net[k - 1] - 1) > ex_dgram_rank(s->net[k] - 1);
		     k--) {
			uint32_t swap = s->net[k];

			s->net[k] = s->net[k - 1];
			s->net[k - 1] = swap;
		}
}

static uint32_t take_datagram(const struct ex_scope *scope, struct ex_state *s, uint32_t i)
{
	uint32_t id = s->net[i] - 1;

	s->n--;
	memmove(&s->net[i], &s->net[i + 1], (s->n - i) * sizeof(s->net[0]));
	s->net[s->n] = 0;
	sort_window(scope, s);
	return id;
}

static const char *saw_run(uint8_t *call)
{
	if (*call & EX_RAN)
		return "a handler runs twice for one call";
	if (*call & EX_NOT_RUN)
		return "a handler runs for a call that was reported as not run";
	*call |= 1;
	return NULL;
}

static const char *saw_end(uint8_t *call, uint8_t ran, bool ok)
{
	if (*call & EX_ENDED)
		return "a call ends twice";
	*call |= EX_ENDED;
	if (ran == RAN_YES && !(*call & EX_RAN))
		return "reported as run, but no handler ran";
	if (ran == RAN_NO && *call & EX_RAN)
		return "reported as not run, but a handler ran";
	if (ran == RAN_NO)
		*call |= EX_NOT_RUN;
	return ok && ran != RAN_YES ? "OK, but not reported as run" : NULL;
}

static const char *judge_call(struct ex_state *s, uint8_t saw)
{
	uint8_t *call = &s->calls[saw & (EX_IDS - 1)];

	return saw & EX_SAW_END ? saw_end(call, saw >> 4 & 3, saw >> 3 & 1) : saw_run(call);
}

/* force: datagrams without room in the network are lost. */
static bool run_step(const struct ex_scope *scope, struct ex_state *s, uint32_t node,
		     uint64_t input, bool force, const char **bad)
{
	const struct ex_effect *fx = ex_node_step(node, s->node[node], input);

	*bad = fx->bad;
	if (s->n + fx->n_out > EX_NET && !force)
		return false;
	s->node[node] = fx->node;
	for (uint32_t i = 0; i < fx->n_out && s->n < EX_NET; i++)
		s->net[s->n++] = fx->out[i] + 1;
	sort_window(scope, s);
	for (uint32_t i = 0; i < fx->n_saw && !*bad; i++)
		*bad = judge_call(s, fx->saw[i]);
	return true;
}

static bool deliver_datagram(const struct ex_scope *scope, struct ex_state *s, uint32_t i,
			     bool force, const char **bad)
{
	uint32_t id = take_datagram(scope, s, i);
	struct ex_dgram g;

	if (!is_up(s, ex_dgram_at(id, &g)->to))
		return true;
	return run_step(scope, s, g.to, EX_INPUT(EX_DELIVER, id), force, bad);
}

void ex_world_step(const struct ex_scope *scope, struct ex_state *s, uint32_t node, uint64_t input,
		   const char **bad)
{
	run_step(scope, s, node, input, true, bad);
}

void ex_world_deliver(const struct ex_scope *scope, struct ex_state *s, uint32_t i,
		      const char **bad)
{
	deliver_datagram(scope, s, i, true, bad);
}

/* Makes one input and delivers its datagrams, without faults. */
static void run_calmly(const struct ex_scope *scope, struct ex_state *s, uint32_t node,
		       uint32_t bit)
{
	const char *bad = NULL;

	run_step(scope, s, node, ex_api_input(bit), false, &bad);
	while (s->n && !bad)
		deliver_datagram(scope, s, 0, false, &bad);
	if (bad)
		fprintf(stderr, "before the first state: %s\n", bad);
}

void ex_world_start(const struct ex_scope *scope, struct ex_state *s)
{
	memset(s, 0, sizeof(*s));
	for (uint32_t i = 0; i < scope->nodes; i++)
		s->node[i] = ex_node_start(i, 0);
	for (uint32_t i = 0; i + 1 < scope->nodes && scope->up; i++) {
		run_calmly(scope, s, i, EX_API_CONNECT);
		if (scope->mem[i][0] == EX_MEM_HELLO)
			run_calmly(scope, s, i, EX_API_OP);
	}
}

static void add_move(struct ex_move *moves, uint32_t *n, enum ex_kind kind, uint32_t node,
		     uint32_t arg)
{
	LEND_CHECK(*n < EX_MOVES);
	moves[(*n)++] = (struct ex_move){(uint8_t)kind, (uint8_t)node, (uint8_t)arg};
}

static void net_moves(const struct ex_scope *scope, const struct ex_state *s, struct ex_move *moves,
		      uint32_t *n)
{
	for (uint32_t i = 0; i < s->n && i < scope->window; i++) {
		if (i && s->net[i] == s->net[i - 1])
			continue;
		add_move(moves, n, EX_DELIVER, 0, i);
		if (s->drops < scope->drops)
			add_move(moves, n, EX_DROP, 0, i);
		if (s->dups < scope->dups && s->n < EX_NET)
			add_move(moves, n, EX_DUP, 0, i);
	}
}

static void node_moves(const struct ex_scope *scope, const struct ex_state *s, uint32_t node,
		       struct ex_move *moves, uint32_t *n)
{
	const struct ex_attr *a;

	if (!is_up(s, node)) {
		add_move(moves, n, EX_START, node, 0);
		return;
	}
	a = node_attr(s, node);
	if (a->wait != LEND_NEVER && s->ticks < scope->ticks)
		add_move(moves, n, EX_TICK, node, 0);
	if (scope->crash >> node & 1 && a->inc == 0 && s->crashes < scope->crashes)
		add_move(moves, n, EX_CRASH, node, 0);
	for (uint32_t bits = a->api; bits; bits &= bits - 1) {
		uint32_t bit = (uint32_t)__builtin_ctz(bits);

		add_move(moves, n, (enum ex_kind)(ex_api_input(bit) >> 56), node, bit);
	}
}

uint32_t ex_world_moves(const struct ex_scope *scope, const struct ex_state *s,
			struct ex_move moves[EX_MOVES])
{
	uint32_t n = 0;

	net_moves(scope, s, moves, &n);
	for (uint32_t i = 0; i < scope->nodes; i++)
		node_moves(scope, s, i, moves, &n);
	return n;
}

static void start_again(struct ex_state *s, uint32_t node)
{
	s->node[node] = ex_node_start(node, (s->node[node] & ~(uint32_t)EX_DOWN) + 1);
}

bool ex_world_do(const struct ex_scope *scope, struct ex_state *s, struct ex_move move,
		 const char **bad)
{
	uint32_t id;

	*bad = NULL;
	switch ((enum ex_kind)move.kind) {
	case EX_DELIVER:
		return deliver_datagram(scope, s, move.arg, false, bad);
	case EX_DROP:
		s->drops++;
		take_datagram(scope, s, move.arg);
		return true;
	case EX_DUP:
		s->dups++;
		id = s->net[move.arg];
		s->net[s->n++] = id;
		sort_window(scope, s);
		return true;
	case EX_CRASH:
		s->crashes++;
		s->node[move.node] = EX_DOWN | node_attr(s, move.node)->inc;
		return true;
	case EX_START:
		start_again(s, move.node);
		return true;
	case EX_TICK:
		s->ticks++;
		return run_step(scope, s, move.node, EX_INPUT(EX_TICK, 0), false, bad);
	default:
		return run_step(scope, s, move.node, ex_api_input(move.arg), false, bad);
	}
}
