#include "core/zero_rtt.h"

#include "core/client_call.h"
#include "core/handshake.h"
#include "core/loss.h"
#include "core/sess_lookup.h"
#include "core/sess.h"
#include "util/siphash.h"

enum { WAYS = 4, KNOWN_MAX = 4096 };

/* A server that gave a ticket. */
struct known {
	uint64_t name; /* 0: free */
	lend_ns until; /* half of its lifetime by our clock, so it is still valid on its arrival */
	struct lend_pkt_ticket ticket;
	uint8_t secret[32]; /* of the ticket; zero in sessions that were not sealed */
	uint32_t payload;   /* payload of a datagram in the last session with that server */
	uint32_t calls;     /* limit of calls in flight in that session */
};
_Static_assert(sizeof(struct known) <= 96, "what is kept of a peer");

/* A connection attempt that carried a valid ticket. In order of arrival, which is also the order of
 * expiry. */
struct spent {
	uint64_t key;
	lend_ns until;
	uint32_t next; /* next entry of its bucket: index + 1; 0: the last */
	uint32_t zero;
};

struct tables {
	uint32_t known_n, spent_cap; /* powers of two */
	uint32_t first, n; /* range of used entries in spent: [first, first + n) modulo its cap */
	lend_ns paused;    /* no 0-RTT call is accepted before */
	uint64_t swept;    /* 0: the buckets are not initialised, and no ticket was spent */
	uint64_t zero[4];
	struct known known[]; /* in sets of WAYS; then spent[spent_cap], then a bucket for each */
};
_Static_assert(sizeof(struct tables) == 64, "a line");

static struct tables *tables_of(const struct lend_core *c)
{
	return (struct tables *)(void *)((uintptr_t)c + c->at_zero_rtt);
}

static struct spent *spent_of(struct tables *t)
{
	return (struct spent *)(void *)(t->known + t->known_n);
}

/* Returns the head of a key's bucket: index + 1; 0 if it is empty. */
static uint32_t *bucket_of(struct tables *t, uint64_t key)
{
	uint32_t *bucket = (uint32_t *)(void *)(spent_of(t) + t->spent_cap);

	return bucket + (key & (t->spent_cap - 1));
}

static uint32_t known_for(uint32_t sessions)
{
	return lend_pow2_above(lend_max_u32(WAYS, lend_min_u32(sessions, KNOWN_MAX)));
}

size_t lend_zero_rtt_size(const struct lend_core_config *f)
{
	if (!f->ticket_ns)
		return 0;
	return sizeof(struct tables) + known_for(f->sessions) * sizeof(struct known) +
	       f->attempts * (sizeof(struct spent) + sizeof(uint32_t));
}

void lend_zero_rtt_init(struct lend_core *c)
{
	struct tables *t = tables_of(c);

	if (!c->cfg.ticket_ns)
		return;
	*t = (struct tables){.known_n = known_for(c->cfg.sessions), .spent_cap = c->cfg.attempts};
}

/* Returns the entry of a name, or else the one of its set that expires first. */
static struct known *slot_of(const struct lend_core *c, uint64_t name)
{
	struct tables *t = tables_of(c);
	struct known *set = t->known + (name & (t->known_n - 1) & ~(uint64_t)(WAYS - 1)), *at = set;

	for (uint32_t i = 0; i < WAYS; i++) {
		if (set[i].name == name)
			return &set[i];
		if (set[i].until < at->until)
			at = &set[i];
	}
	return at;
}

void lend_core_set_server(struct lend_core *c, uint64_t session, uint64_t name)
{
	struct lend_sess *s = lend_sess_find(c, session);

	if (s && s->state == LEND_SESS_CONNECTING && c->cfg.ticket_ns)
		s->name = name;
}

/* Returns the session's first call that may be 0-RTT; NULL if there is none. */
static struct lend_call_rec *find_candidate(struct lend_core *c, struct lend_sess *s)
{
	struct lend_call_rec *k;
	uint32_t at = 0;

	while ((k = lend_sess_next_made(c, s, &at, NULL)))
		if (k->marks & LEND_MARK_ZERO_RTT && k->state == LEND_CALL_QUEUED)
			return k;
	return NULL;
}

/* Returns whether len bytes fit into a CONNECT, which has more overhead than other datagrams. */
static bool one_datagram(const struct known *at, uint32_t len)
{
	return len + LEND_PKT_ZERO_RTT_OVERHEAD <= at->payload + LEND_PKT_OVERHEAD;
}

/* Returns whether the call may be 0-RTT: its ticket is still valid on arrival, and the server has
 * its slot. */
static bool call_fits(const struct lend_core *c, const struct lend_sess *s, const struct known *at,
		      const struct lend_call_rec *k)
{
	return at->name == s->name && c->now < at->until && one_datagram(at, k->tx.len) &&
	       lend_pkt_slot(k->wire) < at->calls;
}

/* Lets the first CONNECT of a sealed session resume an earlier one. False: there is none. */
static bool try_resume(struct lend_core *c, struct lend_sess *s, const struct known *at)
{
	struct lend_hs *h = lend_hs_of(c, s);

	if (at->name != s->name || c->now >= at->until || at->ticket.key_id != h->key_id)
		return false;
	h->ticket = at->ticket;
	h->resumes = 1;
	return true;
}

/* Chooses the 0-RTT call before the first CONNECT of an attempt. Only the first CONNECT carries the
 * call, since a datagram of that length may be lost repeatedly. Each CONNECT carries the ticket, so
 * that the server recognises the attempt when a late copy of the first arrives. */
struct lend_call_rec *lend_zero_rtt_choose(struct lend_core *c, struct lend_sess *s)
{
	struct lend_hs *h = lend_hs_of(c, s);
	struct lend_call_rec *k;
	const struct known *at;

	h->resumes = 0;
	if (!s->name || s->ctl_tries || h->retries || h->pattern == LEND_PATTERN_PROOF)
		return NULL;
	k = find_candidate(c, s);
	at = slot_of(c, s->name);
	if (lend_hs_seals(h) && !try_resume(c, s, at))
		return NULL;
	if (!k || !call_fits(c, s, at, k))
		return NULL;
	lend_tx_reset(&k->tx);
	lend_tx_begin(c, s, &k->tx, k->tx.buf, k->tx.len, k->shared);
	lend_peer_of(c, s)->used += k->tx.len;
	k->tx.charged = k->tx.len;
	h->ticket = at->ticket;
	return k;
}

void lend_zero_rtt_unsent(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k)
{
	lend_call_refund(c, s, k);
	k->state = LEND_CALL_QUEUED;
	k->tx.next = 0;
	lend_hs_of(c, s)->ticket = (struct lend_pkt_ticket){0};
}

void lend_zero_rtt_on_accept(struct lend_core *c, const struct lend_sess *s,
			     const struct lend_pkt_view *v)
{
	struct known *at = s->name && v->accept.ticket.until ? slot_of(c, s->name) : NULL;

	if (!at)
		return;
	*at = (struct known){.name = s->name,
			     .until = c->now + c->cfg.ticket_ns / 2,
			     .ticket = v->accept.ticket,
			     .payload = s->payload,
			     .calls = s->limit};
	memcpy(at->secret, v->accept.ticket_secret, sizeof(at->secret));
}

bool lend_core_ticket_secret(struct lend_core *c, uint64_t session, uint8_t secret[32])
{
	const struct lend_sess *s = lend_sess_find(c, session);
	const struct known *at = s && s->name ? slot_of(c, s->name) : NULL;

	if (!at || at->name != s->name)
		return false;
	memcpy(secret, at->secret, sizeof(at->secret));
	return true;
}

void lend_zero_rtt_answered(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k,
			    uint32_t said)
{
	if (said == LEND_PKT_ZERO_RTT_RUNS) {
		k->timer = c->now + lend_loss_rto(s, 0);
		lend_sess_arm(c, s, k->timer);
	} else if (said == LEND_PKT_ZERO_RTT_NOT) {
		lend_call_refund(c, s, k);
		k->state = LEND_CALL_QUEUED;
		lend_call_admitted(c, s, k);
	} else {
		LEND_COUNT(c, zero_rtt_unknown);
		lend_call_abort(c, k, UNAVAILABLE);
	}
}

void lend_zero_rtt_forget(struct lend_core *c, const struct lend_sess *s)
{
	if (s->client && s->name && slot_of(c, s->name)->name == s->name)
		*slot_of(c, s->name) = (struct known){0};
}

static void ticket_mac(const struct lend_core *c, uint64_t name, const struct lend_pkt_ticket *t,
		       uint8_t mac[16])
{
	const uint64_t text[] = {name, t->until, t->key_id, t->random};

	lend_siphash128(c->cfg.seed, text, sizeof(text), mac);
}

struct lend_pkt_ticket lend_zero_rtt_ticket(struct lend_core *c, const struct lend_sess *s)
{
	const struct lend_hs *h = lend_hs_of(c, s);
	struct lend_pkt_ticket t = {.until = c->now + c->cfg.ticket_ns,
				    .key_id = lend_hs_seals(h) ? h->key_id : 0,
				    .random = s->id};

	if (s->name == 0 || c->cfg.ticket_ns == 0)
		return (struct lend_pkt_ticket){0};
	ticket_mac(c, s->name, &t, t.mac);
	return t;
}

static bool is_good(const struct lend_core *c, uint64_t name, const struct lend_pkt_ticket *t)
{
	uint8_t mac[16];

	if (c->cfg.ticket_ns == 0 || name == 0 || t->until <= c->now)
		return false;
	ticket_mac(c, name, t, mac);
	return lend_equal_ct(mac, t->mac, sizeof(mac));
}

static bool is_spent(struct tables *t, uint64_t key)
{
	for (uint32_t i = *bucket_of(t, key); i; i = spent_of(t)[i - 1].next)
		if (spent_of(t)[i - 1].key == key)
			return true;
	return false;
}

/* Clears the buckets at the first CONNECT with a ticket: few have one, and the table is long. */
static void sweep_attempts(struct tables *t)
{
	if (!t->swept)
		memset(bucket_of(t, 0), 0, t->spent_cap * sizeof(uint32_t));
	t->swept = 1;
}

/* Removes expired attempts; the oldest ones are the last of their buckets. */
static void forget_old(struct tables *t, lend_ns now)
{
	for (; t->n && spent_of(t)[t->first].until <= now; t->n--) {
		uint32_t *at = bucket_of(t, spent_of(t)[t->first].key);

		while (*at != t->first + 1)
			at = &spent_of(t)[*at - 1].next;
		*at = 0;
		t->first = (t->first + 1) & (t->spent_cap - 1);
	}
}

/* Records an attempt. A full table stops 0-RTT calls for as long as a ticket lives: a copy of this
 * datagram that arrives when there is room must not run a call that was sent again meanwhile. */
static bool record_attempt(struct tables *t, uint64_t key, lend_ns until)
{
	uint32_t i = (t->first + t->n) & (t->spent_cap - 1), *bucket = bucket_of(t, key);

	if (t->n == t->spent_cap) {
		t->paused = until;
		return false;
	}
	spent_of(t)[i] = (struct spent){.key = key, .until = until, .next = *bucket};
	*bucket = i + 1;
	t->n++;
	return true;
}

/* Decides on an attempt with a valid ticket. This core issued the ticket, and it still remembers
 * each earlier copy of the attempt. */
static uint32_t admit_attempt(struct lend_core *c, const struct lend_sess *s,
			      const struct lend_pkt_view *v, bool may_run)
{
	struct tables *t = tables_of(c);
	uint64_t key = lend_lookup_attempt(c, s);

	sweep_attempts(t);
	forget_old(t, c->now);
	if (is_spent(t, key)) {
		LEND_COUNT(c, zero_rtt_replayed);
		return LEND_PKT_ZERO_RTT;
	}
	if (!record_attempt(t, key, c->now + c->cfg.ticket_ns) || c->now < t->paused) {
		LEND_COUNT(c, zero_rtt_full);
		return LEND_PKT_ZERO_RTT_NOT;
	}
	if (!may_run || v->head.call == 0 || v->head.length > s->payload)
		return LEND_PKT_ZERO_RTT_NOT;
	LEND_COUNT(c, zero_rtt);
	return LEND_PKT_ZERO_RTT_RUNS;
}

uint32_t lend_zero_rtt_admit(struct lend_core *c, struct lend_sess *s, const struct lend_in *in,
			     const struct lend_pkt_view *v, bool may_run)
{
	s->name = lend_core_address(c, in);
	if (v->connect.ticket.until == 0)
		return LEND_PKT_NO_ZERO_RTT;
	return is_good(c, s->name, &v->connect.ticket) ? admit_attempt(c, s, v, may_run)
						       : LEND_PKT_ZERO_RTT;
}

bool lend_zero_rtt_ticket_valid(struct lend_core *c, const struct lend_in *in,
				const struct lend_pkt_connect *b, uint64_t key)
{
	struct tables *t = tables_of(c);

	return is_good(c, lend_core_address(c, in), &b->ticket) && !(t->swept && is_spent(t, key));
}

const char *lend_zero_rtt_audit(struct lend_core *c)
{
	struct tables *t = tables_of(c);
	uint32_t found = 0;

	if (!c->cfg.ticket_ns || !t->swept)
		return NULL;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct spent *e = &spent_of(t)[(t->first + i) & (t->spent_cap - 1)];

		if (!is_spent(t, e->key))
			return "an attempt that was seen is not found";
		if (i && e->until < spent_of(t)[(t->first + i - 1) & (t->spent_cap - 1)].until)
			return "attempts do not end in the order they came";
	}
	for (uint32_t b = 0; b < t->spent_cap; b++)
		for (uint32_t i = *bucket_of(t, b); i && found <= t->n; i = spent_of(t)[i - 1].next)
			found++;
	return found == t->n ? NULL : "attempts that are remembered are miscounted";
}
