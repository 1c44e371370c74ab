/* noise - the handshakes of the Noise protocol framework that Lend uses, and HKDF.
 *
 *   NN      Noise_NNpsk0_25519_ChaChaPoly_SHA256    -> psk, e    <- e, ee
 *   NK      Noise_NKpsk2_25519_ChaChaPoly_SHA256    <- s  ...  -> e, es    <- e, ee, psk
 *   RESUME  as NN without ee; e is random bytes, the psk is a ticket's secret
 *
 * Both ends call in this order:
 *   client  begin, hash (the prologue in pieces), first, seal | hash, second, open, split
 *   server  begin, hash,                          first, open | hash, second, seal, split
 *
 * Layer: seal (pure). A struct lend_noise holds secrets: its owner wipes it. */
#ifndef LEND_SEAL_NOISE_H
#define LEND_SEAL_NOISE_H

#include "seal/seal.h"

enum lend_noise_pattern { LEND_NOISE_NN, LEND_NOISE_NK, LEND_NOISE_RESUME };
struct lend_noise {
	const struct lend_seal_ops *ops;
	enum lend_noise_pattern pattern;
	uint8_t chain[LEND_KEY]; /* the chaining key */
	uint8_t hash[LEND_DIGEST];
	uint8_t key[LEND_KEY]; /* encrypts the next payload */
};

/* The inputs of a message that are keys. Those that its pattern does not use may be NULL. */
struct lend_noise_keys {
	const uint8_t *psk;
	const uint8_t *secret; /* own: of e; NK, first message at the server: of s */
	const uint8_t
	    *theirs; /* the peer's public key: of e; NK, first message at the client: of s */
};

/* Begins a handshake. server_key: public, NK only. */
void lend_noise_begin(struct lend_noise *n, const struct lend_seal_ops *ops,
		      enum lend_noise_pattern pattern, const uint8_t server_key[LEND_KEY]);
/* Binds bytes that both ends must have equal. */
void lend_noise_hash(struct lend_noise *n, const void *data, size_t len);
/* Mixes in the keys of the first message, up to its payload. e: the client's public key. Returns 0,
 * or -1: the peer's key is invalid. */
int lend_noise_first(struct lend_noise *n, const uint8_t e[LEND_KEY],
		     const struct lend_noise_keys *keys);
/* The same of the second message. e: the server's public key. */
int lend_noise_second(struct lend_noise *n, const uint8_t e[LEND_KEY],
		      const struct lend_noise_keys *keys);
/* Encrypt or decrypt the payload of a message in place; its tag is behind it. open() returns 0, or
 * -1: it is forged; then text is undefined, and *n has not changed. */
void lend_noise_seal(struct lend_noise *n, uint8_t *text, size_t len);
int lend_noise_open(struct lend_noise *n, uint8_t *text, size_t len);
/* Derives the secrets of both directions. n->hash is the channel binding. */
void lend_noise_split(struct lend_noise *n, uint8_t to_server[LEND_KEY],
		      uint8_t to_client[LEND_KEY]);

/* HKDF with SHA-256 (RFC 5869). Extract: a salt of at most 32 bytes. Expand: at most 32 bytes of
 * output; the info is the label and len bytes more, in all at most 64. */
void lend_hkdf_extract(const struct lend_seal_ops *ops, const uint8_t *salt, size_t salt_len,
		       const void *input, size_t len, uint8_t key[LEND_KEY]);
struct lend_hkdf_info {
	const char *label;
	const void *more;
	size_t len;
};
void lend_hkdf_expand(const struct lend_seal_ops *ops, const uint8_t key[LEND_KEY],
		      const struct lend_hkdf_info *info, uint8_t *out, size_t len);

#endif
