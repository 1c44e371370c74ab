#include "mn/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "sys/lockfile.h"
#include "sys/mapfile.h"
#include "sys/last_error.h"

static const char mark[] = "lend-mn: pages\n";
enum { MARK_LEN = sizeof(mark) - 1, PAGE = 4096 };

static int open_unnamed(const char *folder)
{
	int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	return fd >= 0 ? fd
		       : lend_fail(errno, "--memory %s: %s; give a folder that can be written",
				   folder, strerror(errno));
}

/* Locks the file, unless another node has: that node may also have replaced the file at the path.
 */
static int lock_file(int fd, const char *path)
{
	if (lend_lockfile(fd, path) == 0)
		return 0;
	return lend_fail(EBUSY, "--memory %s: another memory node uses it; give each its own",
			 path);
}

/* Makes and locks a new file. Fails if another node locks it, still empty, before this one does. */
static int open_new(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return lend_fail(errno,
				 "--memory %s: %s; give a folder or file that can be written", path,
				 strerror(errno));
	rc = lock_file(fd, path);
	if (rc == 0)
		return fd;
	(void)close(fd);
	return rc;
}

static bool is_pages(int fd, off_t size)
{
	char end[MARK_LEN];

	return size % PAGE == MARK_LEN && pread(fd, end, MARK_LEN, size - MARK_LEN) == MARK_LEN &&
	       memcmp(end, mark, MARK_LEN) == 0;
}

/* Returns 1: replace the file; 0: use it as it is. */
static int judge_file(int fd, const char *path, bool overwrite)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return lend_fail(errno, "--memory %s: %s", path, strerror(errno));
	if (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0))
		return 0;
	if (!S_ISREG(st.st_mode))
		return lend_fail(EINVAL, "--memory %s: give a folder, a file or a DAX device",
				 path);
	if (overwrite || is_pages(fd, st.st_size))
		return 1;
	return lend_fail(EEXIST,
			 "--memory %s: holds %" PRIdMAX " bytes that are no memory node's; give "
			 "another name, or --overwrite to lose them",
			 path, (intmax_t)st.st_size);
}

static int replace_file(const char *path)
{
	if (unlink(path) < 0)
		return lend_fail(errno, "--memory %s: cannot be replaced: %s; give another name",
				 path, strerror(errno));
	return open_new(path);
}

static int open_there(const char *path, bool overwrite)
{
	int fd = lend_mapfile_open(path), rc;

	if (fd < 0)
		return fd;
	rc = lock_file(fd, path);
	if (rc == 0)
		rc = judge_file(fd, path, overwrite);
	if (rc == 0)
		return fd;
	if (rc > 0)
		rc = replace_file(path);
	(void)close(fd);
	return rc;
}

int mn_backing_open(const char *path, bool overwrite)
{
	struct stat st;
	int fd;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return open_unnamed(path);
	fd = open_new(path);
	return fd == -EEXIST ? open_there(path, overwrite) : fd;
}

/* Files of hugetlbfs have whole pages, and no bytes can be written to them: no mark. */
static bool takes_mark(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type != HUGETLBFS_MAGIC;
}

int mn_backing_fill(int fd, const char *path, size_t len)
{
	bool marked = takes_mark(fd);
	int rc = lend_mapfile_fill(fd, path, 0, len + (marked ? MARK_LEN : 0), false);

	if (rc == 0 && marked && pwrite(fd, mark, MARK_LEN, (off_t)len) != MARK_LEN)
		rc = lend_fail(errno, "--memory %s: %s", path, strerror(errno));
	if (rc < 0 && ftruncate(fd, 0) < 0)
		return lend_fail(errno, "--memory %s: %s", path, strerror(errno));
	return rc;
}
