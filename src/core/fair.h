/* fair - shares of the tables that all peers use: which peers hold more than their part of one that
 * is nearly full, and what is taken from them for others.
 *
 * A peer is an address, as its carrier numbers it, however many sessions it has. It is over its
 * share of a table if it holds more than the table's size divided by the number of peers that hold
 * something, plus one: so one peer alone may hold half of a table that is nearly full, two a third
 * each. While a table has room nothing here runs. A look at a table counts what at most 16 peers
 * hold (Misra and Gries' frequent items, so that a peer with a 16th of it is never missed), reads
 * 4,096 entries at most, and is repeated once for every 32nd part of the table that was asked for
 * since.
 *
 * - records: the last 16th is for peers within their share; unacknowledged replies and partial
 *   requests without progress are released, then calls are refused (RESOURCE_EXHAUSTED)
 * - reassemblies: the last eighth is for peers within their share; others' messages wait
 * - budget: likewise, of bytes
 * - credit: for others' grants a peer holds a quarter of the window at most, see credit.h
 * - memory attached for long requests: the owner of the memory asks, see core.h
 * - sessions: when the table is full, an idle session of the peer that has most ends
 *
 * Layer: core (pure). Part of struct lend_core. */
#ifndef LEND_CORE_FAIR_H
#define LEND_CORE_FAIR_H

#include "core/state.h"

enum {
	LEND_FAIR_LOOK = 4096, /* entries that one look, or one search, reads at most */
	LEND_FAIR_PART = 32,   /* a look per PARTth of a table, and as much is released at once */
};

void lend_fair_init(struct lend_core *c);
/* Returns whether a new request of this session may take a call record, and makes room for it. For
 * when c->used[1] >= c->crowded. */
bool lend_fair_record(struct lend_core *c, const struct lend_sess *s);
/* Answers a request that gets no record: RESOURCE_EXHAUSTED, no handler ran. Its slot remembers. */
void lend_fair_refuse(struct lend_core *c, struct lend_sess *s, struct lend_sslot *sl,
		      uint32_t wire);
/* Answers once more for a slot whose call has no record left; false: its reply was delivered. */
bool lend_fair_repeat(struct lend_core *c, struct lend_sess *s, uint32_t wire);
/* Returns whether this peer holds more than its share. */
bool lend_fair_over(struct lend_core *c, enum lend_fair_kind kind, uint32_t peer);
/* Returns the peer that holds most of the credit, and how much: LEND_NONE if nobody holds any. */
uint32_t lend_fair_creditor(struct lend_core *c, uint64_t *bytes);
/* Returns whether this message must leave the rest of the reassemblies to other peers. */
bool lend_fair_waits(struct lend_core *c, const struct lend_call_rec *k);
/* Returns how many bytes of the budget this message must leave to other peers if it takes more. */
uint64_t lend_fair_kept(struct lend_core *c, const struct lend_call_rec *k, uint64_t more);
/* Ends an idle session of the peer that has most, if that is more than this one would have. For a
 * full table and a peer whose address is proven. */
void lend_fair_session(struct lend_core *c, uint32_t peer);
/* Returns whether that peer has so many, idle or not. */
bool lend_fair_gives(struct lend_core *c, uint32_t peer);

/* The session of a call; NULL: it is free, or an orphan whose session is gone. */
const struct lend_sess *lend_fair_owner(struct lend_core *c, const struct lend_call_rec *k);
/* Counts what peers hold of a table, unless the last look will do. Returns whether it looked. */
bool lend_fair_look(struct lend_core *c, enum lend_fair_kind kind);
/* Entries of the table that may be asked for before the next look. */
uint32_t lend_fair_until(const struct lend_core *c, enum lend_fair_kind kind);
/* As of the last look: what a peer holds; whether that is more than its share; who holds most. */
uint64_t lend_fair_part(const struct lend_fair *f, uint32_t peer);
bool lend_fair_is_over(const struct lend_core *c, enum lend_fair_kind kind, uint32_t peer);
uint32_t lend_fair_most(const struct lend_fair *f, uint64_t *n);

static inline uint32_t lend_fair_frags_kept(const struct lend_core *c)
{
	return c->free_frags.cap / 8;
}

/* Bytes of the budget; none of one that holds few datagrams. */
static inline uint64_t lend_fair_budget_kept(const struct lend_core *c)
{
	return c->cfg.receive_budget >= LEND_GRANT_BYTES ? c->cfg.receive_budget / 8 : 0;
}

/* A request whose handler does not run any more: none, or answered without a record. */
static inline bool lend_slot_is_empty(uint32_t rec)
{
	return rec >= LEND_SLOT_RELEASED;
}

#endif
