/* memcached - see memcached.h. */
#include "apps/social/memcached.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "apps/social/role_address.h"
#include "apps/social/social.h"

enum { ITEM_MAX = 1000000, LINE_CAP = 512, CHUNK = 64 << 10, OUT_MAX = 16 << 20 };
#define ANSWER_NS UINT64_C(100000000)
#define RETRY_NS  UINT64_C(10000000)

/* Bytes that wait to be sent, or were received; a queue. */
struct bytes {
	char *data;
	size_t len, cap;
};

/* A get: its values so far, in the order of its keys. */
struct cache_get {
	struct cache_get *next;
	struct store *store;
	memcached_miss_fn *miss;
	store_done_fn *done;
	void *arg;
	size_t n, missed;
	char (*key)[STORE_KEY_MAX];
	struct store_bytes *value; /* of this record's own memory */
	const char **miss_key;
};

struct memcached {
	struct lend_fd_watch watch; /* fd -1: not connected */
	struct lend_alarm deadline;
	lend_ns retry;
	struct bytes out, in;
	struct cache_get *first, **last; /* in the order of their answers */
};

static void append_bytes(struct bytes *b, const void *data, size_t len)
{
	while (b->cap - b->len < len) {
		b->cap = b->cap ? 2 * b->cap : CHUNK;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			app_die("no memory for a cache; end some processes");
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void drop_bytes(struct bytes *b, size_t len)
{
	b->len -= len;
	memmove(b->data, b->data + len, b->len);
}

static void free_get(struct cache_get *g)
{
	for (size_t i = 0; i < g->n; i++)
		free((void *)(uintptr_t)g->value[i].data);
	free(g->key);
	free(g->value);
	free(g->miss_key);
	free(g);
}

/* Adds the values of the store to those of the cache. */
static void got_missed(const struct store_result *result, void *get)
{
	struct cache_get *g = get;
	struct store_bytes *value = calloc(g->n + 1, sizeof(*value));
	struct store_result all = {.status = result->status, .n = g->n, .value = value};

	if (!value)
		app_die("no memory for a cache; end some processes");
	for (size_t i = 0, at = 0; result->status == LEND_OK && i < g->n; i++)
		value[i] = g->value[i].data ? g->value[i] : result->value[at++];
	g->done(&all, g->arg);
	free(value);
	free_get(g);
}

/* Passes what was not cached to the store. */
static void finish_get(struct cache_get *g)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		if (!g->value[i].data)
			g->miss_key[n++] = g->key[i];
	if (n)
		g->miss(g->store, g->miss_key, n, got_missed, g);
	else
		got_missed(&(struct store_result){.n = 0}, g);
}

static void lose_connection(struct memcached *m)
{
	struct cache_get *g = m->first;

	if (m->watch.fd >= 0) {
		(void)lend_watch_fd(social.ep, &m->watch, 0);
		close(m->watch.fd);
	}
	m->watch.fd = -1;
	m->in.len = m->out.len = 0;
	m->first = NULL;
	m->last = &m->first;
	lend_alarm_set(social.ep, &m->deadline, LEND_NEVER);
	while (g) {
		struct cache_get *next = g->next;

		finish_get(g);
		g = next;
	}
}

static void ring_deadline(struct lend_alarm *alarm)
{
	lose_connection(
	    (struct memcached *)((uint8_t *)alarm - offsetof(struct memcached, deadline)));
}

/* Takes one value: its line, bytes and end. Returns false: more bytes are needed, or -1 len: the
 * server sends nonsense. */
static bool take_value(struct memcached *m, const char *line, size_t head, size_t *used)
{
	char key[STORE_KEY_MAX + 1];
	struct cache_get *g = m->first;
	size_t len;
	unsigned flags;

	*used = 0;
	if (sscanf(line, "VALUE %128s %u %zu", key, &flags, &len) != 3 || len > ITEM_MAX)
		return false;
	if (m->in.len < head + len + 2)
		return true;
	*used = head + len + 2;
	for (size_t i = 0; i < g->n; i++) {
		char *copy;

		if (strcmp(g->key[i], key) != 0 || g->value[i].data)
			continue;
		copy = malloc(len + 1);
		if (copy)
			g->value[i] =
			    (struct store_bytes){memcpy(copy, m->in.data + head, len), len};
	}
	return true;
}

/* Takes one line of an answer. Returns the bytes that it used; 0: more are needed; -1: nonsense. */
static long take_line(struct memcached *m)
{
	const char *end = memchr(m->in.data, '\n', m->in.len);
	char line[LINE_CAP];
	size_t head, used;

	if (!end)
		return m->in.len < LINE_CAP ? 0 : -1;
	head = (size_t)(end - m->in.data) + 1;
	(void)snprintf(line, sizeof(line), "%.*s", (int)head, m->in.data);
	if (!m->first)
		return -1;
	if (!strncmp(line, "VALUE ", 6))
		return take_value(m, line, head, &used) ? (long)used : -1;
	if (strcmp(line, "END\r\n") != 0)
		return -1;
	return (long)head;
}

/* The first get has all its values. */
static void end_first(struct memcached *m)
{
	struct cache_get *g = m->first;

	m->first = g->next;
	if (!m->first)
		m->last = &m->first;
	lend_alarm_set(social.ep, &m->deadline,
		       m->first ? lend_now(social.ep) + ANSWER_NS : LEND_NEVER);
	finish_get(g);
}

static void take_answers(struct memcached *m)
{
	while (m->in.len) {
		bool is_end = m->in.data[0] == 'E';
		long used = take_line(m);

		if (used < 0)
			lose_connection(m);
		if (used <= 0)
			return;
		drop_bytes(&m->in, (size_t)used);
		if (is_end)
			end_first(m);
	}
}

static void send_bytes(struct memcached *m)
{
	ssize_t n = m->out.len
			? send(m->watch.fd, m->out.data, m->out.len, MSG_NOSIGNAL | MSG_DONTWAIT)
			: 0;

	if (n < 0 && errno != EAGAIN) {
		lose_connection(m);
		return;
	}
	if (n > 0)
		drop_bytes(&m->out, (size_t)n);
	(void)lend_watch_fd(social.ep, &m->watch, LEND_FD_READ | (m->out.len ? LEND_FD_WRITE : 0));
}

static void watch_ready(struct lend_fd_watch *watch, unsigned events)
{
	struct memcached *m =
	    (struct memcached *)((uint8_t *)watch - offsetof(struct memcached, watch));
	char piece[CHUNK];
	ssize_t n = recv(m->watch.fd, piece, sizeof(piece), MSG_DONTWAIT);

	(void)events;
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		lose_connection(m);
		return;
	}
	if (n > 0)
		append_bytes(&m->in, piece, (size_t)n);
	take_answers(m);
	if (m->watch.fd >= 0)
		send_bytes(m);
}

static bool connect_cache(struct memcached *m)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char address[SOCIAL_ADDRESS_MAX];
	int fd;

	if (m->watch.fd >= 0 || lend_now(social.ep) < m->retry)
		return m->watch.fd >= 0;
	m->retry = lend_now(social.ep) + RETRY_NS;
	if (!social_address_read(social.dir, "memcached", address) ||
	    strlen(address) >= sizeof(to.sun_path))
		return false;
	strcpy(to.sun_path, address);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	m->watch = (struct lend_fd_watch){.ready = watch_ready, .fd = fd};
	return true;
}

/* Returns whether memcached takes a key: no blanks or control characters. */
static bool is_valid_key(const char *key)
{
	for (; *key; key++)
		if ((unsigned char)*key <= ' ' || *key == 0x7f)
			return false;
	return true;
}

static struct cache_get *make_get(const char *const key[], size_t n)
{
	struct cache_get *g = calloc(1, sizeof(*g));

	if (g) {
		g->n = n;
		g->key = calloc(n, sizeof(*g->key));
		g->value = calloc(n, sizeof(*g->value));
		g->miss_key = calloc(n, sizeof(*g->miss_key));
	}
	if (!g || !g->key || !g->value || !g->miss_key)
		app_die("no memory for a cache; end some processes");
	for (size_t i = 0; i < n; i++)
		(void)snprintf(g->key[i], STORE_KEY_MAX, "%s", key[i]);
	return g;
}

void memcached_get(struct memcached *m, struct store *store, memcached_miss_fn *miss,
		   const char *const key[], size_t n, store_done_fn *done, void *arg)
{
	struct cache_get *g = make_get(key, n);
	bool sent = false;

	g->store = store;
	g->miss = miss;
	g->done = done;
	g->arg = arg;
	if (!connect_cache(m)) {
		finish_get(g);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!is_valid_key(key[i]))
			continue;
		append_bytes(&m->out, sent ? " " : "get ", sent ? 1 : 4);
		append_bytes(&m->out, key[i], strlen(key[i]));
		sent = true;
	}
	if (!sent) {
		finish_get(g);
		return;
	}
	append_bytes(&m->out, "\r\n", 2);
	*m->last = g;
	m->last = &g->next;
	if (m->deadline.at == LEND_NEVER)
		lend_alarm_set(social.ep, &m->deadline, lend_now(social.ep) + ANSWER_NS);
	send_bytes(m);
}

void memcached_set(struct memcached *m, const char *key, struct store_bytes value)
{
	char line[LINE_CAP];

	if (!m || value.len > ITEM_MAX || m->out.len > OUT_MAX || !is_valid_key(key) ||
	    !connect_cache(m))
		return;
	append_bytes(
	    &m->out, line,
	    (size_t)snprintf(line, sizeof(line), "set %s 0 0 %zu noreply\r\n", key, value.len));
	append_bytes(&m->out, value.data, value.len);
	append_bytes(&m->out, "\r\n", 2);
	send_bytes(m);
}

void memcached_forget(struct memcached *m, const char *key)
{
	char line[LINE_CAP];

	if (!m || !is_valid_key(key) || !connect_cache(m))
		return;
	append_bytes(&m->out, line,
		     (size_t)snprintf(line, sizeof(line), "delete %s noreply\r\n", key));
	send_bytes(m);
}

struct memcached *memcached_open(void)
{
	char address[SOCIAL_ADDRESS_MAX];
	struct memcached *m;

	if (!social_address_read(social.dir, "memcached", address))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		app_die("no memory; end some processes");
	m->watch.fd = -1;
	m->last = &m->first;
	m->deadline = (struct lend_alarm){.ring = ring_deadline, .at = LEND_NEVER};
	return m;
}

void memcached_close(struct memcached *m)
{
	if (!m)
		return;
	lose_connection(m);
	free(m->in.data);
	free(m->out.data);
	free(m);
}
