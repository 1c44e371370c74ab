/* lockfile - a file at a path that one process at a time has locked.
 * Layer: sys. Threads: any; stateless. */
#ifndef LEND_SYS_LOCKFILE_H
#define LEND_SYS_LOCKFILE_H

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>

/* Locks fd without waiting, until it is closed. 0; -EWOULDBLOCK: another process has the lock;
 * -ESTALE: since fd was opened, that file was removed from path or replaced; -errno. */
static inline int lend_lockfile(int fd, const char *path)
{
	struct stat own, named;

	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -errno;
	if (fstat(fd, &own) == 0 && stat(path, &named) == 0 && own.st_ino == named.st_ino &&
	    own.st_dev == named.st_dev)
		return 0;
	return -ESTALE;
}

#endif
