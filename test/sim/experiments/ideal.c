#include "sim/experiments/ideal.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/check.h"

/* A running message. The array is sorted by remaining bytes. */
struct way {
	double left;
	uint32_t message;
	bool runs;
};
struct state {
	struct ideal_message *message;
	struct way *way;
	uint32_t n, cap;
	uint32_t *sends, *receives; /* by host: the last round in which it sent or received */
	uint32_t round, hosts;
};

/* Remaining times of running messages fall by the same amount, so their order hardly changes. */
static void sort_flows(struct state *s)
{
	for (uint32_t i = 1; i < s->n; i++) {
		struct way w = s->way[i];
		uint32_t k = i;

		for (; k > 0 && s->way[k - 1].left > w.left; k--)
			s->way[k] = s->way[k - 1];
		s->way[k] = w;
	}
}

static void match_flows(struct state *s)
{
	uint32_t pairs = 0, i;

	s->round++;
	for (i = 0; i < s->n && pairs < s->hosts; i++) {
		const struct ideal_message *m = &s->message[s->way[i].message];

		s->way[i].runs = s->sends[m->from] != s->round && s->receives[m->to] != s->round;
		if (s->way[i].runs) {
			s->sends[m->from] = s->receives[m->to] = s->round;
			pairs++;
		}
	}
	for (; i < s->n; i++)
		s->way[i].runs = false;
}

/* Advances the time by dt and removes messages that are done. */
static void pass_time(struct state *s, double now, double dt)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		struct way w = s->way[i];

		if (w.runs)
			w.left -= dt;
		if (w.left <= 1e-9)
			s->message[w.message].done = now + dt;
		else
			s->way[kept++] = w;
	}
	s->n = kept;
}

static double next_end(const struct state *s)
{
	double least = HUGE_VAL;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->way[i].runs && s->way[i].left < least)
			least = s->way[i].left;
	return least;
}

static void enter_flow(struct state *s, uint32_t m)
{
	if (s->n == s->cap) {
		s->cap = 2 * s->cap + 64;
		s->way = realloc(s->way, s->cap * sizeof(*s->way));
		LEND_CHECK(s->way);
	}
	s->way[s->n++] = (struct way){s->message[m].need, m, false};
}

void ideal_run(struct ideal_message *message, uint32_t n, uint32_t hosts)
{
	struct state s = {.message = message, .hosts = hosts};
	double now = 0, dt;

	s.sends = calloc(2 * (size_t)hosts, sizeof(*s.sends));
	LEND_CHECK(s.sends);
	s.receives = s.sends + hosts;
	for (uint32_t i = 0; i < n || s.n;) {
		double come = i < n ? message[i].at - now : HUGE_VAL;

		dt = fmax(0, fmin(come, next_end(&s)));
		pass_time(&s, now, dt);
		now += dt;
		if (dt >= come)
			enter_flow(&s, i++);
		sort_flows(&s);
		match_flows(&s);
	}
	free(s.way);
	free(s.sends);
}
