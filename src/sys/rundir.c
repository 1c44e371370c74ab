#include "sys/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { LOCK_TRIES = 200 /* tries of 5 ms each */, LISTENING = 0x10000 /* __SO_ACCEPTCON */ };

static bool is_ours(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

int lend_rundir_path(char *path, size_t cap)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	unsigned uid = geteuid();
	char run[32];
	int n;

	(void)snprintf(run, sizeof(run), "/run/user/%u", uid);
	if (xdg != NULL && xdg[0] == '/')
		n = snprintf(path, cap, "%s/lend", xdg);
	else if (is_ours(run))
		n = snprintf(path, cap, "%s/lend", run);
	else
		n = snprintf(path, cap, "/tmp/lend-%u", uid);
	if (n < 0 || (size_t)n >= cap)
		return lend_fail(ENAMETOOLONG,
				 "XDG_RUNTIME_DIR: too long a path; set it to a shorter one");
	return 0;
}

int lend_rundir(char *path, size_t cap)
{
	struct stat st;
	int err = lend_rundir_path(path, cap);

	if (err != 0)
		return err;
	/* lstat, not stat: in /tmp another user could have placed a symbolic link. */
	if (lstat(path, &st) != 0 &&
	    (errno != ENOENT || (mkdir(path, 0700) != 0 && errno != EEXIST) ||
	     lstat(path, &st) != 0))
		return lend_fail(errno, "%s: %s; set XDG_RUNTIME_DIR to a folder of your own", path,
				 strerror(errno));
	if (S_ISDIR(st.st_mode) && st.st_uid != geteuid())
		return lend_fail(EPERM,
				 "%s: permission denied, it belongs to user %u; run as that user, "
				 "or set XDG_RUNTIME_DIR to a folder of your own",
				 path, st.st_uid);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return lend_fail(EPERM,
				 "%s: not a folder of yours alone; chmod 700 it, remove it or set "
				 "XDG_RUNTIME_DIR",
				 path);
	return 0;
}

/* Returns whether path is RUNTIME/lend/NAME or /tmp/lend-UID/NAME, in a folder other than ours. */
static bool is_other_name(const char *path, const char *folder, const char *name)
{
	const char *slash = strrchr(path, '/'), *at = slash;
	size_t len = strlen(folder);

	if (!slash || slash == path || strcmp(slash + 1, name) != 0)
		return false;
	if (strncmp(path, folder, len) == 0 && path + len == slash)
		return false;
	while (at > path && at[-1] != '/')
		at--;
	return strncmp(at, "lend/", 5) == 0 || strncmp(at, "lend-", 5) == 0;
}

/* Reads the lines of /proc/net/unix: address refcount protocol flags type state inode path. */
bool lend_rundir_find_other(const char *name, char *path, size_t cap)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char folder[256], line[512], at[256];
	bool found = false;
	unsigned flags;

	if (lend_rundir_path(folder, sizeof(folder)) < 0)
		folder[0] = '\0';
	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%*s %*s %*s %x %*s %*s %*s %255s", &flags, at) == 2 &&
			flags == LISTENING && strlen(at) < cap && is_other_name(at, folder, name);
	if (found)
		strcpy(path, at);
	if (file)
		(void)fclose(file);
	return found;
}

int lend_rundir_lock(void)
{
	static const struct timespec delay = {.tv_nsec = 5000000};
	char path[128];
	size_t used;
	int fd, err = lend_rundir(path, sizeof(path) - sizeof("/.lock"));

	if (err != 0)
		return err;
	used = strlen(path);
	memcpy(path + used, "/.lock", sizeof("/.lock"));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return lend_fail(errno, "%s: %s; make its folder writable", path, strerror(errno));
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		(void)nanosleep(&delay, NULL);
	}
	(void)close(fd);
	return lend_fail(EBUSY, "%s: held by a process that hangs; end that process", path);
}
