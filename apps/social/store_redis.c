/* store_redis - stores in redis: values as strings, lists as sorted sets. Members are numbers of
 * equal length, so that equal scores are in their order.
 *
 * hiredis parses; its socket is one of the endpoint's. A server that does not answer for a second
 * loses its connection, and pending operations end UNAVAILABLE. A later operation connects again.
 *
 * Layer: apps. Threads: the endpoint's. */
#include <hiredis/async.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/social/memcached.h"
#include "apps/social/role_address.h"
#include "apps/social/social.h"
#include "apps/social/store_kind.h"

enum { MEMBER_LEN = 20, PART_MAX = 64, SILENT_MAX = 4 };
#define CHECK_NS UINT64_C(250000000) /* no answer in SILENT_MAX of these: the server is stalled */
#define RETRY_NS UINT64_C(10000000)

struct redis {
	struct store base;          /* first */
	redisAsyncContext *context; /* NULL: not connected */
	struct lend_fd_watch watch;
	struct lend_alarm deadline;
	uint64_t sent, answered, checked; /* commands; answered ones at the last check */
	unsigned silent;                  /* checks in a row without an answer */
	lend_ns retry;
	struct memcached *cache; /* NULL: none */
};

/* One operation: one command, or several that are pipelined. */
struct redis_op {
	struct redis *store;
	store_done_fn *done;
	void *arg;
	size_t left; /* commands without an answer */
	enum lend_status status;
	bool only_new;
	size_t n;
	char (*key)[STORE_KEY_MAX]; /* get: for the cache */
};

static void set_events(struct redis *r, unsigned add, unsigned remove)
{
	unsigned events = (r->watch.events | add) & ~remove;

	if (events != r->watch.events)
		(void)lend_watch_fd(social.ep, &r->watch, events);
}

static void add_read(void *store)
{
	set_events(store, LEND_FD_READ, 0);
}

static void del_read(void *store)
{
	set_events(store, 0, LEND_FD_READ);
}

static void add_write(void *store)
{
	set_events(store, LEND_FD_WRITE, 0);
}

static void del_write(void *store)
{
	set_events(store, 0, LEND_FD_WRITE);
}

/* The connection ends: hiredis frees the context after it has completed its commands. */
static void end_connection(void *store)
{
	struct redis *r = store;

	set_events(r, 0, LEND_FD_READ | LEND_FD_WRITE);
	lend_alarm_set(social.ep, &r->deadline, LEND_NEVER);
	r->context = NULL;
	r->sent = r->answered = 0;
}

static void watch_ready(struct lend_fd_watch *watch, unsigned events)
{
	struct redis *r = (struct redis *)((uint8_t *)watch - offsetof(struct redis, watch));

	if (r->context && (events & LEND_FD_READ))
		redisAsyncHandleRead(r->context);
	if (r->context && (events & LEND_FD_WRITE))
		redisAsyncHandleWrite(r->context);
}

static void check_answers(struct lend_alarm *alarm)
{
	struct redis *r = (struct redis *)((uint8_t *)alarm - offsetof(struct redis, deadline));

	r->silent = r->answered == r->checked ? r->silent + 1 : 0;
	r->checked = r->answered;
	if (r->sent == r->answered)
		return;
	if (r->context && r->silent == SILENT_MAX) {
		r->retry = lend_now(social.ep) + CHECK_NS; /* until then operations end at once */
		redisAsyncFree(r->context);
		return;
	}
	lend_alarm_set(social.ep, alarm, lend_now(social.ep) + CHECK_NS);
}

/* Connects unless that is done. Returns false: not possible now. */
static bool connect_redis(struct redis *r)
{
	char address[SOCIAL_ADDRESS_MAX];

	if (r->context || lend_now(social.ep) < r->retry)
		return r->context;
	r->retry = lend_now(social.ep) + RETRY_NS;
	if (!social_address_read(social.dir, "redis", address))
		return false;
	r->context = redisAsyncConnectUnix(address);
	if (!r->context || r->context->err) {
		if (r->context)
			redisAsyncFree(r->context);
		r->context = NULL;
		return false;
	}
	r->watch = (struct lend_fd_watch){.ready = watch_ready, .fd = r->context->c.fd};
	r->context->ev.data = r;
	r->context->ev.addRead = add_read;
	r->context->ev.delRead = del_read;
	r->context->ev.addWrite = add_write;
	r->context->ev.delWrite = del_write;
	r->context->ev.cleanup = end_connection;
	return true;
}

static struct redis_op *make_op(struct store *store, size_t commands, store_done_fn *done,
				void *arg)
{
	struct redis_op *op = calloc(1, sizeof(*op));

	if (!op)
		app_die("no memory for an operation; end some processes");
	op->store = (struct redis *)store;
	op->done = done;
	op->arg = arg;
	op->left = commands;
	return op;
}

static void finish_op(struct redis_op *op, struct store_result *result)
{
	result->status = op->status;
	op->done(result, op->arg);
	free(op->key);
	free(op);
}

/* Ends a command of an operation. Returns false: others have not ended. */
static bool end_command(struct redis_op *op, const redisReply *reply)
{
	op->store->answered++;
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		op->status = reply ? LEND_INTERNAL : LEND_UNAVAILABLE;
	else if (op->only_new && reply->type == REDIS_REPLY_NIL)
		op->status = LEND_ALREADY_EXISTS;
	return !--op->left;
}

static void got_write(redisAsyncContext *context, void *reply, void *arg)
{
	struct redis_op *op = arg;

	(void)context;
	if (end_command(op, reply))
		finish_op(op, &(struct store_result){.n = 0});
}

/* Sends a command of an operation. */
static void send_command(struct redis_op *op, redisCallbackFn *got, int n, const char **word,
			 const size_t *len)
{
	struct redis *r = op->store;
	lend_ns began = lend_now(social.ep);

	if (!connect_redis(r) || redisAsyncCommandArgv(r->context, got, op, n, word, len) != 0) {
		r->answered--;
		got(NULL, NULL, op);
		return;
	}
	r->sent++;
	store_spend(&r->base, began);
	if (r->deadline.at == LEND_NEVER) {
		r->checked = r->answered;
		r->silent = 0;
		lend_alarm_set(social.ep, &r->deadline, lend_now(social.ep) + CHECK_NS);
	}
}

static void put_value(struct store *store, const char *key, struct store_bytes value, bool only_new,
		      store_done_fn *done, void *arg)
{
	struct redis_op *op = make_op(store, 1, done, arg);
	const char *word[] = {"SET", key, value.data, "NX"};
	const size_t len[] = {3, strlen(key), value.len, 2};

	op->only_new = only_new;
	if (!only_new)
		memcached_forget(op->store->cache, key);
	send_command(op, got_write, only_new ? 4 : 3, word, len);
}

static void push_member(struct store *store, const char *const key[], size_t n, int64_t member,
			int64_t score, store_done_fn *done, void *arg)
{
	struct redis_op *op = make_op(store, n + 1, done, arg);
	char scored[32], name[32];

	(void)snprintf(scored, sizeof(scored), "%" PRId64, score);
	(void)snprintf(name, sizeof(name), "%0*" PRId64, MEMBER_LEN, member);
	for (size_t i = 0; i < n; i++) {
		const char *word[] = {"ZADD", key[i], "NX", scored, name};
		const size_t len[] = {4, strlen(key[i]), 2, strlen(scored), strlen(name)};

		send_command(op, got_write, 5, word, len);
	}
	if (!--op->left)
		finish_op(op, &(struct store_result){.n = 0});
}

static void pull_member(struct store *store, const char *key, int64_t member, store_done_fn *done,
			void *arg)
{
	char name[32];
	const char *word[] = {"ZREM", key, name};
	const size_t len[] = {
	    4, strlen(key), (size_t)snprintf(name, sizeof(name), "%0*" PRId64, MEMBER_LEN, member)};

	send_command(make_op(store, 1, done, arg), got_write, 3, word, len);
}

static void got_range(redisAsyncContext *context, void *answer, void *arg)
{
	struct redis_op *op = arg;
	const redisReply *reply = answer;
	struct store_result result = {.n = 0};
	int64_t *member = NULL;

	(void)context;
	(void)end_command(op, reply);
	if (reply && reply->type == REDIS_REPLY_ARRAY)
		member = calloc(reply->elements + 1, sizeof(*member));
	for (size_t i = 0; member && i < reply->elements; i++)
		member[result.n++] = strtoll(reply->element[i]->str, NULL, 10);
	result.member = member;
	finish_op(op, &result);
	free(member);
}

static void range_members(struct store *store, const char *key, size_t first, size_t count,
			  enum store_order order, store_done_fn *done, void *arg)
{
	struct redis_op *op = make_op(store, 1, done, arg);
	char from[32], to[32];
	const char *word[] = {order == STORE_NEWEST ? "ZREVRANGE" : "ZRANGE", key, from, to};
	const size_t len[] = {strlen(word[0]), strlen(key),
			      (size_t)snprintf(from, sizeof(from), "%zu", first),
			      (size_t)snprintf(to, sizeof(to), "%zu", first + count - 1)};

	if (count) {
		send_command(op, got_range, 4, word, len);
		return;
	}
	finish_op(op, &(struct store_result){.n = 0});
}

/* Completes a get, and fills the cache. */
static void got_values(redisAsyncContext *context, void *answer, void *arg)
{
	struct redis_op *op = arg;
	const redisReply *reply = answer;
	struct store_result result = {.n = 0};
	struct store_bytes *value = calloc(op->n + 1, sizeof(*value));

	(void)context;
	(void)end_command(op, reply);
	if (!value || (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements != op->n))
		op->status = LEND_INTERNAL;
	for (size_t i = 0; op->status == LEND_OK && i < op->n; i++) {
		const redisReply *one = reply->element[i];

		if (one->type == REDIS_REPLY_STRING)
			value[i] = (struct store_bytes){one->str, (size_t)one->len};
		if (value[i].data)
			memcached_set(op->store->cache, op->key[i], value[i]);
		result.n++;
	}
	result.value = value;
	finish_op(op, &result);
	free(value);
}

static void get_from_redis(struct store *store, const char *const key[], size_t n,
			   store_done_fn *done, void *arg)
{
	struct redis_op *op = make_op(store, 1, done, arg);
	const char **word = calloc(n + 1, sizeof(*word));
	size_t *len = calloc(n + 1, sizeof(*len));

	op->n = n;
	op->key = calloc(n + 1, sizeof(*op->key));
	if (!word || !len || !op->key)
		app_die("no memory for an operation; end some processes");
	word[0] = "MGET";
	len[0] = 4;
	for (size_t i = 0; i < n; i++) {
		word[i + 1] = key[i];
		len[i + 1] = strlen(key[i]);
		(void)snprintf(op->key[i], STORE_KEY_MAX, "%s", key[i]);
	}
	send_command(op, got_values, (int)n + 1, word, len);
	free(word);
	free(len);
}

static void get_values(struct store *store, const char *const key[], size_t n, store_done_fn *done,
		       void *arg)
{
	struct redis *r = (struct redis *)store;

	if (!n)
		done(&(struct store_result){.n = 0}, arg);
	else if (r->cache)
		memcached_get(r->cache, store, get_from_redis, key, n, done, arg);
	else
		get_from_redis(store, key, n, done, arg);
}

static void close_store(struct store *store)
{
	struct redis *r = (struct redis *)store;

	if (r->context)
		redisAsyncFree(r->context);
	memcached_close(r->cache);
	free(r);
}

struct store *store_redis_open(const char *name)
{
	static const struct store_kind kind = {.get = get_values,
					       .put = put_value,
					       .push = push_member,
					       .range = range_members,
					       .pull = pull_member,
					       .close = close_store};
	struct redis *r = calloc(1, sizeof(*r));

	if (!r)
		app_die("no memory; end some processes");
	(void)name;
	r->base.kind = &kind;
	r->deadline = (struct lend_alarm){.ring = check_answers, .at = LEND_NEVER};
	r->cache = memcached_open();
	return &r->base;
}
