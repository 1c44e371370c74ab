/* oracle_audit - recounts a core's ledgers from its records. Part of oracle.h. Layer: test/sim. */
#include <string.h>

#include "core/call_record.h"
#include "core/coalesce.h"
#include "core/grant.h"
#include "core/kept_reply.h"
#include "core/short_burst.h"
#include "core/zero_rtt.h"
#include "core/sess.h"
#include "core/arena.h"
#include "core/memory_queue.h"
#include "core/request_window.h"
#include "sim/oracle/oracle.h"
#include "util/traffic_class.h"

/* Largest table to check entry by entry; of larger ones only the sums are checked. */
enum { SET = 1 << 12 };
struct set {
	uint64_t word[SET / 64];
	uint32_t n;
};

static bool add_member(struct set *s, uint32_t i)
{
	bool was = i >= SET || s->word[i / 64] >> (i % 64) & 1;

	s->n++;
	if (i < SET)
		s->word[i / 64] |= UINT64_C(1) << (i % 64);
	return i >= SET || !was;
}

/* True when free and used entries make up the table, each once. */
static bool pool_agrees(struct lend_core *c, const struct lend_pool *p, size_t at, struct set *used)
{
	const uint32_t *stack = (const uint32_t *)(const void *)((const char *)c + at);

	for (uint32_t i = 0; i < p->free; i++)
		if (!add_member(used, lend_pool_at(p, stack, i)))
			return false;
	return used->n == p->cap;
}

static bool list_agrees(const struct lend_list *l, struct lend_links t, uint32_t max)
{
	uint32_t n = 0, prev = LEND_NONE;

	for (uint32_t i = l->head; i != LEND_NONE; i = lend_link_at(t, i)->next) {
		if (++n > max || i >= max || !lend_link_at(t, i)->in ||
		    lend_link_at(t, i)->prev != prev)
			return false;
		prev = i;
	}
	return n == l->n && prev == l->tail;
}

struct count {
	struct set calls, wins, frags, sess, rings, wide;
	uint32_t busy[LEND_WINDOW_LEVELS], used[2], shorts, ready, no_budget, no_memory[2],
	    behind[2], partials, wanting;
	uint64_t budget, credit, ahead, senders, short_charged;
};

/* While calls are in the fast-path array, no call is in a queue. */
static bool quick_agree(struct lend_core *c)
{
	const struct lend_ready *r = &c->ready;

	for (uint32_t i = 0; i < r->single_n; i++) {
		const struct lend_call_rec *k = lend_call_at(c, r->single[i]);

		if (k->state == LEND_CALL_FREE || !k->tx.ready.in || k->waits ||
		    k->tx.win != LEND_NONE)
			return false;
	}
	return r->single_n == 0 || r->single_n == r->n;
}

/* Every call is in the queue that it names, and the bit maps show which queues are not empty. */
static bool queues_agree(struct lend_core *c, uint32_t ready)
{
	uint32_t n = c->ready.single_n;

	for (uint32_t i = 0; i < LEND_SCHED_QUEUES; i++) {
		const struct lend_list *l = &c->ready.queue[i];
		uint32_t class = i / LEND_SIZES;

		if (!list_agrees(l, lend_links_ready(c), c->records) ||
		    (c->ready.sizes[class].waiting >> i % LEND_SIZES & 1) != (l->n > 0) ||
		    (c->ready.classes.waiting >> class & 1) != (c->ready.sizes[class].waiting > 0))
			return false;
		for (uint32_t r = l->head; r != LEND_NONE; r = lend_call_at(c, r)->tx.ready.next)
			if (lend_call_at(c, r)->queue != i || lend_call_at(c, r)->waits)
				return false;
		n += l->n;
	}
	return quick_agree(c) && n == ready && c->ready.n == n;
}

/* The same for the queues of messages that wait for memory or budget. */
static bool line_agrees(struct lend_core *c, const struct lend_memq *h, uint32_t waiting)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		if (!list_agrees(&h->of[i], lend_links_memq(c), c->records) ||
		    (h->share.waiting >> i & 1) != (h->of[i].n > 0))
			return false;
		n += h->of[i].n;
	}
	return n == waiting && h->n == n;
}

static bool is_named(struct lend_core *c, const struct lend_call_rec *k)
{
	uint32_t slot = lend_pkt_slot(k->wire);

	return k->self == (k->server ? lend_sslot_at(c, k->sess, slot)->rec
				     : lend_cslot_at(c, k->sess, slot)->rec);
}

static const char *audit_record(struct lend_core *c, struct lend_call_rec *k, struct count *n)
{
	uint32_t i = lend_call_index(c, k);

	if (k->state == LEND_CALL_FREE)
		return sim_audit_free_record(k);
	n->used[k->server]++;
	n->budget += k->rx.charged;
	n->credit += k->rx.credit;
	n->ahead += k->rx.frags == LEND_NONE ? k->rx.credit : 0;
	if (k->rx.credit > k->rx.granted || k->rx.got > k->rx.len)
		return "a message has more credit than it was granted, or more bytes than its "
		       "length";
	n->wanting +=
	    c->cfg.congestion == LEND_CC_CREDIT && LEND_AT(c, at_grant_heap_at, uint32_t)[i] != 0;
	n->ready += k->tx.ready.in && !k->waits;
	if (k->rx.behind)
		n->behind[k->rx.memq_state == LEND_MEMQ_WAITS]++;
	else if (k->rx.memq_state == LEND_MEMQ_WAITS)
		n->no_memory[k->rx.buf != 0]++;
	else
		n->no_budget += k->rx.memq_link.in;
	n->partials += k->rx.partial.in;
	if (!add_member(&n->calls, i) ||
	    (k->tx.win != LEND_NONE && !add_member(&n->wins, k->tx.win)) ||
	    (k->rx.frags != LEND_NONE && !add_member(&n->frags, k->rx.frags)))
		return "two calls share a window or a reassembly";
	if (k->rx.partial.in != (k->rx.frags != LEND_NONE))
		return "a reassembly is not in the list of partial messages";
	if (k->rx.memq_state == LEND_MEMQ_WAITS &&
	    (k->rx.frags != LEND_NONE || !k->rx.memq_link.in))
		return "a message that waits for memory has a reassembly, or is in no queue";
	if (k->paused && k->tx.ready.in)
		return "a message may be sent although its receiver has no memory";
	if (is_named(c, k) == (k->state == LEND_CALL_ORPHAN))
		return "a call is not named by its slot, or an orphan is";
	return NULL;
}

/* Checks the requests that count in a session's window, and those that wait for it. */
static const char *audit_window(struct lend_core *c, struct lend_sess *s)
{
	uint32_t flies = 0, queued = 0, at = 0;
	struct lend_call_rec *k, show;

	while ((k = lend_sess_next_made(c, s, &at, &show))) {
		flies += k->in_window;
		queued += k->tx.ready.in && k->waits == LEND_WAITS_WINDOW;
		if (k->in_window && (k->tx.win != LEND_NONE || k->whole ||
				     (k->state != LEND_CALL_QUEUED && k->state != LEND_CALL_OPEN)))
			return "a window counts a call that has nothing in flight";
	}
	if (queued != s->queue.n || !list_agrees(&s->queue, lend_links_ready(c), c->records))
		return "a session miscounts the calls that wait for its window";
	if ((int32_t)lend_window_of(s->window) - (int32_t)flies != s->room)
		return "window, room and calls of a session do not add up";
	if (!queued || s->room + (int32_t)queued <= 0 || s->waits.in)
		return NULL;
	return "a call waits although its window has room";
}

static const char *audit_session(struct lend_core *c, struct lend_sess *s, struct count *n)
{
	uint32_t i = lend_sess_index(c, s), waiting = 0, orphans = 0, bulk = 0;
	uint32_t incoming = 0, calls = 0, at = 0;
	struct lend_call_rec *k, show;
	uint64_t charged = 0;
	const char *why = NULL;

	if (!add_member(&n->sess, i))
		return "a session is used twice";
	if (s->ring != LEND_NONE &&
	    (lend_ring_is_wide(c, s) ? !add_member(&n->wide, s->ring - c->free_rings.cap)
				     : !add_member(&n->rings, s->ring)))
		return "two sessions share a ring";
	if (!list_agrees(&s->waiting, lend_links_ready(c), c->records))
		return "a session's list is broken";
	while ((k = lend_sess_next_call(c, s, &at, &show))) {
		calls++;
		if (k == &show) {
			n->used[k->server]++;
			n->shorts++;
			if (s->state != LEND_SESS_UP ||
			    s->timer > lend_min_u64(k->deadline, k->stamp + LEND_RTO_MAX))
				return "a short call has no session, or no timer";
		}
		if (k->sess != i || k->sess_id != s->id)
			return "a session has a call of another session";
		bulk += !k->server && k->class > LEND_CLASS_NORMAL;
		if (k->tx.total > 1)
			charged += k->tx.charged;
		else
			n->short_charged += k->tx.charged;
		incoming += k->rx.partial.in;
		waiting += k->tx.ready.in && k->waits && k->waits != LEND_WAITS_WINDOW;
	}
	for (uint32_t r = 0; r < c->records; r++)
		orphans += lend_call_at(c, r)->state == LEND_CALL_ORPHAN &&
			   lend_call_at(c, r)->sess_id == s->id;
	if (bulk > c->cfg.calls - (c->cfg.calls > 1))
		return "calls of low classes hold slots that are reserved for others";
	if (calls != s->calls)
		return "a session miscounts its calls";
	if (!sim_audit_limit(c, s))
		return "a session has another limit of requests in frames than it should";
	if (charged != s->unscheduled_used)
		return "an acknowledgement is delayed for longer than the largest RTO";
	n->senders += incoming > 0;
	if (s->ack_timer != LEND_NEVER && s->ack_timer > c->now + LEND_RTO_MAX)
		return "an acknowledgement is delayed for longer than the RTO";
	if (incoming != s->incoming)
		return "a session miscounts its partly received messages";
	if (waiting != s->waiting.n || orphans != s->orphans)
		return "a session miscounts its waiting calls, or its orphans";
	n->busy[s->level] += calls > 0 || s->lingers;
	why = audit_window(c, s);
	for (uint32_t w = 0; w < c->cfg.calls && !why; w++)
		why = sim_audit_slot(c, s, i, w);
	return why;
}

/* Checks the entries of peers: their sums, and that no call waits while its peer's window is
 * unused. */
static const char *audit_peers(struct lend_core *c, struct count *n)
{
	uint64_t used = 0, sessions = 0;

	for (uint32_t i = 0; i < lend_pool_top(&c->free_peers); i++) {
		const struct lend_peer *p = LEND_AT(c, at_peers, struct lend_peer) + i;

		used += p->used;
		sessions += p->sessions;
		if (p->limit != (p->waiting.n ? 0 : p->window))
			return "a peer's window is open while calls wait, or closed while none "
			       "does";
		if (p->idle.in != (p->sessions == 0))
			return "a peer without a session is not in the list, or another one is";
		if (p->waiting.n && p->used == 0 && c->now > p->hold + LEND_RTO_MAX)
			return "calls wait for a peer's window that is not in use";
	}
	if (used != n->short_charged)
		return "windows of peers: the calls' bytes do not sum up";
	return sessions == c->cfg.sessions - c->free_sess.free ? NULL
							       : "sessions of peers are miscounted";
}

static const char *audit_timers(struct lend_core *c)
{
	const char *why = lend_timer_audit(c);
	uint32_t armed = 0;

	for (uint32_t i = 0; i < c->cfg.sessions; i++)
		armed += lend_sess_at(c, i)->state != LEND_SESS_FREE &&
			 lend_sess_at(c, i)->timer != LEND_NEVER;
	return why || armed == c->timers ? why : "a timer is armed but not on the wheel";
}

/* True when the key in the grant queue agrees with config.order (core/grant.h), as far as it can be
 * checked without the time of its insertion. */
static bool rank_agrees(struct lend_core *c, const struct lend_call_rec *k, uint64_t key)
{
	uint64_t class = k->class, due = key - class * LEND_GRANTS_CLASS_NS;

	switch ((enum lend_order)c->cfg.order) {
	case LEND_ORDER_FIFO:
		return key <= c->grants.entered;
	case LEND_ORDER_DEADLINE:
		return due == k->deadline || (due < k->deadline && due >= LEND_GRANTS_CLASS_NS &&
					      due <= c->now + LEND_GRANTS_CLASS_NS);
	case LEND_ORDER_FAIR: /* virtual times are at most all bytes granted */
	case LEND_ORDER_SHORTEST:
		break;
	}
	return key >= class * LEND_GRANTS_CLASS &&
	       key <= class * LEND_GRANTS_CLASS + c->grants.granted + k->rx.len;
}

/* Messages of a peer with more than half of the credit are queued behind the others. */
static uint64_t count_yielded(struct lend_core *c, uint32_t call)
{
	return lend_call_at(c, call)->rx.yields ? LEND_GRANTS_YIELDS : 0;
}

static const char *audit_grants(struct lend_core *c)
{
	const struct lend_prioq_entry *heap = LEND_AT(c, at_grant_heap, struct lend_prioq_entry);

	for (uint32_t i = 0; i < c->grants.waiting; i++) {
		if (LEND_AT(c, at_grant_heap_at, uint32_t)[heap[i].id] != i + 1 ||
		    (i > 0 && heap[(i - 1) / 2].key > heap[i].key))
			return "credit: the grant queue is out of order";
		if (!rank_agrees(c, lend_call_at(c, heap[i].id),
				 heap[i].key - count_yielded(c, heap[i].id)))
			return "credit: a position in the grant queue contradicts config.order";
	}
	return NULL;
}

static const char *audit_tables(struct lend_core *c, struct count *n)
{
	const char *why;

	if (n->budget != c->budget_used)
		return "receive budget: the sum of the calls' charges differs";
	if (n->credit != c->grants.used || n->ahead != c->grants.ahead ||
	    n->wanting != c->grants.waiting || n->senders != c->grants.senders)
		return "credit: the sums of granted or waiting messages differ";
	for (uint32_t i = 0; i < LEND_WINDOW_LEVELS; i++) {
		const struct lend_window_level *l = &c->levels[i];

		if (n->busy[i] != l->n)
			return "sessions with calls are miscounted";
		if (l->n - l->low > l->span && !c->shares_old)
			return "the shares of the request window are not those of its sessions";
	}
	if (n->used[0] != c->used[0] || n->used[1] != c->used[1] || n->shorts > c->free_calls.free)
		return "call records are miscounted";
	if (!pool_agrees(c, &c->free_calls, c->at_free_calls, &n->calls))
		return "call records: free and used ones do not make up the table";
	if (!pool_agrees(c, &c->free_wins, c->at_free_wins, &n->wins))
		return "windows: free and used ones do not make up the table";
	if (!pool_agrees(c, &c->free_frags, c->at_free_frags, &n->frags))
		return "reassemblies: free and used ones do not make up the table";
	if (!pool_agrees(c, &c->free_sess, c->at_free_sess, &n->sess))
		return "sessions: free and used ones do not make up the table";
	if (!pool_agrees(c, &c->free_rings, c->at_free_rings, &n->rings) ||
	    !pool_agrees(c, &c->free_wide, c->at_free_wide, &n->wide))
		return "rings: free and used ones do not make up the table";
	if (!queues_agree(c, n->ready))
		return "the queues of the scheduler are broken";
	if (!line_agrees(c, &c->memory_queue[0], n->no_memory[0]) ||
	    !line_agrees(c, &c->memory_queue[1], n->no_memory[1]))
		return "a queue of messages that wait for memory is broken";
	if (!line_agrees(c, &c->budget_queue, n->no_budget) ||
	    !line_agrees(c, &c->behind[0], n->behind[0]) ||
	    !line_agrees(c, &c->behind[1], n->behind[1]))
		return "a queue of messages that wait for budget is broken";
	if (!list_agrees(&c->partials, lend_links_partial(c), c->records) ||
	    c->partials.n != n->partials ||
	    !list_agrees(&c->half, lend_links_half(c), c->cfg.sessions))
		return "a list is broken";
	why = lend_zero_rtt_audit(c);
	why = why ? why : audit_peers(c, n);
	why = why ? why : sim_audit_coalesced(c);
	return why ? why : audit_timers(c);
}

const char *sim_core_audit(struct lend_core *c)
{
	struct count n;
	const char *why = NULL;

	lend_burst_end(c);
	memset(&n, 0, sizeof(n));
	for (uint32_t i = 0; i < c->records && !why; i++)
		why = audit_record(c, lend_call_at(c, i), &n);
	for (uint32_t i = 0; i < c->cfg.sessions && !why; i++)
		if (lend_sess_at(c, i)->state != LEND_SESS_FREE)
			why = audit_session(c, lend_sess_at(c, i), &n);
	why = why ? why : audit_tables(c, &n);
	return why ? why : audit_grants(c);
}

const char *sim_core_quiet(struct lend_core *c)
{
	if (c->used[0] || c->used[1])
		return c->used[0] ? "a call that it made is not over"
				  : "a call that it serves is not over";
	if (c->grants.used || c->grants.waiting || c->paced_n)
		return "credit is still in use, or a session waits for its pacing";
	if (c->budget_used)
		return "receive budget is still charged";
	if (c->free_wins.free != c->free_wins.cap || c->free_frags.free != c->free_frags.cap ||
	    c->free_rings.free != c->free_rings.cap || c->free_wide.free != c->free_wide.cap)
		return "a window, a reassembly or a ring is still in use";
	if (c->ready.n || lend_memq_waiting(c) || c->partials.n || c->half.n)
		return "a call is still ready, waiting or partial, or a session half-open";
	if (c->ctl_n || c->coalesced_n || lend_unhashed(c)->ev_n)
		return "a control datagram or an event is still queued";
	for (uint32_t i = 0; i < c->cfg.sessions; i++) {
		const struct lend_sess *s = lend_sess_at(c, i);

		if (s->state == LEND_SESS_FREE)
			continue;
		if (s->state != LEND_SESS_UP)
			return "a session is neither up nor gone";
		if (s->unscheduled_used || s->orphans || s->waiting.n || s->waits.in || s->calls)
			return "a session still holds credit, orphans or calls";
	}
	return NULL;
}
