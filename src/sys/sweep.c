#include "sys/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/lockfile.h"
#include "sys/rundir.h"

enum { BOUND_MAX = 4 << 20, PATH_CAP = 512, SUFFIX = sizeof(".lock") - 1 };

/* Returns the sockets of this network namespace, one path at the end of each line; NULL: unknown.
 */
static char *read_bound(void)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char *text = file ? malloc(BOUND_MAX + 1) : NULL;

	if (text)
		text[fread(text, 1, BOUND_MAX, file)] = '\0';
	if (file)
		(void)fclose(file);
	return text;
}

static bool is_dead_socket(const char *path, const char *bound)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char line[PATH_CAP + 2];
	int fd, err;

	if (strlen(path) >= sizeof(at.sun_path))
		return false;
	(void)snprintf(line, sizeof(line), " %s\n", path);
	if (bound && strstr(bound, line))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	strcpy(at.sun_path, path);
	err = connect(fd, (const void *)&at, sizeof(at)) == 0 ? 0 : errno;
	(void)close(fd);
	return err == ECONNREFUSED;
}

static bool is_of_kind(const char *path, mode_t kind, struct stat *st)
{
	return lstat(path, st) == 0 && (st->st_mode & S_IFMT) == kind && st->st_uid == geteuid();
}

/* Removes a lock file and its socket, and holds the lock meanwhile. A process that takes the name
 * then sees that its lock file is no longer the one at this path, and retries. */
static void sweep_lock(char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat there;

	if (fd < 0)
		return;
	if (lend_lockfile(fd, path) == 0 && is_of_kind(path, S_IFREG, &there)) {
		char *suffix = path + strlen(path) - SUFFIX;

		*suffix = '\0';
		if (is_of_kind(path, S_IFSOCK, &there))
			(void)unlink(path);
		*suffix = '.';
		(void)unlink(path);
	}
	(void)close(fd);
}

static void sweep_socket(const char *path, const char *bound)
{
	char lock[PATH_CAP + SUFFIX];
	struct stat st;

	(void)snprintf(lock, sizeof(lock), "%s.lock", path);
	if (lstat(lock, &st) == 0) /* a memif name: its lock decides */
		return;
	if (is_dead_socket(path, bound))
		(void)unlink(path);
}

static void sweep_file(const char *folder, const char *name, const char *bound)
{
	size_t len = strlen(name);
	struct stat st;
	char path[PATH_CAP];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return;
	if (is_of_kind(path, S_IFSOCK, &st))
		sweep_socket(path, bound);
	else if (strncmp(name, "memif-", 6) == 0 && strcmp(name + len - SUFFIX, ".lock") == 0 &&
		 is_of_kind(path, S_IFREG, &st))
		sweep_lock(path);
}

void lend_sweep(void)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;
	char folder[PATH_CAP / 2], *bound;
	struct dirent *entry;
	int lock;
	DIR *dir;

	if (atomic_flag_test_and_set(&done) || lend_rundir_path(folder, sizeof(folder)) < 0)
		return;
	dir = opendir(folder);
	if (!dir)
		return;
	lock = lend_rundir_lock();
	bound = lock >= 0 ? read_bound() : NULL;
	while (lock >= 0 && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			sweep_file(folder, entry->d_name, bound);
	free(bound);
	if (lock >= 0)
		(void)close(lock);
	(void)closedir(dir);
}
