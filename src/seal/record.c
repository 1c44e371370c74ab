#include "seal/record.h"

#include "seal/record_keys.h"
#include "util/check.h"

enum { E_NOMEM = -12, E_INVAL = -22 }; /* as the system's */

uint8_t lend_suites(const struct lend_seal_ops *ops)
{
	uint8_t set = 0;

	for (uint32_t i = 0; i < LEND_SUITES; i++)
		set |= (uint8_t)((ops->suite[i] ? 1u : 0u) << i);
	return set;
}

uint8_t lend_suite_best(const struct lend_seal_ops *ops)
{
	for (uint32_t i = 1; i < LEND_SUITES; i++)
		if (ops->suite[i])
			return (uint8_t)i;
	return LEND_SUITE_NONE;
}

void lend_records_begin(struct lend_records *r, const struct lend_seal_ops *ops,
			const struct lend_records_calls *calls, struct lend_record_keys **of,
			uint32_t sessions)
{
	*r = (struct lend_records){.ops = ops, .calls = *calls, .of = of, .sessions = sessions};
}

static void drop_keys(struct lend_records *r, uint32_t index)
{
	lend_record_keys_drop(r, r->of[index]);
	r->of[index] = NULL;
	r->keyed--;
}

void lend_records_end(struct lend_records *r)
{
	for (uint32_t i = 0; i < r->sessions && r->keyed; i++)
		if (r->of[i])
			drop_keys(r, i);
}

int lend_records_install(struct lend_records *r, lend_ns now, const struct lend_seal_keys *keys)
{
	uint32_t index = (uint32_t)(keys->session & LEND_RECORD_INDEX);
	struct lend_record_keys *k;

	LEND_CHECK(index < r->sessions);
	if (keys->level == LEND_LEVEL_NONE || keys->level >= LEND_LEVELS ||
	    keys->suite >= LEND_SUITES || !r->ops->suite[keys->suite])
		return E_INVAL; /* a peer with a key may name any */
	k = lend_record_keys_make(r, now, keys);
	if (!k)
		return E_NOMEM;
	if (r->of[index])
		drop_keys(r, index);
	r->of[index] = k;
	r->keyed++;
	return 0;
}

void lend_records_remove(struct lend_records *r, uint64_t session)
{
	if (lend_record_keys_of(r, session))
		drop_keys(r, (uint32_t)(session & LEND_RECORD_INDEX));
}

uint8_t lend_records_level(const struct lend_records *r, uint64_t session, uint8_t *suite)
{
	const struct lend_record_keys *k = lend_record_keys_of(r, session);

	*suite = k ? k->suite_id : LEND_SUITE_NONE;
	return k ? k->level : LEND_LEVEL_NONE;
}

lend_ns lend_records_key_since(const struct lend_records *r, uint64_t session)
{
	const struct lend_record_keys *k = lend_record_keys_of(r, session);

	return k ? k->tx_since : 0;
}

uint64_t lend_records_failures(const struct lend_records *r, uint64_t session)
{
	const struct lend_record_keys *k = lend_record_keys_of(r, session);

	return k ? k->failures : 0;
}
