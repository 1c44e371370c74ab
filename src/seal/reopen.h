/* reopen - opens sealed datagrams of a capture, with secrets of a key log.
 *
 * Unlike record.h it has no replay window: a capture of both ends has each datagram twice, and in
 * any order of epochs. Layer: seal (pure). Threads: none. */
#ifndef LEND_SEAL_REOPEN_H
#define LEND_SEAL_REOPEN_H

#include "seal/record_keys.h"

/* Datagrams of one direction of a session. */
struct lend_reopen {
	struct lend_records records;  /* its ops only */
	struct lend_record_keys keys; /* its suite and level only */
	uint8_t first[LEND_KEY];      /* secret of epoch 0 */
	struct lend_epoch_keys epoch; /* the keys that were used last */
	uint64_t at, opened;          /* their epoch; that of the last datagram opened */
	bool any;                     /* one was opened */
	_Alignas(64) uint8_t expanded[LEND_EXPANDED_MAX];
};

/* Begins with the secret of epoch 0. Returns false: this build lacks the suite, or the level is
 * none. *o must not move afterwards. */
bool lend_reopen_begin(struct lend_reopen *o, const struct lend_seal_ops *ops, uint8_t suite,
		       uint8_t level, const uint8_t secret[LEND_KEY]);
/* Returns whether this is a whole datagram that is sealed. */
bool lend_reopen_sealed(const uint8_t *datagram, uint32_t len);
/* Opens a sealed datagram in place, and gives it the form of one in clear: flag and epoch are
 * removed, and a CRC32C replaces the tag. Returns false, and nothing has changed: the tag is wrong.
 * The epoch is returned. */
bool lend_reopen(struct lend_reopen *o, uint8_t *datagram, uint32_t len, uint64_t *epoch);

#endif
