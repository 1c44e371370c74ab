#include "apps/sealed/key_log_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"

struct secret {
	uint64_t session;
	unsigned suite, level;
	uint8_t key[LEND_KEY];
	struct lend_reopen *keys; /* made at the first datagram of the session */
};
/* A CONNECT or an ACCEPT. */
struct message {
	uint8_t tag[LEND_TAG], key[LEND_KEY], bound[LEND_DIGEST];
};
struct key_log {
	const struct lend_seal_ops *ops;
	struct secret *secret; /* by session */
	size_t n, cap;
	struct message *message; /* by tag */
	size_t messages, messages_cap;
};

/* Reads len bytes, of twice as many digits and no more. */
static bool read_hex(const char *text, uint8_t *to, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		to[i] = (uint8_t)byte;
	}
	return !text[2 * len];
}

static bool parse_line(const char *line, struct secret *s)
{
	char hex[2 * LEND_KEY + 2];

	memset(s, 0, sizeof(*s));
	return sscanf(line, "seal %" SCNx64 " %u %u %65[0-9a-f]", &s->session, &s->suite, &s->level,
		      hex) == 4 &&
	       read_hex(hex, s->key, LEND_KEY);
}

static bool parse_message(const char *line, struct message *m)
{
	char tag[2 * LEND_TAG + 2], key[2 * LEND_KEY + 2], bound[2 * LEND_DIGEST + 2];

	return sscanf(line, "open %33[0-9a-f] %65[0-9a-f] %65[0-9a-f]", tag, key, bound) == 3 &&
	       read_hex(tag, m->tag, LEND_TAG) && read_hex(key, m->key, LEND_KEY) &&
	       read_hex(bound, m->bound, LEND_DIGEST);
}

/* Returns the place of the next entry of a list, which grows if need be. */
static void *add_entry(void *list, size_t *n, size_t *cap, size_t size)
{
	if (*n == *cap) {
		*cap = *cap ? 2 * *cap : 64;
		*(void **)list = realloc(*(void **)list, *cap * size);
		if (!*(void **)list)
			app_die("no memory for the secrets of a key log");
	}
	return (char *)*(void **)list + (*n)++ * size;
}

static bool take_line(struct key_log *log, const char *line)
{
	struct secret s;
	struct message m;

	if (parse_line(line, &s))
		*(struct secret *)add_entry(&log->secret, &log->n, &log->cap, sizeof(s)) = s;
	else if (parse_message(line, &m))
		*(struct message *)add_entry(&log->message, &log->messages, &log->messages_cap,
					     sizeof(m)) = m;
	else
		return false;
	return true;
}

static int by_session(const void *a, const void *b)
{
	const struct secret *x = a, *y = b;

	return (x->session > y->session) - (x->session < y->session);
}

static int by_tag(const void *a, const void *b)
{
	return memcmp(a, b, LEND_TAG);
}

struct key_log *key_log_read(const char *path, const struct lend_seal_ops *ops)
{
	struct key_log *log = calloc(1, sizeof(*log));
	FILE *file = fopen(path, "re");
	char line[256];

	if (!log)
		app_die("no memory for the secrets of a key log");
	if (!file)
		app_die("%s: %s; name the file that --key-log or LEND_KEY_LOG wrote", path,
			strerror(errno));
	log->ops = ops;
	for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
		if (*line == '#' || *line == '\n')
			continue;
		if (!take_line(log, line))
			app_die("%s:%u: not a line of a key log: \"seal SESSION SUITE LEVEL "
				"SECRET\" or \"open TAG KEY BOUND\"",
				path, number);
	}
	fclose(file);
	if (log->n)
		qsort(log->secret, log->n, sizeof(*log->secret), by_session);
	if (log->messages)
		qsort(log->message, log->messages, sizeof(*log->message), by_tag);
	return log;
}

void key_log_close(struct key_log *log)
{
	for (size_t i = 0; i < log->n; i++)
		free(log->secret[i].keys);
	if (log->n)
		explicit_bzero(log->secret, log->n * sizeof(*log->secret));
	free(log->secret);
	if (log->messages)
		explicit_bzero(log->message, log->messages * sizeof(*log->message));
	free(log->message);
	free(log);
}

size_t key_log_size(const struct key_log *log)
{
	return log->n;
}

/* Returns the index of the first secret of a session, or of a later one. */
static size_t find_first(const struct key_log *log, uint64_t session)
{
	size_t low = 0, high = log->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (log->secret[middle].session < session)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool prepare_keys(const struct key_log *log, struct secret *s)
{
	if (s->keys)
		return true;
	s->keys = aligned_alloc(64, sizeof(*s->keys));
	if (!s->keys)
		app_die("no memory for the keys of a session");
	if (lend_reopen_begin(s->keys, log->ops, (uint8_t)s->suite, (uint8_t)s->level, s->key))
		return true;
	free(s->keys);
	s->keys = NULL;
	return false;
}

enum key_log_opened key_log_open(struct key_log *log, uint8_t *datagram, uint32_t len,
				 uint64_t *epoch, uint8_t *suite)
{
	uint64_t session = lend_pkt_session(datagram);
	size_t i = find_first(log, session);
	enum key_log_opened result = KEY_LOG_NONE;

	for (; i < log->n && log->secret[i].session == session; i++) {
		struct secret *s = &log->secret[i];

		if (!prepare_keys(log, s))
			continue;
		*suite = (uint8_t)s->suite;
		if (lend_reopen(s->keys, datagram, len, epoch))
			return KEY_LOG_OPENED;
		result = KEY_LOG_WRONG;
	}
	return result;
}

enum key_log_opened key_log_open_message(const struct key_log *log, uint8_t *text, uint32_t len)
{
	const struct message *m =
	    log->messages ? bsearch(text + len, log->message, log->messages, sizeof(*m), by_tag)
			  : NULL;

	if (!m)
		return KEY_LOG_NONE;
	if (log->ops->aead_open(m->key, m->bound, text, len) < 0)
		return KEY_LOG_WRONG;
	memset(text + len, 0, LEND_TAG);
	return KEY_LOG_OPENED;
}
