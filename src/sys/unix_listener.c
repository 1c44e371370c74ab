#include "sys/unix_listener.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/rundir.h"
#include "sys/last_error.h"

static int new_socket(int type, const char *address)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	return fd >= 0 ? fd
		       : lend_fail(errno, "%s: no socket: %s; raise ulimit -n", address,
				   strerror(errno));
}

/* Removes a socket file that has no listener: a killed process left it. */
static int remove_stale(const struct sockaddr_un *at, int type, const char *address)
{
	struct stat st;
	int fd, err;

	if (lstat(at->sun_path, &st) != 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return lend_fail(EADDRINUSE,
				 "%s: not a socket; remove it or choose another name than %s",
				 at->sun_path, address);
	fd = new_socket(type, address);
	if (fd < 0)
		return fd;
	err = connect(fd, (const void *)at, sizeof(*at)) == 0 ? 0 : errno;
	(void)close(fd);
	if (err != ECONNREFUSED)
		return lend_fail(EADDRINUSE,
				 "%s: name is in use; choose another or stop the other process",
				 address);
	(void)unlink(at->sun_path);
	return 0;
}

static int bind_it(struct lend_unix_listener *listener, const char *address)
{
	struct stat st;
	int err = 0;

	/* On Linux the file gets the mode of the socket. */
	if (fchmod(listener->fd, 0600) < 0 ||
	    bind(listener->fd, (const void *)&listener->at, sizeof(listener->at)) < 0)
		err = errno;
	else if (listen(listener->fd, 128) < 0 || lstat(listener->at.sun_path, &st) < 0) {
		err = errno;
		(void)unlink(listener->at.sun_path);
	}
	if (err)
		return lend_fail(err, "%s: %s; choose another name or make %s writable", address,
				 strerror(err), listener->at.sun_path);
	listener->dev = st.st_dev;
	listener->ino = st.st_ino;
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

static int open_locked(struct lend_unix_listener *listener, int type, const char *address)
{
	int fd, rc = remove_stale(&listener->at, type, address);

	if (rc < 0)
		return rc;
	fd = new_socket(type, address);
	if (fd < 0)
		return fd;
	listener->fd = fd;
	rc = bind_it(listener, address);
	if (rc < 0) {
		(void)close(fd);
		listener->fd = -1;
	}
	return rc;
}

int lend_unix_listener_open(struct lend_unix_listener *listener, int type, const char *address)
{
	int lock, rc;

	listener->fd = -1;
	listener->at.sun_family = AF_UNIX;
	rc = lock_around(&listener->at, &lock);
	if (rc < 0)
		return rc;
	rc = open_locked(listener, type, address);
	close_lock(lock);
	return rc;
}

void lend_unix_listener_close(struct lend_unix_listener *listener)
{
	struct stat st;
	int lock;

	if (listener->fd < 0)
		return;
	(void)lock_around(&listener->at, &lock);
	if (lstat(listener->at.sun_path, &st) == 0 && st.st_dev == listener->dev &&
	    st.st_ino == listener->ino)
		(void)unlink(listener->at.sun_path);
	(void)shutdown(listener->fd, SHUT_RDWR);
	(void)close(listener->fd);
	listener->fd = -1;
	close_lock(lock);
}
