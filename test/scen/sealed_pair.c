#include "scen/sealed_pair.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "scen/toy_seal.h"

static void with_seal(struct lend_core_config *c)
{
	c->sealed = 1;
	c->suites = SEALED_SUITES;
	c->ticket_ns = UINT64_C(30000000000);
	c->attempts = 16;
}

static bool find_keys(void *arg, const struct lend_pkt_connect *connect, bool client,
		      struct lend_kex_keys *keys)
{
	const struct sealed_side *s = arg;

	(void)client;
	memset(keys, 0, sizeof(*keys));
	keys->id = SEALED_KEY;
	memcpy(keys->psk, s->psk, 32);
	memcpy(keys->server, s->server, 32);
	memcpy(keys->secret, s->secret, 32);
	lend_kex_mac_key(&toy_seal_ops,
			 connect->pattern == LEND_PATTERN_NK ? keys->server : keys->psk,
			 keys->mac_key);
	return !s->no_key && connect->key_id == SEALED_KEY;
}

static void note_done(void *arg, const struct lend_kex_result *result)
{
	struct sealed_side *s = arg;

	s->made = *result;
	s->done++;
}

static void open_side(struct sealed_pair *p, int i)
{
	struct sealed_side *s = &p->side[i];

	cr_assert_eq(lend_shake_open(&s->shake, &toy_seal_ops, &p->d.side[i].cfg), 0);
	s->shake.core = p->d.side[i].core;
	s->shake.policy[0] = (struct lend_core_policy){SEALED_SUITES, 2};
	s->shake.find = find_keys;
	s->shake.done = note_done;
	s->shake.arg = s;
	p->d.side[i].shake = &s->shake;
	memset(s->psk, 0x11, 32);
	memset(s->secret, 0x22, 32);
	(void)toy_dh(s->secret, NULL, s->server);
}

void sealed_open(struct sealed_pair *p, uint8_t pattern)
{
	memset(p, 0, sizeof(*p));
	lend_rng_seed(&toy_rng, pattern + 1);
	pair_open_with(&p->d, false, with_seal);
	for (int i = 0; i < 2; i++)
		open_side(p, i);
	p->self = (struct lend_core_identity){.incarnation = {1, 2, 3},
					      .key_id = SEALED_KEY,
					      .pattern = pattern,
					      .suite = 1,
					      .level = 2,
					      .least = 2};
	p->d.self = &p->self;
	p->d.on_end = pair_give_at_end;
	p->d.on_request = pair_answer;
}

void sealed_close(struct sealed_pair *p)
{
	pair_close(&p->d);
	for (int i = 0; i < 2; i++)
		lend_shake_close(&p->side[i].shake);
}

void sealed_restart(struct sealed_pair *p)
{
	struct pair_side *s = &p->d.side[1];

	for (uint32_t b = 1; b < PAIR_BUFS; b++)
		if (s->taken[b])
			pair_free(&p->d, 1, b);
	memset(s->core, 0, lend_core_size(&s->cfg));
	memset(s->cfg.seed, 0x77, sizeof(s->cfg.seed));
	s->no_supply = true;
	lend_core_init(s->core, &s->cfg, p->d.now);
	lend_shake_close(&p->side[1].shake);
	open_side(p, 1);
}

bool sealed_agree(const struct sealed_pair *p)
{
	const struct lend_kex_result *a = &p->side[0].made, *b = &p->side[1].made;

	return p->side[0].done && p->side[1].done && a->client && !b->client &&
	       a->session == b->peer_id && b->session == a->peer_id && a->suite == b->suite &&
	       a->level == b->level && a->pattern == b->pattern &&
	       !memcmp(a->to_server, b->to_server, 32) && !memcmp(a->to_client, b->to_client, 32) &&
	       !memcmp(a->binding, b->binding, 32) && memcmp(a->to_server, a->to_client, 32);
}

const struct lend_core_stats *sealed_core(const struct sealed_pair *p, int side)
{
	return lend_core_stats(p->d.side[side].core);
}

const struct lend_kex_stats *sealed_kex(const struct sealed_pair *p, int side)
{
	return lend_kex_stats(p->side[side].shake.kex);
}
