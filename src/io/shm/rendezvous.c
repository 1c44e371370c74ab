#include "io/shm/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sys/mapfile.h"
#include "sys/rundir.h"
#include "sys/last_error.h"
#include "util/check.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

static const uint8_t magic[4] = {'L', 'S', 'H', 'M'};

static int path_of(const char *name, struct sockaddr_un *at)
{
	size_t used;
	int err = lend_rundir(at->sun_path, sizeof(at->sun_path));

	if (err != 0)
		return err;
	at->sun_family = AF_UNIX;
	used = strlen(at->sun_path);
	if (used + 1 + strlen(name) >= sizeof(at->sun_path))
		return lend_fail(
		    EINVAL,
		    "shm:%s: name and folder are too long together; shorten the name or set "
		    "XDG_RUNTIME_DIR to a shorter path",
		    name);
	at->sun_path[used] = '/';
	memcpy(at->sun_path + used + 1, name, strlen(name) + 1);
	return 0;
}

static int new_socket(int *fd)
{
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return lend_fail(errno, "shm: no socket: %s; raise ulimit -n", strerror(errno));
	return 0;
}

int lend_rendezvous_open(struct lend_unix_listener *listener, const char *name)
{
	char address[sizeof(listener->at.sun_path) + 4];
	int err;

	*listener = (struct lend_unix_listener){.fd = -1};
	err = path_of(name, &listener->at);
	if (err != 0)
		return err;
	(void)snprintf(address, sizeof(address), "shm:%s", name);
	return lend_unix_listener_open(listener, SOCK_SEQPACKET | SOCK_NONBLOCK, address);
}

int lend_rendezvous_accept(struct lend_unix_listener *listener)
{
	return accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static int explain_no_listener(const char *name, int err)
{
	char path[128];
	struct stat st;

	if (!lend_rundir_find_other(name, path, sizeof(path)))
		return lend_fail(err,
				 "shm:%s: no server listens there; start it, or use its "
				 "XDG_RUNTIME_DIR and user",
				 name);
	if (stat(path, &st) == 0 && st.st_uid == geteuid())
		return lend_fail(
		    err,
		    "shm:%s: no server listens there, but one does at %s; use its XDG_RUNTIME_DIR",
		    name, path);
	return lend_fail(err,
			 "shm:%s: no server of this user listens there; the one at %s is another "
			 "user's: run as that user",
			 name, path);
}

int lend_rendezvous_connect(const char *name, int *fd)
{
	struct sockaddr_un at = {0};
	int err = path_of(name, &at);

	if (err == 0)
		err = new_socket(fd);
	if (err != 0)
		return err;
	if (connect(*fd, (const void *)&at, sizeof(at)) == 0)
		return 0;
	err = errno;
	(void)close(*fd);
	*fd = -1;
	if (err == EAGAIN || err == EINTR)
		return -EAGAIN;
	if (err == ENOENT || err == ECONNREFUSED)
		return explain_no_listener(name, err);
	return lend_fail(err, "shm:%s: %s; run as the server's user", name, strerror(err));
}

void lend_rendezvous_fill(struct lend_rendezvous_msg *msg, uint32_t status, uint32_t bit,
			  uint32_t pair)
{
	*msg = (struct lend_rendezvous_msg){
	    .version = LEND_RENDEZVOUS_VERSION, .status = status, .bit = bit, .pair = pair};
	memcpy(msg->magic, magic, sizeof(magic));
}

int lend_rendezvous_send(int sock, const struct lend_rendezvous_msg *msg, const int *fds,
			 unsigned n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * LEND_RENDEZVOUS_FDS)] = {0};
	struct iovec iov = {(void *)(uintptr_t)msg, sizeof(*msg)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	LEND_CHECK(n <= LEND_RENDEZVOUS_FDS);
	if (n > 0) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*msg) ? 0 : -errno;
}

/* Keeps up to n of the descriptors that came and closes the others. Returns how many came. */
static unsigned take_fds(struct msghdr *m, int *fds, unsigned n)
{
	unsigned got = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0);
		     at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (got < n)
				fds[got] = fd;
			else
				(void)close(fd);
			got++;
		}
	}
	return got;
}

int lend_rendezvous_recv(int sock, struct lend_rendezvous_msg *msg, int *fds, unsigned n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
	struct iovec iov = {msg, sizeof(*msg)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	unsigned got;

	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
	got = take_fds(&m, fds, n + 1);
	if (len == (ssize_t)sizeof(*msg) && !(m.msg_flags & MSG_TRUNC) && msg->shares <= 1 &&
	    got == n + msg->shares && memcmp(msg->magic, magic, sizeof(magic)) == 0 &&
	    msg->version == LEND_RENDEZVOUS_VERSION && msg->status == 0)
		return 0;
	for (unsigned i = 0; i < got && i <= n; i++)
		(void)close(fds[i]);
	if (len == 0)
		return -ECONNRESET;
	if (m.msg_flags & MSG_CTRUNC && got <= n)
		return -EMFILE;
	if (len != (ssize_t)sizeof(*msg) || memcmp(msg->magic, magic, sizeof(magic)) != 0)
		*msg = (struct lend_rendezvous_msg){0};
	return -EPROTO;
}

void lend_rendezvous_wake(int sock)
{
	(void)send(sock, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool lend_rendezvous_drain(int sock)
{
	char byte;

	/* Bounded: the wake-ups of a flooding peer are drained further the next time. */
	for (int i = 0; i < 64; i++) {
		ssize_t n = recv(sock, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return false;
		if (n < 0)
			return true;
	}
	return true;
}

int64_t lend_rendezvous_uid(int sock)
{
	struct ucred credentials;
	socklen_t len = sizeof(credentials);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &credentials, &len) == 0
		   ? (int64_t)credentials.uid
		   : -1;
}

/* Not inherited by a fork's child, which could change messages of its parent. */
static int map_memory(int fd, size_t len, int rights, void **base)
{
	*base = mmap(NULL, len, rights, MAP_SHARED, fd, 0);
	if (*base == MAP_FAILED)
		return -ENOMEM;
	(void)madvise(*base, len, MADV_DONTFORK);
	return 0;
}

int lend_rendezvous_memory(size_t len, int *fd, void **base)
{
	int err;

	if (!lend_mapfile_len_allowed(len))
		return -EFBIG;
	*fd = memfd_create("lend", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	if (ftruncate(*fd, (off_t)len) != 0 || fcntl(*fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0)
		err = -errno;
	else
		err = map_memory(*fd, len, PROT_READ | PROT_WRITE, base);
	if (err != 0)
		(void)close(*fd);
	return err;
}

static int map_sealed(int fd, size_t len, int rights, void **base)
{
	struct stat st;
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);

	/* Huge pages can be sealed too, but touching a hole punched into them may raise SIGBUS. */
	if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
		return -EPROTO;
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 ||
	    st.st_size != (off_t)len)
		return -EPROTO;
	return map_memory(fd, len, rights, base);
}

int lend_rendezvous_map(int fd, size_t len, void **base)
{
	return map_sealed(fd, len, PROT_READ | PROT_WRITE, base);
}

int lend_rendezvous_map_to_read(int fd, size_t len, const void **base)
{
	void *at;
	int err = map_sealed(fd, len, PROT_READ, &at);

	*base = err == 0 ? at : NULL;
	return err;
}
