/* table_share - shares of the tables that the sessions of all peers use. It finds the peers that
 * hold more than their share of a table that is nearly full, and releases some of what they hold.
 *
 * A peer is an address as its carrier numbers it, with all its sessions. A peer exceeds its share
 * if it holds more than size / (peers + 1) entries, where peers counts the peers that hold any. So
 * one peer alone may hold half of a table that is nearly full, and two peers a third each. Nothing
 * here runs while a table has room. A scan of a table counts the entries of at most 16 peers (the
 * frequent items of Misra and Gries, so a peer with a 16th of the table is always found), reads at
 * most 4,096 entries, and is repeated after every 32nd part of the table was requested, or granted.
 *
 * - records: the last 16th is for peers within their share. Unacknowledged replies and stalled
 *   partial requests are released; after that, calls are refused (RESOURCE_EXHAUSTED).
 * - reassemblies: the last eighth is for peers within their share; messages of others wait.
 * - budget: the same, in bytes
 * - credit: a peer's unused grants above a quarter of the window do not delay grants to others, see
 *   grant.h
 * - memory of long requests: the owner of the memory asks, see core.h
 * - sessions: a peer opens no more while it has more than LEND_FAIR_SESSIONS_TIMES as many as are
 *   free (the dynamic thresholds of Choudhury and Hahne), so some stay free whatever one peer does.
 *   When the table is full, one idle session of the peer with most sessions is closed, or one whose
 *   calls make no progress.
 *
 * Layer: core (pure). Part of struct lend_core. */
#ifndef LEND_CORE_TABLE_SHARE_H
#define LEND_CORE_TABLE_SHARE_H

#include "core/state.h"

enum {
	LEND_FAIR_SCAN_MAX = 4096, /* most entries that one scan or one search reads */
	LEND_FAIR_SESSIONS_TIMES = 8,
	LEND_FAIR_FRACTION =
	    32, /* 1/32 of a table: requests between scans, entries released at once */
};

void lend_fair_init(struct lend_core *c);
/* Returns whether a new request of this session may take a call record; releases records first if
 * needed. Call it only when c->used[1] >= c->share_threshold. */
bool lend_fair_record(struct lend_core *c, const struct lend_sess *s);
/* Answers a request that gets no record with RESOURCE_EXHAUSTED, ran = NO, and notes that in its
 * slot. */
void lend_fair_refuse(struct lend_core *c, struct lend_sess *s, struct lend_sslot *sl,
		      uint32_t wire);
/* Repeats the answer to a call that has no record any more. Returns false if there is none, because
 * the reply was delivered. */
bool lend_fair_resend(struct lend_core *c, struct lend_sess *s, uint32_t wire);
/* Scans if the last scan is too old; returns whether the peer exceeds its share. */
bool lend_fair_over(struct lend_core *c, enum lend_fair_kind kind, uint32_t peer);
/* Returns the peer that holds most of the credit, and its bytes; LEND_NONE if none is granted. */
uint32_t lend_fair_top_creditor(struct lend_core *c, uint64_t *bytes);
/* Returns whether the remaining reassemblies are reserved for other peers than this message's. */
bool lend_fair_waits(struct lend_core *c, const struct lend_call_rec *k);
/* Returns the bytes of the budget that are reserved for other peers if this message takes more. */
uint64_t lend_fair_reserved(struct lend_core *c, const struct lend_call_rec *k, uint64_t more);
/* Notes that bytes of the budget were taken. */
static inline void lend_fair_note_taken(struct lend_core *c, uint64_t bytes)
{
	struct lend_fair *f = &c->fair[LEND_FAIR_BUDGET];

	f->due -= (uint32_t)lend_min_u64(f->due, bytes);
}
/* Returns whether so few sessions are free that a peer needs a proven address for one. */
static inline bool lend_fair_few_sessions(const struct lend_core *c)
{
	return (uint64_t)c->free_sess.free * (LEND_FAIR_SESSIONS_TIMES + 1) < c->cfg.sessions;
}
/* Returns whether a peer may open a session, and counts it. If none is free, closes an unused one
 * of the peer with most sessions, unless the given peer would then have as many; that needs a
 * proven address. */
bool lend_fair_session(struct lend_core *c, uint32_t peer);
void lend_fair_note_session(struct lend_core *c, uint32_t peer);
/* Returns whether some other peer has more sessions than the given one, idle or not. */
bool lend_fair_has_donor(struct lend_core *c, uint32_t peer);

/* Returns the session of a call; NULL for a free record, or if the session was closed while the
 * handler ran. */
const struct lend_sess *lend_fair_owner(struct lend_core *c, const struct lend_call_rec *k);
/* Counts the entries of each peer, unless the last scan is recent. Returns whether it scanned. */
bool lend_fair_scan(struct lend_core *c, enum lend_fair_kind kind);
/* Entries of the table that may be requested before the next scan. */
uint32_t lend_fair_scan_after(const struct lend_core *c, enum lend_fair_kind kind);
/* By the last scan: a peer's entries; whether they exceed its share; the peer with most entries. */
uint64_t lend_fair_entries(const struct lend_fair *f, uint32_t peer);
bool lend_fair_is_over(const struct lend_core *c, enum lend_fair_kind kind, uint32_t peer);
uint32_t lend_fair_most(const struct lend_fair *f, uint64_t *n);

static inline uint32_t lend_fair_frags_reserved(const struct lend_core *c)
{
	return c->free_frags.cap / 8;
}

/* Returns the bytes of the budget that are for peers within their share; 0 for a budget of few
 * datagrams. */
static inline uint64_t lend_fair_budget_reserved(const struct lend_core *c)
{
	return c->cfg.receive_budget >= LEND_GRANT_BYTES ? c->cfg.receive_budget / 8 : 0;
}

#endif
