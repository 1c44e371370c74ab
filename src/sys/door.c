#include "sys/door.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/why.h"

static int new_socket(int type, const char *who)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	return fd >= 0
		   ? fd
		   : lend_fail(errno, "%s: no socket: %s; raise ulimit -n", who, strerror(errno));
}

/* A socket file without a listener is what a killed process left. */
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

static int bind_it(struct lend_door *door, const char *who)
{
	struct stat st;
	int err = 0;

	/* On Linux the mode of the socket becomes the mode of its file. */
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

int lend_door_open(struct lend_door *door, int type, const char *who)
{
	int rc;

	door->fd = -1;
	door->at.sun_family = AF_UNIX;
	rc = remove_stale(&door->at, type, who);
	if (rc < 0)
		return rc;
	door->fd = new_socket(type, who);
	if (door->fd < 0) {
		rc = door->fd;
		door->fd = -1;
		return rc;
	}
	rc = bind_it(door, who);
	if (rc < 0) {
		(void)close(door->fd);
		door->fd = -1;
	}
	return rc;
}

void lend_door_close(struct lend_door *door)
{
	struct stat st;

	if (door->fd < 0)
		return;
	if (lstat(door->at.sun_path, &st) == 0 && st.st_dev == door->dev && st.st_ino == door->ino)
		(void)unlink(door->at.sun_path);
	(void)shutdown(door->fd, SHUT_RDWR);
	(void)close(door->fd);
	door->fd = -1;
}
