/* Goal: the window of a peer's short requests begins with its announced share, grows only while
 * calls wait, shrinks by marks and losses at most once per round trip, and is shared by the peer's
 * sessions. A request longer than the window is followed by a pause. Method: a table of events and
 * the window after them; two sessions of one peer; seeded histories of requests against a sum.
 * Covers: src/core/peer_window.c, src/core/peer_window.h */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/peer_window.h"
#include "core/sess.h"
#include "util/rng.h"

enum { SESSIONS = 8, SHARE = 8192, UNSCHEDULED = 65536, TRIP = 10000, MTU = 1464 };

static struct lend_core *c;

static void open_core(void)
{
	struct lend_core_config f = {.sessions = SESSIONS,
				     .calls = 8,
				     .inflight = 16,
				     .reassemblies = 4,
				     .message_max = 1 << 20,
				     .receive_budget = 1 << 20,
				     .unscheduled = UNSCHEDULED,
				     .probe = LEND_MS,
				     .dead = LEND_MS,
				     .congestion = LEND_CC_CREDIT};

	f.path[0] = (struct lend_path){.mtu = MTU, .checked = true};
	c = aligned_alloc(64, (lend_core_size(&f) + 63) & ~(size_t)63);
	memset(c, 0, lend_core_size(&f));
	lend_core_init(c, &f, LEND_MS);
}

static void close_core(void)
{
	free(c);
}

static struct lend_sess *open_session(uint32_t peer)
{
	uint64_t id;
	struct lend_sess *s;

	cr_assert_eq(lend_core_connect(c, c->now, peer, 0, NULL, &id), 0);
	s = lend_sess_find(c, id);
	s->state = LEND_SESS_UP;
	s->first = SHARE;
	s->srtt = TRIP;
	lend_peer_begin(c, s);
	return s;
}

TestSuite(peer_window, .init = open_core, .fini = close_core);

Test(peer_window, reported__marks_and_losses__window)
{
	static const struct {
		const char *what;
		uint32_t came, marked, lost, times, want;
	} row[] = {
	    {"nothing", 10, 0, 0, 9, SHARE},
	    {"the first mark", 10, 1, 0, 1, SHARE - SHARE * (60 + 2) / 160},
	    {"all marked", 10, 10, 0, 40, (MTU - LEND_PKT_OVERHEAD) / 2},
	    {"a loss at once", 0, 0, 1, 1, LEND_EAGER / 64},
	    {"one loss among many", 40, 0, 1, 1, SHARE},
	    {"two losses among many", 40, 0, 2, 1, LEND_EAGER / 64},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_sess *s = open_session((uint32_t)i);

		for (uint32_t n = 0; n < row[i].times; n++) {
			c->now += 2 * TRIP;
			lend_peer_reported(c, s, row[i].came, row[i].marked);
			if (row[i].lost)
				lend_peer_lost(c, s, row[i].lost, 64);
		}
		cr_assert_eq(lend_peer_of(c, s)->window, row[i].want, "%s: %u", row[i].what,
			     lend_peer_of(c, s)->window);
		cr_assert_eq(lend_peer_of(c, s)->limit, row[i].want);
	}
}

Test(peer_window, cut__twice_in_a_round_trip__once)
{
	struct lend_sess *s = open_session(1);

	c->now += TRIP;
	lend_peer_lost(c, s, 2, 64);
	lend_peer_of(c, s)->window = SHARE;
	c->now += TRIP / 2;
	lend_peer_lost(c, s, 2, 64);
	cr_assert_eq(lend_peer_of(c, s)->window, SHARE);
}

Test(peer_window, charge__longer_than_the_window__pause_after_the_answer)
{
	struct lend_sess *s = open_session(1);
	struct lend_peer *p = lend_peer_of(c, s);

	p->window = p->limit = 500;
	cr_assert(lend_peer_charge(c, s, 1000));
	cr_assert_not(lend_peer_charge(c, s, 1));
	c->now += TRIP;
	p->used -= 1000;
	lend_peer_grow(c, s, 1000); /* to 1500 before the first reduction: no pause */
	cr_assert_eq(p->window, 1500);
	p->window = p->limit = 500;
	p->cut = c->now;
	cr_assert(lend_peer_charge(c, s, 1000));
	c->now += TRIP;
	p->used -= 1000;
	lend_peer_grow(c, s, 1000);
	cr_assert_gt(p->hold, c->now);
	cr_assert_not(lend_peer_charge(c, s, 1000));
	c->now = p->hold;
	cr_assert(lend_peer_charge(c, s, 1000));
}

Test(peer_window, window__sessions_of_one_peer__shared)
{
	struct lend_sess *a = open_session(1), *b = open_session(1), *other = open_session(2);

	cr_assert_eq(lend_peer_of(c, a), lend_peer_of(c, b));
	cr_assert_neq(lend_peer_of(c, a), lend_peer_of(c, other));
	cr_assert(lend_peer_charge(c, a, SHARE));
	cr_assert_not(lend_peer_charge(c, b, 1));
	cr_assert(lend_peer_charge(c, other, SHARE));
	lend_peer_release(c, a, SHARE);
	cr_assert(lend_peer_charge(c, b, 1));
	lend_peer_release(c, b, 1);
}

Test(peer_window, join__more_peers_than_entries__the_oldest_is_forgotten)
{
	for (uint32_t peer = 0; peer < 4 * SESSIONS; peer++) {
		struct lend_sess *s = open_session(peer);

		cr_assert_eq(lend_peer_of(c, s)->number, peer);
		cr_assert_eq(lend_peer_of(c, s)->window, SHARE);
		lend_peer_of(c, s)->window = 4000;
		lend_sess_free(c, s);
		while (lend_core_next(c))
			;
		s = open_session(peer);
		cr_assert_eq(lend_peer_of(c, s)->window, 4000, "kept");
		lend_sess_free(c, s);
		while (lend_core_next(c))
			;
	}
}

Test(peer_window, charge_and_release__seeded__never_above_the_window)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct lend_sess *s = open_session((uint32_t)(100 + seed));
		uint32_t len[64], n = 0;
		uint64_t sum = 0;
		struct lend_rng r;

		lend_rng_seed(&r, seed);
		for (int step = 0; step < 300; step++) {
			uint32_t want = (uint32_t)lend_rng_below(&r, 1376);
			bool may = n < 64 && (sum == 0 || sum + want <= SHARE);

			if (n && lend_rng_below(&r, 3) == 0) {
				lend_peer_release(c, s, len[--n]);
				sum -= len[n];
			} else if (n < 64) {
				cr_assert_eq(lend_peer_charge(c, s, want), may, "seed %lu", seed);
				len[n] = want;
				n += may;
				sum += may ? want : 0;
			}
			cr_assert_eq(lend_peer_of(c, s)->used, sum, "seed %lu", seed);
		}
		while (n)
			lend_peer_release(c, s, len[--n]);
		lend_sess_free(c, s);
		while (lend_core_next(c))
			;
	}
}
