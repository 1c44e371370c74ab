/* Goal: of processes that connect to one memif listener at the same time, each gets a link, up to
 * `links`. One more is refused with the true reason, and so is a process with few file descriptors.
 * Method: clients in processes of their own open first, then all resolve at once. Each keeps its
 * link until all have one.
 * Covers: src/io/dpdk/memif.c, src/io/dpdk/memif_rendezvous.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/dpdk_fixture.h"
#include "io/io.h"
#include "sys/clock.h"
#include "sys/last_error.h"

TestSuite(dpdk_storm, .init = dpdk_begin, .fini = dpdk_end, .timeout = 60);

enum { CLIENTS = 12 };

struct client {
	pid_t pid;
	int to, from; /* pipes; to: the address, later a request to leave; from: opened, later the
			 result of resolve_peer() */
};

struct message {
	int rc;
	char why[160];
};

static void report_to_parent(int fd, int rc)
{
	struct message message = {.rc = rc};

	(void)snprintf(message.why, sizeof(message.why), "%s", rc < 0 ? lend_why_text() : "");
	if (write(fd, &message, sizeof(message)) != sizeof(message))
		_exit(1);
}

static int resolve_peer(struct lend_io *io, const char *address)
{
	static const struct timespec delay = {.tv_nsec = 1000000};
	lend_ns end = lend_clock_now() + 10000000000u;
	struct lend_in in;
	uint32_t peer;
	int rc;

	while ((rc = io->ops->resolve(io, address, &peer)) == -EINPROGRESS &&
	       lend_clock_now() < end) {
		(void)io->ops->rx(io, &in, 1);
		(void)nanosleep(&delay, NULL); /* as an endpoint does */
	}
	return rc;
}

_Noreturn static void be_client(int in, int out)
{
	struct lend_io *io = NULL;
	char address[128], go;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(in, address, sizeof(address)) != sizeof(address))
		_exit(1);
	rc = lend_io_open(&(struct lend_io_config){.peer = address}, &io);
	report_to_parent(out, rc);
	if (rc < 0 || read(in, &go, 1) != 1)
		_exit(1);
	report_to_parent(out, resolve_peer(io, address));
	(void)!read(in, &go, 1);
	io->ops->close(io);
	_exit(0);
}

/* Runs before this process starts EAL, which does not survive a fork(). */
static void spawn_client(struct client *c)
{
	int to[2], from[2];

	cr_assert(pipe(to) == 0 && pipe(from) == 0);
	c->pid = fork();
	if (c->pid == 0)
		be_client(to[0], from[1]);
	(void)close(to[0]);
	(void)close(from[1]);
	c->to = to[1];
	c->from = from[0];
}

/* Reads the next message of the client while the server accepts peers. */
static struct message read_message(struct lend_io *server, const struct client *c)
{
	struct pollfd fd = {.fd = c->from, .events = POLLIN};
	struct message message = {.rc = -EPIPE};
	struct lend_in in;

	while (poll(&fd, 1, 1) == 0) {
		if (server->ops->rx(server, &in, 1) > 0)
			server->ops->rx_done(server);
	}
	cr_assert_eq(read(c->from, &message, sizeof(message)), (ssize_t)sizeof(message), "it died");
	return message;
}

static struct lend_io *run_server(const char *listen, char address[128])
{
	struct lend_io *server = NULL;

	cr_assert_eq(lend_io_open(&(struct lend_io_config){.listen = listen}, &server), 0, "%s",
		     lend_why_text());
	cr_assert_eq(server->ops->name(server, address, 128), 0);
	return server;
}

static void end_client(struct client *c)
{
	cr_assert_eq(write(c->to, "x", 1), 1);
	(void)close(c->to);
	(void)close(c->from);
	(void)waitpid(c->pid, NULL, 0);
}

/* Leaves this process n free descriptors. */
static void leave_free(unsigned n)
{
	struct rlimit limit = {0, 0};

	for (int fd = 0; n > 0; fd++) {
		n -= fcntl(fd, F_GETFD) < 0;
		limit.rlim_cur = limit.rlim_max = (rlim_t)fd + 1;
	}
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* All clients open, then all resolve at once. Returns how many got no link; *refused: the reason of
 * one. left: free descriptors of the listener, 0: no limit. */
static int run_storm(const char *listen, int n, unsigned left, struct message *refused)
{
	struct client client[CLIENTS];
	char address[128] = "";
	struct lend_io *server;
	int lost = 0;

	for (int i = 0; i < n; i++)
		spawn_client(&client[i]);
	server = run_server(listen, address);
	for (int i = 0; i < n; i++)
		cr_assert_eq(write(client[i].to, address, sizeof(address)), sizeof(address));
	for (int i = 0; i < n; i++)
		cr_assert_eq(read_message(server, &client[i]).rc, 0);
	if (left > 0)
		leave_free(left);
	for (int i = 0; i < n; i++)
		cr_assert_eq(write(client[i].to, "g", 1), 1);
	for (int i = 0; i < n; i++) {
		struct message message = read_message(server, &client[i]);

		if (message.rc < 0)
			*refused = message;
		lost += message.rc < 0;
	}
	for (int i = 0; i < n; i++)
		end_client(&client[i]);
	server->ops->close(server);
	return lost;
}

static bool is_present(void)
{
	const char *why = dpdk_absent();

	if (why)
		cr_skip_test("not on this machine: %s", why);
	return !why;
}

Test(dpdk_storm, twelve_at_once__all_get_links)
{
	struct message refused = {.rc = 0};

	if (is_present())
		cr_assert_eq(run_storm("dpdk:memif@127.0.0.1:0", CLIENTS, 0, &refused), 0, "%d: %s",
			     refused.rc, refused.why);
}

Test(dpdk_storm, one_more_than_links)
{
	struct message refused = {.rc = 0};

	if (!is_present())
		return;
	cr_assert_eq(run_storm("dpdk:memif@127.0.0.1:0?links=3", 4, 0, &refused), 1);
	cr_assert_eq(refused.rc, -ENOSPC);
	cr_assert(strstr(refused.why, "its 3 links are in use"), "%s", refused.why);
}

Test(dpdk_storm, more_than_the_listener_has_descriptors_for)
{
	struct message refused = {.rc = 0};
	int lost;

	if (!is_present())
		return;
	lost = run_storm("dpdk:memif@127.0.0.1:0", 5, 30, &refused);
	cr_assert(lost >= 1 && lost <= 3, "%d", lost);
	cr_assert_eq(refused.rc, -ENOSPC);
	cr_assert(strstr(refused.why, "ulimit -n"), "%s", refused.why);
}

Test(dpdk_storm, a_client_with_few_descriptors)
{
	char address[128];
	struct lend_io *server, *client = NULL;
	uint32_t peer;

	if (!is_present())
		return;
	server = run_server("dpdk:memif@127.0.0.1:0", address);
	cr_assert_eq(lend_io_open(&(struct lend_io_config){.peer = address}, &client), 0);
	leave_free(7);
	cr_assert_eq(client->ops->resolve(client, address, &peer), -EMFILE);
	cr_assert(strstr(lend_why_text(), "raise ulimit -n"), "%s", lend_why_text());
	client->ops->close(client);
	server->ops->close(server);
}

Test(dpdk_storm, a_process_with_few_descriptors)
{
	struct lend_io *server = NULL;

	if (!is_present())
		return;
	leave_free(12);
	cr_assert_eq(
	    lend_io_open(&(struct lend_io_config){.listen = "dpdk:memif@127.0.0.1:0"}, &server),
	    -EMFILE);
	cr_assert(strstr(lend_why_text(), "raise ulimit -n"), "%s", lend_why_text());
}
