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

int lend_keygen_static(char line[80], char public_key[65])
{
	const struct lend_seal_ops *seal;
	uint8_t key[LEND_KEY], shown[LEND_KEY];
	int rc = lend_keys_seal(&seal);

	if (rc < 0)
		return rc;
	lend_random(key, sizeof(key));
	(void)seal->dh(key, NULL, shown);
	(void)strcpy(put_hex(stpcpy(line, "static "), key, sizeof(key)), "\n");
	*put_hex(public_key, shown, sizeof(shown)) = 0;
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

/* Writes a file under a name of its own, then links it to its path: so no process reads half of it,
 * and the first of several processes wins. Returns 0 or -errno. */
static int write_file(const char *path, const char *line)
{
	char temporary[PATH_MAX];
	size_t len = strlen(line);
	int n = snprintf(temporary, sizeof(temporary), "%s.%d.new", path, (int)getpid()), fd, rc;

	if (n < 0 || (size_t)n >= sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = write(fd, line, len) == (ssize_t)len && fsync(fd) == 0 ? 0 : -EIO;
	close(fd);
	if (rc == 0 && link(temporary, path) < 0)
		rc = -errno;
	(void)unlink(temporary);
	return rc;
}

int lend_keygen(const char *path, char *made, size_t cap)
{
	char line[LINE_MAX_LEN], usual[PATH_MAX];
	int rc = make_line(line);

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
	rc = write_file(path, line);
	explicit_bzero(line, sizeof(line));
	if (rc == -EEXIST)
		return lend_fail(EEXIST, "%s: exists and was not changed; name another file", path);
	if (rc == -EIO)
		return lend_fail(EIO, "%s: cannot be written", path);
	return rc < 0 ? lend_fail(-rc, "%s: %s; name a file in a folder that can be written", path,
				  strerror(-rc))
		      : 0;
}
