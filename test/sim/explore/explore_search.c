#include "sim/explore/explore_search.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/check.h"

enum { PATH_MAX_MOVES = 128, LOOK_EVERY = 64 };

/* A state and how it was reached. */
struct node {
	struct ex_state s;
	uint32_t parent;
	struct ex_move move;
	uint8_t depth;
};

struct search {
	const struct ex_scope *scope;
	struct ex_table states; /* in order of distance */
	struct ex_found *found;
};

double ex_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct node *state_at(const struct search *r, uint32_t i)
{
	return ex_table_at(&r->states, i);
}

static uint32_t find_choice(const struct ex_scope *scope, const struct ex_state *s,
			    struct ex_move move)
{
	struct ex_move moves[EX_MOVES];
	uint32_t n = ex_world_moves(scope, s, moves);

	for (uint32_t i = 0; i < n; i++)
		if (!memcmp(&moves[i], &move, sizeof(move)))
			return i;
	return n;
}

/* Writes the choices that reached state i, and this move after them (NULL: none), as text. */
static void write_replay(struct search *r, uint32_t i, const struct ex_move *last)
{
	uint32_t way[PATH_MAX_MOVES], n = 0;
	char *to = r->found->replay, *end = to + sizeof(r->found->replay);

	for (uint32_t k = i; k; k = state_at(r, k)->parent)
		way[n++] = k;
	while (n > 0) {
		const struct node *here = state_at(r, way[--n]);

		to += snprintf(to, (size_t)(end - to), "%u.",
			       find_choice(r->scope, &state_at(r, here->parent)->s, here->move));
	}
	if (last)
		snprintf(to, (size_t)(end - to), "%u.",
			 find_choice(r->scope, &state_at(r, i)->s, *last));
}

static void note_violation(struct search *r, uint32_t i, const struct ex_move *last,
			   const char *bad)
{
	r->found->bad = bad;
	write_replay(r, i, last);
}

static void note_reached(struct search *r, const struct ex_state *s, uint32_t from,
			 struct ex_move move)
{
	bool fresh;
	uint32_t i = ex_table_add(&r->states, s, &fresh);
	struct node *n = state_at(r, i);
	const char *bad;

	if (!fresh)
		return;
	n->parent = from;
	n->move = move;
	n->depth = (uint8_t)(state_at(r, from)->depth + 1);
	r->found->depth = n->depth;
	bad = ex_world_drain(r->scope, s, NULL);
	if (bad)
		note_violation(r, i, NULL, bad);
}

static void expand_state(struct search *r, uint32_t i)
{
	struct ex_move moves[EX_MOVES];
	struct ex_state from = state_at(r, i)->s;
	uint32_t n = ex_world_moves(r->scope, &from, moves);

	for (uint32_t k = 0; k < n && !r->found->bad; k++) {
		struct ex_state s = from;
		const char *bad;

		if (!ex_world_do(r->scope, &s, moves[k], &bad)) {
			r->found->pruned++;
			continue;
		}
		r->found->moves++;
		if (bad)
			note_violation(r, i, &moves[k], bad);
		else
			note_reached(r, &s, i, moves[k]);
	}
}

static void open_world(const struct ex_scope *scope, struct ex_state *s)
{
	ex_nodes_open(scope);
	ex_world_start(scope, s);
}

static void close_world(void)
{
	ex_world_forget();
	ex_nodes_close();
}

void ex_search(const struct ex_scope *scope, struct ex_limits limits, struct ex_found *found)
{
	struct search r = {.scope = scope, .found = found};
	double start = ex_seconds();
	struct ex_state s;
	uint32_t i;
	bool fresh;

	memset(found, 0, sizeof(*found));
	open_world(scope, &s);
	ex_table_open(&r.states, sizeof(s), sizeof(struct node));
	ex_table_add(&r.states, &s, &fresh);
	for (i = 0; i < r.states.n && r.states.n < limits.states && !found->bad; i++) {
		if (i % LOOK_EVERY == 0 && ex_seconds() - start > limits.seconds)
			break;
		expand_state(&r, i);
	}
	found->whole = i == r.states.n && !found->bad && !found->pruned;
	found->states = r.states.n;
	found->drained = ex_world_drained();
	found->nodes = ex_nodes_stats();
	found->nodes.bytes += ex_table_bytes(&r.states);
	found->seconds = ex_seconds() - start;
	ex_table_close(&r.states);
	close_world();
}

const char *ex_search_replay(const struct ex_scope *scope, const char *choices, FILE *to)
{
	struct ex_move moves[EX_MOVES];
	struct ex_state s;
	const char *bad = NULL;
	char *end;

	open_world(scope, &s);
	for (; *choices && !bad; choices = *end ? end + 1 : end) {
		uint32_t n = ex_world_moves(scope, &s, moves);
		unsigned long i = strtoul(choices, &end, 10);

		if (end == choices || i >= n) {
			bad = "no such choice";
			break;
		}
		ex_world_print(scope, &s, moves[i], to);
		if (!ex_world_do(scope, &s, moves[i], &bad))
			bad = "no room in the network";
	}
	if (!bad) {
		fprintf(to, "  without faults from here:\n");
		bad = ex_world_drain(scope, &s, to);
	}
	close_world();
	return bad;
}
