/* password - salted hashes of passwords, as the original's, and tokens of logins.
 * Layer: apps. Threads: any. */
#ifndef APPS_SOCIAL_PASSWORD_H
#define APPS_SOCIAL_PASSWORD_H

#include <stdbool.h>
#include <stdint.h>

enum { SOCIAL_SALT_LEN = 32, SOCIAL_HASH_LEN = 64, SOCIAL_TOKEN_MAX = 1024 };

/* Writes SHA-256 of password and salt as hex digits. */
void social_password_hash(const char *password, const char *salt, char hash[SOCIAL_HASH_LEN + 1]);
/* Compares in constant time. */
bool social_password_is(const char *password, const char *salt, const char *hash);

/* Makes a JSON Web Token, HS256, of a user who logs in at now, in seconds. */
void social_token_make(int64_t user_id, const char *username, int64_t now,
		       char token[SOCIAL_TOKEN_MAX]);
/* The user that a token names. */
struct social_login {
	int64_t user_id;
	char username[128];
};
/* Reads a token. Returns false: it is not valid at now, or not of HS256. */
bool social_token_read(const char *token, int64_t now, struct social_login *login);

#endif
