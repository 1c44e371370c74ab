#include "seal/record_keys.h"

#include "seal/noise.h"
#include "util/bits.h"

enum { LINE = 64, IV = 12 };
#define EPOCH_DATAGRAMS (UINT64_C(1) << 23)
#define EPOCH_NS        (UINT64_C(3600) * 1000000000)
#define PREVIOUS_NS     (UINT64_C(300) * 1000000) /* three times the longest RTO */

void lend_epoch_keys_derive(const struct lend_records *r, const struct lend_record_keys *k,
			    struct lend_epoch_keys *e)
{
	const uint8_t bound[2] = {k->suite_id, k->level};
	uint8_t key[LEND_KEY];

	lend_hkdf_expand(r->ops, e->secret, &(struct lend_hkdf_info){"lend key", bound, 2}, key,
			 sizeof(key));
	k->suite->expand(key, e->expanded);
	r->ops->wipe(key, sizeof(key));
	lend_hkdf_expand(r->ops, e->secret, &(struct lend_hkdf_info){"lend iv", bound, 2}, e->iv,
			 IV);
	e->ready = true;
}

void lend_epoch_keys_next(const struct lend_records *r, const struct lend_record_keys *k,
			  const struct lend_epoch_keys *of, struct lend_epoch_keys *next)
{
	const uint8_t bound[2] = {k->suite_id, k->level};

	lend_hkdf_expand(r->ops, of->secret, &(struct lend_hkdf_info){"lend next", bound, 2},
			 next->secret, LEND_KEY);
	lend_epoch_keys_derive(r, k, next);
}

static void begin_tx_epoch(const struct lend_records *r, struct lend_record_keys *k, lend_ns now)
{
	k->tx_first = k->tx_numbers.next;
	k->tx_left = r->limits.epoch_datagrams ? r->limits.epoch_datagrams : EPOCH_DATAGRAMS;
	k->tx_since = now;
	k->tx_until = now + (r->limits.epoch_ns ? r->limits.epoch_ns : EPOCH_NS);
}

struct lend_record_keys *lend_record_keys_make(const struct lend_records *r, lend_ns now,
					       const struct lend_seal_keys *from)
{
	const struct lend_suite_ops *suite = r->ops->suite[from->suite];
	size_t each = lend_align_up(suite->expanded_len, LINE), head,
	       size = lend_align_up(sizeof(struct lend_record_keys), LINE);
	struct lend_record_keys *k;

	head = size;
	size += each * LEND_RECORD_EXPANDED;
	k = r->calls.take(r->calls.arg, size);
	if (!k)
		return NULL;
	*k = (struct lend_record_keys){.session = from->session,
				       .peer_id = from->peer_id,
				       .suite = suite,
				       .suite_id = from->suite,
				       .level = from->level,
				       .size = size};
	for (uint32_t i = 0; i < LEND_RECORD_EXPANDED; i++)
		(i < LEND_TX_EPOCHS ? &k->tx[i] : &k->rx[i - LEND_TX_EPOCHS])->expanded =
		    (uint8_t *)k + head + i * each;
	lend_replay_open(&k->tx_numbers);
	lend_replay_open(&k->rx_numbers);
	memcpy(k->tx[0].secret, from->tx, LEND_KEY);
	memcpy(k->rx[0].secret, from->rx, LEND_KEY);
	lend_epoch_keys_derive(r, k, &k->tx[0]);
	lend_epoch_keys_derive(r, k, &k->rx[0]);
	begin_tx_epoch(r, k, now);
	return k;
}

void lend_record_keys_drop(const struct lend_records *r, struct lend_record_keys *k)
{
	size_t size = k->size;

	r->ops->wipe(k, size);
	r->calls.give(r->calls.arg, k, size);
}

/* The old keys stay until the next burst: datagrams of this one may still be sealed with them. */
void lend_record_keys_advance(struct lend_records *r, struct lend_record_keys *k, lend_ns now)
{
	struct lend_epoch_keys *old = &k->tx[k->tx_at], *next = &k->tx[!k->tx_at];

	lend_epoch_keys_next(r, k, old, next);
	r->ops->wipe(old->secret, sizeof(old->secret));
	k->tx_at = !k->tx_at;
	k->tx_epoch++;
	begin_tx_epoch(r, k, now);
	r->stats.epochs++;
}

struct lend_epoch_keys *lend_record_keys_other(const struct lend_records *r,
					       struct lend_record_keys *k, uint8_t epoch,
					       lend_ns now)
{
	uint8_t ahead = (uint8_t)(epoch - k->rx_epoch);
	struct lend_epoch_keys *e = &k->rx[(k->rx_at + ahead) % LEND_RX_EPOCHS];

	if (ahead == UINT8_MAX) {
		e = &k->rx[(k->rx_at + LEND_RX_EPOCHS - 1) % LEND_RX_EPOCHS];
		return k->rx_epoch && now < k->previous_until ? e : NULL;
	}
	if (ahead != 1)
		return NULL;
	if (!e->ready)
		lend_epoch_keys_next(r, k, &k->rx[k->rx_at], e);
	return e;
}

void lend_record_keys_follow(struct lend_records *r, struct lend_record_keys *k, lend_ns now)
{
	struct lend_epoch_keys *old = &k->rx[k->rx_at], *next;

	k->rx_at = (k->rx_at + 1) % LEND_RX_EPOCHS;
	k->rx_epoch++;
	k->previous_until = now + (r->limits.previous_ns ? r->limits.previous_ns : PREVIOUS_NS);
	r->ops->wipe(old->secret, sizeof(old->secret));
	next = &k->rx[(k->rx_at + 1) % LEND_RX_EPOCHS];
	next->ready = false;
	r->stats.epochs++;
}
