/* Goal: the handshakes are those of the Noise framework, byte for byte, and a changed byte opens
 * nothing. Method: vectors of the RFCs; a second implementation after the framework's text, on
 * OpenSSL, under seeds. Covers: src/seal/noise.c, src/seal/module/sodium.c,
 * src/seal/module/sha256.c */
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/keys.h"
#include "rpc/keyfile.h"
#include "seal/noise.h"
#include "util/rng.h"

enum { TEXT = 112, SEEDS = 20 };

static const struct lend_seal_ops *load_ops(void)
{
	const struct lend_seal_ops *ops = NULL;

	cr_assert_eq(lend_keys_seal(&ops), 0);
	return ops;
}

static void from_hex(const char *text, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char two[3] = {text[2 * i], text[2 * i + 1], 0};

		out[i] = (uint8_t)strtoul(two, NULL, 16);
	}
}

/* Lengths around one to five blocks; alone, behind a digest, and keyed. */
Test(noise, sha256__any_length__as_openssl)
{
	const struct lend_seal_ops *ops = load_ops();
	uint8_t data[LEND_DIGEST + 300], want[LEND_DIGEST], out[LEND_DIGEST];
	struct lend_rng r;

	lend_rng_seed(&r, 1);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)lend_rng_next(&r);
	for (size_t len = 0; len <= 300; len++) {
		EVP_Digest(data, len, want, NULL, EVP_sha256(), NULL);
		ops->sha256(data, len, out);
		cr_assert_arr_eq(out, want, LEND_DIGEST, "%zu bytes", len);
		EVP_Digest(data, LEND_DIGEST + len, want, NULL, EVP_sha256(), NULL);
		ops->sha256_after(data, data + LEND_DIGEST, len, out);
		cr_assert_arr_eq(out, want, LEND_DIGEST, "%zu bytes behind a digest", len);
		HMAC(EVP_sha256(), data, LEND_KEY, data, len, want, NULL);
		ops->hmac_sha256(data, data, len, out);
		cr_assert_arr_eq(out, want, LEND_DIGEST, "%zu bytes keyed", len);
	}
}

/* RFC 7748, section 5.2. */
Test(noise, x25519__of_rfc_7748)
{
	static const struct {
		const char *secret, *theirs, *out;
	} row[] = {
	    {"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
	     "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
	     "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
	    {"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
	     "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
	     "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
	};
	const struct lend_seal_ops *ops = load_ops();
	uint8_t secret[LEND_KEY], theirs[LEND_KEY], want[LEND_KEY], out[LEND_KEY];

	for (size_t i = 0; i < 2; i++) {
		from_hex(row[i].secret, secret, LEND_KEY);
		from_hex(row[i].theirs, theirs, LEND_KEY);
		from_hex(row[i].out, want, LEND_KEY);
		cr_assert_eq(ops->dh(secret, theirs, out), 0);
		cr_expect_arr_eq(out, want, LEND_KEY, "row %zu", i);
	}
	memset(theirs, 0, sizeof(theirs));
	cr_expect_neq(ops->dh(secret, theirs, out), 0, "a point of low order");
}

/* RFC 5869, appendix A.1, the first block. */
Test(noise, hkdf__of_rfc_5869)
{
	static const uint8_t more[] = {0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9};
	const struct lend_hkdf_info info = {"\xf0", more, sizeof(more)};
	const struct lend_seal_ops *ops = load_ops();
	uint8_t salt[13], input[22], key[LEND_KEY], want[LEND_KEY], out[LEND_KEY];

	for (uint8_t i = 0; i < sizeof(salt); i++)
		salt[i] = i;
	memset(input, 0x0b, sizeof(input));
	lend_hkdf_extract(ops, salt, sizeof(salt), input, sizeof(input), key);
	from_hex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5", want, 32);
	cr_expect_arr_eq(key, want, LEND_KEY);
	lend_hkdf_expand(ops, key, &info, out, sizeof(out));
	from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf", want, 32);
	cr_expect_arr_eq(out, want, LEND_KEY);
}

/* The second implementation: one object per end, tokens as the framework's text has them. */
struct model {
	uint8_t ck[32], h[32], k[32];
	uint64_t nonce;
	uint8_t s[32], e[32], rs[32], re[32], psk[32]; /* s and e: secret; rs and re: public */
	bool initiator;
};

static void model_hash(struct model *m, const void *data, size_t len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);
	EVP_DigestUpdate(ctx, m->h, 32);
	EVP_DigestUpdate(ctx, data, len);
	EVP_DigestFinal_ex(ctx, m->h, NULL);
	EVP_MD_CTX_free(ctx);
}

static void model_hkdf(const uint8_t ck[32], const uint8_t *input, size_t len, uint8_t out[96])
{
	uint8_t temp[32], text[33];
	unsigned n;

	HMAC(EVP_sha256(), ck, 32, input, len, temp, &n);
	HMAC(EVP_sha256(), temp, 32, (const uint8_t *)"\x01", 1, out, &n);
	for (uint8_t i = 1; i < 3; i++) {
		memcpy(text, out + 32 * (i - 1), 32);
		text[32] = (uint8_t)(i + 1);
		HMAC(EVP_sha256(), temp, 32, text, 33, out + 32 * i, &n);
	}
}

static void model_mix(struct model *m, const uint8_t input[32])
{
	uint8_t out[96];

	model_hkdf(m->ck, input, 32, out);
	memcpy(m->ck, out, 32);
	memcpy(m->k, out + 32, 32);
	m->nonce = 0;
}

static void model_public(const uint8_t secret[32], uint8_t out[32])
{
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, 32);
	size_t len = 32;

	EVP_PKEY_get_raw_public_key(key, out, &len);
	EVP_PKEY_free(key);
}

static void model_dh(struct model *m, const uint8_t secret[32], const uint8_t theirs[32])
{
	EVP_PKEY *ours = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, 32);
	EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, theirs, 32);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(ours, NULL);
	uint8_t out[32];
	size_t len = 32;

	EVP_PKEY_derive_init(ctx);
	EVP_PKEY_derive_set_peer(ctx, peer);
	cr_assert_eq(EVP_PKEY_derive(ctx, out, &len), 1);
	model_mix(m, out);
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(peer);
	EVP_PKEY_free(ours);
}

static void model_psk(struct model *m)
{
	uint8_t out[96];

	model_hkdf(m->ck, m->psk, 32, out);
	memcpy(m->ck, out, 32);
	model_hash(m, out + 32, 32);
	memcpy(m->k, out + 64, 32);
	m->nonce = 0;
}

/* Runs the tokens of one message. sends: this end writes it. e_public: the key in the message. */
static void model_tokens(struct model *m, const char *tokens, bool sends, const uint8_t *e_public)
{
	for (; *tokens; tokens++)
		switch (*tokens) {
		case 'p':
			model_psk(m);
			break;
		case 'e':
			if (!sends)
				memcpy(m->re, e_public, 32);
			model_hash(m, e_public, 32);
			model_mix(m, e_public);
			break;
		case 'E': /* ee */
			model_dh(m, m->e, m->re);
			break;
		case 'S': /* es */
			model_dh(m, m->initiator ? m->e : m->s, m->initiator ? m->rs : m->re);
			break;
		}
}

static void model_seal(struct model *m, uint8_t *text, int len)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t nonce[12] = {0};
	int n;

	memcpy(nonce + 4, &m->nonce, 8);
	m->nonce++;
	EVP_EncryptInit_ex(ctx, EVP_chacha20_poly1305(), NULL, m->k, nonce);
	EVP_EncryptUpdate(ctx, NULL, &n, m->h, 32);
	EVP_EncryptUpdate(ctx, text, &n, text, len);
	EVP_EncryptFinal_ex(ctx, text + len, &n);
	EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, text + len);
	EVP_CIPHER_CTX_free(ctx);
	model_hash(m, text, (size_t)len + 16);
}

static const char *const tokens_of[][2] = {[LEND_NOISE_NN] = {"pe", "eE"},
					   [LEND_NOISE_NK] = {"eS", "eEp"},
					   [LEND_NOISE_RESUME] = {"pe", "e"}};
static const char *const names[] = {[LEND_NOISE_NN] = "Noise_NNpsk0_25519_ChaChaPoly_SHA256",
				    [LEND_NOISE_NK] = "Noise_NKpsk2_25519_ChaChaPoly_SHA256",
				    [LEND_NOISE_RESUME] = "Lend_resume_ChaChaPoly_SHA256"};

static void model_begin(struct model *m, enum lend_noise_pattern pattern, const uint8_t rs[32])
{
	size_t len = strlen(names[pattern]);
	unsigned n;

	memset(m->h, 0, 32);
	if (len <= 32)
		memcpy(m->h, names[pattern], len);
	else
		EVP_Digest(names[pattern], len, m->h, &n, EVP_sha256(), NULL);
	memcpy(m->ck, m->h, 32);
	if (pattern == LEND_NOISE_NK)
		model_hash(m, rs, 32);
}

/* Everything of one handshake that the two implementations must have equal. */
struct world {
	uint8_t s[32], s_public[32], psk[32]; /* the server's static key; the shared key */
	uint8_t e[2][32], e_public[2][32];    /* client, server */
	uint8_t prologue[88], head[64];       /* bound by the first and the second message */
	uint8_t text[2][TEXT + LEND_TAG];     /* payloads */
	uint8_t wire[2][TEXT + LEND_TAG];     /* as the model sealed them */
	uint8_t h[32], to_server[32], to_client[32];
};

static void draw_world(struct world *w, uint64_t seed)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (size_t i = 0; i < sizeof(*w); i++)
		((uint8_t *)w)[i] = (uint8_t)lend_rng_next(&rng);
	model_public(w->s, w->s_public);
	for (int i = 0; i < 2; i++)
		model_public(w->e[i], w->e_public[i]);
}

/* Runs both messages as the client writes the first and the server the second. */
static void run_model(struct world *w, enum lend_noise_pattern pattern)
{
	struct model m[2] = {{.initiator = true}, {.initiator = false}};
	uint8_t out[96];

	for (int i = 0; i < 2; i++) {
		memcpy(m[i].s, w->s, 32);
		memcpy(m[i].rs, w->s_public, 32);
		memcpy(m[i].psk, w->psk, 32);
		memcpy(m[i].e, w->e[i], 32);
		model_begin(&m[i], pattern, w->s_public);
		model_hash(&m[i], w->prologue, sizeof(w->prologue));
		model_tokens(&m[i], tokens_of[pattern][0], i == 0, w->e_public[0]);
		memcpy(w->wire[0], w->text[0], sizeof(w->wire[0]));
		model_seal(&m[i], w->wire[0], TEXT);
		model_hash(&m[i], w->head, sizeof(w->head));
		model_tokens(&m[i], tokens_of[pattern][1], i == 1, w->e_public[1]);
		memcpy(w->wire[1], w->text[1], sizeof(w->wire[1]));
		model_seal(&m[i], w->wire[1], TEXT);
	}
	cr_assert_arr_eq(m[0].h, m[1].h, 32, "the model agrees with itself");
	memcpy(w->h, m[0].h, 32);
	model_hkdf(m[0].ck, NULL, 0, out);
	memcpy(w->to_server, out, 32);
	memcpy(w->to_client, out + 32, 32);
}

static void expect_split(struct lend_noise *n, const struct world *w, const char *end)
{
	uint8_t to_server[32], to_client[32];

	lend_noise_split(n, to_server, to_client);
	cr_expect_arr_eq(n->hash, w->h, 32, "%s: channel binding", end);
	cr_expect_arr_eq(to_server, w->to_server, 32, "%s", end);
	cr_expect_arr_eq(to_client, w->to_client, 32, "%s", end);
}

static void run_client(const struct world *w, enum lend_noise_pattern pattern)
{
	const struct lend_noise_keys first = {w->psk, w->e[0], w->s_public},
				     second = {w->psk, w->e[0], w->e_public[1]};
	uint8_t text[TEXT + LEND_TAG];
	struct lend_noise n;

	lend_noise_begin(&n, load_ops(), pattern, w->s_public);
	lend_noise_hash(&n, w->prologue, sizeof(w->prologue));
	cr_assert_eq(lend_noise_first(&n, w->e_public[0], &first), 0);
	memcpy(text, w->text[0], sizeof(text));
	lend_noise_seal(&n, text, TEXT);
	cr_expect_arr_eq(text, w->wire[0], sizeof(text));
	lend_noise_hash(&n, w->head, sizeof(w->head));
	cr_assert_eq(lend_noise_second(&n, w->e_public[1], &second), 0);
	memcpy(text, w->wire[1], sizeof(text));
	cr_assert_eq(lend_noise_open(&n, text, TEXT), 0);
	cr_expect_arr_eq(text, w->text[1], TEXT);
	expect_split(&n, w, "client");
}

/* Returns whether the server opened the first message; it answers it then. changed: that byte of
 * prologue and message differs; -1: none. */
static bool run_server(const struct world *w, enum lend_noise_pattern pattern, int changed)
{
	const struct lend_noise_keys first = {w->psk, w->s, w->e_public[0]},
				     second = {w->psk, w->e[1], w->e_public[0]};
	uint8_t bytes[sizeof(w->prologue) + TEXT + LEND_TAG], text[TEXT + LEND_TAG];
	struct lend_noise n;

	memcpy(bytes, w->prologue, sizeof(w->prologue));
	memcpy(bytes + sizeof(w->prologue), w->wire[0], sizeof(text));
	if (changed >= 0)
		bytes[changed] ^= 4;
	lend_noise_begin(&n, load_ops(), pattern, w->s_public);
	lend_noise_hash(&n, bytes, sizeof(w->prologue));
	cr_assert_eq(lend_noise_first(&n, w->e_public[0], &first), 0);
	memcpy(text, bytes + sizeof(w->prologue), sizeof(text));
	if (lend_noise_open(&n, text, TEXT))
		return false;
	cr_expect_arr_eq(text, w->text[0], TEXT);
	lend_noise_hash(&n, w->head, sizeof(w->head));
	cr_assert_eq(lend_noise_second(&n, w->e_public[1], &second), 0);
	memcpy(text, w->text[1], sizeof(text));
	lend_noise_seal(&n, text, TEXT);
	cr_expect_arr_eq(text, w->wire[1], sizeof(text));
	expect_split(&n, w, "server");
	return true;
}

Test(noise, patterns__equal_a_second_implementation)
{
	for (int pattern = LEND_NOISE_NN; pattern <= LEND_NOISE_RESUME; pattern++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct world w;

			draw_world(&w, seed);
			run_model(&w, (enum lend_noise_pattern)pattern);
			run_client(&w, (enum lend_noise_pattern)pattern);
			cr_expect(run_server(&w, (enum lend_noise_pattern)pattern, -1),
				  "pattern %d, seed %lu", pattern, seed);
		}
}

Test(noise, first_message__changed_byte__does_not_open)
{
	for (int pattern = LEND_NOISE_NN; pattern <= LEND_NOISE_RESUME; pattern++) {
		struct world w;

		draw_world(&w, 7);
		run_model(&w, (enum lend_noise_pattern)pattern);
		for (int at = 0; at < (int)(sizeof(w.prologue) + TEXT + LEND_TAG); at++)
			cr_expect(!run_server(&w, (enum lend_noise_pattern)pattern, at),
				  "pattern %d, byte %d", pattern, at);
	}
}
