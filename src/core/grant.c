#include "core/grant.h"

#include "core/control.h"
#include "core/table_share.h"
#include "core/loss.h"
#include "core/peer_window.h"
#include "core/reorder.h"
#include "core/rx.h"
#include "core/memory_queue.h"

enum {
	PIECES = 8, /* grants that a window is divided into, at least */
	PIECE = 16, /* datagrams per grant, at most */
	ALL = 65536,
	TAKEN_BACK = 256, /* missing datagrams that may be taken back in advance */
	FAIR_MAX = 65536, /* bytes left that count in the rank of a fair share */
	AGE = 32,         /* bytes of shorter messages that may overtake one byte of a message */
	REST = 64,        /* measurement rounds until another window is tried */
	FIRST_ALL = 512 << 10, /* bytes that all sessions together may send before a grant */
	FIRST_MAX =
	    16384, /* bytes that one session may send before a grant, unless one datagram is more */
};
#define LOOP_MAX  (2000 * LEND_MS)
#define EPOCH_MIN (50 * LEND_US)
#define HOST_NS   (4 * LEND_US) /* delay of the hosts, beyond the smallest loop */
#define RECLAIM   (1 * LEND_MS) /* between two scans for unused grants */
#define YIELDS    LEND_GRANTS_YIELDS

static struct lend_prioq heap_of(struct lend_core *c)
{
	return (struct lend_prioq){LEND_AT(c, at_grant_heap, struct lend_prioq_entry),
				   LEND_AT(c, at_grant_heap_at, uint32_t), c->grants.waiting};
}

static bool in_heap(struct lend_core *c, const struct lend_call_rec *k)
{
	return LEND_AT(c, at_grant_heap_at, uint32_t)[lend_call_index(c, k)] != 0;
}

static void leave_heap(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_prioq q = heap_of(c);

	lend_prioq_remove(&q, lend_call_index(c, k));
	c->grants.waiting = q.n;
	c->grants.yielding -= k->rx.yields;
}

void lend_grants_init(struct lend_core *c)
{
	c->grants.window = LEND_GRANTS_START;
	c->grants.look = LEND_NEVER;
}

uint32_t lend_grants_first(struct lend_core *c, const struct lend_sess *s)
{
	uint32_t sessions = c->free_sess.cap - c->free_sess.free;
	uint32_t share = FIRST_ALL / lend_max_u32(sessions, 1);

	if (!lend_grants_apply(c, s))
		return c->cfg.unscheduled;
	share = lend_max_u32(lend_min_u32(share, FIRST_MAX), s->payload);
	return lend_min_u32(share, c->cfg.unscheduled);
}

/* Returns the bytes of the window that one message may hold. */
static uint64_t message_share(const struct lend_grants *m)
{
	return lend_grants_one_sender(m) ? lend_grants_width(m) : m->window / 2;
}

/* Returns the free bytes of the window. Grants made ahead, for replies not begun, count as half of
 * it at most, also if they were half of a wider window. Otherwise, messages in transit would wait
 * for replies that wait for the memory of these messages. */
static uint64_t window_room(const struct lend_core *c, uint64_t discount)
{
	uint64_t width = lend_grants_width(&c->grants), ahead = c->grants.ahead;
	uint64_t used = c->grants.used - ahead + lend_min_u64(ahead, width / 2);

	return width - lend_min_u64(width, used - lend_min_u64(used, discount));
}

static void charge_window(struct lend_core *c, struct lend_rx *r, uint32_t n)
{
	r->credit += n;
	c->grants.used += n;
	c->grants.ahead += r->frags == LEND_NONE ? n : 0;
}

static void uncharge_window(struct lend_core *c, struct lend_rx *r, uint32_t n)
{
	n = lend_min_u32(n, r->credit);
	r->credit -= n;
	c->grants.used -= n;
	c->grants.ahead -= r->frags == LEND_NONE ? n : 0;
	c->fed |= n > 0;
}

/* A reply may take long, so half of the window stays available to messages in transit. */
uint32_t lend_grants_ahead(struct lend_core *c, struct lend_call_rec *k, uint64_t more)
{
	uint64_t half = c->grants.window / 2;

	if (!lend_grants_apply(c, lend_sess_at(c, k->sess)))
		return (uint32_t)more;
	more = lend_min_u64(more, half - lend_min_u64(half, c->grants.used));
	charge_window(c, &k->rx, (uint32_t)more);
	return (uint32_t)more;
}

void lend_grants_count_sender(struct lend_core *c, struct lend_sess *s, bool more)
{
	s->incoming += more ? 1 : UINT32_MAX;
	if (s->incoming == more)
		c->grants.senders += more ? 1 : UINT64_MAX;
}

/* Returns the least grant that is worth a datagram of its own. */
static uint64_t least_grant(const struct lend_core *c, const struct lend_sess *s)
{
	return lend_max_u64(
	    lend_min_u64(PIECE * (uint64_t)s->payload, lend_grants_width(&c->grants) / PIECES),
	    s->payload);
}

/* Returns the bytes to grant to the message now; 0 if they are too few to be worth a grant. */
static uint64_t wanted_bytes(struct lend_core *c, struct lend_call_rec *k)
{
	const struct lend_sess *s = lend_sess_at(c, k->sess);
	uint64_t most = message_share(&c->grants);
	uint64_t reach = lend_rx_reach(c, k), more;

	if (reach <= k->rx.granted)
		return 0;
	c->grants.scarce |=
	    !k->rx.yields && reach - k->rx.granted > most - lend_min_u64(most, k->rx.credit);
	more = lend_min_u64(reach - k->rx.granted, most - lend_min_u64(most, k->rx.credit));
	return k->rx.granted + more == k->rx.len || more >= least_grant(c, s) || k->rx.credit == 0
		   ? lend_max_u64(more, lend_min_u64(reach - k->rx.granted, s->payload))
		   : 0;
}

static void note_grant(struct lend_core *c, struct lend_rx *r)
{
	if (r->asked)
		return;
	r->asked = c->now + !c->now;
	r->asked_from = r->granted;
}

/* Returns the bytes of the window that are ignored for this message's grant: those that the peer
 * with most of the window holds above a quarter of it, so that unused grants of one peer do not
 * delay others until they are taken back. Returns 0 for a message of that peer itself; then *most
 * is set if it holds at least half of the window. */
static uint64_t ignored_bytes(struct lend_core *c, const struct lend_call_rec *k, bool *most)
{
	uint64_t width = lend_grants_width(&c->grants), held = 0;
	uint32_t peer;

	*most = false;
	if (c->grants.senders <= 1)
		return 0;
	peer = lend_fair_top_creditor(c, &held);
	c->grants.look = lend_min_u64(c->grants.look, c->fair[LEND_FAIR_CREDIT].until);
	if (peer == lend_sess_at(c, k->sess)->peer) {
		*most = held >= width / 2;
		return 0;
	}
	return held - lend_min_u64(held, width / 4);
}

/* Returns the virtual time at which the peer's next grant begins. */
static uint64_t fair_start(const struct lend_core *c, const struct lend_peer *p)
{
	return lend_max_u64(p->served, c->grants.clock);
}

static void note_share(struct lend_core *c, const struct lend_sess *s, uint64_t bytes)
{
	struct lend_peer *p = lend_peer_of(c, s);

	if (c->cfg.order != LEND_ORDER_FAIR)
		return;
	c->grants.clock = fair_start(c, p);
	p->served = c->grants.clock + bytes;
}

enum granted { GRANTED, NO_ROOM, YIELD };

static enum granted grant_bytes(struct lend_core *c, struct lend_call_rec *k, uint64_t wanted)
{
	const struct lend_sess *s = lend_sess_at(c, k->sess);
	uint64_t some = lend_min_u64(wanted, least_grant(c, s)),
		 odd = (k->rx.granted + some) % s->payload;
	bool most = false;

	/* Part of a datagram cannot be sent: grant whole ones. */
	if (k->rx.granted + some < k->rx.len && some > odd)
		some -= odd;
	if (window_room(c, 0) < some && c->grants.used > 0 &&
	    window_room(c, ignored_bytes(c, k, &most)) < some)
		return most && !k->rx.yields ? YIELD : NO_ROOM;
	leave_heap(c, k);
	some = lend_memq_take_budget(c, k, some);
	if (some == 0)
		return GRANTED; /* the message waits for budget instead */
	note_grant(c, &k->rx);
	charge_window(c, &k->rx, (uint32_t)some);
	k->rx.granted += (uint32_t)some;
	c->grants.granted += some;
	note_share(c, s, some);
	lend_ctl_ack(c, k);
	return GRANTED;
}

/* Returns the rank of a message; the lowest rank is granted first. A rank is fixed from one grant
 * of a message to its next. Later ranks rise with the bytes granted, with the time, or (FIFO) with
 * each entry, so a waiting message moves forward. */
static uint64_t rank_of(struct lend_core *c, const struct lend_call_rec *k)
{
	uint64_t left = k->rx.len - k->rx.got, class = k->class;

	switch ((enum lend_order)c->cfg.order) {
	case LEND_ORDER_FIFO:
		return c->grants.entered;
	case LEND_ORDER_DEADLINE:
		return lend_min_u64(k->deadline, c->now + LEND_GRANTS_CLASS_NS) +
		       class * LEND_GRANTS_CLASS_NS;
	case LEND_ORDER_FAIR:
		return fair_start(c, lend_peer_of(c, lend_sess_at(c, k->sess))) +
		       lend_min_u64(left, FAIR_MAX) + class * LEND_GRANTS_CLASS;
	case LEND_ORDER_SHORTEST:
		break;
	}
	return c->grants.granted / AGE + left + class * LEND_GRANTS_CLASS;
}

static void enter_heap(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_prioq q = heap_of(c);

	c->grants.entered++;
	lend_prioq_set(&q, lend_call_index(c, k), rank_of(c, k) + (k->rx.yields ? YIELDS : 0));
	c->grants.waiting = q.n;
	c->grants.yielding += k->rx.yields;
}

/* Updates the rank of the first message if its peer got grants for others since it entered. A
 * message keeps its rank when they passed it by half a class, so that none starves. */
static bool update_first(struct lend_core *c)
{
	const struct lend_prioq_entry *first = LEND_AT(c, at_grant_heap, struct lend_prioq_entry);
	struct lend_call_rec *k = lend_call_at(c, first->id);
	struct lend_prioq q = heap_of(c);
	uint64_t rank;

	if (c->cfg.order != LEND_ORDER_FAIR)
		return false;
	rank = rank_of(c, k) + (k->rx.yields ? YIELDS : 0);
	if (rank <= first->key || rank - first->key > LEND_GRANTS_CLASS / 2)
		return false;
	lend_prioq_set(&q, first->id, rank);
	return true;
}

/* Ranks the messages that yield as all others again, after each scan of the credit. Ranks only
 * fall, so entries move to positions that were checked. */
static void end_yielding(struct lend_core *c)
{
	struct lend_prioq q = heap_of(c);

	if (!c->grants.yielding || c->now < c->fair[LEND_FAIR_CREDIT].until)
		return;
	for (uint32_t i = 0; i < q.n; i++) {
		struct lend_call_rec *k = lend_call_at(c, q.heap[i].id);

		if (!k->rx.yields)
			continue;
		k->rx.yields = 0;
		lend_prioq_set(&q, q.heap[i].id, q.heap[i].key - YIELDS);
	}
	c->grants.yielding = 0;
}

static void serve_heap(struct lend_core *c)
{
	end_yielding(c);
	while (c->grants.waiting) {
		struct lend_call_rec *k =
		    lend_call_at(c, LEND_AT(c, at_grant_heap, struct lend_prioq_entry)[0].id);
		uint64_t wanted;
		enum granted got;

		if (update_first(c))
			continue;
		wanted = wanted_bytes(c, k);
		got = wanted ? grant_bytes(c, k, wanted) : GRANTED;
		if (got == NO_ROOM)
			break;
		if (!wanted || got == YIELD)
			leave_heap(c, k); /* wants nothing: enters again when more of it arrives */
		k->rx.yields = got == YIELD;
		if (got == YIELD || (wanted && wanted_bytes(c, k) && !k->rx.memq_link.in))
			enter_heap(c, k);
	}
	c->grants.scarce |= c->grants.waiting > c->grants.yielding;
	if (!c->grants.waiting) {
		c->grants.look = LEND_NEVER;
	} else if (c->grants.look == LEND_NEVER) {
		c->grants.look = c->now + RECLAIM;
	}
}

bool lend_grants_request(struct lend_core *c, struct lend_call_rec *k)
{
	uint32_t had = k->rx.granted;

	if (!in_heap(c, k) && !k->rx.memq_link.in && wanted_bytes(c, k))
		enter_heap(c, k);
	serve_heap(c);
	return k->rx.granted > had;
}

/* Returns whether the loop is not longer than an idle network's. Where switches set marks, a queue
 * of the first window counts as none: marks show when there is more. */
static bool no_queue(const struct lend_grants *m)
{
	uint64_t slack = m->ecn ? LEND_GRANTS_START * LEND_US / lend_max_u64(m->rate, LEND_US) : 0;

	return m->loop_min && 4 * m->loop < 5 * (m->loop_min + m->skew) + 4 * slack;
}

/* Returns whether the whole window was in flight all the time and nothing waited in a queue: then
 * the rate is low because the RTT is long. */
static bool used_up(const struct lend_grants *m, uint64_t rate)
{
	uint64_t may = m->waiting > 1 ? m->window : message_share(m);

	return no_queue(m) && rate * m->loop > may * (LEND_US - LEND_US / 8);
}

/* Widens the window without a trial while it limits the rate on an idle path. */
static bool widen_window(struct lend_grants *m, uint64_t rate)
{
	uint64_t may = m->waiting > 1 ? m->window : message_share(m);
	bool idle = 4 * m->loop < 5 * (m->loop_min + m->skew);

	if (m->before > m->window || !used_up(m, rate))
		return false;
	m->window +=
	    idle && rate * m->loop > may * (LEND_US - LEND_US / 16) ? m->window : m->window / 8;
	m->rest = 0;
	return true;
}

/* Narrows the window without a trial while several senders fill a queue. */
static bool narrow_window(struct lend_grants *m)
{
	if (!m->loop_min || no_queue(m) || lend_grants_one_sender(m) ||
	    m->window <= LEND_GRANTS_START || m->loop <= 2 * m->loop_min + 20 * LEND_US)
		return false;
	m->window = lend_max_u64(m->window - m->window / 4, LEND_GRANTS_START);
	m->rest = REST / 8;
	return true;
}

/* Searches the best window. A wider one is kept if the rate rose by more than an eighth. Otherwise
 * the downlink is full, and grants beyond its capacity only wait in a queue. A narrower window is
 * kept if the rate fell by no more than an eighth. */
static void judge_window(struct lend_grants *m, uint64_t rate)
{
	bool tried = m->before, better = rate > m->rate + m->rate / 8;
	bool narrower = tried && m->before > m->window, worse = rate < m->rate - m->rate / 8;

	if (widen_window(m, rate) || narrow_window(m)) {
		m->rate = rate;
		m->before = 0;
		return;
	}
	if (!tried && m->rest > 0) {
		m->rate = rate;
		m->rest--;
		return;
	}
	if (tried && (narrower ? worse : !better)) {
		m->window = m->before;
		m->before = 0;
		m->rest = REST;
		m->down = !m->down;
		return;
	}
	m->rate = rate;
	if (m->down && m->window * LEND_US < (m->loop_min + HOST_NS) * rate / 2 * 3) {
		m->down = 0;
		m->rest = REST;
		return;
	}
	m->before = m->window;
	if (m->down)
		m->window -= m->window / 5;
	else if (used_up(m, rate))
		m->window *= lend_grants_one_sender(m) ? 4 : 2;
	else
		m->window += m->window / 4;
}

/* Narrows the window after ECN marks, as in cc_dctcp: too much was granted, here or by other
 * receivers. */
static void give_way(struct lend_grants *m)
{
	uint64_t share = m->marked * ALL / lend_max_u64(m->datagrams, 1);

	m->alpha = m->alpha - m->alpha / 8 + share / 8;
	m->window -= m->window * m->alpha / (2 * ALL);
	m->before = 0;
	m->down = 0;
	m->rest = REST / 8;
}

/* Returns how many datagrams of this round were lost, if they are more than random loss: one of 32
 * at most. Those that only came late have cancelled out. */
static uint64_t lost_datagrams(const struct lend_grants *m)
{
	uint64_t lost = m->missing > 0 ? (uint64_t)m->missing : 0;

	return lost * 32 > m->datagrams + lost ? lost : 0;
}

/* Narrows the window by the share of datagrams that were lost: the buffers on the path are short.
 */
static void give_way_to_loss(struct lend_grants *m, uint64_t lost)
{
	m->window -= m->window * lost / (m->datagrams + lost);
	m->before = 0;
	m->down = 0;
	m->rest = REST / 8;
}

/* Returns whether a much wider window is being tried: it takes one loop (from a grant to its data)
 * to take effect, and one to measure. */
static bool tries_wider(const struct lend_grants *m)
{
	return m->before > 0 && 2 * m->before <= m->window;
}

static void measure_rate(struct lend_core *c)
{
	struct lend_grants *m = &c->grants;
	lend_ns span = c->now - m->epoch;
	uint64_t lost;

	if (c->now < m->epoch ||
	    span < lend_max_u64(tries_wider(m) || no_queue(m) ? m->loop : 4 * m->loop, EPOCH_MIN))
		return;
	/* The window limits the rate only while messages want more than may be granted. */
	m->window = lend_grants_width(m);
	if (m->marked)
		give_way(m);
	else if ((lost = lost_datagrams(m)))
		give_way_to_loss(m, lost);
	else if (m->scarce && span < 16 * lend_max_u64(m->loop, EPOCH_MIN))
		judge_window(m, m->came * LEND_US / span);
	m->window = lend_min_u64(lend_max_u64(m->window, m->least), LEND_GRANTS_MAX);
	m->scarce = 0;
	m->epoch = c->now + (tries_wider(m) ? m->loop : 0);
	m->came = m->marked = m->datagrams = 0;
	/* Numbers that count as missing only in a later round were taken back. */
	if (m->missing > 0 || m->missing < -TAKEN_BACK)
		m->missing = m->missing > 0 ? 0 : -TAKEN_BACK;
}

/* Counts an ECN mark. Returns true at the least window: below it, the senders must slow down. */
bool lend_grants_marked(struct lend_core *c)
{
	c->grants.marked++;
	c->grants.ecn = 1;
	return c->grants.window == c->grants.least;
}

void lend_grants_arrived(struct lend_core *c, struct lend_call_rec *k, uint32_t offset, uint32_t n)
{
	struct lend_grants *m = &c->grants;
	lend_ns loop = c->now - k->rx.asked;

	struct lend_sess *s = lend_sess_at(c, k->sess);

	if (s->has_reorder)
		lend_reorder_came(lend_reorder_of(c, s));
	uncharge_window(c, &k->rx, n);
	m->came += c->now >= m->epoch ? n : 0;
	m->datagrams++;
	if (k->rx.asked && offset >= k->rx.asked_from) {
		k->rx.asked = 0;
		loop = lend_min_u64(loop, LOOP_MAX);
		m->loop_min = m->loop_min ? lend_min_u64(m->loop_min, loop) : loop;
		m->loop = m->loop ? m->loop - m->loop / 8 + loop / 8 : loop;
	}
	measure_rate(c);
}

void lend_grants_end(struct lend_core *c, struct lend_call_rec *k)
{
	if (c->cfg.congestion != LEND_CC_CREDIT)
		return;
	if (in_heap(c, k))
		leave_heap(c, k);
	k->rx.asked = 0;
	uncharge_window(c, &k->rx, k->rx.credit);
}

/* Takes back the grants of messages of which nothing arrived for two timeouts. */
static void reclaim_grants(struct lend_core *c)
{
	struct lend_links l = lend_links_partial(c);

	for (uint32_t i = c->partials.head; i != LEND_NONE; i = lend_link_at(l, i)->next) {
		struct lend_call_rec *k = lend_call_at(c, i);

		if (k->rx.credit &&
		    c->now - k->rx.last > 2 * lend_loss_rto(lend_sess_at(c, k->sess), 0)) {
			LEND_COUNT(c, credit_back);
			k->rx.asked = 0;
			uncharge_window(c, &k->rx, k->rx.credit);
		}
	}
	c->grants.look = c->now + RECLAIM;
}

void lend_grants_tick(struct lend_core *c)
{
	if (c->now >= c->grants.look)
		reclaim_grants(c);
	serve_heap(c);
}

lend_ns lend_grants_next(const struct lend_core *c)
{
	return c->grants.waiting ? c->grants.look : LEND_NEVER;
}
