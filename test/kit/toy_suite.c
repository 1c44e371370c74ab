/* toy_suite - a keystream of hashed counters, and SipHash-128 as tag and as HMAC. Layer: test. */
#include "kit/toy_suite.h"

#include "util/bits.h"
#include "util/siphash.h"

static void expand_key(const uint8_t key[LEND_KEY], void *expanded)
{
	memcpy(expanded, key, LEND_KEY);
}

static uint64_t mix_word(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* XORs the text with the keystream. */
static void crypt_text(const struct lend_seal_job *job)
{
	uint8_t *text = job->at + job->ad_len;
	uint64_t seed = mix_word(lend_load_u64(job->key) ^ mix_word(lend_load_u64(job->nonce)) ^
				 mix_word(lend_load_u32(job->nonce + 8)));

	for (uint32_t i = 0; i < job->len; i += 8) {
		uint64_t word = mix_word(seed + i * UINT64_C(0x9e3779b97f4a7c15));

		for (uint32_t k = 0; k < 8 && i + k < job->len; k++)
			text[i + k] ^= (uint8_t)(word >> 8 * k);
	}
}

static void compute_tag(const struct lend_seal_job *job, uint8_t tag[LEND_TAG])
{
	uint8_t key[16];

	memcpy(key, (const uint8_t *)job->key + 16, sizeof(key));
	for (uint32_t i = 0; i < 12; i++)
		key[i] ^= job->nonce[i];
	key[12] ^= (uint8_t)job->ad_len;
	lend_siphash128(key, job->at, job->ad_len + job->len, tag);
}

static void gather_text(const struct lend_seal_job *job)
{
	uint8_t *to = job->at + job->ad_len;

	if (!job->parts && job->text)
		memcpy(to, job->text, job->len);
	for (uint32_t i = 0; i < job->parts; to += job->part[i++].len)
		memcpy(to, job->part[i].data, job->part[i].len);
}

static void seal_jobs(const struct lend_seal_job *job, uint32_t n)
{
	for (const struct lend_seal_job *end = job + n; job < end; job++) {
		gather_text(job);
		crypt_text(job);
		compute_tag(job, job->at + job->ad_len + job->len);
	}
}

static void open_jobs(struct lend_seal_job *job, uint32_t n)
{
	for (struct lend_seal_job *end = job + n; job < end; job++) {
		compute_tag(job, job->tag);
		crypt_text(job);
	}
}

const struct lend_suite_ops lend_toy_suite = {.expanded_len = LEND_KEY,
					      .gathers = true,
					      .expand = expand_key,
					      .seal = seal_jobs,
					      .open = open_jobs};

static void toy_hmac(const uint8_t key[LEND_KEY], const void *data, size_t len,
		     uint8_t out[LEND_DIGEST])
{
	lend_siphash128(key, data, len, out);
	lend_siphash128(key + 16, data, len, out + 16);
}

static void wipe_memory(void *at, size_t len)
{
	memset(at, 0, len);
}

static const struct lend_suite_ops *const suites[LEND_SUITES] = {[LEND_SUITE_TEST] =
								     &lend_toy_suite};
const struct lend_seal_ops lend_toy_ops = {
    .hmac_sha256 = toy_hmac, .wipe = wipe_memory, .suite = suites};
