#include "seal/noise.h"

#include <string.h>

#include "util/check.h"

enum { INFO_MAX = 64 };

static const char *const name_of[] = {
    [LEND_NOISE_NN] = "Noise_NNpsk0_25519_ChaChaPoly_SHA256",
    [LEND_NOISE_NK] = "Noise_NKpsk2_25519_ChaChaPoly_SHA256",
    [LEND_NOISE_RESUME] = "Lend_resume_ChaChaPoly_SHA256",
};

void lend_hkdf_extract(const struct lend_seal_ops *ops, const uint8_t *salt, size_t salt_len,
		       const void *input, size_t len, uint8_t key[LEND_KEY])
{
	uint8_t padded[LEND_KEY] = {0};

	LEND_CHECK(salt_len <= sizeof(padded));
	memcpy(padded, salt, salt_len);
	ops->hmac_sha256(padded, input, len, key);
}

void lend_hkdf_expand(const struct lend_seal_ops *ops, const uint8_t key[LEND_KEY],
		      const struct lend_hkdf_info *info, uint8_t *out, size_t len)
{
	size_t label = strlen(info->label);
	uint8_t text[INFO_MAX + 1], block[LEND_DIGEST];

	LEND_CHECK(label + info->len <= INFO_MAX && len <= sizeof(block));
	memcpy(text, info->label, label);
	if (info->len)
		memcpy(text + label, info->more, info->len);
	text[label + info->len] = 1;
	ops->hmac_sha256(key, text, label + info->len + 1, block);
	memcpy(out, block, len);
	ops->wipe(block, sizeof(block));
}

/* Derives n keys of 32 bytes, at most three, from the chaining key and some input: HKDF of the
 * Noise framework. */
static void derive_keys(const struct lend_noise *n, const uint8_t *input, size_t len,
			uint8_t out[][LEND_KEY], uint8_t count)
{
	uint8_t secret[LEND_KEY], text[LEND_KEY + 1];

	n->ops->hmac_sha256(n->chain, input, len, secret);
	for (uint8_t i = 0; i < count; i++) {
		if (i)
			memcpy(text, out[i - 1], LEND_KEY);
		text[i ? LEND_KEY : 0] = (uint8_t)(i + 1);
		n->ops->hmac_sha256(secret, text, i ? LEND_KEY + 1u : 1u, out[i]);
	}
	n->ops->wipe(secret, sizeof(secret));
	n->ops->wipe(text, sizeof(text));
}

static void mix_key(struct lend_noise *n, const uint8_t input[LEND_KEY])
{
	uint8_t out[2][LEND_KEY];

	derive_keys(n, input, LEND_KEY, out, 2);
	memcpy(n->chain, out[0], LEND_KEY);
	memcpy(n->key, out[1], LEND_KEY);
	n->ops->wipe(out, sizeof(out));
}

static void mix_psk(struct lend_noise *n, const uint8_t psk[LEND_KEY])
{
	uint8_t out[3][LEND_KEY];

	derive_keys(n, psk, LEND_KEY, out, 3);
	memcpy(n->chain, out[0], LEND_KEY);
	lend_noise_hash(n, out[1], LEND_KEY);
	memcpy(n->key, out[2], LEND_KEY);
	n->ops->wipe(out, sizeof(out));
}

static int mix_dh(struct lend_noise *n, const struct lend_noise_keys *keys)
{
	uint8_t shared[LEND_KEY];
	int rc = n->ops->dh(keys->secret, keys->theirs, shared);

	if (rc == 0)
		mix_key(n, shared);
	n->ops->wipe(shared, sizeof(shared));
	return rc;
}

void lend_noise_hash(struct lend_noise *n, const void *data, size_t len)
{
	n->ops->sha256_after(n->hash, data, len, n->hash);
}

void lend_noise_begin(struct lend_noise *n, const struct lend_seal_ops *ops,
		      enum lend_noise_pattern pattern, const uint8_t server_key[LEND_KEY])
{
	const char *name = name_of[pattern];

	*n = (struct lend_noise){.ops = ops, .pattern = pattern};
	if (strlen(name) <= LEND_DIGEST)
		memcpy(n->hash, name, strlen(name));
	else
		ops->sha256(name, strlen(name), n->hash);
	memcpy(n->chain, n->hash, LEND_KEY);
	if (pattern == LEND_NOISE_NK)
		lend_noise_hash(n, server_key, LEND_KEY);
}

/* In patterns with a psk, a public key of the message is mixed into the key as well. */
static void mix_e(struct lend_noise *n, const uint8_t e[LEND_KEY])
{
	lend_noise_hash(n, e, LEND_KEY);
	mix_key(n, e);
}

int lend_noise_first(struct lend_noise *n, const uint8_t e[LEND_KEY],
		     const struct lend_noise_keys *keys)
{
	if (n->pattern != LEND_NOISE_NK)
		mix_psk(n, keys->psk);
	mix_e(n, e);
	return n->pattern == LEND_NOISE_NK ? mix_dh(n, keys) : 0;
}

int lend_noise_second(struct lend_noise *n, const uint8_t e[LEND_KEY],
		      const struct lend_noise_keys *keys)
{
	int rc;

	mix_e(n, e);
	rc = n->pattern == LEND_NOISE_RESUME ? 0 : mix_dh(n, keys);
	if (rc == 0 && n->pattern == LEND_NOISE_NK)
		mix_psk(n, keys->psk);
	return rc;
}

/* Each message has one payload and sets a key before it, so the nonce is always 0. */
void lend_noise_seal(struct lend_noise *n, uint8_t *text, size_t len)
{
	n->ops->aead_seal(n->key, n->hash, text, len);
	lend_noise_hash(n, text, len + LEND_TAG);
}

int lend_noise_open(struct lend_noise *n, uint8_t *text, size_t len)
{
	uint8_t next[LEND_DIGEST];

	n->ops->sha256_after(n->hash, text, len + LEND_TAG, next);
	if (n->ops->aead_open(n->key, n->hash, text, len))
		return -1;
	memcpy(n->hash, next, sizeof(next));
	return 0;
}

void lend_noise_split(struct lend_noise *n, uint8_t to_server[LEND_KEY],
		      uint8_t to_client[LEND_KEY])
{
	uint8_t out[2][LEND_KEY];

	derive_keys(n, NULL, 0, out, 2);
	memcpy(to_server, out[0], LEND_KEY);
	memcpy(to_client, out[1], LEND_KEY);
	n->ops->wipe(out, sizeof(out));
}
