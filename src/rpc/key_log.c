#include "rpc/key_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/keyfile.h"
#include "sys/last_error.h"

enum { LINE = 128 };

/* lock guards both, and fd is never closed: sessions of all endpoints use it until the end. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int fd = -1;
static const struct lend_seal_ops *plain; /* set once */

static int open_file(const char *path)
{
	int opened = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
			  0600),
	    rc;

	if (opened < 0)
		return lend_fail(errno, "key log %s: %s; name a file of this user's", path,
				 strerror(errno));
	rc = lend_keyfile_check(opened, path);
	if (rc < 0)
		close(opened);
	else
		fd = opened;
	return rc;
}

int lend_key_log_open(void)
{
	const char *path = secure_getenv("LEND_KEY_LOG");
	int rc = 0;

	if (!path || !*path)
		return 0;
	pthread_mutex_lock(&lock);
	if (fd < 0)
		rc = open_file(path);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Appends lines in one write: processes may share the file. */
static void append_text(char *text, size_t len)
{
	pthread_mutex_lock(&lock);
	if (fd >= 0 && write(fd, text, len) != (ssize_t)len) {
		fprintf(stderr, "lend: the key log ends here: %s; free space (calls continue)\n",
			strerror(errno));
		close(fd);
		fd = -1;
	}
	pthread_mutex_unlock(&lock);
	explicit_bzero(text, len);
}

static char *put_hex(char *to, const uint8_t *bytes, size_t len, char end)
{
	for (size_t i = 0; i < len; i++)
		to += sprintf(to, "%02x", bytes[i]);
	*to++ = end;
	return to;
}

static char *put_secret(char *to, uint64_t session, const struct lend_seal_keys *keys,
			const uint8_t secret[LEND_KEY])
{
	to += sprintf(to, "seal %016" PRIx64 " %u %u ", session, keys->suite, keys->level);
	return put_hex(to, secret, LEND_KEY, '\n');
}

void lend_key_log_put(const struct lend_seal_keys *keys)
{
	char text[2 * LINE], *end;

	if (fd < 0)
		return;
	end = put_secret(text, keys->peer_id, keys, keys->tx);
	end = put_secret(end, keys->session, keys, keys->rx);
	append_text(text, (size_t)(end - text));
}

static void put_message(const uint8_t tag[LEND_TAG], const uint8_t key[LEND_KEY],
			const uint8_t bound[LEND_DIGEST])
{
	char text[2 * LINE] = "open ", *end;

	end = put_hex(text + strlen(text), tag, LEND_TAG, ' ');
	end = put_hex(end, key, LEND_KEY, ' ');
	end = put_hex(end, bound, LEND_DIGEST, '\n');
	append_text(text, (size_t)(end - text));
}

static void seal_message(const uint8_t key[LEND_KEY], const uint8_t bound[LEND_DIGEST],
			 uint8_t *text, size_t len)
{
	plain->aead_seal(key, bound, text, len);
	put_message(text + len, key, bound);
}

static int open_message(const uint8_t key[LEND_KEY], const uint8_t bound[LEND_DIGEST],
			uint8_t *text, size_t len)
{
	int rc = plain->aead_open(key, bound, text, len);

	if (rc == 0)
		put_message(text + len, key, bound);
	return rc;
}

const struct lend_seal_ops *lend_key_log_ops(const struct lend_seal_ops *ops)
{
	static struct lend_seal_ops logging;
	bool logs;

	pthread_mutex_lock(&lock);
	logs = fd >= 0;
	if (logs && !plain) {
		logging = *ops;
		logging.aead_seal = seal_message;
		logging.aead_open = open_message;
		plain = ops;
	}
	pthread_mutex_unlock(&lock);
	return logs ? &logging : ops;
}
