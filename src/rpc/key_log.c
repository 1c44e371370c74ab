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

/* lock guards fd, which is never closed: sessions of all endpoints use it until the end. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;

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

static size_t put_line(char *to, uint64_t session, const struct lend_seal_keys *keys,
		       const uint8_t secret[LEND_KEY])
{
	char *at =
	    to + sprintf(to, "seal %016" PRIx64 " %u %u ", session, keys->suite, keys->level);

	for (size_t i = 0; i < LEND_KEY; i++)
		at += sprintf(at, "%02x", secret[i]);
	*at++ = '\n';
	return (size_t)(at - to);
}

/* Both lines in one write: processes may share the file. */
void lend_key_log_put(const struct lend_seal_keys *keys)
{
	char text[2 * LINE];
	size_t len;

	pthread_mutex_lock(&lock);
	if (fd >= 0) {
		len = put_line(text, keys->peer_id, keys, keys->tx);
		len += put_line(text + len, keys->session, keys, keys->rx);
		if (write(fd, text, len) != (ssize_t)len) {
			fprintf(stderr,
				"lend: the key log ends here: %s; free space (calls continue)\n",
				strerror(errno));
			close(fd);
			fd = -1;
		}
		explicit_bzero(text, sizeof(text));
	}
	pthread_mutex_unlock(&lock);
}
