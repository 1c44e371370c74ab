/* Goal: without loss, a short message gets the same treatment on the fast and on the slow path:
 * each call ends once, with the same status, bytes and answer to whether it ran; the same messages
 * are sent; the same counters count. Method: a seeded program of calls, answers, cancels and
 * deadlines runs with fast = never, always and coin, and what it left is compared.
 * Covers: src/core/short_call.c, src/core/short_receive.c, src/core/call_slot.c,
 * src/core/kept_reply.c, src/core/coalesce.c
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "scen/core_pair.h"
#include "util/rng.h"

#define US UINT64_C(1000)
enum { STEPS = 60, BURST = 6, CALLS = STEPS * BURST, SEEDS = 20, CANCELLED = 1 };

/* What a call is to do; a function of the seed and its number, which is its method and tag. */
struct plan {
	uint32_t len, reply;
	lend_ns timeout;
	uint8_t class, status;
	uint8_t cancel; /* NEVER, or BEFORE or AFTER it is sent */
	bool held;      /* answered a step later */
};
enum { NEVER, BEFORE, AFTER };

struct call_end {
	int started; /* result of lend_core_call() */
	uint32_t runs, ends, status, ran, len;
	bool whole; /* its bytes are those of the answer */
};

struct record {
	struct call_end call[CALLS];
	uint64_t messages; /* sum of their hashes */
	struct lend_core_stats stats[2];
};

static struct {
	uint64_t seed;
	struct record *now;
	uint64_t held[CALLS]; /* handle by call; 0: answered */
	uint8_t fast;
} self;

static struct plan plan_of(uint32_t i)
{
	static const uint32_t len[] = {0, 1, 15, 64, 65, 200, 511, 512, 513, 1400, 3000, 20000};
	static const uint8_t status[] = {0, 0, 0, 5, 16};
	static const lend_ns timeout[] = {LEND_NEVER, LEND_NEVER, 50 * US, 1000000 * US};
	const uint32_t lens = sizeof(len) / sizeof(len[0]);
	struct lend_rng r;

	lend_rng_seed(&r, self.seed << 32 | i);
	return (struct plan){
	    .len = len[lend_rng_below(&r, lens)],
	    .reply = len[lend_rng_below(&r, lens)],
	    .timeout = timeout[lend_rng_below(&r, 4)],
	    .class = (uint8_t)lend_rng_below(&r, 8),
	    .status = status[lend_rng_below(&r, 5)],
	    .held = lend_rng_below(&r, 3) == 0,
	    .cancel = (uint8_t)(lend_rng_below(&r, 8) ? NEVER : BEFORE + lend_rng_below(&r, 2))};
}

/* Adds up the messages in any order. */
static bool note_message(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	const struct lend_pkt *h = &v->head;
	struct lend_rng r;

	(void)d, (void)nth;
	if (h->kind != LEND_PKT_REQUEST && h->kind != LEND_PKT_REPLY)
		return false;
	lend_rng_seed(&r, ((uint64_t)h->call << 32 | h->offset) * 31 + h->length * 7 +
			      (uint64_t)v->payload_len * 1000003 + (h->flags & LEND_PKT_CLASS) +
			      (uint64_t)from * 8);
	self.now->messages += lend_rng_next(&r);
	return false;
}

static void answer_call(struct core_pair *d, uint32_t i)
{
	const struct plan p = plan_of(i);

	d->side[1].request = self.held[i];
	self.held[i] = 0;
	pair_reply(d, p.status, p.reply ? pair_buf(d, 1, p.reply, p.reply, ~i) : 0);
}

static bool has_bytes(struct core_pair *d, int side, const struct lend_event *e, uint32_t buf,
		      unsigned salt)
{
	for (uint32_t i = 0; !buf && i < e->len; i++)
		if (((const uint8_t *)e->data)[i] != pair_byte(i, salt))
			return false;
	return !buf || pair_same(d, side, buf, (uint32_t)e->len, salt);
}

static void note_request(struct core_pair *d, const struct lend_event *e)
{
	uint32_t i = e->method;

	cr_assert_lt(i, (uint32_t)CALLS);
	cr_assert_eq(e->len, plan_of(i).len);
	cr_assert(has_bytes(d, 1, e, e->buf, i), "LEND_SEED=%lu: request %u", self.seed, i);
	pair_free(d, 1, e->buf);
	self.now->call[i].runs++;
	self.held[i] = e->call;
	if (!plan_of(i).held)
		answer_call(d, i);
}

static void note_end(struct core_pair *d, const struct lend_event *e)
{
	struct call_end *end = &self.now->call[e->tag];

	end->ends++;
	end->status = e->status;
	end->ran = e->ran;
	end->len = (uint32_t)e->len;
	end->whole = has_bytes(d, 0, e, e->reply, ~(unsigned)e->tag);
	pair_give_at_end(d, e);
}

static void set_mode(struct lend_core_config *c)
{
	c->fast = self.fast;
	c->seed[0] = (uint8_t)self.seed;
}

static void run_step(struct core_pair *d, uint32_t first)
{
	uint64_t handle[BURST] = {0};

	for (uint32_t i = first; i < first + BURST; i++) {
		const struct plan p = plan_of(i);
		struct lend_core_call call = {
		    .method = i, .class = p.class, .tag = i, .deadline = LEND_NEVER};

		if (p.timeout != LEND_NEVER)
			call.deadline = d->now + p.timeout;
		call.request = p.len ? pair_buf(d, 0, p.len, p.len, i) : 0;
		self.now->call[i].started = pair_try(d, 0, &call, &handle[i - first]);
		if (self.now->call[i].started < 0)
			pair_free(d, 0, call.request);
		else if (p.cancel == BEFORE)
			lend_core_cancel(d->side[0].core, handle[i - first], CANCELLED);
	}
	pair_settle(d);
	for (uint32_t i = first; i < first + BURST; i++)
		if (plan_of(i).cancel == AFTER)
			lend_core_cancel(d->side[0].core, handle[i - first], CANCELLED);
	pair_settle(d);
	pair_pass(d, 10 * US); /* no call is probed so soon */
	for (uint32_t i = 0; i < first; i++)
		if (self.held[i])
			answer_call(d, i);
	pair_settle(d);
}

static void run_mode(bool lossless, enum lend_fast fast, struct record *to)
{
	struct core_pair d;

	memset(to, 0, sizeof(*to));
	self.now = to;
	self.fast = (uint8_t)fast;
	pair_start(&d, lossless, set_mode);
	d.on_request = note_request;
	d.on_end = note_end;
	d.lose = note_message;
	for (uint32_t i = 0; i < CALLS; i += BURST)
		run_step(&d, i);
	for (uint32_t i = 0; i < CALLS; i++)
		if (self.held[i])
			answer_call(&d, i);
	pair_settle(&d);
	for (int i = 0; i < 2; i++)
		to->stats[i] = *lend_core_stats(d.side[i].core);
	pair_finish(&d);
}

/* Fewer datagrams carry the messages, and a reply that its slot keeps is not acknowledged. So other
 * reports lack a request that an urgent one overtook, and are asked for again. */
static void clear_shape(struct lend_core_stats *s)
{
	s->rx = s->tx = s->acks = s->probes = 0;
}

static void compare_modes(const struct record *a, struct record *b, const char *mode)
{
	static const char *const name[] = {
#define X(name, text) #name,
	    LEND_CORE_STATS(X)
#undef X
	};

	for (uint32_t i = 0; i < CALLS; i++)
		cr_assert_eq(
		    memcmp(&a->call[i], &b->call[i], sizeof(a->call[i])), 0,
		    "LEND_SEED=%lu call %u %s: started %d and %d, runs %u and %u, ends %u and "
		    "%u, status %u and %u, ran %u and %u, len %u and %u, whole %d and %d",
		    self.seed, i, mode, a->call[i].started, b->call[i].started, a->call[i].runs,
		    b->call[i].runs, a->call[i].ends, b->call[i].ends, a->call[i].status,
		    b->call[i].status, a->call[i].ran, b->call[i].ran, a->call[i].len,
		    b->call[i].len, a->call[i].whole, b->call[i].whole);
	for (int side = 0; side < 2; side++) {
		struct lend_core_stats one = a->stats[side], other = b->stats[side];
		uint64_t want[sizeof(one) / 8], got[sizeof(one) / 8];

		clear_shape(&one);
		clear_shape(&other);
		memcpy(want, &one, sizeof(one));
		memcpy(got, &other, sizeof(other));
		for (uint32_t k = 0; k < sizeof(one) / 8; k++)
			cr_assert_eq(want[k], got[k], "LEND_SEED=%lu side %d %s: %s: %lu and %lu",
				     self.seed, side, mode, name[k], want[k], got[k]);
	}
	cr_assert_eq(a->messages, b->messages, "LEND_SEED=%lu %s: other messages", self.seed, mode);
}

Test(both_paths, seeded_calls__the_same_ends_messages_and_counters, .timeout = 60)
{
	static struct record never, other;
	const char *given = getenv("LEND_SEED");
	uint64_t first = given ? strtoull(given, NULL, 10) : 1, fast = 0;

	for (self.seed = first; self.seed < first + (given ? 1 : SEEDS); self.seed++)
		for (int lossless = 0; lossless < 2; lossless++) {
			run_mode(lossless, LEND_FAST_NEVER, &never);
			run_mode(lossless, LEND_FAST_COIN, &other);
			compare_modes(&never, &other, "coin");
			run_mode(lossless, LEND_FAST_ALWAYS, &other);
			compare_modes(&never, &other, "always");
			fast += other.stats[0].tx < never.stats[0].tx;
		}
	cr_assert_gt(fast, 0, "no datagrams were saved: the fast path was not taken");
}
