/* Goal: the suites compute what their standards say. Method: the standards' examples; OpenSSL as a
 * second implementation, over lengths and parts under seeds; each bit of a tag flipped; also in
 * threads, each with a copy of the library. Covers: src/seal/module/gcm.c,
 * src/seal/module/library_copy.c, src/seal/module/chacha.c, src/seal/module/self_test.c,
 * src/seal/suite.h */
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/keyfile.h"
#include "rpc/keys.h"
#include "seal/suite.h"
#include "util/rng.h"

enum { SEEDS = 400, LONGEST = 9000, HEAD = 32 };

struct sample {
	_Alignas(64) uint8_t expanded[LEND_EXPANDED_MAX];
	uint8_t key[LEND_KEY];
	uint8_t bytes[HEAD + LONGEST + LEND_TAG];
	struct lend_seal_job job;
};
static struct sample s;

static const struct lend_suite_ops *suite_of(enum lend_suite id)
{
	const struct lend_seal_ops *ops;

	cr_assert_eq(lend_keys_seal(&ops), 0);
	return ops->suite[id];
}

static void fill_bytes(struct lend_rng *r, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)lend_rng_next(r);
}

/* Seals a datagram by OpenSSL. */
static void seal_again(enum lend_suite id, const uint8_t *text, uint8_t *out)
{
	const EVP_CIPHER *cipher =
	    id == LEND_SUITE_AES128_GCM ? EVP_aes_128_gcm() : EVP_chacha20_poly1305();
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n;

	cr_assert(EVP_EncryptInit_ex(c, cipher, NULL, s.key, s.job.nonce));
	cr_assert(EVP_EncryptUpdate(c, NULL, &n, s.job.at, (int)s.job.ad_len));
	if (s.job.len)
		cr_assert(EVP_EncryptUpdate(c, out, &n, text, (int)s.job.len));
	cr_assert(EVP_EncryptFinal_ex(c, out + s.job.len, &n));
	cr_assert(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, LEND_TAG, out + s.job.len));
	EVP_CIPHER_CTX_free(c);
}

static void draw_job(struct lend_rng *r, const struct lend_suite_ops *suite)
{
	static const uint32_t lengths[] = {0, 1, 15, 16, 17, 64, 255, 1440, 4096, LONGEST};
	uint32_t len = lend_rng_below(r, 2) ? lengths[lend_rng_below(r, 10)]
					    : (uint32_t)lend_rng_below(r, LONGEST);
	bool encrypts = lend_rng_below(r, 3);

	s.job = (struct lend_seal_job){.key = s.expanded,
				       .at = s.bytes,
				       .ad_len = HEAD + (encrypts ? 0 : len),
				       .len = encrypts ? len : 0};
	fill_bytes(r, s.job.nonce, 12);
	fill_bytes(r, s.key, sizeof(s.key));
	suite->expand(s.key, s.expanded);
	fill_bytes(r, s.bytes, HEAD + len);
}

static void compare_suite(enum lend_suite id)
{
	static uint8_t text[LONGEST], want[LONGEST + LEND_TAG];
	const struct lend_suite_ops *suite = suite_of(id);

	for (uint64_t seed = 1; suite && seed <= SEEDS; seed++) {
		struct lend_rng r;
		struct lend_part part[3];
		uint32_t cut[2], bit;
		uint8_t *tag;

		lend_rng_seed(&r, seed);
		draw_job(&r, suite);
		memcpy(text, s.job.at + s.job.ad_len, s.job.len);
		seal_again(id, text, want);
		if (suite->gathers && s.job.len > 2 && seed % 2) {
			cut[0] = (uint32_t)lend_rng_below(&r, s.job.len);
			cut[1] = cut[0] + (uint32_t)lend_rng_below(&r, s.job.len - cut[0]);
			part[0] = (struct lend_part){text, cut[0]};
			part[1] = (struct lend_part){text + cut[0], cut[1] - cut[0]};
			part[2] = (struct lend_part){text + cut[1], s.job.len - cut[1]};
			s.job.part = part;
			s.job.parts = 3;
		} else if (seed % 4) {
			s.job.text = text;
			memset(s.job.at + s.job.ad_len, 0, s.job.len);
		}
		suite->seal(&s.job, 1);
		cr_assert_eq(memcmp(s.job.at + s.job.ad_len, want, s.job.len + LEND_TAG), 0,
			     "seed %lu, %u bytes", seed, s.job.len);
		suite->open(&s.job, 1);
		tag = s.job.at + s.job.ad_len + s.job.len;
		cr_assert_eq(memcmp(s.job.tag, tag, LEND_TAG), 0, "seed %lu", seed);
		cr_assert_eq(memcmp(s.job.at + s.job.ad_len, text, s.job.len), 0, "seed %lu", seed);
		memcpy(s.job.at + s.job.ad_len, want, s.job.len + LEND_TAG);
		bit = (uint32_t)lend_rng_below(&r, 8 * LEND_TAG);
		tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
		suite->open(&s.job, 1);
		cr_assert_neq(memcmp(s.job.tag, tag, LEND_TAG), 0, "seed %lu", seed);
	}
}

Test(suite, gcm__any_length__as_openssl)
{
	compare_suite(LEND_SUITE_AES128_GCM);
}

/* Returns how often the process has the code of intel-ipsec-mb. */
static int count_copies(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	cr_assert(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, " r-xp ") && strstr(line, "libIPSec_MB");
	(void)fclose(maps);
	return n;
}

/* Compares in this thread, then in a further one while this one lives. */
static void *compare_in_threads(void *further)
{
	pthread_t thread;

	compare_suite(LEND_SUITE_AES128_GCM);
	if (further) {
		cr_assert_eq(pthread_create(&thread, NULL, compare_in_threads, NULL), 0);
		cr_assert_eq(pthread_join(thread, NULL), 0);
	}
	return NULL;
}

Test(suite, gcm__threads__each_has_a_copy_as_openssl)
{
	pthread_t thread;

	if (!suite_of(LEND_SUITE_AES128_GCM))
		return;
	cr_assert_eq(count_copies(), 1);
	for (int again = 0; again < 2; again++) { /* ended threads give their copies back */
		cr_assert_eq(pthread_create(&thread, NULL, compare_in_threads, &s), 0);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert_eq(count_copies(), 3);
	}
}

Test(suite, chacha__any_length__as_openssl)
{
	cr_assert(suite_of(LEND_SUITE_CHACHA20_POLY1305));
	compare_suite(LEND_SUITE_CHACHA20_POLY1305);
}

/* Several datagrams of one burst, each with keys of its own. */
Test(suite, burst__as_one_by_one)
{
	enum { N = 32, LEN = 64 };
	static _Alignas(64) uint8_t expanded[N][LEND_EXPANDED_MAX];
	static uint8_t bytes[2][N][HEAD + LEN + LEND_TAG];
	struct lend_seal_job job[N];

	for (int id = LEND_SUITE_AES128_GCM; id <= LEND_SUITE_CHACHA20_POLY1305; id++) {
		const struct lend_suite_ops *suite = suite_of((enum lend_suite)id);
		struct lend_rng r;

		if (!suite)
			continue;
		lend_rng_seed(&r, 1);
		for (int i = 0; i < N; i++) {
			uint8_t key[LEND_KEY];

			fill_bytes(&r, key, sizeof(key));
			suite->expand(key, expanded[i]);
			fill_bytes(&r, bytes[0][i], HEAD + LEN);
			memcpy(bytes[1][i], bytes[0][i], HEAD + LEN);
			job[i] = (struct lend_seal_job){.key = expanded[i],
							.nonce = {(uint8_t)i},
							.at = bytes[0][i],
							.ad_len = HEAD,
							.len = LEN};
		}
		suite->seal(job, N);
		for (int i = 0; i < N; i++) {
			job[i].at = bytes[1][i];
			suite->seal(&job[i], 1);
		}
		cr_assert_eq(memcmp(bytes[0], bytes[1], sizeof(bytes[0])), 0, "suite %d", id);
	}
}

struct example {
	enum lend_suite id;
	const char *key, *nonce, *ad, *text, *tag;
};
static const struct example examples[] = {
    /* The GCM specification, case 4, and RFC 8439, 2.8.2: tags, over text that OpenSSL agrees on.
     */
    {LEND_SUITE_AES128_GCM, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "5bc94fbc3221a5db94fae95ae7121a47"},
    {LEND_SUITE_CHACHA20_POLY1305,
     "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", "070000004041424344454647",
     "50515253c0c1c2c3c4c5c6c7",
     "4c616469657320616e642047656e746c656d656e206f662074686520636c6173"
     "73206f66202739393a204966204920636f756c64206f6666657220796f75206f"
     "6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73"
     "637265656e20776f756c642062652069742e",
     "1ae10b594f09e26a7e902ecbd0600691"},
};

static uint32_t from_hex(const char *text, uint8_t *out)
{
	uint32_t n = (uint32_t)strlen(text) / 2;

	for (uint32_t i = 0; i < n; i++) {
		char two[3] = {text[2 * i], text[2 * i + 1], 0};

		out[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return n;
}

Test(suite, examples_of_the_standards)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *e = &examples[i];
		const struct lend_suite_ops *suite = suite_of(e->id);
		uint8_t tag[LEND_TAG];

		if (!suite)
			continue;
		s.job = (struct lend_seal_job){.key = s.expanded, .at = s.bytes};
		(void)from_hex(e->key, s.key);
		(void)from_hex(e->nonce, s.job.nonce);
		(void)from_hex(e->tag, tag);
		s.job.ad_len = from_hex(e->ad, s.bytes);
		s.job.len = from_hex(e->text, s.bytes + s.job.ad_len);
		suite->expand(s.key, s.expanded);
		suite->seal(&s.job, 1);
		cr_expect_eq(memcmp(s.bytes + s.job.ad_len + s.job.len, tag, LEND_TAG), 0, "%zu",
			     i);
	}
}
