/* Goal: processes that use one device through a broker have transmit queues of their own there, at
 * the same time.
 * Method: two clients, forked before EAL starts, send to an echo at the other end of a veth pair
 * while the parent runs the broker. The device's counters show which queues sent.
 * Covers: src/broker/broker.c, src/broker/broker_forward.c, src/io/dpdk/shared_port.c */
#include "broker/broker.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "io/conform.h"
#include "io/veth.h"
#include "sys/last_error.h"

enum { CLIENTS = 2, ROUNDS = 50, LEN = 200, QUEUES = 4 };

static char name[64];

static void echo_back(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	(void)conform_send(arg, in->peer, id, seq, in->len);
}

struct pong {
	uint32_t id, next; /* sender and sequence number of the awaited reply */
};

static void note(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct pong *p = arg;

	(void)in;
	cr_assert_eq(id, p->id, "for another process");
	p->next += seq == p->next;
}

static struct lend_io *attach(void)
{
	char text[80];
	struct lend_io_config config = {.listen = text};
	uint64_t late = conform_ms() + conform_patience_ms;
	struct lend_io *io;

	(void)snprintf(text, sizeof(text), "broker:%s", name);
	while (lend_io_open(&config, &io) < 0) /* until the parent's broker listens */
		cr_assert_lt(conform_ms(), late, "%s", lend_why_text());
	return io;
}

/* A client process: attaches, waits until all have attached, then makes calls. */
static int client(uint32_t id, int go)
{
	struct pong pong = {.id = id};
	struct lend_io *io = attach();
	char address[200], outer[104];
	uint32_t peer;

	cr_assert_eq(read(go, outer, sizeof(outer)), (ssize_t)sizeof(outer));
	(void)snprintf(address, sizeof(address), "broker:%s/%s", name, outer);
	peer = conform_resolve(io, address, NULL);
	for (uint32_t asked = 0; pong.next < ROUNDS; asked = pong.next) {
		uint64_t late = conform_ms() + 200; /* and makes more calls */

		(void)conform_send(io, peer, id, asked, LEN);
		while (pong.next == asked && conform_ms() < late) {
			if (conform_take(io, note, &pong) == 0)
				sched_yield();
		}
	}
	io->ops->close(io);
	return 0;
}

static struct lend_io *open_echo(char address[104])
{
	struct lend_io_config config = {.listen = "dpdk:net_af_packet1@10.9.0.2:0"};
	struct lend_io *io;
	char own[104];

	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	cr_assert_eq(io->ops->name(io, own, sizeof(own)), 0);
	veth_across(own, address, 104);
	return io;
}

static uint64_t attached(const struct lend_broker *h)
{
	struct lend_broker_stats stats;

	lend_broker_stats(h, &stats);
	return stats.clients;
}

static void expect_queues(void)
{
	struct rte_eth_stats stats;
	uint32_t used = 0;
	uint16_t port;

	cr_assert_eq(rte_eth_dev_get_port_by_name("net_af_packet0", &port), 0);
	cr_assert_eq(rte_eth_stats_get(port, &stats), 0);
	for (int i = 0; i < QUEUES; i++)
		used += stats.q_opackets[i] >= ROUNDS;
	cr_assert_eq(used, CLIENTS, "%u queues sent", used);
}

Test(dpdk_broker_queues, clients_have_queues_of_their_own, .timeout = 60)
{
	const char *absent = veth_make_queues("net_af_packet", QUEUES, ",qpairs=4");
	struct lend_broker_config config = {.name = name,
					    .device = "dpdk:net_af_packet0@10.9.0.1:0"};
	int go[2], left = CLIENTS, status;
	char address[CLIENTS][104];
	struct lend_broker *h;
	struct lend_io *echo;

	if (absent)
		cr_skip_test("not on this machine: %s", absent);
	(void)snprintf(name, sizeof(name), "broker-%d", (int)getpid());
	cr_assert_eq(pipe(go), 0);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (fork() == 0)
			_exit(client(i, go[0]));
	}
	cr_assert_eq(lend_broker_open(&config, &h), 0, "%s", lend_why_text());
	echo = open_echo(address[0]);
	memcpy(address[1], address[0], sizeof(address[0]));
	while (attached(h) < CLIENTS)
		(void)lend_broker_turn(h);
	cr_assert_eq(write(go[1], address, sizeof(address)), (ssize_t)sizeof(address));
	while (left > 0) {
		if (lend_broker_turn(h) + conform_take(echo, echo_back, echo) == 0)
			sched_yield();
		if (waitpid(-1, &status, WNOHANG) <= 0)
			continue;
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		left--;
	}
	expect_queues();
	echo->ops->close(echo);
	lend_broker_close(h);
}
