#include "mn/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/last_error.h"

static const char *notify_socket(void)
{
	const char *path = getenv("NOTIFY_SOCKET");

	return path && (*path == '/' || *path == '@') && path[1] ? path : NULL;
}

bool mn_notify_is_heard(void)
{
	return notify_socket() != NULL;
}

static int socket_address(const char *path, struct sockaddr_un *at, socklen_t *len)
{
	size_t n = strlen(path);

	if (n >= sizeof(at->sun_path))
		return lend_fail(ENAMETOOLONG, "NOTIFY_SOCKET is %zu characters long: %zu at most",
				 n, sizeof(at->sun_path) - 1);
	memset(at, 0, sizeof(*at));
	at->sun_family = AF_UNIX;
	memcpy(at->sun_path, path, n);
	if (*path == '@')
		at->sun_path[0] = 0;
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	return 0;
}

static int send_to(int sock, struct sockaddr_un *at, socklen_t len, const char *lines, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	struct iovec iov = {(void *)(unsigned long)lines, strlen(lines)};
	struct msghdr m = {.msg_name = at, .msg_namelen = len, .msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int mn_notify(const char *lines, int fd)
{
	struct sockaddr_un at;
	socklen_t len = 0;
	int sock, rc;

	if (!notify_socket())
		return 0;
	rc = socket_address(notify_socket(), &at, &len);
	if (rc < 0)
		return rc;
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return lend_fail(errno, "a socket for NOTIFY_SOCKET: %s", strerror(errno));
	rc = send_to(sock, &at, len, lines, fd);
	close(sock);
	return rc < 0 ? lend_fail(-rc,
				  "NOTIFY_SOCKET %s: %s; start this as a service of the manager "
				  "that it belongs to",
				  notify_socket(), strerror(-rc))
		      : 0;
}
