/* sodium - struct lend_seal_ops over libsodium. Layer: seal. */
#include <errno.h>
#include <sodium.h>

#include "seal/module/suites.h"

_Static_assert(crypto_hash_sha256_BYTES == LEND_DIGEST, "SHA-256");
_Static_assert(crypto_auth_hmacsha256_KEYBYTES == LEND_KEY, "HMAC-SHA-256");
_Static_assert(crypto_pwhash_argon2id_SALTBYTES == LEND_SALT, "Argon2id");
_Static_assert(crypto_scalarmult_BYTES == LEND_KEY, "X25519");
_Static_assert(crypto_aead_chacha20poly1305_IETF_ABYTES == LEND_TAG, "ChaCha20-Poly1305");

enum { PASSES = 2, MEMORY = 64 << 20 };

static const struct lend_suite_ops *suites[LEND_SUITES]; /* those that passed their test */

/* Leaves out a suite that fails its test. */
static void add_suite(enum lend_suite id, const struct lend_suite_ops *suite)
{
	if (suite && lend_suite_works(suite, id))
		suites[id] = suite;
}

static int init_sodium(void)
{
	if (sodium_init() < 0 || !lend_sha256_start())
		return -ENODEV;
	add_suite(LEND_SUITE_AES128_GCM, lend_gcm_load());
	add_suite(LEND_SUITE_CHACHA20_POLY1305, &lend_chacha_suite);
	return suites[LEND_SUITE_CHACHA20_POLY1305] ? 0 : -ENODEV;
}

static int stretch_text(const char *text, size_t len, const uint8_t salt[LEND_SALT],
			uint8_t key[LEND_KEY])
{
	int rc = crypto_pwhash_argon2id(key, LEND_KEY, text, len, salt, PASSES, MEMORY,
					crypto_pwhash_argon2id_ALG_ARGON2ID13);

	return rc ? -ENOMEM : 0;
}

static int agree_key(const uint8_t secret[LEND_KEY], const uint8_t theirs[LEND_KEY],
		     uint8_t out[LEND_KEY])
{
	return theirs ? crypto_scalarmult(out, secret, theirs)
		      : crypto_scalarmult_base(out, secret);
}

static const uint8_t nonce[crypto_aead_chacha20poly1305_IETF_NPUBBYTES];

static void aead_seal(const uint8_t key[LEND_KEY], const uint8_t bound[LEND_DIGEST], uint8_t *text,
		      size_t len)
{
	(void)crypto_aead_chacha20poly1305_ietf_encrypt(text, NULL, text, len, bound, LEND_DIGEST,
							NULL, nonce, key);
}

static int aead_open(const uint8_t key[LEND_KEY], const uint8_t bound[LEND_DIGEST], uint8_t *text,
		     size_t len)
{
	return crypto_aead_chacha20poly1305_ietf_decrypt_detached(text, NULL, text, len, text + len,
								  bound, LEND_DIGEST, nonce, key);
}

__attribute__((visibility("default"))) extern const struct lend_seal_ops lend_seal_ops;
const struct lend_seal_ops lend_seal_ops = {
    .start = init_sodium,
    .sha256 = lend_sha256,
    .hmac_sha256 = lend_hmac_sha256,
    .stretch = stretch_text,
    .dh = agree_key,
    .random = randombytes_buf,
    .sha256_after = lend_sha256_after,
    .aead_seal = aead_seal,
    .aead_open = aead_open,
    .wipe = sodium_memzero,
    .suite = suites,
};
