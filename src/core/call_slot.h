/* call_slot - the calls in a session's slots: their handles, and their records.
 *
 * The slot of a short call (short_call.h) is the call. Promotion gives it a record; from then on
 * the general functions have the call. Functions that look for a call promote it. Those that only
 * read are shown it.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_CALL_SLOT_H
#define LEND_CORE_CALL_SLOT_H

#include "core/arena.h"

/* Returns lend_call_rec.phase of a call with these fields; the others are 0. */
LEND_HOT uint32_t lend_call_phase(uint8_t state, uint8_t class, bool server, bool fast,
				  bool in_window)
{
	struct lend_call_rec k;

	k.phase = 0;
	k.state = state;
	k.class = class;
	k.server = server;
	k.fast = fast;
	k.in_window = in_window;
	return k.phase;
}

/* Returns the part of lend_call_rec.phase that is `tries` of 1. */
LEND_HOT uint32_t lend_call_tried(void)
{
	struct lend_call_rec k;

	k.phase = 0;
	k.tries = 1;
	return k.phase;
}

/* Sets up a record that is taken for the first time, or after its generations wrapped. */
void lend_call_prepare(struct lend_call_rec *k, uint32_t i);
/* Takes a record; the caller has checked that one is free. Its gen and self are set, and it is as
 * lend_call_free() leaves records. */
LEND_HOT struct lend_call_rec *lend_call_take(struct lend_core *c)
{
	struct lend_call_rec *k;
	uint32_t i;

	LEND_CHECK(c->free_calls.free > 0);
	i = lend_pool_take(&c->free_calls, LEND_AT(c, at_free_calls, uint32_t));
	k = lend_call_at(c, i);
	if (LEND_RARE(++k->gen <= 1))
		lend_call_prepare(k, i);
	return k;
}

/* The handle of a short call names its slot: this bit, the session's index, and the slot. The upper
 * half is the slot's serial. The handle of any other call names its record. */
#define LEND_HANDLE_SLOT UINT32_C(0x80000000)
LEND_HOT uint64_t lend_slot_handle(uint64_t serial, uint32_t sess, uint32_t slot)
{
	return serial << 32 | LEND_HANDLE_SLOT | sess << LEND_CALL_SLOT_BITS | slot;
}

LEND_HOT uint64_t lend_call_handle(const struct lend_call_rec *k)
{
	return k->serial ? lend_slot_handle(k->serial, k->sess, lend_pkt_slot(k->wire))
			 : (uint64_t)k->gen << 32 | k->self;
}

/* Fills k with the state of the short call in a slot, all but the fields of a record's own. */
void lend_short_show(struct lend_core *c, const struct lend_sess *s, uint32_t slot,
		     struct lend_call_rec *k);
/* Gives the short call in a slot a record and returns it. From now on the general functions have
 * the call. */
struct lend_call_rec *lend_short_promote(struct lend_core *c, struct lend_sess *s, uint32_t slot);

/* Returns the client's call in a slot that is in use. A short call is shown in *show, or promoted
 * if show is NULL. */
static inline struct lend_call_rec *lend_call_in(struct lend_core *c, struct lend_sess *s,
						 uint32_t slot, struct lend_call_rec *show)
{
	uint32_t rec = lend_cslot_at(c, lend_sess_index(c, s), slot)->rec;

	if (rec != LEND_SLOT_SHORT)
		return lend_call_at(c, rec);
	if (!show)
		return lend_short_promote(c, s, slot);
	lend_short_show(c, s, slot, show);
	return show;
}

/* Iterates over the calls of a session, those that it made first. The iteration is in order of
 * slots, so no list of calls is kept. Start with *at 0; NULL: there are no more. A call that was
 * returned may end during the iteration. show: as for lend_call_in(). */
static inline struct lend_call_rec *lend_sess_next_call(struct lend_core *c, struct lend_sess *s,
							uint32_t *at, struct lend_call_rec *show)
{
	uint32_t i = lend_sess_index(c, s), n = s->cslots, end = n + s->sslots, rec = LEND_NONE;

	for (; *at < end && lend_slot_is_empty(rec); (*at)++)
		rec = *at < n ? lend_cslot_at(c, i, *at)->rec : lend_sslot_at(c, i, *at - n)->rec;
	if (lend_slot_is_empty(rec))
		return NULL;
	return *at <= n ? lend_call_in(c, s, *at - 1, show) : lend_call_at(c, rec);
}

/* Iterates over the calls that the session made, without those that it serves. The slot of the call
 * is *at - 1. show: as for lend_call_in(). */
static inline struct lend_call_rec *lend_sess_next_made(struct lend_core *c, struct lend_sess *s,
							uint32_t *at, struct lend_call_rec *show)
{
	uint64_t used;

	for (; *at < c->cfg.calls; *at = (*at | 63) + 1) {
		used = ~*lend_slots_at(c, s, *at / 64) >> (*at % 64);
		if (!used)
			continue;
		*at += (uint32_t)__builtin_ctzll(used);
		return *at < c->cfg.calls ? lend_call_in(c, s, (*at)++, show) : NULL;
	}
	return NULL;
}

/* Returns the call of a handle that names a slot; NULL when stale. A short call is promoted, or
 * counts as stale. */
struct lend_call_rec *lend_call_of_slot(struct lend_core *c, uint64_t handle, bool promote);
/* Returns the call of a handle; NULL when stale. promote: as for lend_call_of_slot(). */
static inline struct lend_call_rec *lend_call_find(struct lend_core *c, uint64_t handle,
						   bool promote)
{
	uint32_t i = (uint32_t)handle;
	struct lend_call_rec *k;

	if (i & LEND_HANDLE_SLOT)
		return lend_call_of_slot(c, handle, promote);
	if (i >= c->records)
		return NULL;
	k = lend_call_at(c, i);
	return k->state != LEND_CALL_FREE && k->gen == handle >> 32 && !k->serial ? k : NULL;
}

/* Returns the call of a handle; NULL when stale, or if the call is short. */
static inline struct lend_call_rec *lend_call_of(struct lend_core *c, uint64_t handle)
{
	return lend_call_find(c, handle, false);
}

/* Returns the client's call of a wire number, promoted if it was short; NULL: it has ended. */
static inline struct lend_call_rec *lend_call_of_wire(struct lend_core *c, struct lend_sess *s,
						      uint32_t wire)
{
	uint32_t slot = lend_pkt_slot(wire);
	const struct lend_cslot *cs;

	if (slot >= s->cslots)
		return NULL;
	cs = lend_cslot_at(c, lend_sess_index(c, s), slot);
	return cs->seq == lend_pkt_seq(wire) && cs->rec != LEND_NONE
		   ? lend_call_in(c, s, slot, NULL)
		   : NULL;
}

#endif
