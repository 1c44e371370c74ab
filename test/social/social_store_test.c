/* Goal: a store keeps values and lists, in the order of scores, also over its close. Method: seeded
 * operations next to a naive model in arrays, in LMDB, and in redis behind memcached where they are
 * installed. Covers: apps/social/social_store.c, apps/social/store_lmdb.c,
 * apps/social/store_redis.c, apps/social/memcached.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/social/role_address.h"
#include "apps/social/social.h"
#include "apps/social/social_store.h"
#include "teardown.h"
#include "util/rng.h"

enum { KEYS = 8, MEMBERS = 40, STEPS = 3000 };

/* The model: a value per key, and the score of each member of each list. */
static struct {
	int value[KEYS]; /* 0: none */
	int64_t score[KEYS][MEMBERS];
} model;
static struct store_result got;
static int value_got;
static int64_t members_got[MEMBERS];
static char folder[] = "/tmp/social_store_XXXXXX";

static void keep_result(const struct store_result *result, void *arg)
{
	int *ends = arg;

	got = *result;
	if (result->value && result->value[0].data)
		memcpy(&value_got, result->value[0].data, sizeof(value_got));
	else
		value_got = 0;
	if (result->member)
		memcpy(members_got, result->member, result->n * sizeof(*result->member));
	++*ends;
}

static void wait_for(const int *ends)
{
	while (!*ends)
		cr_assert_geq(lend_wait(social.ep, LEND_NEVER), 0);
}

static const char *name_key(char text[16], char kind, unsigned key)
{
	snprintf(text, 16, "%c:%u", kind, key);
	return text;
}

static void check_put(struct store *s, unsigned key, int value, bool only_new)
{
	char text[16];
	int ends = 0;
	bool exists = only_new && model.value[key];

	store_put(s, name_key(text, 'v', key), (struct store_bytes){&value, sizeof(value)},
		  only_new, keep_result, &ends);
	wait_for(&ends);
	cr_assert_eq(got.status, exists ? LEND_ALREADY_EXISTS : LEND_OK);
	if (!exists)
		model.value[key] = value;
}

static void check_get(struct store *s, unsigned key)
{
	char text[16];
	const char *name = name_key(text, 'v', key);
	int ends = 0;

	store_get(s, &name, 1, keep_result, &ends);
	wait_for(&ends);
	cr_assert_eq(got.status, LEND_OK);
	cr_assert_eq(value_got, model.value[key]);
}

static void check_push(struct store *s, unsigned key, unsigned member, int64_t score)
{
	char text[2][16];
	const char *names[] = {name_key(text[0], 'l', key),
			       name_key(text[1], 'l', (key + 1) % KEYS)};
	int ends = 0;

	store_push(s, names, 2, member, score, keep_result, &ends);
	wait_for(&ends);
	cr_assert_eq(got.status, LEND_OK);
	model.score[key][member] = model.score[(key + 1) % KEYS][member] = score;
}

static void check_pull(struct store *s, unsigned key, unsigned member)
{
	char text[16];
	int ends = 0;

	store_pull(s, name_key(text, 'l', key), member, keep_result, &ends);
	wait_for(&ends);
	cr_assert_eq(got.status, LEND_OK);
	model.score[key][member] = 0;
}

/* Lists a key's members of the model from the oldest to the newest. */
static size_t list_model(unsigned key, int64_t members[MEMBERS])
{
	size_t n = 0;

	for (int64_t score = 1; score <= MEMBERS; score++)
		for (int64_t m = 0; m < MEMBERS; m++)
			if (model.score[key][m] == score)
				members[n++] = m;
	return n;
}

static void check_range(struct store *s, unsigned key, size_t first, size_t count, bool newest)
{
	int64_t want[MEMBERS];
	size_t n = list_model(key, want), left = first < n ? n - first : 0;
	char text[16];
	int ends = 0;

	store_range(s, name_key(text, 'l', key), first, count, newest ? STORE_NEWEST : STORE_OLDEST,
		    keep_result, &ends);
	wait_for(&ends);
	cr_assert_eq(got.status, LEND_OK);
	cr_assert_eq(got.n, left < count ? left : count);
	for (size_t i = 0; i < got.n; i++)
		cr_assert_eq(members_got[i], want[newest ? n - 1 - first - i : first + i]);
}

static void run_step(struct store *s, struct lend_rng *rng)
{
	unsigned key = (unsigned)lend_rng_below(rng, KEYS);
	unsigned member = (unsigned)lend_rng_below(rng, MEMBERS);

	switch (lend_rng_below(rng, 5)) {
	case 0:
		check_put(s, key, 1 + (int)member, lend_rng_below(rng, 2));
		break;
	case 1:
		check_get(s, key);
		break;
	case 2: /* a member has one score: equal ones are pushed again */
		check_push(s, key, member, 1 + member / 3);
		break;
	case 3:
		check_pull(s, key, member);
		break;
	default:
		check_range(s, key, member, lend_rng_below(rng, MEMBERS), lend_rng_below(rng, 2));
	}
}

static void open_folder(void)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.secret = ""; /* whatever keys this user has */
	cr_assert_not_null(mkdtemp(folder));
	social.dir = folder;
	cr_assert_eq(lend_open(&config, &social.ep), 0);
}

static void remove_folder(void)
{
	store_close_all();
	lend_close(social.ep);
	teardown_remove(folder);
}

static void run_steps(void)
{
	const uint64_t seed = 24;
	struct lend_rng rng;

	printf("seed %llu\n", (unsigned long long)seed);
	lend_rng_seed(&rng, seed);
	for (int i = 0; i < STEPS; i++) {
		if (i % 1000 == 999)
			store_close_all();
		run_step(store_open("test"), &rng);
	}
}

Test(store, lmdb__seeded_steps__as_model, .init = open_folder, .fini = remove_folder)
{
	run_steps();
}

/* Starts a server with a socket in the folder, and waits until it is there. Returns false: it is
 * not installed. */
static bool start_server(const char *role, const char *const argv[])
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s.sock", folder, role);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(1);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	while (access(path, F_OK) != 0) {
		if (waitpid(-1, NULL, WNOHANG) > 0)
			return false;
		usleep(1000);
	}
	cr_assert_eq(social_address_write(folder, role, path), 0);
	return true;
}

/* Starts redis and memcached; skips the test without them. */
static void start_servers(void)
{
	char redis[64], cache[64];
	const char *const redis_argv[] = {"redis-server", "--port", "0", "--unixsocket",
					  redis,          "--save", "",  NULL};
	const char *const cache_argv[] = {"memcached", "-s", cache, "-m", "8", "-u", "root", NULL};

	open_folder();
	social.stores = SOCIAL_REAL;
	snprintf(redis, sizeof(redis), "%s/redis.sock", folder);
	snprintf(cache, sizeof(cache), "%s/memcached.sock", folder);
	if (!start_server("redis", redis_argv) || !start_server("memcached", cache_argv))
		cr_skip_test("redis-server or memcached is not installed");
}

Test(store, redis__seeded_steps__as_model, .init = start_servers, .fini = remove_folder)
{
	run_steps();
}

Test(store, lmdb__writes_of_a_turn__end_once_in_order, .init = open_folder, .fini = remove_folder)
{
	struct store *s = store_open("test");
	const char *name = "v:a";
	int ends = 0, read = 0;

	for (int i = 1; i <= 100; i++)
		store_put(s, name, (struct store_bytes){&i, sizeof(i)}, false, keep_result, &ends);
	cr_assert_eq(ends, 0, "a write ends with its transaction");
	store_get(s, &name, 1, keep_result, &read);
	cr_assert_eq(read, 1);
	cr_assert_eq(value_got, 100, "a read sees the writes of its turn");
	while (ends < 100)
		cr_assert_geq(lend_wait(social.ep, LEND_NEVER), 0);
}

Test(store, lmdb__key_too_long__unavailable, .init = open_folder, .fini = remove_folder)
{
	char name[600];
	int ends = 0;

	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = 0;
	store_put(store_open("test"), name, (struct store_bytes){"", 0}, false, keep_result, &ends);
	wait_for(&ends);
	cr_assert_eq(got.status, LEND_UNAVAILABLE);
}
