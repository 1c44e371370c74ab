/* arena - access to the tables of a core: by offset, index, handle or session id. Layer: core
 * (pure), private to it. Threads: none. */
#ifndef LEND_CORE_ARENA_H
#define LEND_CORE_ARENA_H

#include "core/state.h"
#include "util/bits.h"
#include "wire/head.h"

#define LEND_AT(core, where, type) ((type *)(void *)((char *)(core) + (core)->where))

static inline struct lend_unhashed *lend_unhashed(struct lend_core *c)
{
	return LEND_AT(c, at_unhashed, struct lend_unhashed);
}

#define LEND_COUNT(core, name) (lend_unhashed(core)->stats.name++)

/* Returns the limit of a whole message, head and note included, for a longest message of max bytes.
 * The caller of the core checks what is left without them. */
static inline uint64_t lend_message_limit(const struct lend_core *c, uint64_t max, bool head,
					  bool note)
{
	max += (head ? LEND_HEAD_MAX : 0) + (note ? c->cfg.note_len : 0);
	return lend_min_u64(max, LEND_MESSAGE_MAX);
}

static inline struct lend_sess *lend_sess_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_sess, struct lend_sess) + i;
}

/* Prefetches the cache lines of a session that a short call touches. For cores with more sessions
 * than the caches hold. */
static inline void lend_sess_fetch(struct lend_core *c, uint32_t i)
{
	const struct lend_sess *s = lend_sess_at(c, i);

	__builtin_prefetch(s, 1);
	__builtin_prefetch(&s->oldest, 1);
	__builtin_prefetch(&s->slots, 1);
}

static inline uint32_t lend_sess_index(struct lend_core *c, const struct lend_sess *s)
{
	(void)c;
	return (uint32_t)(s->id & LEND_INDEX_MASK);
}

static inline struct lend_call_rec *lend_call_at(struct lend_core *c, uint32_t i)
{
	/* The calls are the first table, so its offset is a constant: at_calls. */
	return (struct lend_call_rec *)(void *)((char *)c + lend_align_up(sizeof(*c), 64)) + i;
}

static inline uint32_t lend_call_index(struct lend_core *c, const struct lend_call_rec *k)
{
	(void)c;
	return k->self;
}

/* Returns how many words the map of a session's free slots has. */
static inline uint32_t lend_slots_words(const struct lend_core *c)
{
	return (c->cfg.calls + 63u) / 64;
}

/* Returns word w of the map of the session's free client slots. Most sessions use only the first
 * one, so the others are in a table of their own. */
static inline uint64_t *lend_slots_at(struct lend_core *c, struct lend_sess *s, uint32_t w)
{
	if (w == 0)
		return &s->slots;
	return LEND_AT(c, at_slots, uint64_t) +
	       (size_t)lend_sess_index(c, s) * (lend_slots_words(c) - 1) + w - 1;
}

/* Marks a client slot free. */
static inline void lend_slots_free(struct lend_core *c, struct lend_sess *s, uint32_t slot)
{
	*lend_slots_at(c, s, slot / 64) |= UINT64_C(1) << (slot % 64);
}

/* Returns the position of a slot in its table. The table holds the first LEND_SLOT_RUN slots of all
 * sessions, then the next LEND_SLOT_RUN of all: most sessions use only the first run, and the
 * memory of the others stays untouched. One unused run separates two groups. Without it, the runs
 * of one session would map to the same cache sets. */
static inline size_t lend_slot_position(const struct lend_core *c, uint32_t sess, uint32_t slot)
{
	/* That is run * RUN + slot % RUN, where run = slot / RUN * (sessions + 1) + sess. */
	return ((size_t)(slot / LEND_SLOT_RUN) * c->cfg.sessions + sess) * LEND_SLOT_RUN + slot;
}

static inline struct lend_cslot *lend_cslot_at(struct lend_core *c, uint32_t sess, uint32_t slot)
{
	return LEND_AT(c, at_cslot, struct lend_cslot) + lend_slot_position(c, sess, slot);
}

/* Returns the slot at this position. */
static inline struct lend_sslot *lend_sslot_in(struct lend_core *c, size_t position)
{
	return LEND_AT(c, at_sslot, struct lend_sslot) + position;
}

/* Returns the bytes of the reply that the slot at this position keeps. */
static inline uint8_t *lend_kept_bytes(struct lend_core *c, size_t position)
{
	return LEND_AT(c, at_kept, uint8_t) + position * LEND_KEPT_MAX;
}

static inline struct lend_sslot *lend_sslot_at(struct lend_core *c, uint32_t sess, uint32_t slot)
{
	return lend_sslot_in(c, lend_slot_position(c, sess, slot));
}

/* Returns the session with this id of ours; NULL if there is none. */
static inline struct lend_sess *lend_sess_find(struct lend_core *c, uint64_t id)
{
	uint32_t i = (uint32_t)(id & LEND_INDEX_MASK);
	struct lend_sess *s;

	if (i >= c->cfg.sessions)
		return NULL;
	s = lend_sess_at(c, i);
	return s->id == id && s->state != LEND_SESS_FREE ? s : NULL;
}

static inline struct lend_frags *lend_frags_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_frags, struct lend_frags) + i;
}

static inline struct lend_win *lend_win_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_wins, struct lend_win) + i;
}

static inline struct lend_ring *lend_ring_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_rings, struct lend_ring) + i;
}

static inline struct lend_wide_ring *lend_wide_ring_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_wide, struct lend_wide_ring) + i;
}

static inline struct lend_few *lend_few_of(struct lend_core *c, const struct lend_sess *s)
{
	return LEND_AT(c, at_few, struct lend_few) + lend_sess_index(c, s);
}

static inline struct lend_links lend_links_ready(struct lend_core *c)
{
	return (struct lend_links){&lend_call_at(c, 0)->tx.ready, sizeof(struct lend_call_rec)};
}

static inline struct lend_links lend_links_memq(struct lend_core *c)
{
	return (struct lend_links){&lend_call_at(c, 0)->rx.memq_link, sizeof(struct lend_call_rec)};
}

static inline struct lend_links lend_links_partial(struct lend_core *c)
{
	return (struct lend_links){&lend_call_at(c, 0)->rx.partial, sizeof(struct lend_call_rec)};
}

static inline struct lend_links lend_links_half(struct lend_core *c)
{
	return (struct lend_links){&lend_sess_at(c, 0)->half, sizeof(struct lend_sess)};
}

static inline struct lend_links lend_links_paced(struct lend_core *c)
{
	return (struct lend_links){&lend_sess_at(c, 0)->paced, sizeof(struct lend_sess)};
}

/* A long message can be cut into FINE times as many datagrams, where that divides the payload of a
 * full one and the parts have FINE_LEAST bytes. */
enum { LEND_FINE = 8, LEND_FINE_LEAST = 128 };

/* Returns the bytes of each datagram of a long message, except its last one. */
static inline uint32_t lend_frag_unit(const struct lend_sess *s, bool fine)
{
	bool fits = s->payload % (LEND_FINE * 16) == 0 && s->payload >= LEND_FINE * LEND_FINE_LEAST;

	return fine && fits ? s->payload / LEND_FINE : s->payload;
}

static inline uint32_t lend_frag_len(uint32_t unit, uint32_t len, uint32_t frag)
{
	return lend_min_u32(unit, len - frag * unit);
}

static inline uint32_t lend_frag_count(uint32_t unit, uint32_t len)
{
	return len <= unit ? 1 : (len - 1) / unit + 1;
}

#endif
