#include "mn/admin.h"

#include <errno.h>

#include "sys/last_error.h"

#ifdef LEND_JANSSON
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mn/accept.h"
#include "mn/admin_commands.h"
#include "sys/unix_listener.h"

/* An idle connection is closed after SILENT_MS, because others wait in the backlog. */
enum { SILENT_MS = 1000, LINE_MAX_LEN = 4096 };

struct mn_admin {
	struct mn_nodes node;
	struct lend_unix_listener listener;
	int stop;
	pthread_t thread;
};

static bool send_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static bool reply_line(struct mn_admin *admin, int fd, const char *line)
{
	char *text = mn_admin_answer(&admin->node, line);
	bool fine = text && send_all(fd, text, strlen(text)) && send_all(fd, "\n", 1);

	free(text);
	return fine;
}

/* Returns whether fd has data to read; false: timeout, or the thread must stop. */
static bool wait_for(struct mn_admin *admin, int fd, int ms)
{
	struct pollfd p[] = {{fd, POLLIN, 0}, {admin->stop, POLLIN, 0}};

	return poll(p, 2, ms) > 0 && !p[1].revents;
}

static void serve_client(struct mn_admin *admin, int fd)
{
	char line[LINE_MAX_LEN + 1];
	size_t len = 0;

	while (len < LINE_MAX_LEN && wait_for(admin, fd, SILENT_MS)) {
		ssize_t n = recv(fd, line + len, LINE_MAX_LEN - len, 0);
		char *end;

		if (n <= 0)
			return;
		len += (size_t)n;
		line[len] = 0;
		while ((end = strchr(line, '\n'))) {
			*end = 0;
			if (!reply_line(admin, fd, line))
				return;
			len -= (size_t)(end + 1 - line);
			memmove(line, end + 1, len + 1);
		}
	}
}

static bool is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static void *run_thread(void *arg)
{
	struct mn_admin *admin = arg;
	struct timeval patience = {1, 0};
	int fd;

	while ((fd = mn_accept(admin->listener.fd, admin->stop, "--admin")) >= 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (is_ours(fd))
			serve_client(admin, fd);
		close(fd);
	}
	return NULL;
}

static int listen_at(struct mn_admin *admin, const char *path)
{
	struct sockaddr_un *at = &admin->listener.at;
	char name[sizeof(at->sun_path) + 16];

	if (strlen(path) >= sizeof(at->sun_path))
		return lend_fail(EINVAL, "--admin %s: %zu characters at most", path,
				 sizeof(at->sun_path) - 1);
	strcpy(at->sun_path, path);
	(void)snprintf(name, sizeof(name), "--admin %s", path);
	return lend_unix_listener_open(&admin->listener, SOCK_STREAM, name);
}

int mn_admin_open(struct mn_worker *worker, uint32_t workers, const char *path,
		  struct mn_admin **out)
{
	struct mn_admin *admin = calloc(1, sizeof(*admin));
	int rc;

	if (!admin)
		return lend_fail(ENOMEM, "no memory for --admin");
	admin->node = (struct mn_nodes){worker, workers};
	admin->listener.fd = -1;
	admin->stop = eventfd(0, EFD_CLOEXEC);
	rc = admin->stop < 0 ? lend_fail(errno, "--admin: %s", strerror(errno))
			     : listen_at(admin, path);
	if (rc == 0 && pthread_create(&admin->thread, NULL, run_thread, admin))
		rc = lend_fail(EAGAIN, "--admin: no thread for it; raise the limit on them");
	if (rc < 0) {
		admin->thread = 0;
		mn_admin_close(admin);
	} else {
		*out = admin;
	}
	return rc;
}

void mn_admin_close(struct mn_admin *admin)
{
	if (!admin)
		return;
	if (admin->thread) {
		(void)eventfd_write(admin->stop, 1);
		(void)pthread_join(admin->thread, NULL);
	}
	lend_unix_listener_close(&admin->listener);
	if (admin->stop >= 0)
		close(admin->stop);
	free(admin);
}
#else
int mn_admin_open(struct mn_worker *worker, uint32_t workers, const char *path,
		  struct mn_admin **out)
{
	(void)worker, (void)workers, (void)out;
	return lend_fail(
	    ENOSYS, "--admin %s: not in this build; install libjansson-dev and build again", path);
}

void mn_admin_close(struct mn_admin *admin)
{
	(void)admin;
}
#endif
