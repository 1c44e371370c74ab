#include "sys/unix_listener.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/rundir.h"
#include "sys/last_error.h"

static int new_socket(int type, const char *who)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	return fd >= 0
		   ? fd
		   : lend_fail(errno, "%s: no socket: %s; raise ulimit -n", who, strerror(errno));
}

/* Removes a socket file that has no listener: a killed process left it. */
static int remove_stale(const struct sockaddr_un *at, int type, const char *who)
{
	struct stat st;
	int fd, err;

	if (lstat(at->sun_path, &st) != 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return lend_fail(EADDRINUSE,
				 "%s: not a socket; remove it or choose another name than %s",
				 at->sun_path, who);
	fd = new_socket(type, who);
	if (fd < 0)
		return fd;
	err = connect(fd, (const void *)at, sizeof(*at)) == 0 ? 0 : errno;
	(void)close(fd);
	if (err != ECONNREFUSED)
		return lend_fail(EADDRINUSE,
				 "%s: name is in use; choose another or stop the other process",
				 who);
	(void)unlink(at->sun_path);
	return 0;
}

static int bind_it(struct lend_unix_listener *door, const char *who)
{
	struct stat st;
	int err = 0;

	/* On Linux the file gets the mode of the socket. */
	if (fchmod(door->fd, 0600) < 0 ||
	    bind(door->fd, (const void *)&door->at, sizeof(door->at)) < 0)
		err = errno;
	else if (listen(door->fd, 128) < 0 || lstat(door->at.sun_path, &st) < 0) {
		err = errno;
		(void)unlink(door->at.sun_path);
	}
	if (err)
		return lend_fail(err, "%s: %s; choose another name or make %s writable", who,
				 strerror(err), door->at.sun_path);
	door->dev = st.st_dev;
	door->ino = st.st_ino;
	return 0;
}

/* Locks the runtime folder against a second process if the path is in it; else *lock is -1. */
static int lock_around(const struct sockaddr_un *at, int *lock)
{
	char folder[sizeof(at->sun_path)];
	size_t len;
	int rc;

	*lock = -1;
	if (lend_rundir_path(folder, sizeof(folder)) < 0)
		return 0;
	len = strlen(folder);
	if (strncmp(at->sun_path, folder, len) != 0 || at->sun_path[len] != '/')
		return 0;
	rc = lend_rundir_lock();
	if (rc < 0)
		return rc;
	*lock = rc;
	return 0;
}

static void close_lock(int lock)
{
	if (lock >= 0)
		(void)close(lock);
}

static int open_locked(struct lend_unix_listener *door, int type, const char *who)
{
	int fd, rc = remove_stale(&door->at, type, who);

	if (rc < 0)
		return rc;
	fd = new_socket(type, who);
	if (fd < 0)
		return fd;
	door->fd = fd;
	rc = bind_it(door, who);
	if (rc < 0) {
		(void)close(fd);
		door->fd = -1;
	}
	return rc;
}

int lend_unix_listener_open(struct lend_unix_listener *door, int type, const char *who)
{
	int lock, rc;

	door->fd = -1;
	door->at.sun_family = AF_UNIX;
	rc = lock_around(&door->at, &lock);
	if (rc < 0)
		return rc;
	rc = open_locked(door, type, who);
	close_lock(lock);
	return rc;
}

void lend_unix_listener_close(struct lend_unix_listener *door)
{
	struct stat st;
	int lock;

	if (door->fd < 0)
		return;
	(void)lock_around(&door->at, &lock);
	if (lstat(door->at.sun_path, &st) == 0 && st.st_dev == door->dev && st.st_ino == door->ino)
		(void)unlink(door->at.sun_path);
	(void)shutdown(door->fd, SHUT_RDWR);
	(void)close(door->fd);
	door->fd = -1;
	close_lock(lock);
}
