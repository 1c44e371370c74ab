/* record_keys - the keys of one session, by direction and epoch.
 *
 * Each epoch has a secret, from which its key, its iv and the next secret are derived. The present
 * keys stay until the next ones are in use, so a burst may hold datagrams of two epochs.
 * Layer: seal (pure), private to it. */
#ifndef LEND_SEAL_RECORD_KEYS_H
#define LEND_SEAL_RECORD_KEYS_H

#include "seal/record.h"

enum {
	LEND_TX_EPOCHS = 2,
	LEND_RX_EPOCHS = 3,
	LEND_RECORD_EXPANDED = LEND_TX_EPOCHS + LEND_RX_EPOCHS
};
#define LEND_RECORD_INDEX UINT64_C(0xffffff) /* bits of a session id */
#define LEND_FAILURES_MAX (UINT64_C(1) << 36)

/* Keys of one direction in one epoch. */
struct lend_epoch_keys {
	_Alignas(16) uint8_t iv[LEND_NONCE]; /* 12 bytes, then zeros */
	void *expanded;
	uint8_t secret[LEND_KEY];
	bool ready; /* derived */
};

struct lend_record_keys {
	uint64_t session, peer_id;
	const struct lend_suite_ops *suite;
	uint8_t suite_id, level;
	uint8_t tx_at, rx_at; /* index of the present epoch's keys */
	uint64_t tx_epoch, rx_epoch;
	uint64_t tx_first; /* numbers from here on are sealed in this epoch, none before it was */
	uint64_t tx_left;  /* datagrams before new keys are due */
	lend_ns tx_since,
	    tx_until;           /* the present keys are in use since; time when new ones are due */
	lend_ns previous_until; /* the previous epoch's datagrams are accepted until then */
	uint64_t failures;
	struct lend_epoch_keys tx[LEND_TX_EPOCHS], rx[LEND_RX_EPOCHS];
	struct lend_replay tx_numbers, rx_numbers;
	size_t size; /* bytes of this memory, expanded keys included */
};

/* Derives key and iv of an epoch from its secret, and the keys of the epoch behind another. Of *k
 * only the suite and the level are read. */
void lend_epoch_keys_derive(const struct lend_records *r, const struct lend_record_keys *k,
			    struct lend_epoch_keys *e);
void lend_epoch_keys_next(const struct lend_records *r, const struct lend_record_keys *k,
			  const struct lend_epoch_keys *of, struct lend_epoch_keys *next);
/* Fills memory from take() with the keys of epoch 0. */
struct lend_record_keys *lend_record_keys_make(const struct lend_records *r, lend_ns now,
					       const struct lend_seal_keys *from);
void lend_record_keys_drop(const struct lend_records *r, struct lend_record_keys *k);
/* Goes on to the next epoch of what this end sends. */
void lend_record_keys_advance(struct lend_records *r, struct lend_record_keys *k, lend_ns now);
/* Returns the keys of another epoch than the present one, by its byte; NULL: it is not accepted. */
struct lend_epoch_keys *lend_record_keys_other(const struct lend_records *r,
					       struct lend_record_keys *k, uint8_t epoch,
					       lend_ns now);
/* Goes on to the next epoch of what the peer sends: a datagram of it was opened. */
void lend_record_keys_follow(struct lend_records *r, struct lend_record_keys *k, lend_ns now);

/* Returns the keys of a received datagram with this byte; NULL: of no epoch that is accepted. */
static inline struct lend_epoch_keys *lend_record_keys_find(const struct lend_records *r,
							    struct lend_record_keys *k,
							    uint8_t epoch, lend_ns now)
{
	if (epoch != (uint8_t)k->rx_epoch)
		return lend_record_keys_other(r, k, epoch, now);
	return &k->rx[k->rx_at];
}

/* Returns whether an opened datagram with this byte is the first of the next epoch. Its keys do not
 * show that: others of the burst may have gone on, and the memory of the oldest is the next one's.
 */
static inline bool lend_record_keys_is_next(const struct lend_record_keys *k, uint8_t epoch)
{
	return epoch == (uint8_t)(k->rx_epoch + 1);
}

/* Returns the keys of a session; NULL: it has none. */
static inline struct lend_record_keys *lend_record_keys_of(const struct lend_records *r,
							   uint64_t session)
{
	uint64_t index = session & LEND_RECORD_INDEX;
	struct lend_record_keys *k = index < r->sessions ? r->of[index] : NULL;

	return k && k->session == session ? k : NULL;
}

/* Returns whether this kind of datagram is never sealed: there is no session yet, or no more. */
static inline bool lend_record_is_bare(uint8_t kind)
{
	return kind == LEND_PKT_CONNECT || kind == LEND_PKT_ACCEPT || kind == LEND_PKT_RETRY ||
	       kind == LEND_PKT_RESET || kind == LEND_PKT_BYE_ACK || kind == LEND_PKT_PROOF;
}

/* Writes the nonce of a number, in one store. */
static inline void lend_record_nonce(uint8_t nonce[LEND_NONCE], const uint8_t iv[LEND_NONCE],
				     uint64_t number)
{
	typedef uint64_t pair __attribute__((vector_size(16), may_alias));
	pair v = {number << 32, number >> 32}, *to = __builtin_assume_aligned(nonce, 16);
	const pair *from = __builtin_assume_aligned(iv, 16);

	*to = *from ^ v;
}

#endif
