/* seal - the cryptography that lend_seal.so brings, so that only programs with a key load
 * libsodium.
 *
 * Layer: seal. The module exports lend_seal_ops; nothing else of it is called. Threads: any. */
#ifndef LEND_SEAL_SEAL_H
#define LEND_SEAL_SEAL_H

#include <stddef.h>
#include <stdint.h>

enum { LEND_KEY = 32, LEND_DIGEST = 32, LEND_SALT = 16, LEND_TAG = 16 };

/* Ciphers of datagrams, as on the wire. TEST exists in the simulator only. */
enum lend_suite {
	LEND_SUITE_NONE,
	LEND_SUITE_AES128_GCM,
	LEND_SUITE_CHACHA20_POLY1305,
	LEND_SUITE_TEST,
	LEND_SUITES
};
struct lend_suite_ops;

struct lend_seal_ops {
	/* 0; else the library does not work here. Once, before all others. */
	int (*start)(void);
	void (*sha256)(const void *data, size_t len, uint8_t out[LEND_DIGEST]);
	void (*hmac_sha256)(const uint8_t key[LEND_KEY], const void *data, size_t len,
			    uint8_t out[LEND_DIGEST]);
	/* Argon2id with 64 MiB: some 0.1 s. 0, or -ENOMEM. */
	int (*stretch)(const char *text, size_t len, const uint8_t salt[LEND_SALT],
		       uint8_t key[LEND_KEY]);
	/* X25519. theirs NULL: the base point, so that out is the public key of secret. 0; or -1:
	 * the result is zero, because theirs is no valid key. */
	int (*dh)(const uint8_t secret[LEND_KEY], const uint8_t theirs[LEND_KEY],
		  uint8_t out[LEND_KEY]);
	void (*random)(void *to, size_t len);
	/* SHA-256 of first, then data. out may be first. */
	void (*sha256_after)(const uint8_t first[LEND_DIGEST], const void *data, size_t len,
			     uint8_t out[LEND_DIGEST]);
	/* ChaCha20-Poly1305 with nonce 0, in place, the tag behind len bytes of text. bound:
	 * associated data. open() returns 0; or -1: forged, and text is undefined. */
	void (*aead_seal)(const uint8_t key[LEND_KEY], const uint8_t bound[LEND_DIGEST],
			  uint8_t *text, size_t len);
	int (*aead_open)(const uint8_t key[LEND_KEY], const uint8_t bound[LEND_DIGEST],
			 uint8_t *text, size_t len);
	void (*wipe)(void *at, size_t len);
	/* By enum lend_suite, see suite.h; NULL: not here. Valid after start(). */
	const struct lend_suite_ops *const *suite;
};

#endif
