/* password - see password.h. */
#include "apps/social/password.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/social/social.h"
#include "util/check.h"

enum { TTL = 3600, PAYLOAD_MAX = 512, BASE64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING };
static const char secret[] = "secret"; /* the original's */
static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\"}";

void social_random_text(char *text, size_t len)
{
	static const char digits[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	uint16_t random[SOCIAL_SALT_LEN];

	LEND_CHECK(len <= SOCIAL_SALT_LEN);
	randombytes_buf(random, len * sizeof(*random)); /* one system call */
	for (size_t i = 0; i < len; i++)
		text[i] = digits[random[i] % (sizeof(digits) - 1)];
	text[len] = 0;
}

void social_password_hash(const char *password, const char *salt, char hash[SOCIAL_HASH_LEN + 1])
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state state;

	crypto_hash_sha256_init(&state);
	crypto_hash_sha256_update(&state, (const uint8_t *)password, strlen(password));
	crypto_hash_sha256_update(&state, (const uint8_t *)salt, strlen(salt));
	crypto_hash_sha256_final(&state, sum);
	sodium_bin2hex(hash, SOCIAL_HASH_LEN + 1, sum, sizeof(sum));
}

bool social_password_is(const char *password, const char *salt, const char *hash)
{
	char made[SOCIAL_HASH_LEN + 1];

	social_password_hash(password, salt, made);
	return strlen(hash) == SOCIAL_HASH_LEN && sodium_memcmp(made, hash, SOCIAL_HASH_LEN) == 0;
}

/* Signs the header and payload of a token. */
static void sign_text(const char *text, size_t len, uint8_t sum[crypto_auth_hmacsha256_BYTES])
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, (const uint8_t *)secret, sizeof(secret) - 1);
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)text, len);
	crypto_auth_hmacsha256_final(&state, sum);
}

static size_t append_base64(char *text, size_t at, const void *bytes, size_t len)
{
	(void)sodium_bin2base64(text + at, SOCIAL_TOKEN_MAX - at, bytes, len, BASE64);
	return strlen(text);
}

void social_token_make(int64_t user_id, const char *username, int64_t now,
		       char token[SOCIAL_TOKEN_MAX])
{
	uint8_t sum[crypto_auth_hmacsha256_BYTES];
	char payload[PAYLOAD_MAX];
	size_t at;

	(void)snprintf(payload, sizeof(payload),
		       "{\"user_id\":\"%" PRId64 "\",\"username\":\"%.*s\",\"timestamp\":\"%" PRId64
		       "\",\"ttl\":\"%d\"}",
		       user_id, SOCIAL_NAME_MAX, username, now, TTL);
	at = append_base64(token, 0, header, sizeof(header) - 1);
	token[at++] = '.';
	at = append_base64(token, at, payload, strlen(payload));
	sign_text(token, at, sum);
	token[at++] = '.';
	(void)append_base64(token, at, sum, sizeof(sum));
}

/* Reads a text member of a token's payload, which this program wrote: no escapes. */
static bool read_member(const char *payload, const char *name, char *value, size_t cap)
{
	char key[64];
	const char *at;
	size_t len;

	(void)snprintf(key, sizeof(key), "\"%s\":\"", name);
	at = strstr(payload, key);
	if (!at)
		return false;
	at += strlen(key);
	len = strcspn(at, "\"");
	if (len >= cap)
		return false;
	memcpy(value, at, len);
	value[len] = 0;
	return true;
}

static bool read_payload(const char *payload, int64_t now, struct social_login *login)
{
	char id[32], timestamp[32], ttl[32];

	if (!read_member(payload, "user_id", id, sizeof(id)) ||
	    !read_member(payload, "username", login->username, sizeof(login->username)) ||
	    !read_member(payload, "timestamp", timestamp, sizeof(timestamp)) ||
	    !read_member(payload, "ttl", ttl, sizeof(ttl)))
		return false;
	login->user_id = strtoll(id, NULL, 10);
	return now < strtoll(timestamp, NULL, 10) + strtoll(ttl, NULL, 10);
}

bool social_token_read(const char *token, int64_t now, struct social_login *login)
{
	uint8_t sum[crypto_auth_hmacsha256_BYTES], given[crypto_auth_hmacsha256_BYTES];
	char payload[PAYLOAD_MAX + 1], mine[SOCIAL_TOKEN_MAX] = "";
	const char *first = strchr(token, '.'), *last = strrchr(token, '.');
	size_t len;

	(void)append_base64(mine, 0, header, sizeof(header) - 1);
	if (!first || first == last || (size_t)(first - token) != strlen(mine) ||
	    strncmp(token, mine, strlen(mine)) != 0)
		return false;
	if (sodium_base642bin(given, sizeof(given), last + 1, strlen(last + 1), NULL, &len, NULL,
			      BASE64) < 0 ||
	    len != sizeof(given))
		return false;
	sign_text(token, (size_t)(last - token), sum);
	if (sodium_memcmp(sum, given, sizeof(sum)) != 0 ||
	    sodium_base642bin((uint8_t *)payload, PAYLOAD_MAX, first + 1,
			      (size_t)(last - first - 1), NULL, &len, NULL, BASE64) < 0)
		return false;
	payload[len] = 0;
	return read_payload(payload, now, login);
}
