#include "sys/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "sys/last_error.h"

bool lend_mapfile_is_regular(int fd)
{
	struct statfs fs;
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(fd, &fs) == 0 &&
	       fs.f_type != SYSFS_MAGIC;
}

static int check_owner(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return lend_fail(errno, "%s: %s", path, strerror(errno));
	if (!lend_mapfile_is_regular(fd))
		return 0;
	if (st.st_uid != geteuid())
		return lend_fail(EPERM, "%s: belongs to user %u; name a file of your own", path,
				 (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return lend_fail(EPERM,
				 "%s: mode %03o lets other users open it; chmod 600 it first", path,
				 (unsigned)(st.st_mode & 0777));
	return 0;
}

int lend_mapfile_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), rc;

	if (fd < 0 && errno == ELOOP)
		return lend_fail(ELOOP, "%s: is a symbolic link; name the file itself", path);
	if (fd < 0)
		return lend_fail(errno, "%s: %s; name memory that you may write", path,
				 strerror(errno));
	rc = check_owner(fd, path);
	if (rc == 0)
		return fd;
	(void)close(fd);
	return rc;
}

static uint64_t room_at(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 ? (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize : 0;
}

int lend_mapfile_fill(int fd, const char *path, uint64_t offset, uint64_t len, bool shared)
{
	int err;

	if (!shared && !lend_mapfile_len_allowed(offset + len))
		return lend_fail(EFBIG,
				 "%s: %" PRIu64 " bytes are beyond ulimit -f; raise it or ask for "
				 "less",
				 path, offset + len);
	do {
		if (shared)
			err = fallocate(fd, 0, (off_t)offset, (off_t)len) == 0 ? 0 : errno;
		else
			err = posix_fallocate(fd, (off_t)offset, (off_t)len);
	} while (err == EINTR);
	if (err == 0 || (shared && err == EOPNOTSUPP))
		return 0;
	return lend_fail(err,
			 "%s: no room for %" PRIu64 " bytes: %s, %" PRIu64
			 " are free; ask for less or enlarge its file system",
			 path, len, strerror(err), room_at(fd));
}
