/* store_lmdb - stores in LMDB: values by key, and lists. The members of a list are LMDB's sorted
 * duplicates, 16 bytes of big-endian score and member.
 *
 * Operations of a turn share one transaction, which ends in the next turn, and completes the
 * writes. A thread writes all to disk each second.
 *
 * Layer: apps. Threads: the endpoint's, and the one that syncs. */
#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "apps/common/options.h"
#include "apps/social/role_address.h"
#include "apps/social/social.h"
#include "apps/social/store_kind.h"
#include "util/bits.h"

enum { GET_MAX = 1024, ENTRY = 16 };
#define MAP_MAX ((size_t)64 << 30) /* address space, not memory */

/* A write that ends with its transaction. */
struct write_end {
	store_done_fn *done;
	void *arg;
	enum lend_status status;
};

struct lmdb {
	struct store base; /* first */
	struct lend_alarm commit;
	MDB_env *env;
	MDB_dbi values, lists;
	MDB_txn *txn;    /* the turn's writes; NULL: none yet */
	MDB_txn *reader; /* one read at a time */
	bool failed, read_only;
	struct write_end *ends;
	size_t n, cap;
	pthread_t sync_thread;
	sem_t closing; /* ends it */
};

static MDB_val text_of(const char *text)
{
	return (MDB_val){strlen(text), (void *)(uintptr_t)text};
}

static void write_entry(uint8_t entry[ENTRY], int64_t score, int64_t member)
{
	const uint64_t both[2] = {__builtin_bswap64((uint64_t)score),
				  __builtin_bswap64((uint64_t)member)};

	memcpy(entry, both, ENTRY);
}

static int64_t member_of(const void *entry)
{
	return (int64_t)__builtin_bswap64(lend_load_u64((const uint8_t *)entry + 8));
}

/* Ends the transaction, then its writes. A completion may write again, in a new one. */
static void commit_writes(struct lend_alarm *alarm)
{
	struct lmdb *s = (struct lmdb *)((uint8_t *)alarm - offsetof(struct lmdb, commit));
	struct write_end *ends = s->ends;
	lend_ns began = lend_now(social.ep);
	size_t n = s->n;
	int err = EIO;

	if (s->txn && s->failed)
		mdb_txn_abort(s->txn);
	else if (s->txn)
		err = mdb_txn_commit(s->txn);
	s->txn = NULL;
	s->failed = false;
	s->ends = NULL;
	s->n = s->cap = 0;
	store_spend(&s->base, began);
	for (size_t i = 0; i < n; i++) {
		struct store_result result = {.status = err ? LEND_UNAVAILABLE : ends[i].status};

		ends[i].done(&result, ends[i].arg);
	}
	free(ends);
}

/* Opens the turn's transaction unless it is open. Returns false: it cannot be. */
static bool begin_txn(struct lmdb *s)
{
	if (!s->txn && mdb_txn_begin(s->env, NULL, 0, &s->txn) != 0)
		s->txn = NULL;
	else if (s->commit.at == LEND_NEVER)
		lend_alarm_set(social.ep, &s->commit, lend_now(social.ep));
	return s->txn && !s->failed;
}

/* Returns a transaction for one read, which sees the turn's writes; NULL: there is none. */
static MDB_txn *begin_read(struct lmdb *s)
{
	if (s->txn)
		return s->failed ? NULL : s->txn;
	if (s->reader)
		return mdb_txn_renew(s->reader) == 0 ? s->reader : NULL;
	return mdb_txn_begin(s->env, NULL, MDB_RDONLY, &s->reader) == 0 ? s->reader : NULL;
}

static void end_read(struct lmdb *s, MDB_txn *txn)
{
	if (txn && txn == s->reader)
		mdb_txn_reset(txn);
}

/* Completes a write with its transaction; err: of LMDB. */
static void end_write(struct lmdb *s, lend_ns began, int err, store_done_fn *done, void *arg)
{
	struct store_result result = {.status = LEND_UNAVAILABLE};

	store_spend(&s->base, began);
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct write_end *more = realloc(s->ends, cap * sizeof(*more));

		if (!more)
			app_die("no memory for a transaction; end some processes");
		s->ends = more;
		s->cap = cap;
	}
	if (!s->txn) {
		done(&result, arg);
		return;
	}
	s->failed |= err && err != MDB_KEYEXIST && err != MDB_NOTFOUND;
	s->ends[s->n++] =
	    (struct write_end){done, arg, err == MDB_KEYEXIST ? LEND_ALREADY_EXISTS : LEND_OK};
}

static void get_values(struct store *store, const char *const key[], size_t n, store_done_fn *done,
		       void *arg)
{
	struct lmdb *s = (struct lmdb *)store;
	struct store_bytes value[GET_MAX];
	struct store_result result = {.n = n, .value = value};
	lend_ns began = lend_now(social.ep);
	MDB_txn *txn = n <= GET_MAX ? begin_read(s) : NULL;

	if (!txn)
		result = (struct store_result){.status = n > GET_MAX ? LEND_RESOURCE_EXHAUSTED
								     : LEND_UNAVAILABLE};
	for (size_t i = 0; i < result.n; i++) {
		MDB_val name = text_of(key[i]), found = {0, NULL};
		int err = mdb_get(txn, s->values, &name, &found);

		value[i] = (struct store_bytes){err ? NULL : found.mv_data, found.mv_size};
	}
	store_spend(store, began);
	done(&result, arg);
	end_read(s, txn);
}

static void put_value(struct store *store, const char *key, struct store_bytes value, bool only_new,
		      store_done_fn *done, void *arg)
{
	struct lmdb *s = (struct lmdb *)store;
	MDB_val name = text_of(key), data = {value.len, (void *)(uintptr_t)value.data};
	lend_ns began = lend_now(social.ep);
	int err = EIO;

	if (begin_txn(s))
		err = mdb_put(s->txn, s->values, &name, &data, only_new ? MDB_NOOVERWRITE : 0);
	end_write(s, began, err, done, arg);
}

static void push_member(struct store *store, const char *const key[], size_t n, int64_t member,
			int64_t score, store_done_fn *done, void *arg)
{
	struct lmdb *s = (struct lmdb *)store;
	lend_ns began = lend_now(social.ep);
	uint8_t entry[ENTRY];
	int err = begin_txn(s) ? 0 : EIO;

	write_entry(entry, score, member);
	for (size_t i = 0; i < n && !err; i++) {
		MDB_val name = text_of(key[i]), data = {ENTRY, entry};

		err = mdb_put(s->txn, s->lists, &name, &data, MDB_NODUPDATA);
		err = err == MDB_KEYEXIST ? 0 : err;
	}
	end_write(s, began, err, done, arg);
}

/* Moves a cursor to the first-th entry of a list. */
static int seek_entry(MDB_cursor *cursor, MDB_val *key, MDB_val *entry, size_t first, bool newest)
{
	int err = mdb_cursor_get(cursor, key, entry, MDB_SET_KEY);

	if (!err && newest)
		err = mdb_cursor_get(cursor, key, entry, MDB_LAST_DUP);
	while (!err && first--)
		err = mdb_cursor_get(cursor, key, entry, newest ? MDB_PREV_DUP : MDB_NEXT_DUP);
	return err;
}

/* Takes memory for at most *count members, and lowers *count to what the list has. */
static int64_t *take_members(MDB_cursor *cursor, size_t first, size_t *count)
{
	int64_t *member;
	size_t all = 0;

	(void)mdb_cursor_count(cursor, &all);
	*count = lend_min_u64(*count, all - first);
	member = malloc((*count + 1) * sizeof(*member));
	if (!member)
		app_die("no memory for a list of %zu; end some processes", *count);
	return member;
}

static void range_members(struct store *store, const char *key, size_t first, size_t count,
			  enum store_order order, store_done_fn *done, void *arg)
{
	struct lmdb *s = (struct lmdb *)store;
	bool newest = order == STORE_NEWEST;
	struct store_result result = {.status = LEND_UNAVAILABLE};
	lend_ns began = lend_now(social.ep);
	int64_t *member = NULL;
	MDB_val name = text_of(key), entry = {0, NULL};
	MDB_txn *txn = begin_read(s);
	MDB_cursor *cursor;
	int err;

	if (!txn || mdb_cursor_open(txn, s->lists, &cursor) != 0) {
		end_read(s, txn);
		done(&result, arg);
		return;
	}
	result.status = LEND_OK;
	err = seek_entry(cursor, &name, &entry, first, newest);
	if (!err)
		member = take_members(cursor, first, &count);
	while (!err && result.n < count) {
		member[result.n++] = member_of(entry.mv_data);
		err = mdb_cursor_get(cursor, &name, &entry, newest ? MDB_PREV_DUP : MDB_NEXT_DUP);
	}
	mdb_cursor_close(cursor);
	end_read(s, txn);
	result.member = member;
	store_spend(store, began);
	done(&result, arg);
	free(member);
}

static void pull_member(struct store *store, const char *key, int64_t member, store_done_fn *done,
			void *arg)
{
	struct lmdb *s = (struct lmdb *)store;
	MDB_val name = text_of(key), entry = {0, NULL};
	lend_ns began = lend_now(social.ep);
	MDB_cursor *cursor = NULL;
	int err = begin_txn(s) ? mdb_cursor_open(s->txn, s->lists, &cursor) : EIO;

	if (!err)
		err = seek_entry(cursor, &name, &entry, 0, false);
	while (!err && member_of(entry.mv_data) != member)
		err = mdb_cursor_get(cursor, &name, &entry, MDB_NEXT_DUP);
	if (!err)
		err = mdb_cursor_del(cursor, 0);
	if (cursor)
		mdb_cursor_close(cursor);
	end_write(s, began, err, done, arg);
}

/* Until the store is closed. */
static void *sync_each_second(void *arg)
{
	struct lmdb *s = arg;
	struct timespec next;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &next);
		next.tv_sec++;
		if (sem_timedwait(&s->closing, &next) == 0)
			return NULL;
		(void)mdb_env_sync(s->env, 1);
	}
}

static void close_store(struct store *store)
{
	struct lmdb *s = (struct lmdb *)store;

	if (!s->read_only) {
		commit_writes(&s->commit);
		sem_post(&s->closing);
		pthread_join(s->sync_thread, NULL);
		(void)mdb_env_sync(s->env, 1);
	}
	sem_destroy(&s->closing);
	mdb_txn_abort(s->reader);
	mdb_env_close(s->env);
	free(s);
}

/* Opens the environment, and both of its databases. A reader makes neither. */
static int open_env(struct lmdb *s, const char *path)
{
	unsigned env = s->read_only ? MDB_RDONLY : 0, db = s->read_only ? 0 : MDB_CREATE;
	int dead, err = mdb_env_create(&s->env);

	if (!err)
		err = mdb_env_set_mapsize(s->env, MAP_MAX);
	if (!err)
		err = mdb_env_set_maxdbs(s->env, 2);
	if (!err)
		err = mdb_env_open(s->env, path, env | MDB_NOSYNC | MDB_NOTLS, 0644);
	if (!err)
		err = mdb_reader_check(s->env, &dead); /* processes that were killed left readers */
	if (!err)
		err = mdb_txn_begin(s->env, NULL, env, &s->txn);
	if (!err)
		err = mdb_dbi_open(s->txn, "values", db, &s->values);
	if (!err)
		err = mdb_dbi_open(s->txn, "lists", db | MDB_DUPSORT | MDB_DUPFIXED, &s->lists);
	if (!err)
		err = mdb_txn_commit(s->txn);
	else
		mdb_txn_abort(s->txn);
	s->txn = NULL;
	if (err)
		mdb_env_close(s->env);
	return err;
}

struct store *store_lmdb_open(const char *name, bool read_only)
{
	static const struct store_kind kind = {.get = get_values,
					       .put = put_value,
					       .push = push_member,
					       .range = range_members,
					       .pull = pull_member,
					       .close = close_store};
	struct lmdb *s = calloc(1, sizeof(*s));
	char path[SOCIAL_PATH_MAX];
	int err;

	if (!s)
		app_die("no memory; end some processes");
	s->base.kind = &kind;
	s->read_only = read_only;
	s->commit = (struct lend_alarm){.ring = commit_writes, .at = LEND_NEVER};
	(void)sem_init(&s->closing, 0, 0);
	(void)snprintf(path, sizeof(path), "%s/db", social.dir);
	if (!read_only)
		(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/db/%s", social.dir, name);
	if (!read_only)
		(void)mkdir(path, 0755);
	err = open_env(s, path);
	if (err && read_only) {
		free(s);
		return NULL;
	}
	if (!err && !read_only)
		err = pthread_create(&s->sync_thread, NULL, sync_each_second, s);
	if (err)
		app_die("%s: %s; give another --dir", path, mdb_strerror(err));
	return &s->base;
}
