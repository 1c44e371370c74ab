#include "seal/reopen.h"

#include "util/bits.h"
#include "util/crc32c.h"

enum {
	HEAD = sizeof(struct lend_pkt),
	FLAGS_AT = offsetof(struct lend_pkt, flags),
	NUMBER_AT = offsetof(struct lend_pkt, number),
	EPOCHS_MAX = 1 << 20,
	EPOCHS = 256, /* values of the byte on the wire */
	ROUNDS = 2,   /* epochs with one byte that are tried before any datagram was opened */
	DATAGRAM_MAX = 64 << 10,
};

bool lend_reopen_begin(struct lend_reopen *o, const struct lend_seal_ops *ops, uint8_t suite,
		       uint8_t level, const uint8_t secret[LEND_KEY])
{
	if (suite >= LEND_SUITES || !ops->suite[suite] || level == LEND_LEVEL_NONE ||
	    level >= LEND_LEVELS)
		return false;
	memset(o, 0, sizeof(*o));
	o->records.ops = ops;
	o->keys.suite = ops->suite[suite];
	o->keys.suite_id = suite;
	o->keys.level = level;
	memcpy(o->first, secret, LEND_KEY);
	o->epoch.expanded = o->expanded;
	return true;
}

bool lend_reopen_sealed(const uint8_t *datagram, uint32_t len)
{
	return len >= HEAD + LEND_TAG && datagram[0] == LEND_PKT_MAGIC &&
	       datagram[1] == LEND_PKT_VERSION && datagram[FLAGS_AT] & LEND_PKT_ENCRYPTED;
}

/* Derives the keys of an epoch, from those in use if it is not before them. */
static void go_to(struct lend_reopen *o, uint64_t epoch)
{
	struct lend_epoch_keys *e = &o->epoch;

	epoch = epoch > EPOCHS_MAX ? 0 : epoch; /* below 0 */
	if (!e->ready || epoch < o->at) {
		memcpy(e->secret, o->first, LEND_KEY);
		lend_epoch_keys_derive(&o->records, &o->keys, e);
		o->at = 0;
	}
	for (; o->at < epoch; o->at++) {
		struct lend_epoch_keys before = *e;

		lend_epoch_keys_next(&o->records, &o->keys, &before, e);
	}
}

static bool try_epoch(struct lend_reopen *o, uint8_t *datagram, uint32_t len, uint64_t number)
{
	bool all_bound = o->keys.level == LEND_LEVEL_AUTHENTICATE;
	uint32_t text = len - HEAD - LEND_TAG;
	struct lend_seal_job job = {.key = o->epoch.expanded,
				    .at = datagram,
				    .ad_len = HEAD + (all_bound ? text : 0),
				    .len = all_bound ? 0 : text};

	lend_record_nonce(job.nonce, o->epoch.iv, number);
	o->keys.suite->open(&job, 1);
	return lend_equal_ct(job.tag, datagram + len - LEND_TAG, LEND_TAG);
}

static void clear_seal(uint8_t *datagram, uint32_t len, uint64_t number)
{
	struct lend_pkt_trailer trailer = {0};

	datagram[FLAGS_AT] &= (uint8_t)~LEND_PKT_ENCRYPTED;
	lend_store_u64(datagram + NUMBER_AT, number);
	trailer.crc = lend_crc32c(0, datagram, len - LEND_TAG);
	memcpy(datagram + len - LEND_TAG, &trailer, sizeof(trailer));
}

/* Returns the epoch with this byte that is nearest to the last one opened; before the first one, by
 * round: the capture may begin late. */
static uint64_t guess_epoch(const struct lend_reopen *o, uint8_t byte, uint32_t round)
{
	if (!o->any)
		return byte + (uint64_t)round * EPOCHS;
	return o->opened + (uint64_t)(int64_t)(int8_t)(uint8_t)(byte - o->opened);
}

bool lend_reopen(struct lend_reopen *o, uint8_t *datagram, uint32_t len, uint64_t *epoch)
{
	uint8_t sealed[DATAGRAM_MAX];
	uint64_t number = lend_load_u64(datagram + NUMBER_AT);

	if (len > sizeof(sealed) || !lend_reopen_sealed(datagram, len))
		return false;
	memcpy(sealed, datagram, len);
	for (uint32_t round = 0; round < (o->any ? 1 : ROUNDS); round++) {
		go_to(o, guess_epoch(o, (uint8_t)(number >> 56), round));
		if (try_epoch(o, datagram, len, number & UINT64_MAX >> 8)) {
			*epoch = o->opened = o->at;
			o->any = true;
			clear_seal(datagram, len, number & UINT64_MAX >> 8);
			return true;
		}
		memcpy(datagram, sealed, len);
	}
	return false;
}
