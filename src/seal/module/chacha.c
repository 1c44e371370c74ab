/* chacha - ChaCha20-Poly1305 (RFC 8439) of libsodium as a suite. Layer: seal. */
#include <sodium.h>
#include <string.h>

#include "seal/module/suites.h"

_Static_assert(crypto_aead_chacha20poly1305_IETF_NPUBBYTES <= LEND_NONCE, "nonce");

static void expand_key(const uint8_t key[LEND_KEY], void *expanded)
{
	memcpy(expanded, key, LEND_KEY);
}

static void seal_jobs(const struct lend_seal_job *job, uint32_t n)
{
	for (const struct lend_seal_job *end = job + n; job < end; job++) {
		uint8_t *text = job->at + job->ad_len;

		(void)crypto_aead_chacha20poly1305_ietf_encrypt_detached(
		    text, text + job->len, NULL, job->text ? job->text : text, job->len, job->at,
		    job->ad_len, NULL, job->nonce, job->key);
	}
}

/* The library compares the tag itself, and does not return it. */
static void open_jobs(struct lend_seal_job *job, uint32_t n)
{
	for (struct lend_seal_job *end = job + n; job < end; job++) {
		uint8_t *text = job->at + job->ad_len;
		int forged = crypto_aead_chacha20poly1305_ietf_decrypt_detached(
		    text, NULL, text, job->len, text + job->len, job->at, job->ad_len, job->nonce,
		    job->key);

		for (uint32_t i = 0; i < LEND_TAG; i++)
			job->tag[i] = text[job->len + i] ^ (uint8_t)forged;
	}
}

const struct lend_suite_ops lend_chacha_suite = {
    .expanded_len = LEND_KEY, .expand = expand_key, .seal = seal_jobs, .open = open_jobs};
