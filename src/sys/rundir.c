#include "sys/rundir.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/why.h"

static bool is_ours(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static int choose(char *path, size_t cap)
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
	int err = choose(path, cap);

	if (err != 0)
		return err;
	/* lstat: in /tmp a link that another user planted must not lead us anywhere. */
	if (lstat(path, &st) != 0 &&
	    (errno != ENOENT || (mkdir(path, 0700) != 0 && errno != EEXIST) ||
	     lstat(path, &st) != 0))
		return lend_fail(errno, "%s: %s; set XDG_RUNTIME_DIR to a folder of your own", path,
				 strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return lend_fail(EPERM,
				 "%s: not a folder of yours alone; chmod 700 it, remove it or set "
				 "XDG_RUNTIME_DIR",
				 path);
	return 0;
}
