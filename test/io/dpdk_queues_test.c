/* Goal: endpoints that share a device with several queues receive all their own datagrams,
 * unchanged, each once, and no others, whichever queue they arrive at.
 * Method: four servers at one end of a veth pair, a thread each, and four clients at the other.
 * Each client calls each server; lengths vary, and all replies are compared. The kernel spreads
 * flows over the queues without regard to servers, so most datagrams have to be handed over.
 * Covers: src/io/dpdk/shared_port.c, src/io/dpdk/flow.c, src/io/dpdk/rx_wake.c */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "io/conform.h"
#include "io/veth.h"
#include "sys/last_error.h"
#include "one_line_test.h"

enum { ENDS = 4, ROUNDS = 512, WINDOW = 32, RETRY_MS = 500, PATIENCE_MS = 10000 };

struct server {
	struct lend_io *io;
	uint32_t number;
	_Atomic bool stop;
	uint32_t got;
};

static void answer_datagram(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct server *s = arg;

	cr_assert_eq(id, s->number, "for server %u, received by server %u", id, s->number);
	s->got++;
	(void)conform_send(s->io, in->peer, id, seq, in->len);
}

static void *run_server(void *arg)
{
	struct server *s = arg;

	while (!atomic_load(&s->stop)) {
		if (conform_take(s->io, answer_datagram, s) == 0)
			sched_yield();
	}
	return NULL;
}

/* A client's requests and which of them were answered. seq belongs to server seq % ENDS. */
struct asked {
	struct lend_io *io;
	uint32_t peer[ENDS];
	uint32_t n, open; /* n: all seqs below it were sent; open: number of them without a reply */
	bool answered[ROUNDS];
};

static void note_answer(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct asked *a = arg;

	cr_assert_lt(seq, a->n, "a reply without a request");
	cr_assert_eq(id, seq % ENDS, "a reply of server %u to a request for %u", id, seq % ENDS);
	cr_assert_eq(in->peer, a->peer[id], "from another peer");
	a->open -= !a->answered[seq];
	a->answered[seq] = true;
}

static void send_to(struct asked *a, uint32_t seq)
{
	uint32_t len = 16 + seq * 37 % (a->io->path.mtu - 15);
	uint64_t end = conform_ms() + PATIENCE_MS;

	while (conform_send(a->io, a->peer[seq % ENDS], seq % ENDS, seq, len) == LEND_SENT_FULL)
		cr_assert_lt(conform_ms(), end, "full");
}

/* Sends some more requests and waits for all replies. Returns the number of retries. */
static uint32_t ask_some(struct asked *a)
{
	uint32_t first = a->n, again = 0;

	for (a->open = WINDOW; a->n < first + WINDOW; a->n++) {
		a->answered[a->n] = false;
		send_to(a, a->n);
	}
	for (uint64_t end = conform_ms() + RETRY_MS; a->open > 0;) {
		if (conform_take(a->io, note_answer, a) == 0)
			sched_yield();
		if (conform_ms() < end)
			continue;
		cr_assert_lt(again, 50 * WINDOW, "no answer");
		for (uint32_t seq = first; seq < a->n; seq++) {
			if (!a->answered[seq])
				send_to(a, seq), again++;
		}
		end = conform_ms() + RETRY_MS;
	}
	return again;
}

static void open_servers(struct server *server, const char *listen)
{
	for (uint32_t i = 0; i < ENDS; i++) {
		struct lend_io_config config = {.listen = listen};

		server[i].number = i;
		cr_assert_eq(lend_io_open(&config, &server[i].io), 0, "%s", lend_why_text());
	}
}

/* polled: a server to poll meanwhile; NULL: all servers run. */
static void open_client(struct asked *a, const struct server *server, const char *from,
			struct lend_io *polled)
{
	struct lend_io_config config = {.listen = from};

	cr_assert_eq(lend_io_open(&config, &a->io), 0, "%s", lend_why_text());
	for (uint32_t s = 0; s < ENDS; s++) {
		char own[104], address[104];

		cr_assert_eq(server[s].io->ops->name(server[s].io, own, sizeof(own)), 0);
		veth_across(own, address, sizeof(address));
		a->peer[s] = conform_resolve(a->io, address, polled);
		a->io->ops->pin(a->io, a->peer[s], true);
	}
}

static uint32_t ask_all(const struct server *server, const char *from)
{
	static struct asked asked[ENDS];
	uint32_t again = 0;

	for (uint32_t c = 0; c < ENDS; c++)
		open_client(&asked[c], server, from, NULL);
	for (uint32_t i = 0; i < ROUNDS; i += WINDOW) {
		for (uint32_t c = 0; c < ENDS; c++)
			again += ask_some(&asked[c]);
	}
	for (uint32_t c = 0; c < ENDS; c++) {
		cr_assert_eq(asked[c].io->stats.rx_bad + asked[c].io->stats.rx_checksum, 0);
		asked[c].io->ops->close(asked[c].io);
	}
	return again;
}

/* more: further arguments of the devices. */
static void open_shared(const char *kind, const char *more)
{
	static struct server server[ENDS];
	pthread_t thread[ENDS];
	const char *absent = veth_make_queues(kind, ENDS, more);
	char at[64], from[64];
	uint32_t got = 0, again;
	uint64_t handed = 0;

	if (absent)
		cr_skip_test("not on this machine: %s", absent);
	(void)snprintf(at, sizeof(at), "dpdk:%s0@10.9.0.1:0", kind);
	(void)snprintf(from, sizeof(from), "dpdk:%s1@10.9.0.2:0", kind);
	open_servers(server, at);
	for (uint32_t i = 0; i < ENDS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, run_server, &server[i]), 0);
	again = ask_all(server, from);
	for (uint32_t i = 0; i < ENDS; i++) {
		atomic_store(&server[i].stop, true);
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
		cr_assert_geq(server[i].got, ROUNDS, "server %u", i);
		got += server[i].got;
		handed += server[i].io->stats.rx_handed;
		cr_assert_eq(server[i].io->stats.rx_bad + server[i].io->stats.rx_checksum, 0);
	}
	cr_assert_lt(again, ROUNDS * ENDS / 10, "%u lost", again);
	cr_assert_leq(got, ROUNDS * ENDS + again, "no datagram arrived twice");
	cr_assert(handed > 0 && handed <= got, "%lu of %u handed over", (unsigned long)handed, got);
	for (uint32_t i = 0; i < ENDS; i++)
		server[i].io->ops->close(server[i].io);
}

/* Polls often enough that the others rely on it, then returns whether the other server sleeps. The
 * kernel's own frames, too, may wake a server that watches the queues. */
static bool falls_asleep(struct lend_io *polled, struct lend_io *io, struct pollfd *sleeper)
{
	for (int i = 0; i < 200; i++)
		(void)conform_take(polled, NULL, NULL);
	(void)conform_take(io, NULL, NULL);
	return io->ops->arm(io) && poll(sleeper, 1, 0) == 0;
}

/* One endpoint sleeps while another one polls the queues: only the other one can wake it. */
static void wake_sleeper(const char *kind)
{
	static struct server server[ENDS];
	static struct asked client;
	const char *absent = veth_make_queues(kind, 1, "");
	struct pollfd sleeper = {.events = POLLIN};
	uint64_t end = conform_ms() + conform_patience_ms;
	char at[64], from[64];
	uint32_t got = 0;

	if (absent)
		cr_skip_test("not on this machine: %s", absent);
	(void)snprintf(at, sizeof(at), "dpdk:%s0@10.9.0.1:0", kind);
	(void)snprintf(from, sizeof(from), "dpdk:%s1@10.9.0.2:0", kind);
	open_servers(server, at);
	open_client(&client, server, from, server[1].io);
	sleeper.fd = server[0].io->ops->fd(server[0].io);
	cr_assert_geq(sleeper.fd, 0);
	while (!falls_asleep(server[1].io, server[0].io, &sleeper))
		cr_assert_lt(conform_ms(), end, "an endpoint without frames does not sleep");
	cr_assert_eq(conform_send(client.io, client.peer[0], 0, 0, 100), LEND_SENT);
	while (got == 0) {
		cr_assert_eq(conform_take(server[1].io, NULL, NULL), 0);
		while (got == 0 && poll(&sleeper, 1, 0) == 1) {
			got = conform_take(server[0].io, NULL, NULL);
			if (got == 0 && !server[0].io->ops->arm(server[0].io))
				got = conform_take(server[0].io, NULL, NULL);
		}
		cr_assert_lt(conform_ms(), end, "slept through a datagram that another one took");
	}
	while (!falls_asleep(server[1].io, server[0].io, &sleeper))
		cr_assert_lt(conform_ms(), end, "one wake-up ends more than one sleep");
	for (uint32_t i = 0; i < ENDS; i++)
		server[i].io->ops->close(server[i].io);
	client.io->ops->close(client.io);
}

TestRuns(dpdk_queues, sleeper__another_takes_its_frame__wakes, wake_sleeper("net_af_packet"),
	 .timeout = 60);
TestRuns(dpdk_queues, several_of_a_packet_socket, open_shared("net_af_packet", ",qpairs=4"),
	 .timeout = 60);
TestRuns(dpdk_queues, one_of_an_xdp_socket, open_shared("net_af_xdp", ""), .timeout = 60);
