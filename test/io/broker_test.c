/* Goal: a device that a broker owns keeps the promises of a carrier. The broker cleans up after a
 * dead client, and a client that breaks the protocol harms no other client.
 * Method: the conformance suite over udp, with the broker in a thread of the test; then single
 * cases with a broker that the test polls itself.
 * Covers: src/broker/broker.c, src/broker/broker_client.c, src/broker/broker_forward.c,
 * src/io/broker/carrier.c, src/io/broker/link.c */
#include "broker/broker_internal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/broker/thread.h"
#include "io/conform.h"
#include "sys/clock.h"

enum { SPARES = 3 };

static const char *name; /* of the broker that was opened last */

static struct lend_broker *open_broker(const char *device)
{
	return broker_open(device, &name);
}

static void make_address(char *text, size_t cap)
{
	name = name ? name : broker_thread_start("udp:127.0.0.1:0");
	(void)snprintf(text, cap, "broker:%s", name);
}

static const struct conform_row row = {.name = "broker over udp",
				       .address = make_address,
				       .rebinds = true,
				       .threads = true,
				       .clients = 40,
				       .both = true,
				       .one_way = true};

CONFORM_SUITE(broker, &row)

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
	(void)snprintf(text, sizeof(text), "broker:%s", name);
	config.listen = text;
	if (lend_io_open(&config, &io) == 0)
		for (;;)
			(void)pause();
	_exit(1);
}

static uint64_t count_clients(const struct lend_broker *h)
{
	struct lend_broker_stats stats;

	lend_broker_stats(h, &stats);
	return stats.clients;
}

static void turn_until(struct lend_broker *h, uint64_t n)
{
	lend_ns end = lend_clock_now() + UINT64_C(10000000000);

	while (count_clients(h) != n) {
		cr_assert_lt(lend_clock_now(), end, "%llu clients",
			     (unsigned long long)count_clients(h));
		(void)lend_broker_turn(h);
	}
}

/* Opens a shm link to a broker that the test polls. *peer: the broker's index there. */
static struct lend_io *open_link(struct lend_broker *h, uint32_t *peer)
{
	struct lend_io_config shm = {.peer = "shm:nobody", .capture = ""};
	struct lend_io *io;
	char text[80];

	(void)snprintf(text, sizeof(text), "shm:%s", name);
	cr_assert_eq(lend_io_open(&shm, &io), 0);
	while (io->ops->resolve(io, text, peer) == -EINPROGRESS)
		(void)lend_broker_turn(h);
	return io;
}

/* Sends the first len bytes of a message, with a trailer that names that peer of the device. */
static void send_message(struct lend_io *io, uint32_t broker, const struct lend_broker_msg *msg,
			 uint32_t len, uint32_t peer)
{
	struct lend_broker_tail tail = {.peer = peer};
	struct lend_out out = {.head = msg,
			       .head_len = (uint8_t)len,
			       .tail = &tail,
			       .tail_len = sizeof(tail),
			       .peer = broker};
	struct lend_bufs none = {NULL, 0};

	io->ops->tx(io, &none, &out, 1);
}

/* Attaches at that address of the device, or at any (""). */
static struct lend_io *attach_client(struct lend_broker *h, const char *text)
{
	struct lend_broker_msg msg = {.op = LEND_BROKER_OPEN, .version = LEND_BROKER_VERSION};
	uint64_t n = count_clients(h);
	uint32_t broker;
	struct lend_io *io = open_link(h, &broker);

	(void)snprintf(msg.text, sizeof(msg.text), "%s", text);
	send_message(io, broker, &msg, sizeof(msg), LEND_BROKER_CONTROL);
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

Test(broker_own, a_killed_client_is_cleaned_up)
{
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	int files = 0;

	for (int i = 0; i < 20; i++) {
		pid_t pid = start_client();

		turn_until(h, 1);
		cr_assert_eq(kill(pid, SIGKILL), 0);
		cr_assert_eq(waitpid(pid, NULL, 0), pid);
		turn_until(h, 0);
		files = files ? files : open_files();
		cr_assert_eq(open_files(), files);
	}
	lend_broker_close(h);
}

/* Twice as many carriers as are opened in advance are kept when clients end; others are closed. */
Test(broker_own, clients_end__some_carriers_are_kept)
{
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	int files = 0;

	for (int i = 0; i < 100; i++) {
		struct lend_io *io[4];

		for (int c = 0; c < 4; c++)
			io[c] = attach_client(h, "");
		for (int c = 0; c < 4; c++)
			io[c]->ops->close(io[c]);
		turn_until(h, 0);
		cr_assert_eq(h->spares, 2);
		files = files ? files : open_files();
		cr_assert_eq(open_files(), files);
	}
	lend_broker_close(h);
}

/* Peers on a link learn by its end that the client has gone: no carrier of such a device is kept.
 */
Test(broker_own, client_ends__its_links_end)
{
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	struct lend_io *io = attach_client(h, "");

	cr_assert_eq(h->spares, 0);
	h->config.device = "dpdk:memif@127.0.0.1:0";
	io->ops->close(io);
	turn_until(h, 0);
	cr_assert_eq(h->spares, 0);
	lend_broker_close(h);
}

static const struct lend_io_ops *real;
static int pins;

static void count_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	pins += kept ? 1 : -1;
	real->pin(io, peer, kept);
}

/* The carrier of a client that has gone is kept, without the peers that the client knew. */
Test(broker_own, client_ends__its_peers_are_released)
{
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	struct lend_io_ops ops = *h->spare[0]->ops;
	struct lend_io *io;

	real = h->spare[0]->ops;
	ops.pin = count_pin;
	h->spare[0]->ops = &ops;
	io = attach_client(h, "");
	for (int i = 0; i < 3; i++) {
		struct lend_broker_msg msg = {.op = LEND_BROKER_RESOLVE,
					      .version = LEND_BROKER_VERSION};

		(void)snprintf(msg.text, sizeof(msg.text), "udp:127.0.0.1:%d", 7001 + i);
		send_message(io, 0, &msg, sizeof(msg), LEND_BROKER_CONTROL);
		while (pins == i)
			(void)lend_broker_turn(h);
	}
	cr_assert_eq(pins, 3);
	io->ops->close(io);
	turn_until(h, 0);
	cr_assert_eq(pins, 0);
	for (uint32_t i = 0; i < h->spares; i++)
		h->spare[i]->ops = real;
	lend_broker_close(h);
}

/* While it is idle, a broker makes the memory of the next client, which then waits less. */
Test(broker_own, idle__has_the_memory_of_the_next_client)
{
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");

	for (int i = 0; i < 3; i++) {
		const struct lend_broker_client *next;
		lend_ns end = lend_clock_now() + UINT64_C(10000000000);
		struct lend_io *io;

		for (next = h->next; next == NULL; next = h->next) {
			cr_assert_lt(lend_clock_now(), end, "no memory was made");
			lend_broker_wait(h);
		}
		io = attach_client(h, "");
		cr_assert_eq(h->client[0], next);
		cr_assert_null(h->next);
		io->ops->close(io);
		turn_until(h, 0);
	}
	lend_broker_close(h);
}

static void name_spares(const struct lend_broker *h, char spare[][104])
{
	for (uint32_t i = 0; i < h->spares; i++)
		cr_assert_eq(h->spare[i]->ops->name(h->spare[i], spare[i], sizeof(spare[i])), 0);
}

/* One of the carriers that are opened in advance has the port that a client wants: it gets it. */
Test(broker_own, carrier_opened_ahead__yields_its_port)
{
	for (uint32_t wanted = 0; wanted < SPARES; wanted++) {
		struct lend_broker *h = open_broker("udp:127.0.0.1:0");
		char spare[SPARES][104], got[104];
		struct lend_io *io;

		h->config.spares = SPARES;
		while (lend_broker_open_spare(h))
			;
		name_spares(h, spare);
		io = attach_client(h, spare[wanted]);
		cr_assert_eq(h->client[0]->outer->ops->name(h->client[0]->outer, got, sizeof(got)),
			     0);
		cr_assert_str_eq(got, spare[wanted]);
		cr_assert_eq(h->spares, wanted);
		io->ops->close(io);
		turn_until(h, 0); /* its carrier is closed: the port may be wanted again */
		cr_assert_eq(h->spares, wanted);
		lend_broker_close(h);
	}
}

/* A client that wants an address that the device cannot have is refused; no carrier is closed. */
Test(broker_own, impossible_address__keeps_carriers_opened_ahead)
{
	static const char *const wanted[] = {"udp:192.0.2.1:0", "udp:127.0.0.1:pigeon", "shm:x"};
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	const struct lend_io *ahead = h->spare[0];
	uint32_t broker;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct lend_broker_msg msg = {.op = LEND_BROKER_OPEN,
					      .version = LEND_BROKER_VERSION};
		struct lend_io *io = open_link(h, &broker);
		lend_ns end = lend_clock_now() + UINT64_C(10000000000);
		struct lend_in in;

		(void)snprintf(msg.text, sizeof(msg.text), "%s", wanted[i]);
		send_message(io, broker, &msg, sizeof(msg), LEND_BROKER_CONTROL);
		while (io->ops->rx(io, &in, 1) == 0) {
			cr_assert_lt(lend_clock_now(), end, "no answer for %s", wanted[i]);
			(void)lend_broker_turn(h);
		}
		memcpy(&msg, in.data, sizeof(msg));
		io->ops->rx_done(io);
		cr_assert_lt(msg.rc, 0, "%s", wanted[i]);
		cr_assert(h->spares == 1 && h->spare[0] == ahead, "%s", wanted[i]);
		io->ops->close(io);
	}
	lend_broker_close(h);
}

/* Clients take the carriers that are opened in advance, the oldest first, and return them. */
Test(broker_own, several_carriers_opened_ahead)
{
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	char spare[SPARES][104], got[104];
	struct lend_io *io[SPARES];

	cr_assert_eq(h->spares, 1);
	h->config.spares = SPARES;
	while (lend_broker_open_spare(h))
		;
	cr_assert_eq(h->spares, SPARES);
	name_spares(h, spare);
	for (uint32_t i = 0; i < SPARES; i++) {
		const struct lend_io *outer;

		io[i] = attach_client(h, "");
		outer = h->client[i]->outer;
		cr_assert_eq(outer->ops->name(h->client[i]->outer, got, sizeof(got)), 0);
		cr_assert_str_eq(got, spare[i]);
	}
	cr_assert_eq(h->spares, 0);
	for (uint32_t i = 0; i < SPARES; i++) {
		io[i]->ops->close(io[i]);
		turn_until(h, SPARES - 1 - i);
	}
	cr_assert_eq(h->spares, SPARES);
	for (uint32_t i = 0; i < SPARES; i++) {
		cr_assert_eq(h->spare[i]->ops->name(h->spare[i], got, sizeof(got)), 0);
		cr_assert_str_eq(got, spare[i]);
	}
	lend_broker_close(h);
}

/* Trailers and messages that a client must not send. */
Test(broker_own, protocol_violations__are_counted)
{
	static const struct {
		uint32_t peer, len;
		uint32_t op;
	} bad[] = {
	    {0, 100, 0},                                 /* before OPEN */
	    {LEND_BROKER_CONTROL, 10, LEND_BROKER_OPEN}, /* too short */
	    {LEND_BROKER_CONTROL, sizeof(struct lend_broker_msg), 99},
	    {LEND_BROKER_CONTROL, sizeof(struct lend_broker_msg), LEND_BROKER_UNPIN},
	    {LEND_BROKER_CONTROL, sizeof(struct lend_broker_msg), LEND_BROKER_RESOLVE},
	    {LEND_BROKER_PEERS, 100, 0},
	    {UINT32_MAX - 1, 0, 0},
	};
	struct lend_broker *h = open_broker("udp:127.0.0.1:0");
	struct lend_broker_stats stats;
	uint32_t broker, n = sizeof(bad) / sizeof(bad[0]);
	struct lend_io *io = open_link(h, &broker);

	for (uint32_t i = 0; i < n; i++) {
		struct lend_broker_msg msg = {.op = bad[i].op};

		send_message(io, broker, &msg, bad[i].len, bad[i].peer);
		for (int k = 0; k < 10; k++)
			(void)lend_broker_turn(h);
		lend_broker_stats(h, &stats);
		cr_assert_eq(stats.bad, i + 1, "row %u: %llu", i, (unsigned long long)stats.bad);
	}
	cr_assert_eq(stats.clients, 0);
	io->ops->close(io);
	lend_broker_close(h);
}
