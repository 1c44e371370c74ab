/* mapfile - files to be mapped. Another user cannot change them, and pages are allocated before the
 * first access, so that no access raises SIGBUS. Layer: sys. Threads: any. */
#ifndef LEND_SYS_MAPFILE_H
#define LEND_SYS_MAPFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* Returns false for a length beyond RLIMIT_FSIZE (ulimit -f), where ftruncate() and fallocate()
 * raise SIGXFSZ. */
static inline bool lend_mapfile_len_allowed(uint64_t len)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= len);
}

/* Opens an existing file to read and write. Returns it or -errno with lend_why(): -ELOOP (a
 * symbolic link), -EPERM (a regular file of another user, or one that group or others may open).
 * The rights to a device or to a file of sysfs (a PCI BAR) are the administrator's choice. */
int lend_mapfile_open(const char *path);
/* Returns true for a file that takes pages from its file system, which can run out of them: a
 * regular file that is not in sysfs. */
bool lend_mapfile_is_regular(int fd);
/* Allocates [offset, offset + len) of a plain file and keeps its content. Returns 0 or -errno with
 * lend_why(): -ENOSPC, -EFBIG (ulimit -f). shared: other processes write to the file already, so a
 * file system that cannot allocate is accepted. */
int lend_mapfile_fill(int fd, const char *path, uint64_t offset, uint64_t len, bool shared);

#endif
