/* suite - the ciphers that protect datagrams, as the record layer calls them.
 *
 * A datagram is in one piece: associated data, text, tag. The nonces of a burst are written before
 * its first datagram is sealed, each by one 16-byte store: a cipher that loads a nonce right after
 * it was stored in pieces waits for the store. Layer: seal (pure). */
#ifndef LEND_SEAL_SUITE_H
#define LEND_SEAL_SUITE_H

#include "seal/seal.h"
#include "util/dgram.h"

/* How datagrams of a session are protected. */
enum lend_level { LEND_LEVEL_NONE, LEND_LEVEL_AUTHENTICATE, LEND_LEVEL_ENCRYPT, LEND_LEVELS };

enum { LEND_NONCE = 16, LEND_EXPANDED_MAX = 1024 }; /* bytes; of a nonce, 12 count */

/* A datagram to be sealed or opened. Sealing it is also the copy to where it leaves from. */
struct lend_seal_job {
	_Alignas(16) uint8_t nonce[LEND_NONCE];
	const void *key; /* expanded */
	uint8_t *at;
	uint32_t ad_len, len; /* bytes of associated data, of text */
	/* seal() only: the text is still in these parts, in order; parts 0: at text, in one piece;
	 * text NULL: in place. */
	const uint8_t *text;
	const struct lend_part *part;
	uint32_t parts;
	uint8_t tag[LEND_TAG]; /* open(): as computed from the bytes; the caller compares */
};

struct lend_suite_ops {
	uint32_t expanded_len; /* bytes, at most LEND_EXPANDED_MAX */
	bool gathers;          /* seal() takes parts */
	void (*expand)(const uint8_t key[LEND_KEY], void *expanded); /* aligned to 64 bytes */
	void (*seal)(const struct lend_seal_job *job, uint32_t n);
	void (*open)(struct lend_seal_job *job, uint32_t n);
};

/* Returns the set of suites, a bit each; the fastest one, LEND_SUITE_NONE if there is none. */
uint8_t lend_suites(const struct lend_seal_ops *ops);
uint8_t lend_suite_best(const struct lend_seal_ops *ops);

#endif
