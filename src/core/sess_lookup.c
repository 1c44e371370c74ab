#include "core/sess_lookup.h"

#include "util/siphash.h"

static uint64_t hash(const struct lend_core *c, const void *key, size_t len)
{
	return lend_siphash64(c->cfg.seed + 16, key, len);
}

static uint64_t attempt_hash(const struct lend_core *c, const uint8_t incarnation[16],
			     uint64_t connect)
{
	uint8_t key[16 + sizeof(connect)];

	memcpy(key, incarnation, 16);
	memcpy(key + 16, &connect, sizeof(connect));
	return hash(c, key, sizeof(key));
}

/* The incarnation of a sealed CONNECT is not in clear: the client's id, which is random, stands for
 * it. */
static uint64_t sealed_hash(const struct lend_core *c, uint64_t session, uint64_t connect)
{
	const uint64_t name[2] = {session, ~session};

	return attempt_hash(c, (const uint8_t *)name, connect);
}

uint64_t lend_lookup_attempt(const struct lend_core *c, const struct lend_sess *s)
{
	return s->sealed ? sealed_hash(c, s->peer_id, s->connect)
			 : attempt_hash(c, s->incarnation, s->connect);
}

uint64_t lend_lookup_key(const struct lend_core *c, const struct lend_pkt_connect *b)
{
	return b->pattern >= LEND_PATTERN_NN ? sealed_hash(c, b->session, b->connect)
					     : attempt_hash(c, b->params.incarnation, b->connect);
}

uint64_t lend_lookup_jitter(const struct lend_core *c, const struct lend_sess *s, uint64_t n)
{
	const uint64_t key[] = {s->connect, n};

	return hash(c, key, sizeof(key));
}

/* The last session of a chain has END plus the number of its bucket as next one. So a session is
 * removed without its hash. LEND_NONE: it is in no chain. */
#define END UINT32_C(0x80000000)

/* A table: its buckets in the arena, and the field of struct lend_sess that links a chain. */
struct chains {
	uint32_t *bucket;
	size_t field;
};

static struct chains by_attempt(struct lend_core *c)
{
	return (struct chains){LEND_AT(c, at_by_attempt, uint32_t),
			       offsetof(struct lend_sess, by_attempt)};
}

static struct chains by_peer(struct lend_core *c)
{
	return (struct chains){LEND_AT(c, at_by_peer, uint32_t),
			       offsetof(struct lend_sess, by_peer)};
}

static uint32_t *next_of(struct lend_core *c, const struct chains *t, uint32_t i)
{
	return (uint32_t *)(void *)((char *)lend_sess_at(c, i) + t->field);
}

static void insert_session(struct lend_core *c, struct chains t, uint64_t h, struct lend_sess *s)
{
	uint32_t *head = &t.bucket[h & (c->buckets - 1)], i = lend_sess_index(c, s);

	*next_of(c, &t, i) = *head;
	*head = i;
}

static void remove_session(struct lend_core *c, struct chains t, struct lend_sess *s)
{
	uint32_t i = lend_sess_index(c, s), end = i, *at;

	while (!(end & END))
		end = *next_of(c, &t, end);
	if (end == LEND_NONE)
		return;
	for (at = &t.bucket[end & ~END]; *at != i; at = next_of(c, &t, *at))
		;
	*at = *next_of(c, &t, i);
}

static uint64_t peer_hash(const struct lend_core *c, uint64_t peer_id)
{
	return hash(c, &peer_id, sizeof(peer_id));
}

void lend_lookup_init(struct lend_core *c)
{
	for (uint32_t i = 0; i < c->buckets; i++) {
		by_attempt(c).bucket[i] = END | i;
		by_peer(c).bucket[i] = END | i;
	}
}

void lend_lookup_enter_attempt(struct lend_core *c, struct lend_sess *s, uint64_t key)
{
	insert_session(c, by_attempt(c), key, s);
}

void lend_lookup_enter_peer(struct lend_core *c, struct lend_sess *s, uint64_t peer_id)
{
	s->peer_id = peer_id;
	insert_session(c, by_peer(c), peer_hash(c, peer_id), s);
}

void lend_lookup_leave(struct lend_core *c, struct lend_sess *s)
{
	remove_session(c, by_peer(c), s);
	remove_session(c, by_attempt(c), s);
}

static bool is_attempt(const struct lend_sess *s, const struct lend_pkt_connect *b)
{
	if (s->connect != b->connect || s->sealed != (b->pattern >= LEND_PATTERN_NN))
		return false;
	return s->sealed ? s->peer_id == b->session
			 : memcmp(s->incarnation, b->params.incarnation, 16) == 0;
}

struct lend_sess *lend_lookup_by_attempt(struct lend_core *c, uint64_t key,
					 const struct lend_pkt_connect *b)
{
	uint32_t i = by_attempt(c).bucket[key & (c->buckets - 1)];

	for (; !(i & END); i = lend_sess_at(c, i)->by_attempt)
		if (is_attempt(lend_sess_at(c, i), b))
			return lend_sess_at(c, i);
	return NULL;
}

struct lend_sess *lend_lookup_by_peer(struct lend_core *c, uint32_t peer, uint64_t peer_id)
{
	uint32_t i = by_peer(c).bucket[peer_hash(c, peer_id) & (c->buckets - 1)];

	for (; !(i & END); i = lend_sess_at(c, i)->by_peer) {
		struct lend_sess *s = lend_sess_at(c, i);

		if (s->peer_id == peer_id && s->peer == peer && s->state >= LEND_SESS_UP)
			return s;
	}
	return NULL;
}
