/* self_test - each suite against its standard's example, once per process. Layer: seal. */
#include <string.h>

#include "seal/module/suites.h"

enum { BYTES_MAX = 160 };

struct example {
	const char *key, *nonce, *ad, *text, *sealed; /* hex; sealed: text and tag */
};
static const struct example examples[LEND_SUITES] = {
    /* The GCM Specification (McGrew, Viega), case 4. */
    [LEND_SUITE_AES128_GCM] = {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
			       "feedfacedeadbeeffeedfacedeadbeefabaddad2",
			       "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
			       "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
			       "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
			       "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
			       "5bc94fbc3221a5db94fae95ae7121a47"},
    /* RFC 8439, 2.8.2. */
    [LEND_SUITE_CHACHA20_POLY1305] =
	{"808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
	 "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
	 "4c616469657320616e642047656e746c656d656e206f662074686520636c6173"
	 "73206f66202739393a204966204920636f756c64206f6666657220796f75206f"
	 "6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73"
	 "637265656e20776f756c642062652069742e",
	 "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
	 "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
	 "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
	 "3ff4def08e4b7a9de576d26586cec64b6116"
	 "1ae10b594f09e26a7e902ecbd0600691"},
};

static uint8_t hex_digit(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Returns the number of bytes. */
static uint32_t read_hex(const char *text, uint8_t *to)
{
	uint32_t n = 0;

	for (; *text; text += 2)
		to[n++] = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
	return n;
}

static bool tag_agrees(const struct lend_seal_job *job)
{
	return memcmp(job->tag, job->at + job->ad_len + job->len, LEND_TAG) == 0;
}

bool lend_suite_works(const struct lend_suite_ops *suite, enum lend_suite id)
{
	const struct example *of = &examples[id];
	_Alignas(64) uint8_t expanded[LEND_EXPANDED_MAX];
	uint8_t key[LEND_KEY], bytes[BYTES_MAX], text[BYTES_MAX], sealed[BYTES_MAX];
	struct lend_seal_job job = {.key = expanded, .at = bytes};
	bool right;

	(void)read_hex(of->key, key);
	(void)read_hex(of->nonce, job.nonce);
	(void)read_hex(of->sealed, sealed);
	job.ad_len = read_hex(of->ad, bytes);
	job.len = read_hex(of->text, text);
	suite->expand(key, expanded);
	memcpy(bytes + job.ad_len, text, job.len);
	suite->seal(&job, 1);
	right = memcmp(bytes + job.ad_len, sealed, job.len + LEND_TAG) == 0;
	suite->open(&job, 1);
	right = right && tag_agrees(&job) && memcmp(bytes + job.ad_len, text, job.len) == 0;
	memcpy(bytes + job.ad_len, sealed, job.len + LEND_TAG);
	bytes[job.ad_len + job.len] ^= 1;
	suite->open(&job, 1);
	return right && !tag_agrees(&job);
}
