/* Goal: a device that a broker owns keeps the promises of a carrier. The broker cleans up after a
 * dead client, and a client that breaks the protocol harms no other client.
 * Method: the conformance suite over udp, with the broker in a thread of the test; then single
 * cases with a broker that the test polls itself.
 * Covers: src/hostd/hostd.c, src/hostd/hostd_client.c, src/hostd/hostd_forward.c,
 * src/io/broker/carrier.c, src/io/broker/link.c */
#include "hostd/broker_internal.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/conform.h"
#include "sys/clock.h"
#include "sys/last_error.h"

static atomic_bool leaving;
static pthread_t thread;
static char name[64];

static struct lend_hostd *open_broker(const char *device)
{
	static _Atomic unsigned count;
	static char device_text[104];
	struct lend_hostd_config config = {.name = name, .device = device_text};
	struct lend_hostd *h;

	(void)snprintf(device_text, sizeof(device_text), "%s", device);
	(void)snprintf(name, sizeof(name), "hostd-%d-%u", (int)getpid(),
		       atomic_fetch_add(&count, 1));
	cr_assert_eq(lend_hostd_open(&config, &h), 0, "%s", lend_why_text());
	return h;
}

static void *turn(void *arg)
{
	struct lend_hostd *h = arg;

	while (!atomic_load(&leaving))
		if (lend_hostd_turn(h) == 0)
			lend_hostd_wait(h);
	lend_hostd_close(h);
	return NULL;
}

static void leave(void)
{
	atomic_store(&leaving, true);
	(void)pthread_join(thread, NULL);
}

static void address(char *text, size_t cap)
{
	if (name[0] == '\0') {
		struct lend_hostd *h = open_broker("udp:127.0.0.1:0");

		cr_assert_eq(pthread_create(&thread, NULL, turn, h), 0);
		(void)atexit(leave);
	}
	(void)snprintf(text, cap, "hostd:%s", name);
}

static const struct conform_row row = {.name = "hostd over udp",
				       .address = address,
				       .rebinds = true,
				       .threads = true,
				       .clients = 40,
				       .both = true,
				       .one_way = true};

CONFORM_SUITE(hostd, &row)

/* Starts a client process, which opens the device and waits to be killed. */
static pid_t start_client(void)
{
	struct lend_io_config config = {.capture = ""};
	struct lend_io *io;
	char text[80];
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(text, sizeof(text), "hostd:%s", name);
	config.listen = text;
	if (lend_io_open(&config, &io) == 0)
		for (;;)
			(void)pause();
	_exit(1);
}

static uint64_t clients(const struct lend_hostd *h)
{
	struct lend_hostd_stats stats;

	lend_hostd_stats(h, &stats);
	return stats.clients;
}

static void turn_until(struct lend_hostd *h, uint64_t n)
{
	lend_ns end = lend_clock_now() + UINT64_C(10000000000);

	while (clients(h) != n) {
		cr_assert_lt(lend_clock_now(), end, "%llu clients", (unsigned long long)clients(h));
		(void)lend_hostd_turn(h);
	}
}

/* Opens a shm link to a broker that the test polls. *peer: the broker's index there. */
static struct lend_io *dial(struct lend_hostd *h, uint32_t *peer)
{
	struct lend_io_config shm = {.peer = "shm:nobody", .capture = ""};
	struct lend_io *io;
	char text[80];

	(void)snprintf(text, sizeof(text), "shm:%s", name);
	cr_assert_eq(lend_io_open(&shm, &io), 0);
	while (io->ops->resolve(io, text, peer) == -EINPROGRESS)
		(void)lend_hostd_turn(h);
	return io;
}

/* Sends the first len bytes of a message, with a trailer that names that peer of the device. */
static void say(struct lend_io *io, uint32_t broker, const struct lend_hostd_msg *msg, uint32_t len,
		uint32_t peer)
{
	struct lend_hostd_tail tail = {.peer = peer};
	struct lend_out out = {.head = msg,
			       .head_len = (uint8_t)len,
			       .tail = &tail,
			       .tail_len = sizeof(tail),
			       .peer = broker};
	struct lend_bufs none = {NULL, 0};

	io->ops->tx(io, &none, &out, 1);
}

/* Attaches at that address of the device, or at any (""). */
static struct lend_io *attach(struct lend_hostd *h, const char *text)
{
	struct lend_hostd_msg msg = {.op = LEND_HOSTD_OPEN, .version = LEND_HOSTD_VERSION};
	uint64_t n = clients(h);
	uint32_t broker;
	struct lend_io *io = dial(h, &broker);

	(void)snprintf(msg.text, sizeof(msg.text), "%s", text);
	say(io, broker, &msg, sizeof(msg), LEND_HOSTD_CONTROL);
	turn_until(h, n + 1);
	return io;
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	cr_assert(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

Test(hostd_own, a_killed_client_is_cleaned_up)
{
	struct lend_hostd *h = open_broker("udp:127.0.0.1:0");
	int files = open_files();

	for (int i = 0; i < 20; i++) {
		pid_t pid = start_client();

		turn_until(h, 1);
		cr_assert_eq(kill(pid, SIGKILL), 0);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		turn_until(h, 0);
	}
	lend_hostd_provide(h);
	cr_assert_eq(open_files(), files);
	lend_hostd_close(h);
}

/* Closes the client's carrier too. The carrier that is opened in advance stays the only one. */
Test(hostd_own, client_ends__its_carrier_is_closed)
{
	struct lend_hostd *h = open_broker("udp:127.0.0.1:0");
	int files = open_files();

	for (int i = 0; i < 300; i++) {
		struct lend_io *io = attach(h, "");

		if (i % 2)
			lend_hostd_provide(h);
		io->ops->close(io);
		turn_until(h, 0);
	}
	lend_hostd_provide(h);
	cr_assert_eq(open_files(), files);
	lend_hostd_close(h);
}

/* The carrier that is opened in advance has the port that a client wants: the client gets it. */
Test(hostd_own, carrier_opened_ahead__yields_its_port)
{
	struct lend_hostd *h = open_broker("udp:127.0.0.1:0");
	char ahead[104], got[104];
	struct lend_io *io;

	cr_assert_eq(h->spare->ops->name(h->spare, ahead, sizeof(ahead)), 0);
	io = attach(h, ahead);
	cr_assert_eq(h->client[0]->outer->ops->name(h->client[0]->outer, got, sizeof(got)), 0);
	cr_assert_str_eq(got, ahead);
	io->ops->close(io);
	lend_hostd_close(h);
}

/* Trailers and messages that a client must not send. */
Test(hostd_own, protocol_violations__are_counted)
{
	static const struct {
		uint32_t peer, len;
		uint32_t op;
	} bad[] = {
	    {0, 100, 0},                               /* before OPEN */
	    {LEND_HOSTD_CONTROL, 10, LEND_HOSTD_OPEN}, /* too short */
	    {LEND_HOSTD_CONTROL, sizeof(struct lend_hostd_msg), 99},
	    {LEND_HOSTD_CONTROL, sizeof(struct lend_hostd_msg), LEND_HOSTD_UNPIN},
	    {LEND_HOSTD_CONTROL, sizeof(struct lend_hostd_msg), LEND_HOSTD_RESOLVE},
	    {LEND_HOSTD_PEERS, 100, 0},
	    {UINT32_MAX - 1, 0, 0},
	};
	struct lend_hostd *h = open_broker("udp:127.0.0.1:0");
	struct lend_hostd_stats stats;
	uint32_t broker, n = sizeof(bad) / sizeof(bad[0]);
	struct lend_io *io = dial(h, &broker);

	for (uint32_t i = 0; i < n; i++) {
		struct lend_hostd_msg msg = {.op = bad[i].op};

		say(io, broker, &msg, bad[i].len, bad[i].peer);
		for (int k = 0; k < 10; k++)
			(void)lend_hostd_turn(h);
		lend_hostd_stats(h, &stats);
		cr_assert_eq(stats.bad, i + 1, "row %u: %llu", i, (unsigned long long)stats.bad);
	}
	cr_assert_eq(stats.clients, 0);
	io->ops->close(io);
	lend_hostd_close(h);
}
