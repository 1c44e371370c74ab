/* heal - the end of every history: the interference ends, everything completes, and leftovers are
 * counted. The other half of world.h. Layer: test. */
#include <stdlib.h>

#include "fuzz/finding.h"
#include "fuzz/world.h"

enum { HEAL_ROUNDS = 5000 };
#define HEAL_NS (2000 * LEND_MS)

static void answer_all(int side)
{
	struct world_side *s = &world.side[side];

	world_poll(side);
	while (s->need_n)
		world_attach(side, s->need[--s->need_n], WORLD_BUF_MAX);
	while (s->running_n)
		(void)world_reply(side, s->running[0], 0, 0);
	world_poll(side);
}

/* Nothing is in flight: the credit that calls took from a session must be back. */
static void count_credit(int side)
{
	struct lend_core *c = world.side[side].core;

	for (uint32_t i = 0; i < c->cfg.sessions; i++) {
		const struct lend_sess *s = lend_sess_at(c, i);

		FUZZ_CHECK(s->state == LEND_SESS_FREE || s->unscheduled_used == 0, "credit leaks");
		FUZZ_CHECK(s->state == LEND_SESS_FREE || s->waiting.n == 0,
			   "no calls, but some wait");
	}
}

static void say_goodbye(int side)
{
	struct world_side *s = &world.side[side];
	uint64_t session[WORLD_MANY];
	uint32_t n = s->session_n;

	memcpy(session, s->session, sizeof(session));
	for (uint32_t i = 0; i < n; i++)
		lend_core_disconnect(s->core, session[i]);
	world_poll(side);
	FUZZ_CHECK(s->session_n == 0, "a session outlives its disconnect");
	FUZZ_CHECK(s->open == 0, "a call outlives its session");
}

static void count_what_is_left(int side)
{
	struct world_side *s = &world.side[side];
	struct lend_core *c = s->core;
	uint32_t out = 0;

	FUZZ_CHECK(s->open == 0, "calls that did not end");
	FUZZ_CHECK(s->replying == 0, "replies that did not end");
	for (uint32_t b = 1; b < WORLD_BUFS; b++)
		out += s->taken[b];
	FUZZ_CHECK(out == c->supply_cap && c->supply_n == c->supply_cap,
		   "buffers that were not given back");
	for (uint32_t i = 0; i < WORLD_PEERS; i++)
		FUZZ_CHECK(s->kept[i] == 0, "a peer that was not released");
	FUZZ_CHECK(c->free_sess.free == c->cfg.sessions, "sessions leak");
	FUZZ_CHECK(c->free_calls.free == c->records, "records leak");
	FUZZ_CHECK(c->free_frags.free == 2 * c->cfg.reassemblies, "reassemblies leak");
	FUZZ_CHECK(c->free_wins.free == c->records, "windows leak");
	FUZZ_CHECK(c->used[0] + c->used[1] == 0, "records are miscounted");
	FUZZ_CHECK(c->budget_used == 0, "the receive budget leaks");
	FUZZ_CHECK(c->timers + c->ctl_n == 0, "there is still a deadline");
	FUZZ_CHECK(c->ready.n + c->budget_queue.n + c->partials.n + c->half.n == 0, "a list leaks");
	for (uint32_t b = 1; b < WORLD_BUFS; b++)
		if (s->taken[b])
			free(s->seg[b].data);
}

static lend_ns next_time(void)
{
	return lend_min_u64(lend_core_deadline(world.side[0].core),
			    lend_core_deadline(world.side[1].core));
}

static void one_round(void)
{
	for (int i = 0; i < 2; i++)
		answer_all(i);
	for (int i = 0; i < 2; i++)
		for (int turn = 0; turn < 8 && world_flush(i, 16, 0, 0) > 0; turn++)
			;
	for (int i = 0; i < 2; i++)
		answer_all(i);
}

void world_heal(void)
{
	lend_ns goodbye = world.now + HEAL_NS;
	bool said = false;

	world.deaf = false;
	world.put_off = false;
	for (uint32_t round = 0; !said || next_time() != LEND_NEVER; round++) {
		FUZZ_CHECK(round < HEAL_ROUNDS, "events never end");
		one_round();
		if (!said && world.now >= goodbye) {
			FUZZ_CHECK(world.side[0].open + world.side[1].open == 0,
				   "a call outlives its deadline");
			count_credit(0);
			count_credit(1);
			say_goodbye(0);
			say_goodbye(1);
			said = true;
		}
		if (next_time() > world.now)
			world_tick(lend_min_u64(next_time(), said ? LEND_NEVER - 1 : goodbye) -
				   world.now);
		else
			world_tick(0);
	}
	count_what_is_left(0);
	count_what_is_left(1);
}
