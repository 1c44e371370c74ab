/* explore_audit - recounts every ledger of a core from its records. Part of explore_canon.h. Layer:
 * test. */
#include "core/call_record.h"
#include "core/timer.h"
#include "core/memory_queue.h"
#include "sim/explore/explore_canon.h"
#include "sim/oracle/oracle.h"

struct tally {
	uint32_t records, of[2], frags, wins, sessions, half, waiting, partial, ready, timers;
	uint64_t charged, short_charged;
};

static bool has_fragments(const struct lend_call_rec *k)
{
	return k->rx.frags != LEND_NONE;
}

static void tally_call(struct tally *t, const struct lend_call_rec *k)
{
	if (k->state == LEND_CALL_FREE)
		return;
	t->records++;
	t->of[k->server != 0]++;
	t->frags += has_fragments(k);
	t->wins += k->tx.win != LEND_NONE;
	t->waiting += k->rx.memq_link.in;
	t->partial += k->rx.partial.in;
	t->ready += k->tx.ready.in && !k->waits;
	t->charged += k->rx.charged;
}

static const char *audit_call(struct lend_core *c, const struct lend_call_rec *k)
{
	const struct lend_sess *s = lend_sess_at(c, k->sess);
	uint32_t i = lend_call_index(c, k), slot = lend_pkt_slot(k->wire);

	if (k->state == LEND_CALL_FREE)
		return sim_audit_free_record(k);
	if (k->state == LEND_CALL_ORPHAN)
		return NULL;
	if (s->state == LEND_SESS_FREE || s->id != k->sess_id)
		return "a call without a session";
	if (k->rx.partial.in != has_fragments(k))
		return "the list of partial messages is wrong";
	if (k->server && lend_sslot_at(c, k->sess, slot)->rec != i)
		return "a served call that its slot does not name";
	if (!k->server && lend_cslot_at(c, k->sess, slot)->rec != i)
		return "a call that its slot does not name";
	if (k->tx.low > k->tx.next || k->tx.next > k->tx.total)
		return "a message is acknowledged beyond what was sent";
	if (k->state == LEND_CALL_DRAINING && (k->rx.buf || k->rx.charged || k->tx.charged))
		return "a draining call keeps a resource";
	return NULL;
}

static uint32_t slots_free(struct lend_core *c, struct lend_sess *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < lend_slots_words(c); i++)
		n += (uint32_t)__builtin_popcountll(*lend_slots_at(c, s, i));
	return n;
}

static const char *audit_slots(struct lend_core *c, struct lend_sess *s)
{
	const char *bad = NULL;

	for (uint32_t w = 0; w < c->cfg.calls && !bad; w++)
		bad = sim_audit_slot(c, s, lend_sess_index(c, s), w);
	return bad || sim_audit_limit(c, s) ? bad : "the limit of requests in frames is wrong";
}

static const char *audit_sess(struct lend_core *c, struct lend_sess *s, struct tally *t)
{
	uint32_t charged = 0, calls = 0, mine = 0, waiting = 0, orphans = 0, at = 0;
	struct lend_call_rec *made, show;

	if (s->state == LEND_SESS_FREE)
		return NULL;
	for (uint32_t i = 0; i < c->records; i++) {
		const struct lend_call_rec *k = lend_call_at(c, i);
		bool here = k->state != LEND_CALL_FREE && k->sess_id == s->id;

		charged += here && k->tx.total > 1 ? k->tx.charged : 0;
		t->short_charged += here && k->tx.total <= 1 ? k->tx.charged : 0;
		orphans += here && k->state == LEND_CALL_ORPHAN;
		calls += here && k->state != LEND_CALL_ORPHAN;
		mine += here && !k->server;
		waiting += here && k->waits;
	}
	while ((made = lend_sess_next_call(c, s, &at, &show))) {
		if (made != &show)
			continue;
		t->of[made->server]++;
		t->short_charged += made->tx.charged;
		mine += !made->server;
		calls++;
	}
	if (s->number >= EX_NUMBERS)
		return "a session sends without end";
	if (charged != s->unscheduled_used)
		return "unscheduled credit is miscounted";
	if (calls != s->calls || waiting != s->waiting.n)
		return "a session's lists are miscounted";
	if (orphans != s->orphans)
		return "orphans are miscounted";
	if (slots_free(c, s) + mine != c->cfg.calls)
		return "slots are miscounted";
	return audit_slots(c, s);
}

static uint64_t peers_used(struct lend_core *c)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < lend_pool_top(&c->free_peers); i++)
		used += LEND_AT(c, at_peers, struct lend_peer)[i].used;
	return used;
}

static const char *compare_counts(struct lend_core *c, const struct tally *t)
{
	if (t->records + c->free_calls.free != c->records)
		return "call records are miscounted";
	if (t->short_charged != peers_used(c))
		return "windows of peers are miscounted";
	if (t->of[0] != c->used[0] || t->of[1] != c->used[1])
		return "calls in flight are miscounted";
	if (t->frags + c->free_frags.free != c->free_frags.cap)
		return "reassemblies are miscounted";
	if (t->wins + c->free_wins.free != c->free_wins.cap)
		return "windows are miscounted";
	if (t->charged != c->budget_used)
		return "the receive budget is miscounted";
	if (t->waiting != lend_memq_waiting(c) || t->partial != c->partials.n ||
	    t->ready != c->ready.n)
		return "a list of calls is miscounted";
	if (t->sessions + c->free_sess.free != c->free_sess.cap)
		return "sessions are miscounted";
	return t->half != c->half.n || t->timers != c->timers ? "half-open or timers miscounted"
							      : NULL;
}

/* Counters since the step began: no correct peer sends such a datagram. */
static const char *audit_counts(const struct lend_core_stats *s)
{
	if (s->rx_short + s->rx_long + s->rx_version + s->rx_kind)
		return "a malformed datagram";
	if (s->rx_length)
		return "a datagram contradicts its message";
	return s->rx_window ? "a datagram beyond what was granted" : NULL;
}

const char *ex_core_audit(struct lend_core *c)
{
	struct tally t = {0};
	const char *bad = NULL;

	for (uint32_t i = 0; i < c->records && !bad; i++) {
		tally_call(&t, lend_call_at(c, i));
		bad = audit_call(c, lend_call_at(c, i));
	}
	for (uint32_t i = 0; i < c->cfg.sessions && !bad; i++) {
		struct lend_sess *s = lend_sess_at(c, i);

		t.sessions += s->state != LEND_SESS_FREE;
		t.half += s->half.in;
		t.timers += s->state != LEND_SESS_FREE && s->timer != LEND_NEVER;
		bad = audit_sess(c, s, &t);
	}
	bad = bad ? bad : audit_counts(lend_core_stats(c));
	bad = bad ? bad : lend_timer_audit(c);
	return bad ? bad : compare_counts(c, &t);
}
