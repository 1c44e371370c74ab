/* Goal: the order of grants follows config.order. Outstanding grants never exceed the window by
 * more than one piece, and no window stays unused while a message waits, except for what was
 * granted ahead. Grants to a idle sender expire after two timeouts, not before. Method: a table
 * of two messages per order; seeded histories of messages that begin, receive, stall and end,
 * against a ledger of grants and arrivals. Covers: src/core/grant.c, src/core/fair_share.h */
#include <criterion/criterion.h>

#include "core/grant.h"
#include "core/loss.h"
#include "rxkit.h"
#include "util/rng.h"

enum { FULL = 98000 }; /* close to the whole initial window */

static struct lend_core *c;

/* The next n bytes of the message arrived. */
static void receive_bytes(struct lend_call_rec *k, uint32_t n)
{
	uint32_t offset = k->rx.got;

	for (uint32_t at = offset; at < offset + n; at += RX_PAYLOAD)
		lend_frags_mark(lend_frags_at(c, k->rx.frags), at / RX_PAYLOAD);
	k->rx.got += n;
	k->rx.last = c->now;
	k->rx.charged -= n;
	c->budget_used -= n;
	lend_grants_arrived(c, k, offset, n);
}

static struct lend_call_rec *ask_grant(uint8_t class, uint32_t len, lend_ns deadline)
{
	struct lend_call_rec *k = rx_begin(c, class, len, deadline);

	(void)lend_rx_grant(c, k);
	return k;
}

Test(grant, grant__two_messages__config_order)
{
	static const struct {
		enum lend_order order;
		uint8_t class[2];
		uint32_t len[2];
		lend_ns due[2]; /* ms from now; 0: no deadline */
		int first;
	} row[] = {
	    {LEND_ORDER_SHORTEST, {3, 3}, {50000, 5000}, {1, 9}, 1},
	    {LEND_ORDER_SHORTEST, {3, 3}, {5000, 50000}, {9, 1}, 0},
	    {LEND_ORDER_SHORTEST, {7, 0}, {5000, 50000}, {1, 9}, 1},
	    {LEND_ORDER_DEADLINE, {3, 3}, {5000, 50000}, {9, 1}, 1},
	    {LEND_ORDER_DEADLINE, {3, 3}, {50000, 5000}, {1, 9}, 0},
	    {LEND_ORDER_DEADLINE, {3, 3}, {5000, 50000}, {0, 900}, 1},
	    {LEND_ORDER_DEADLINE, {2, 3}, {50000, 5000}, {0, 1}, 0},
	    {LEND_ORDER_FIFO, {7, 0}, {50000, 5000}, {9, 1}, 0},
	    {LEND_ORDER_FIFO, {3, 3}, {5000, 50000}, {9, 1}, 0},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct lend_call_rec *full, *k[2];

		c = rx_open(row[i].order, false, 1 << 30);
		full = ask_grant(0, FULL, LEND_NEVER);
		cr_assert_eq(full->rx.granted, FULL);
		for (int j = 0; j < 2; j++)
			k[j] = ask_grant(row[i].class[j], row[i].len[j],
					 row[i].due[j] ? c->now + row[i].due[j] * LEND_MS
						       : LEND_NEVER);
		cr_assert(k[0]->rx.granted == 0 && k[1]->rx.granted == 0);
		receive_bytes(full, 16000);
		lend_grants_tick(c);
		cr_expect(k[row[i].first]->rx.granted > 0 && k[!row[i].first]->rx.granted == 0,
			  "row %zu: %u, %u", i, k[0]->rx.granted, k[1]->rx.granted);
		free(c);
	}
}

/* No message starves, in any order. */
Test(grant, grant__busy_receiver__no_message_starves)
{
	enum { OTHERS = 12, EACH = 20000 };

	for (int order = 0; order <= LEND_ORDER_FAIR; order++) {
		struct lend_call_rec *k[OTHERS], *last;
		uint64_t passed = 0;

		c = rx_open((enum lend_order)order, false, 1 << 30);
		for (int i = 0; i < OTHERS; i++)
			k[i] = ask_grant(0, EACH, c->now + LEND_MS);
		last = ask_grant(1, 100000, LEND_NEVER);
		while (last->rx.granted == 0 && passed < 64 * LEND_GRANTS_CLASS) {
			c->now += 100 * LEND_US;
			for (int i = 0; i < OTHERS; i++) {
				if (k[i]->rx.granted < EACH)
					continue;
				rx_end(c, k[i]);
				k[i] = ask_grant(0, EACH, c->now + LEND_MS);
				passed += EACH;
			}
			lend_grants_tick(c);
			rx_drain(c);
		}
		cr_expect_gt(last->rx.granted, 0, "order %d: %llu bytes passed it", order,
			     (unsigned long long)passed);
		free(c);
	}
}

/* Half of the window is for messages that are receiving, however wide the window was at the earlier
 * grants. */
Test(grant, grant__ahead__uses_half_of_the_window)
{
	struct lend_call_rec *ahead, *k;

	c = rx_open(LEND_ORDER_SHORTEST, false, 1 << 30);
	ahead = lend_call_new(c, lend_sess_at(c, 0), 0, false);
	cr_assert_eq(lend_grants_ahead(c, ahead, FULL), c->grants.window / 2);
	c->grants.window = c->grants.least;
	c->grants.alpha = 1;
	k = ask_grant(0, FULL, LEND_NEVER);
	cr_expect_eq(k->rx.granted, c->grants.window / 2);
	rx_end(c, k);
	lend_rx_take_memory(c, ahead, FULL);
	k = ask_grant(0, FULL, LEND_NEVER);
	cr_expect_eq(k->rx.granted, 0, "now it comes, and counts in full");
	rx_end(c, k);
	rx_end(c, ahead);
	cr_expect(c->grants.used == 0 && c->grants.ahead == 0);
	free(c);
}

/* The ledger: bytes granted, bytes received, times. */
struct entry {
	struct lend_call_rec *k;
	uint32_t granted, credit;
	lend_ns last;
	bool silent;
};
struct ledger {
	struct entry e[RX_MESSAGES];
	uint32_t n;
	uint64_t back;
};

static void note_grants(struct ledger *l)
{
	for (struct entry *e = l->e; e < l->e + l->n; e++) {
		e->credit += e->k->rx.granted - e->granted;
		e->granted = e->k->rx.granted;
	}
}

/* Two timeouts of a session without an RTT sample. */
static bool is_dead(const struct entry *e)
{
	return e->credit && c->now - e->last > 2 * LEND_RTO_FIRST;
}

/* The tick reclaims grants of idle senders only, and all of those. */
static void run_tick(struct ledger *l, uint64_t seed)
{
	bool looks = c->now >= c->grants.look;

	lend_grants_tick(c);
	rx_drain(c);
	for (struct entry *e = l->e; looks && e < l->e + l->n; e++)
		if (is_dead(e)) {
			l->back++;
			e->credit = 0;
		}
	note_grants(l);
	/* The next check follows the last one soon. */
	cr_assert(!c->grants.waiting || c->grants.look <= c->now + LEND_MS, "seed %llu",
		  (unsigned long long)seed);
}

static void check_window(const struct ledger *l, uint64_t seed, int step)
{
	uint64_t width = lend_grants_width(&c->grants), used = 0;
	uint64_t piece = lend_max_u64(lend_min_u64(16 * RX_PAYLOAD, width / 8), RX_PAYLOAD);

	for (const struct entry *e = l->e; e < l->e + l->n; e++) {
		cr_assert_eq(e->k->rx.credit, e->credit, "seed %llu, step %d: %u, not %u",
			     (unsigned long long)seed, step, e->k->rx.credit, e->credit);
		used += e->credit;
	}
	cr_assert(c->grants.used == used && lend_core_stats(c)->credit_back == l->back,
		  "seed %llu, step %d", (unsigned long long)seed, step);
	cr_assert(c->grants.waiting == 0 || (used > 0 && used + piece > width),
		  "seed %llu, step %d: %llu of %llu out and somebody waits",
		  (unsigned long long)seed, step, (unsigned long long)used,
		  (unsigned long long)width);
}

static void begin_message(struct ledger *l, struct lend_rng *rng)
{
	uint32_t len = 1001 + (uint32_t)lend_rng_below(rng, 200000);
	struct lend_call_rec *k = ask_grant((uint8_t)lend_rng_below(rng, 8), len,
					    c->now + lend_rng_below(rng, 1000) * LEND_MS);

	l->e[l->n++] =
	    (struct entry){.k = k, .last = c->now, .silent = lend_rng_below(rng, 4) == 0};
	note_grants(l);
}

/* One datagram arrives, or all that was granted; also late ones of senders that were given up. */
static void receive_some(struct ledger *l, struct entry *e, bool all)
{
	uint32_t n;

	do {
		n = lend_min_u32(RX_PAYLOAD, e->k->rx.len - e->k->rx.got);
		if (e->k->rx.got + n > e->granted)
			return;
		receive_bytes(e->k, n);
		e->last = c->now;
		e->credit -= lend_min_u32(e->credit, n);
	} while (all && e->k->rx.got < e->k->rx.len);
	if (e->k->rx.got == e->k->rx.len) {
		rx_end(c, e->k);
		*e = l->e[--l->n];
	} else {
		(void)lend_rx_grant(c, e->k);
	}
	note_grants(l);
}

static void run_history(uint64_t seed)
{
	struct ledger l = {.n = 0};
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	c = rx_open((enum lend_order)(seed % 4), false, 1 << 30);
	for (int step = 0; step < 3000; step++) {
		uint32_t i = (uint32_t)lend_rng_below(&rng, RX_MESSAGES);

		if (i >= l.n)
			begin_message(&l, &rng);
		else if (lend_rng_below(&rng, 100) == 0) {
			rx_end(c, l.e[i].k);
			l.e[i] = l.e[--l.n];
		} else if (!l.e[i].silent || lend_rng_below(&rng, 50) == 0)
			receive_some(&l, &l.e[i], i % 2);
		if (lend_rng_below(&rng, 4) == 0)
			c->now += lend_rng_below(&rng, LEND_MS);
		run_tick(&l, seed);
		check_window(&l, seed, step);
	}
	cr_assert(l.back > 0, "seed %llu: nobody was given up", (unsigned long long)seed);
	free(c);
}

Test(grant, agrees_with_a_ledger)
{
	for (uint64_t seed = 1; seed <= 30; seed++)
		run_history(seed);
}
