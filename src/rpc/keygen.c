/* keygen - a file with one new key. Layer: rpc. Threads: any. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lend/rpc.h"
#include "rpc/keys.h"
#include "sys/rand.h"
#include "sys/last_error.h"

enum { LINE_MAX_LEN = 128 };

static char *put_hex(char *at, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at += sprintf(at, "%02x", bytes[i]);
	return at;
}

/* Writes the line "psk ID KEY\n" of a new random key. */
static int make_line(char line[LINE_MAX_LEN])
{
	const struct lend_seal_ops *seal;
	uint8_t key[LEND_KEY], digest[LEND_DIGEST];
	int rc = lend_keys_seal(&seal);
	char *at = line;

	if (rc < 0)
		return rc;
	lend_random(key, sizeof(key));
	seal->sha256(key, sizeof(key), digest);
	at = stpcpy(at, "psk ");
	at = put_hex(at, digest, 8);
	at = stpcpy(at, " ");
	at = put_hex(at, key, sizeof(key));
	(void)strcpy(at, "\n");
	explicit_bzero(key, sizeof(key));
	return 0;
}

/* Makes the folders on the path to a file, accessible to this user only. */
static void make_folders(const char *path)
{
	char folder[PATH_MAX];

	if (strlen(path) >= sizeof(folder))
		return;
	strcpy(folder, path);
	for (char *at = folder + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		(void)mkdir(folder, 0700);
		*at = '/';
	}
}

static int write_line(int fd, const char *path, const char *line)
{
	size_t len = strlen(line);

	if (write(fd, line, len) == (ssize_t)len && fsync(fd) == 0)
		return 0;
	(void)unlink(path);
	return lend_fail(EIO, "%s: cannot be written", path);
}

int lend_keygen(const char *path, char *made, size_t cap)
{
	char line[LINE_MAX_LEN], usual[PATH_MAX];
	int rc = make_line(line), fd;

	if (rc < 0)
		return rc;
	if (!path) {
		(void)lend_keys_path(usual, sizeof(usual));
		path = usual;
		if (!*path)
			return lend_fail(ENOENT, "HOME is not set; name the file to make");
	}
	(void)snprintf(made, cap, "%s", path);
	make_folders(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0) {
		rc = write_line(fd, path, line);
		close(fd);
	} else if (errno == EEXIST) {
		rc = lend_fail(EEXIST, "%s: exists and was not changed; name another file", path);
	} else {
		rc = lend_fail(errno, "%s: %s; name a file in a folder that can be written", path,
			       strerror(errno));
	}
	explicit_bzero(line, sizeof(line));
	return rc;
}
