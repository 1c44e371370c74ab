/* handshake_blocks - the fields of the handshake datagrams that this side sends, and the records
 * that they come from. Layer: core (pure). */
#include "core/cookie.h"
#include "core/handshake.h"
#include "util/siphash.h"
#include "wire/head.h"

void lend_hs_propose(struct lend_core *c, struct lend_sess *s,
		     const struct lend_core_identity *self)
{
	struct lend_hs *h = lend_hs_of(c, s);

	LEND_CHECK(self->pattern < LEND_PATTERN_NN || c->cfg.sealed);
	h->pattern = self->pattern;
	h->suite = self->suite;
	h->level = self->level;
	h->least = self->least;
	h->flags = self->loops ? LEND_HS_LOOPS : 0;
}

void lend_hs_open(struct lend_core *c, struct lend_sess *s)
{
	s->hs = lend_pool_take(&c->free_hs, LEND_AT(c, at_free_hs, uint32_t));
	LEND_CHECK(s->hs != LEND_NONE);
	memset(lend_hs_of(c, s), 0, sizeof(struct lend_hs));
}

void lend_hs_close(struct lend_core *c, struct lend_sess *s)
{
	if (s->hs == LEND_NONE)
		return;
	lend_pool_give(&c->free_hs, LEND_AT(c, at_free_hs, uint32_t), s->hs);
	s->hs = LEND_NONE;
}

/* Computes the random bytes of an attempt again for each of its datagrams, to store none. 16 of
 * them make a proof fresh; the others are for a public key. An open session needs none. */
static void put_e(const struct lend_core *c, const struct lend_sess *s, uint8_t e[32])
{
	const uint64_t text[] = {s->id, s->connect};

	lend_siphash128(c->cfg.seed, text, sizeof(text), e);
}

static struct lend_pkt_params params_of(const struct lend_core *c, const struct lend_sess *s,
					const uint8_t incarnation[16])
{
	struct lend_pkt_params p = {.payload = s->payload,
				    .unscheduled = c->cfg.unscheduled,
				    .message_max = (uint32_t)c->cfg.message_max,
				    .first = s->first_sent,
				    .calls = c->cfg.calls};

	memcpy(p.incarnation, incarnation, sizeof(p.incarnation));
	return p;
}

void lend_hs_connect(struct lend_core *c, struct lend_sess *s, struct lend_pkt_connect *to)
{
	const struct lend_hs *h = lend_hs_of(c, s);

	*to = (struct lend_pkt_connect){.connect = s->connect,
					.session = s->id,
					.pattern = h->resumes ? LEND_PATTERN_RESUME : h->pattern,
					.suite = h->suite,
					.level = h->level,
					.least = h->least,
					.features = c->cfg.features | LEND_FEATURE_RUNNING |
						    LEND_FEATURE_LATE,
					.key_id = h->key_id,
					.cookie = h->cookie,
					.ticket = h->ticket,
					.params = params_of(c, s, h->incarnation)};
	if (h->pattern == LEND_PATTERN_PROOF)
		put_e(c, s, to->e);
}

void lend_hs_accept(struct lend_core *c, struct lend_sess *s, struct lend_pkt_accept *to)
{
	const struct lend_hs *h = lend_hs_of(c, s);

	*to = (struct lend_pkt_accept){.connect = s->connect,
				       .session = s->id,
				       .pattern = h->pattern,
				       .suite = h->suite,
				       .level = h->level,
				       .zero_rtt = s->zero_rtt,
				       .features = c->cfg.features | LEND_FEATURE_RUNNING |
						   LEND_FEATURE_LATE,
				       .params = params_of(c, s, c->cfg.incarnation),
				       .ticket = h->ticket};
	if (h->pattern == LEND_PATTERN_PROOF)
		put_e(c, s, to->e);
	memcpy(to->tag, h->tag, sizeof(to->tag));
}

void lend_hs_retry(struct lend_core *c, const struct lend_ctl *e, struct lend_pkt_retry *to)
{
	*to = (struct lend_pkt_retry){.connect = e->connect,
				      .reason = e->probed,
				      .suites = e->probed == LEND_RETRY_LEVEL ? c->cfg.suites : 0,
				      .wait_ms = e->call};
	lend_cookie_make(c, e->name, e->connect, &to->cookie);
}
