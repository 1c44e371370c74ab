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
struct key_log {
	const struct lend_seal_ops *ops;
	struct secret *secret; /* by session */
	size_t n, cap;
};

static bool read_hex(const char *text, uint8_t key[LEND_KEY])
{
	for (size_t i = 0; i < LEND_KEY; i++) {
		unsigned byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		key[i] = (uint8_t)byte;
	}
	return true;
}

static bool parse_line(const char *line, struct secret *s)
{
	char hex[2 * LEND_KEY + 2];

	memset(s, 0, sizeof(*s));
	return sscanf(line, "seal %" SCNx64 " %u %u %65[0-9a-f]", &s->session, &s->suite, &s->level,
		      hex) == 4 &&
	       strlen(hex) == (size_t)2 * LEND_KEY && read_hex(hex, s->key);
}

static void add_secret(struct key_log *log, const struct secret *s)
{
	if (log->n == log->cap) {
		log->cap = log->cap ? 2 * log->cap : 64;
		log->secret = realloc(log->secret, log->cap * sizeof(*log->secret));
		if (!log->secret)
			app_die("no memory for the secrets of a key log");
	}
	log->secret[log->n++] = *s;
}

static int by_session(const void *a, const void *b)
{
	const struct secret *x = a, *y = b;

	return (x->session > y->session) - (x->session < y->session);
}

struct key_log *key_log_read(const char *path, const struct lend_seal_ops *ops)
{
	struct key_log *log = calloc(1, sizeof(*log));
	FILE *file = fopen(path, "re");
	struct secret s;
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
		if (!parse_line(line, &s))
			app_die("%s:%u: not a line of a key log: \"seal SESSION SUITE LEVEL "
				"SECRET\"",
				path, number);
		add_secret(log, &s);
	}
	fclose(file);
	if (log->n)
		qsort(log->secret, log->n, sizeof(*log->secret), by_session);
	return log;
}

void key_log_close(struct key_log *log)
{
	for (size_t i = 0; i < log->n; i++)
		free(log->secret[i].keys);
	if (log->n)
		explicit_bzero(log->secret, log->n * sizeof(*log->secret));
	free(log->secret);
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
