/* Goal: the dpdk carrier keeps its contract on net_ring and net_memif without root or hugepages.
 * Method: both ends in one thread, or two processes of which one is killed. Each test is a process
 * of its own, as EAL is.
 * Covers: src/io/dpdk/bell.c, src/io/dpdk/carrier.c, src/io/dpdk/ring.c, src/io/dpdk/memif.c,
 * src/io/dpdk/peer.c, src/io/dpdk/eal.c */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/dpdk_fixture.h"
#include "io/io.h"
#include "sys/clock.h"
#include "sys/last_error.h"

TestSuite(dpdk, .init = dpdk_begin, .fini = dpdk_end, .timeout = 60);

static bool is_present(void)
{
	const char *why = dpdk_absent();

	if (why)
		cr_skip_test("not on this machine: %s", why);
	return !why;
}

/* Defines a test for both kinds of link. */
#define OVER_BOTH(noun, check)                                                                     \
	Test(dpdk, ring_##noun)                                                                    \
	{                                                                                          \
		if (is_present())                                                                  \
			check("dpdk:ring@127.0.0.1:0");                                            \
	}                                                                                          \
	Test(dpdk, memif_##noun)                                                                   \
	{                                                                                          \
		if (is_present())                                                                  \
			check("dpdk:memif@127.0.0.1:0?links=2");                                   \
	}

static struct lend_io *listen_at(const char *address)
{
	struct lend_io *io = NULL;
	int rc = lend_io_open(&(struct lend_io_config){.listen = address}, &io);

	cr_assert(rc == 0, "%s: %s", address, lend_why_text());
	return io;
}

static struct lend_io *client_of(const char *address)
{
	struct lend_io *io = NULL;
	int rc = lend_io_open(&(struct lend_io_config){.peer = address}, &io);

	cr_assert(rc == 0, "%s: %s", address, lend_why_text());
	return io;
}

static uint32_t reach_peer(struct lend_io *io, const char *address)
{
	lend_ns end = lend_clock_now() + 10000000000u;
	uint32_t peer = 0;
	int rc;

	while ((rc = io->ops->resolve(io, address, &peer)) == -EINPROGRESS &&
	       lend_clock_now() < end) {
		struct lend_in in;

		cr_assert(io->ops->rx(io, &in, 1) == 0);
		sched_yield();
	}
	cr_assert(rc == 0, "%s: %d %s", address, rc, lend_why_text());
	return peer;
}

/* Sends one datagram with a piece of len bytes. Returns its result. */
static uint8_t send_to(struct lend_io *io, uint32_t peer, void *data, uint32_t len)
{
	struct lend_seg seg[2] = {{0}, {.data = data, .len = len, .cap = len}};
	struct lend_bufs bufs = {seg, 2};
	struct lend_out out = {
	    .head = "HEAD", .head_len = 4, .tail = "TAIL!", .tail_len = 5, .peer = peer, .n = 1};

	out.piece[0] = (struct lend_piece){.buf = 1, .len = len};
	io->ops->tx(io, &bufs, &out, 1);
	return out.sent;
}

static uint32_t receive_one(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	lend_ns end = lend_clock_now() + 5000000000u;
	uint32_t n;

	while ((n = io->ops->rx(io, in, cap)) == 0 && lend_clock_now() < end)
		sched_yield();
	return n;
}

static void run_echo(const char *listen)
{
	struct lend_io *server, *client;
	static uint8_t data[16384], copy[16384];
	char address[128];
	uint32_t peer, max;
	struct lend_in in;

	server = listen_at(listen);
	cr_assert(server->ops->name(server, address, sizeof(address)) == 0);
	client = client_of(address);
	peer = reach_peer(client, address);
	max = client->path.mtu - 9;
	for (uint32_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t len = i == 0 ? 0 : i == 1 ? max : i * 37 % (max + 1);

		while (send_to(client, peer, data, len) != LEND_SENT)
			;
		cr_assert(receive_one(server, &in, 1) == 1);
		cr_assert(in.len == len + 9 && !in.gone, "len %u, not %u", in.len, len + 9);
		cr_assert(memcmp(in.data, "HEAD", 4) == 0 &&
			  memcmp((const char *)in.data + 4 + len, "TAIL!", 5) == 0);
		cr_assert(memcmp((const char *)in.data + 4, data, len) == 0);
		memcpy(copy, in.data, in.len);
		while (send_to(server, in.peer, copy, in.len > 100 ? 100 : in.len) != LEND_SENT)
			;
		server->ops->rx_done(server);
		cr_assert(receive_one(client, &in, 1) == 1);
		cr_assert(in.peer == peer);
		client->ops->rx_done(client);
	}
	client->ops->close(client);
	cr_assert(receive_one(server, &in, 1) == 1);
	cr_assert(in.gone && in.len == 0);
	server->ops->rx_done(server);
	server->ops->close(server);
}

OVER_BOTH(run_echo, run_echo)

/* A full link refuses datagrams. Those it accepted arrive in order once the peer polls again. */
static void fill_up(const char *listen)
{
	struct lend_io *server = listen_at(listen), *client;
	uint32_t sent = 0, got = 0, n;
	struct lend_in in[32];
	char address[128];
	uint32_t peer;

	server->ops->name(server, address, sizeof(address));
	client = client_of(address);
	peer = reach_peer(client, address);
	for (uint32_t refused = 0; refused < 10000;) {
		if (send_to(client, peer, &sent, 4) == LEND_SENT)
			sent++;
		else
			refused++;
		cr_assert(sent < 100000);
	}
	cr_assert(client->stats.tx_full >= 10000);
	while (got < sent) {
		n = receive_one(server, in, 32);
		cr_assert(n > 0, "%u of %u came", got, sent);
		for (uint32_t i = 0; i < n; i++, got++) {
			uint32_t value;

			memcpy(&value, (const char *)in[i].data + 4, 4);
			cr_assert(value == got, "%u, not %u", value, got);
		}
		server->ops->rx_done(server);
		client->ops->rx(client, in,
				1); /* retries the accepted datagrams that were not sent yet */
	}
	client->ops->close(client);
	server->ops->close(server);
}

OVER_BOTH(full, fill_up)

/* The server closes and opens again under its name. The client gets a gone notice and reaches it
 * again. */
static void restart(const char *listen)
{
	struct lend_io *server = listen_at(listen), *client;
	struct lend_in in;
	char address[128];
	uint32_t peer, again;

	server->ops->name(server, address, sizeof(address));
	client = client_of(address);
	peer = reach_peer(client, address);
	client->ops->pin(client, peer, true);
	for (int i = 0; i < 3; i++) {
		server->ops->close(server);
		cr_assert(receive_one(client, &in, 1) == 1);
		cr_assert(in.gone && in.peer == peer);
		cr_assert(send_to(client, peer, &i, 4) == LEND_SENT_DEAD);
		cr_assert(client->ops->resolve(client, address, &again) == -ECONNREFUSED);
		cr_assert(strstr(lend_why_text(), "listens there"));
		server = listen_at(address);
		again = reach_peer(client, address);
		cr_assert(again != peer, "the index of a pinned peer is not reused");
		client->ops->pin(client, peer, false);
		peer = again;
		client->ops->pin(client, peer, true);
		cr_assert(send_to(client, peer, &i, 4) == LEND_SENT);
		cr_assert(receive_one(server, &in, 1) == 1 && in.len == 13);
		server->ops->rx_done(server);
	}
	client->ops->close(client);
	server->ops->close(server);
}

OVER_BOTH(restart, restart)

/* A server process: listens, reports its address, echoes until it is killed. */
_Noreturn static void serve(int out)
{
	struct lend_io *server = listen_at("dpdk:memif@127.0.0.1:0");
	struct lend_in in;
	char address[128];

	server->ops->name(server, address, sizeof(address));
	if (write(out, address, strlen(address) + 1) < 0)
		_exit(1);
	for (;;) {
		if (server->ops->rx(server, &in, 1) == 0) {
			sched_yield();
			continue;
		}
		if (!in.gone)
			while (send_to(server, in.peer, address, 8) == LEND_SENT_FULL)
				;
		server->ops->rx_done(server);
	}
}

static pid_t spawn_echo(char *address, size_t cap)
{
	int fds[2];
	ssize_t n;
	pid_t pid;

	cr_assert(pipe(fds) == 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(fds[1]);
	}
	close(fds[1]);
	n = read(fds[0], address, cap);
	close(fds[0]);
	cr_assert(n > 0);
	return pid;
}

/* Kills a process. A carrier that sleeps meanwhile wakes up when it loses its link to it. */
static void kill_peer(pid_t pid, struct lend_io *sleeper)
{
	struct pollfd event = {.events = POLLIN};

	if (sleeper) {
		event.fd = sleeper->ops->fd(sleeper);
		cr_assert(sleeper->ops->arm(sleeper));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (sleeper)
		cr_assert(poll(&event, 1, 5000) == 1, "nothing wakes the carrier");
}

Test(dpdk, memif_killed)
{
	struct lend_io *client;
	struct lend_in in;
	char address[3][128];
	pid_t pid[3];

	if (!is_present())
		return;
	for (int i = 0; i < 3;
	     i++) /* before this process starts EAL, which does not survive a fork() */
		pid[i] = spawn_echo(address[i], sizeof(address[i]));
	client = client_of(address[0]);
	for (int round = 0; round < 3; round++) {
		uint32_t peer = reach_peer(client, address[round]);

		for (int i = 0; i < 100; i++) {
			while (send_to(client, peer, &i, 4) != LEND_SENT)
				;
			cr_assert(receive_one(client, &in, 1) == 1, "round %d, datagram %d", round,
				  i);
			cr_assert(!in.gone && in.len == 17,
				  "round %d, datagram %d: gone %d, len %u", round, i, in.gone,
				  in.len);
			client->ops->rx_done(client);
		}
		kill_peer(pid[round], round == 1 ? client : NULL);
		for (int i = 0; i < 10000; i++) { /* into a ring that is being removed */
			if (send_to(client, peer, &i, 4) == LEND_SENT_DEAD)
				break;
			if (client->ops->rx(client, &in, 1) == 1 && in.gone)
				break;
			client->ops->rx_done(client);
			sched_yield();
		}
		if (!in.gone) {
			do
				cr_assert(receive_one(client, &in, 1) == 1);
			while (!in.gone);
		}
		cr_assert(in.peer == peer);
	}
	client->ops->close(client);
}

Test(dpdk, refused)
{
	static const struct {
		const char *listen, *eal;
		int rc;
	} table[] = {
	    {"dpdk:ring@127.0.0.1", NULL, -EINVAL},
	    {"dpdk:ring@localhost:1", NULL, -EINVAL},
	    {"dpdk:@127.0.0.1:1", NULL, -EINVAL},
	    {"dpdk:ring@127.0.0.1:65536", NULL, -EINVAL},
	    {"dpdk:memif@127.0.0.1:1?links=0", NULL, -EINVAL},
	    {"dpdk:memif@127.0.0.1:1?colour=red", NULL, -EINVAL},
	    {"dpdk:ring@127.0.0.1:1", "--no-such-argument", -EINVAL},
	    {"dpdk:net_nothing@127.0.0.1:1", NULL, -ENODEV},
	};

	if (!is_present())
		return;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lend_io *io = NULL;
		int rc = lend_io_open(
		    &(struct lend_io_config){.listen = table[i].listen, .eal = table[i].eal}, &io);

		cr_assert(rc == table[i].rc, "%s: %d (%s)", table[i].listen, rc, lend_why_text());
		cr_assert(io == NULL && strlen(lend_why_text()) > 10);
	}
}

static void open_twice(const char *listen)
{
	struct lend_io *first = listen_at(listen), *second = NULL;
	char address[128];

	first->ops->name(first, address, sizeof(address));
	cr_assert(lend_io_open(&(struct lend_io_config){.listen = address}, &second) ==
		  -EADDRINUSE);
	cr_assert(strstr(lend_why_text(), "in use"), "%s", lend_why_text());
	first->ops->close(first);
	second = listen_at(address);
	second->ops->close(second);
}

Test(dpdk, name_in_use)
{
	if (!is_present())
		return;
	open_twice("dpdk:ring@127.0.0.1:0");
	open_twice("dpdk:memif@127.0.0.1:0?links=1");
}

/* Counts the threads of this process, and those that may run on other CPUs than these. */
static unsigned count_threads(const cpu_set_t *cpus, unsigned *elsewhere)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned n = 0;

	cr_assert_not_null(folder);
	for (*elsewhere = 0; (entry = readdir(folder)) != NULL;) {
		pid_t thread = atoi(entry->d_name);
		cpu_set_t its;

		if (thread <= 0 || sched_getaffinity(thread, sizeof(its), &its) != 0)
			continue;
		n++;
		*elsewhere += !CPU_EQUAL(&its, cpus);
	}
	(void)closedir(folder);
	return n;
}

/* EAL starts on all CPUs, but its threads stay on those of the process, like the caller. */
Test(dpdk, affinity_is_left_alone)
{
	unsigned before, after, n;
	cpu_set_t cpus, one;
	struct lend_io *io;
	int cpu = 0;

	if (!is_present())
		return;
	cr_assert_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	while (!CPU_ISSET(cpu, &cpus))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	n = count_threads(&one, &before);
	io = listen_at("dpdk:ring@127.0.0.1:0");
	cr_assert_gt(count_threads(&one, &after), n, "EAL has started no thread");
	cr_assert_eq(after, before, "%u threads run elsewhere", after - before);
	io->ops->close(io);
}
