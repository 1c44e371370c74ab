#include "sys/fd_passing.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/rundir.h"
#include "sys/last_error.h"

enum { PATIENCE_MS = 2000 };

static const uint8_t magic[4] = {'L', 'P', 'O', 'L'};

static int path_of(const char *name, struct sockaddr_un *at)
{
	size_t cap = sizeof(at->sun_path), used;
	int rc = lend_rundir(at->sun_path, cap);

	if (rc < 0)
		return rc;
	at->sun_family = AF_UNIX;
	used = strlen(at->sun_path);
	if ((size_t)snprintf(at->sun_path + used, cap - used, "/%s.pool", name) >= cap - used)
		return lend_fail(EINVAL,
				 "pool:%s: name and folder are too long together; shorten the name "
				 "or set XDG_RUNTIME_DIR to a shorter path",
				 name);
	return 0;
}

int lend_fd_passing_listen(const char *name, struct lend_unix_listener *listener)
{
	char address[sizeof(listener->at.sun_path) + 5];
	int rc;

	*listener = (struct lend_unix_listener){.fd = -1};
	rc = path_of(name, &listener->at);
	if (rc < 0)
		return rc;
	(void)snprintf(address, sizeof(address), "pool:%s", name);
	return lend_unix_listener_open(listener, SOCK_SEQPACKET | SOCK_NONBLOCK, address);
}

int lend_fd_passing_send(int sock, const struct lend_fd_message *msg, int file)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct lend_fd_message out = *msg;
	struct iovec iov = {&out, sizeof(out)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	memcpy(out.magic, magic, sizeof(magic));
	out.version = LEND_FD_PASSING_VERSION;
	if (file >= 0) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &file, sizeof(int));
	}
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(out) ? 0 : -errno;
}

static int connect_name(const char *name)
{
	struct sockaddr_un at = {0};
	int rc = path_of(name, &at), fd;

	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return lend_fail(errno, "pool: no socket: %s; raise ulimit -n", strerror(errno));
	if (connect(fd, (const void *)&at, sizeof(at)) == 0)
		return fd;
	rc = lend_fail(errno,
		       "pool:%s: %s; start the node with --listen pool:%s, or use the same "
		       "XDG_RUNTIME_DIR and user as it does",
		       name, strerror(errno), name);
	close(fd);
	return rc;
}

/* Receives the message and its file; *file is -1 if there is none. */
static ssize_t receive_message(int sock, struct lend_fd_message *msg, int *file)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {msg, sizeof(*msg)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct pollfd p = {.fd = sock, .events = POLLIN};
	struct cmsghdr *c;
	ssize_t len;

	*file = -1;
	if (poll(&p, 1, PATIENCE_MS) <= 0)
		return -1;
	len = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	c = len > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(file, CMSG_DATA(c), sizeof(int));
	return len;
}

/* Rejects a file that is too short: the first access past its end would kill this process. */
static int check_message(const char *name, const struct lend_fd_message *msg, ssize_t len, int file)
{
	struct stat st;

	if (len <= 0)
		return lend_fail(ETIMEDOUT, "pool:%s: does not answer; see whether lend-mn runs",
				 name);
	if (len != (ssize_t)sizeof(*msg) || memcmp(msg->magic, magic, sizeof(magic)) != 0)
		return lend_fail(
		    EPROTO, "pool:%s: another program answers there, not a memory node; stop it",
		    name);
	if (msg->version != LEND_FD_PASSING_VERSION)
		return lend_fail(
		    EPROTO,
		    "pool:%s: speaks version %u, this is %d; install the same release on both",
		    name, msg->version, LEND_FD_PASSING_VERSION);
	if (msg->status)
		return lend_fail((int)msg->status, "pool:%s: refused: %s; raise its --clients",
				 name, strerror((int)msg->status));
	if (file < 0 || fstat(file, &st) < 0 || msg->page < 4096 || msg->page & (msg->page - 1))
		return lend_fail(EPROTO,
				 "pool:%s: sent no file of pages; install the same release on both",
				 name);
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < msg->size)
		return lend_fail(EPROTO,
				 "pool:%s: its file has %jd bytes where %ju are needed: it was "
				 "truncated; restart the node",
				 name, (intmax_t)st.st_size, (uintmax_t)msg->size);
	return 0;
}

int lend_fd_passing_receive(const char *name, struct lend_fd_message *msg, int *sock, int *file)
{
	ssize_t len;
	int rc;

	*sock = connect_name(name);
	if (*sock < 0)
		return *sock;
	len = receive_message(*sock, msg, file);
	rc = check_message(name, msg, len, *file);
	if (rc == 0)
		return 0;
	close(*sock);
	if (*file >= 0)
		close(*file);
	return rc;
}
