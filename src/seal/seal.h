/* seal - the cryptography that lend_seal.so brings, so that only programs with a key load
 * libsodium.
 *
 * Layer: seal. The module exports lend_seal_ops; nothing else of it is called. Threads: any. */
#ifndef LEND_SEAL_SEAL_H
#define LEND_SEAL_SEAL_H

#include <stddef.h>
#include <stdint.h>

enum { LEND_KEY = 32, LEND_DIGEST = 32, LEND_SALT = 16 };

struct lend_seal_ops {
	/* 0; else the library does not work here. Once, before all others. */
	int (*start)(void);
	void (*sha256)(const void *data, size_t len, uint8_t out[LEND_DIGEST]);
	void (*hmac_sha256)(const uint8_t key[LEND_KEY], const void *data, size_t len,
			    uint8_t out[LEND_DIGEST]);
	/* Argon2id with 64 MiB: some 0.1 s. 0, or -ENOMEM. */
	int (*stretch)(const char *text, size_t len, const uint8_t salt[LEND_SALT],
		       uint8_t key[LEND_KEY]);
};

#endif
