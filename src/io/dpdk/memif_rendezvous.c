/* memif_rendezvous - names, lock files and sockets in the runtime folder, by which memif's
 * processes find each other. Layer: io. Threads: any; stateless. */
#include "io/dpdk/dpdk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/lockfile.h"
#include "sys/rundir.h"
#include "sys/last_error.h"

int dpdk_rendezvous_path(const struct lend_ip *ip, uint16_t udp, const char *tail, char *path)
{
	char dir[DPDK_PATH_MAX + 1];
	int rc = lend_rundir(dir, sizeof(dir));
	int n;

	if (rc < 0)
		return rc;
	n = snprintf(path, DPDK_PATH_MAX + 1, "%s/memif-%u.%u.%u.%u-%u%s", dir, ip->b[12],
		     ip->b[13], ip->b[14], ip->b[15], udp, tail);
	if (n < 0 || n > DPDK_PATH_MAX || strpbrk(dir, ",=[]"))
		return lend_fail(EINVAL,
				 "%.60s: too long a folder, or one with , = [ or ]: set "
				 "XDG_RUNTIME_DIR to another",
				 dir);
	return 0;
}

int dpdk_rendezvous_lock(const char *path)
{
	int fd, rc;

	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return lend_fail(errno, "%s: %s; set XDG_RUNTIME_DIR to a folder of yours",
					 path, strerror(errno));
		rc = lend_lockfile(fd, path);
		if (rc == 0)
			return fd;
		(void)close(fd);
		if (rc != -ESTALE)
			return -EWOULDBLOCK;
	}
}

bool dpdk_rendezvous_find(const char *path, uint32_t *made, uint32_t *links)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool held;

	if (fd < 0)
		return false;
	held = flock(fd, LOCK_SH | LOCK_NB) < 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		held = false;
	(void)close(fd);
	return held && sscanf(text, "%u %u", made, links) == 2;
}

static bool is_listening(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

int dpdk_rendezvous_socket(const char *path, bool listening)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un un;
		socklen_t len = sizeof(un);
		int rc;

		memset(&un, 0, sizeof(un));
		rc = listening ? getsockname(fd, (struct sockaddr *)&un, &len)
			       : getpeername(fd, (struct sockaddr *)&un, &len);
		if (rc == 0 && un.sun_family == AF_UNIX &&
		    strncmp(un.sun_path, path, sizeof(un.sun_path)) == 0 &&
		    (!listening || is_listening(fd)))
			return fd;
	}
	return -1;
}
