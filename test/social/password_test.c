/* Goal: passwords and tokens are the original's, and a token that was changed or is too old is
 * refused. Method: known vectors, then each byte of a token changed. Covers: apps/social/password.c
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "apps/social/password.h"

Test(password, hash__known_vector__hex_of_sha256)
{
	char hash[SOCIAL_HASH_LEN + 1];

	social_password_hash("a", "bc", hash); /* SHA-256 of "abc": FIPS 180-2 */
	cr_assert_str_eq(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	cr_assert(social_password_is("a", "bc", hash));
	cr_assert_not(social_password_is("b", "bc", hash));
	cr_assert_not(social_password_is("a", "bc", ""));
}

Test(password, token__made__read_until_its_end)
{
	struct social_login login;
	char token[SOCIAL_TOKEN_MAX];

	social_token_make(INT64_C(1234567890123456789), "ada", 1000, token);
	cr_assert(social_token_read(token, 1000, &login));
	cr_assert_eq(login.user_id, INT64_C(1234567890123456789));
	cr_assert_str_eq(login.username, "ada");
	cr_assert(social_token_read(token, 1000 + 3599, &login));
	cr_assert_not(social_token_read(token, 1000 + 3600, &login));
}

Test(password, token__any_byte_changed__refused)
{
	struct social_login login;
	char token[SOCIAL_TOKEN_MAX], bad[SOCIAL_TOKEN_MAX];

	social_token_make(1, "ada", 1000, token);
	/* The last character has four bits that no byte has. */
	for (size_t i = 0; i + 1 < strlen(token); i++) {
		strcpy(bad, token);
		bad[i] = bad[i] == 'A' ? 'B' : 'A';
		cr_expect_not(social_token_read(bad, 1000, &login), "byte %zu", i);
		bad[i] = 0;
		cr_expect_not(social_token_read(bad, 1000, &login), "cut at %zu", i);
	}
	cr_assert_not(social_token_read("", 1000, &login));
	cr_assert_not(social_token_read("..", 1000, &login));
}

Test(password, token__no_algorithm__refused)
{
	struct social_login login;

	/* {"alg":"none"} and {"user_id":"1",...}, without a signature. */
	cr_assert_not(social_token_read("eyJhbGciOiJub25lIn0.eyJ1c2VyX2lkIjoiMSJ9.", 1000, &login));
}
