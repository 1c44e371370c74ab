#include "e2e/manager.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

void manager_open(struct manager *m)
{
	static atomic_uint count;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int n;

	memset(m, 0, sizeof(*m));
	snprintf(m->path, sizeof(m->path), "@lend-manager-%d-%u", (int)getpid(), count++);
	n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "%s", m->path + 1);
	m->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(m->sock, (struct sockaddr *)&at,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
		     0);
}

void manager_drop(struct manager *m)
{
	while (m->n)
		close(m->kept[--m->n].fd);
}

void manager_close(struct manager *m)
{
	if (m->pid)
		(void)manager_end(m, SIGKILL);
	manager_drop(m);
	close(m->sock);
}

int manager_find(const struct manager *m, const char *name)
{
	for (unsigned i = 0; i < m->n; i++)
		if (!strcmp(m->kept[i].name, name))
			return m->kept[i].fd;
	return -1;
}

static void forget_fd(struct manager *m, const char *name)
{
	for (unsigned i = 0; i < m->n;)
		if (strcmp(m->kept[i].name, name)) {
			i++;
		} else {
			close(m->kept[i].fd);
			m->kept[i] = m->kept[--m->n];
		}
}

static void take_message(struct manager *m, char *lines, int fd)
{
	bool store = false, drop = false;
	char name[64] = "stored", *save = NULL;

	for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		m->ready |= !strcmp(line, "READY=1");
		m->stopping |= !strcmp(line, "STOPPING=1");
		store |= !strcmp(line, "FDSTORE=1");
		drop |= !strcmp(line, "FDSTOREREMOVE=1");
		if (!strncmp(line, "FDNAME=", 7))
			snprintf(name, sizeof(name), "%s", line + 7);
	}
	if (drop)
		forget_fd(m, name);
	if (!store)
		return;
	cr_assert(fd >= 0 && m->n < MANAGER_FDS_MAX);
	snprintf(m->kept[m->n].name, sizeof(name), "%s", name);
	m->kept[m->n++].fd = fd;
}

/* Receives one datagram; false: none within ms. */
static bool receive_message(struct manager *m, int ms)
{
	char lines[2048] = "";
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {lines, sizeof(lines) - 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd p = {m->sock, POLLIN, 0};
	int fd = -1;

	if (poll(&p, 1, ms) <= 0)
		return false;
	cr_assert_gt(recvmsg(m->sock, &msg, MSG_CMSG_CLOEXEC), 0);
	if (CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	take_message(m, lines, fd);
	return true;
}

static void run_node(const struct manager *m, const char *args)
{
	char command[1024], names[1024] = "", text[32];
	size_t at = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < m->n; i++) {
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ":" : "",
				       m->kept[i].name);
		dup2(m->kept[i].fd, 200 + (int)i); /* numbers that new descriptors do not use */
	}
	for (unsigned i = 0; i < m->n; i++)
		dup2(200 + (int)i, 3 + (int)i);
	snprintf(text, sizeof(text), "%u", m->n);
	setenv("LISTEN_FDS", text, 1);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	setenv("LISTEN_PID", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
	setenv("NOTIFY_SOCKET", m->path, 1);
	snprintf(command, sizeof(command), "exec '%s/lend-mn' %s >/dev/null", LEND_BUILD_DIR, args);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

bool manager_start(struct manager *m, const char *args)
{
	m->ready = m->stopping = false;
	m->pid = fork();
	if (m->pid == 0)
		run_node(m, args);
	while (!m->ready)
		if (!receive_message(m, 20) && waitpid(m->pid, NULL, WNOHANG) == m->pid) {
			m->pid = 0;
			return false;
		}
	return true;
}

int manager_end(struct manager *m, int signal)
{
	int status;

	kill(m->pid, signal);
	cr_assert_eq(waitpid(m->pid, &status, 0), m->pid);
	m->pid = 0;
	while (receive_message(m, 0))
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
