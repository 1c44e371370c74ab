/* Goal: while a key is derived from a secret, which takes 0.1 s, handshakes find their keys; each
 * secret is derived once, and its key is accepted. Method: a stretch() of the test's own, during
 * which a thread looks for a key. Covers: src/rpc/keys.c */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rpc/keys.h"

enum { BOUND_S = 10 };

static int derived, blocked;

static void *find_any(void *arg)
{
	uint8_t psk[LEND_KEY];

	(void)arg;
	(void)lend_keys_find(1, psk);
	return NULL;
}

/* Whether another thread finds keys now. */
static bool others_find(void)
{
	struct timespec until;
	pthread_t thread;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += BOUND_S;
	return pthread_create(&thread, NULL, find_any, NULL) == 0 &&
	       pthread_timedjoin_np(thread, NULL, &until) == 0;
}

static int start_it(void)
{
	return 0;
}

static void copy_digest(const void *data, size_t len, uint8_t out[LEND_DIGEST])
{
	memset(out, 1, LEND_DIGEST);
	memcpy(out, data, len < LEND_DIGEST ? len : LEND_DIGEST);
}

static int stretch_text(const char *text, size_t len, const uint8_t salt[LEND_SALT],
			uint8_t key[LEND_KEY])
{
	(void)salt;
	derived++;
	blocked += !others_find();
	memset(key, 2, LEND_KEY);
	memcpy(key, text, len < LEND_KEY ? len : LEND_KEY);
	return 0;
}

/* Stands in for lend_seal.so: the linker redirects lend_module_find() here. */
int __wrap_lend_module_find(const char *file, const char *package, const char *symbol,
			    void **found);
int __wrap_lend_module_find(const char *file, const char *package, const char *symbol, void **found)
{
	static struct lend_seal_ops ops = {
	    .start = start_it, .sha256 = copy_digest, .stretch = stretch_text};

	(void)file;
	(void)package;
	(void)symbol;
	*found = &ops;
	return 0;
}

static void no_file(void)
{
	setenv("HOME", "/nonexistent", 1);
	unsetenv("LEND_KEYS");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("LEND_SECRET");
}

Test(keys, derive__lock_is_free__each_secret_once, .init = no_file)
{
	uint64_t id, again;
	uint8_t psk[LEND_KEY];

	cr_assert_eq(lend_keys_first("secret of an endpoint", true, &id), 0);
	cr_expect_eq(lend_keys_add("another"), 0);
	cr_expect_neq(lend_keys_id("a third"), 0);
	cr_expect_eq(blocked, 0, "handshakes wait while a key is derived");
	cr_expect_eq(lend_keys_first("secret of an endpoint", true, &again), 0);
	cr_expect_eq(again, id);
	cr_expect_eq(lend_keys_id("another"), lend_keys_id("another"));
	cr_expect_eq(derived, 3, "%d derivations", derived);
	cr_expect(lend_keys_find(id, psk));
	cr_expect(lend_keys_find(lend_keys_id("another"), psk));
	cr_expect_not(lend_keys_find(lend_keys_id("a third"), psk), "asked for, not accepted");
}

/* A key in upper and in lower case is one key with two texts. */
Test(keys, one_key_of_two_texts__one_id, .init = no_file)
{
	char upper[65], lower[65];
	uint64_t id;

	memset(upper, 'A', 64);
	memset(lower, 'a', 64);
	upper[64] = lower[64] = 0;
	cr_assert_eq(lend_keys_add(upper), 0);
	cr_assert_eq(lend_keys_first(lower, true, &id), 0);
	cr_expect_eq(lend_keys_id(upper), id);
	cr_expect_eq(lend_keys_id(lower), id);
	cr_expect_eq(derived, 0);
}
