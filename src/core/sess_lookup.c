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

uint64_t lend_lookup_attempt(const struct lend_core *c, const struct lend_sess *s)
{
	return attempt_hash(c, s->incarnation, s->connect);
}

uint64_t lend_lookup_key(const struct lend_core *c, const struct lend_pkt_connect *b)
{
	return attempt_hash(c, b->params.incarnation, b->connect);
}

uint64_t lend_lookup_jitter(const struct lend_core *c, const struct lend_sess *s, uint64_t n)
{
	const uint64_t key[] = {s->connect, n};

	return hash(c, key, sizeof(key));
}

static uint32_t *attempt_chain(struct lend_core *c, uint64_t h)
{
	return &LEND_AT(c, at_by_attempt, uint32_t)[h & (c->buckets - 1)];
}

static uint32_t *peer_chain(struct lend_core *c, uint64_t peer_id)
{
	uint64_t h = hash(c, &peer_id, sizeof(peer_id));

	return &LEND_AT(c, at_by_peer, uint32_t)[h & (c->buckets - 1)];
}

void lend_lookup_init(struct lend_core *c)
{
	memset(LEND_AT(c, at_by_attempt, uint32_t), 0xff, c->buckets * sizeof(uint32_t));
	memset(LEND_AT(c, at_by_peer, uint32_t), 0xff, c->buckets * sizeof(uint32_t));
}

void lend_lookup_enter_attempt(struct lend_core *c, struct lend_sess *s, uint64_t key)
{
	uint32_t *head = attempt_chain(c, key);

	s->by_attempt = *head;
	*head = lend_sess_index(c, s);
}

void lend_lookup_enter_peer(struct lend_core *c, struct lend_sess *s, uint64_t peer_id)
{
	uint32_t *head = peer_chain(c, peer_id);

	s->peer_id = peer_id;
	s->by_peer = *head;
	*head = lend_sess_index(c, s);
}

void lend_lookup_leave(struct lend_core *c, struct lend_sess *s)
{
	uint32_t i = lend_sess_index(c, s), *at;

	for (at = peer_chain(c, s->peer_id); *at != LEND_NONE; at = &lend_sess_at(c, *at)->by_peer)
		if (*at == i) {
			*at = s->by_peer;
			break;
		}
	if (s->client)
		return; /* its server has the attempt */
	at = attempt_chain(c, lend_lookup_attempt(c, s));
	for (; *at != LEND_NONE; at = &lend_sess_at(c, *at)->by_attempt)
		if (*at == i) {
			*at = s->by_attempt;
			break;
		}
}

struct lend_sess *lend_lookup_by_attempt(struct lend_core *c, uint64_t key,
					 const struct lend_pkt_connect *b)
{
	uint32_t i = *attempt_chain(c, key);

	for (; i != LEND_NONE; i = lend_sess_at(c, i)->by_attempt)
		if (lend_sess_at(c, i)->connect == b->connect &&
		    memcmp(lend_sess_at(c, i)->incarnation, b->params.incarnation, 16) == 0)
			return lend_sess_at(c, i);
	return NULL;
}

struct lend_sess *lend_lookup_by_peer(struct lend_core *c, uint32_t peer, uint64_t peer_id)
{
	uint32_t i = *peer_chain(c, peer_id);

	for (; i != LEND_NONE; i = lend_sess_at(c, i)->by_peer) {
		struct lend_sess *s = lend_sess_at(c, i);

		if (s->peer_id == peer_id && s->peer == peer && s->state >= LEND_SESS_UP)
			return s;
	}
	return NULL;
}
