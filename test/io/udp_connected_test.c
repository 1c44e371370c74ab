/* Goal: a listener opens a connected socket for the peer that it exchanges datagrams with, without
 * visible effect. All datagrams arrive once, in the order and under the index of their sender,
 * single or joined, while other clients send too. The socket is given up when its peer is quiet.
 * Method: the port's sockets as the kernel reports them; clients that take turns under seeds,
 * compared with what each has sent.
 * Covers: src/io/udp/connected.c */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "util/rng.h"

enum { CLIENTS = 3, ENOUGH = 300, SILENCE = 3000, STRANGERS = 300, FD_MAX = 256 };

struct client {
	struct lend_io *io;
	uint32_t server; /* index of the server at the client */
	uint32_t index;  /* and of the client at the server */
	uint32_t sent, arrived;
};

struct stage {
	struct lend_io *server;
	struct client client[CLIENTS];
	uint64_t seed;
	char address[104];
};

static void begin_stage(struct stage *s)
{
	*s = (struct stage){.seed = conform_seed()};
	cr_assert_eq(
	    lend_io_open(&(struct lend_io_config){.listen = "udp:127.0.0.1:0"}, &s->server), 0);
	cr_assert_eq(s->server->ops->name(s->server, s->address, sizeof(s->address)), 0);
	for (int i = 0; i < CLIENTS; i++) {
		s->client[i].io = conform_client(s->address);
		s->client[i].server = conform_resolve(s->client[i].io, s->address, NULL);
		s->client[i].index = UINT32_MAX;
	}
}

static void end_stage(struct stage *s)
{
	for (int i = 0; i < CLIENTS; i++)
		s->client[i].io->ops->close(s->client[i].io);
	s->server->ops->close(s->server);
}

/* Sends n datagrams in one burst, of equal length, so that the kernel joins them. */
static void send_some(struct client *c, uint32_t id, uint32_t n)
{
	uint32_t number[CONFORM_BURST][2];
	struct lend_out out[CONFORM_BURST] = {{.head = NULL}};

	for (uint32_t i = 0; i < n; i++) {
		number[i][0] = id;
		number[i][1] = c->sent++;
		out[i] = (struct lend_out){.head = number[i],
					   .head_len = sizeof(number[i]),
					   .peer = c->server,
					   .class = 4};
	}
	c->io->ops->tx(c->io, NULL, out, n);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(out[i].sent, LEND_SENT);
}

static void check_datagram(struct stage *s, const struct lend_in *in)
{
	uint32_t number[2];
	struct client *c;

	cr_assert_eq(in->len, sizeof(number), "seed %llu", (unsigned long long)s->seed);
	memcpy(number, in->data, sizeof(number));
	cr_assert_lt(number[0], CLIENTS);
	c = &s->client[number[0]];
	cr_assert_eq(number[1], c->arrived, "seed %llu: client %u's %u, not %u",
		     (unsigned long long)s->seed, number[0], number[1], c->arrived);
	if (c->arrived++ == 0) {
		c->index = in->peer;
		s->server->ops->pin(s->server, in->peer, true);
	}
	cr_assert_eq(in->peer, c->index, "seed %llu: client %u at %u, not %u",
		     (unsigned long long)s->seed, number[0], in->peer, c->index);
}

static void take_all(struct stage *s, struct client *c)
{
	struct lend_in in[CONFORM_BURST];
	uint64_t late = conform_ms() + 5000;

	while (c->arrived < c->sent && conform_ms() < late) {
		uint32_t n = s->server->ops->rx(s->server, in, CONFORM_BURST);

		for (uint32_t i = 0; i < n; i++)
			check_datagram(s, &in[i]);
		s->server->ops->rx_done(s->server);
	}
	cr_assert_eq(c->arrived, c->sent, "seed %llu: %u of %u arrived",
		     (unsigned long long)s->seed, c->arrived, c->sent);
}

/* Makes round trips; after each, both ends poll once and find nothing. */
static void ping_pong(struct stage *s, uint32_t id, uint32_t times)
{
	struct client *c = &s->client[id];
	struct lend_in in;

	for (uint32_t i = 0; i < times; i++) {
		uint64_t late = conform_ms() + 5000;
		struct lend_out out = {.head = "yes", .head_len = 3, .class = 4};

		send_some(c, id, 1);
		take_all(s, c);
		out.peer = c->index;
		s->server->ops->tx(s->server, NULL, &out, 1);
		cr_assert_eq(out.sent, LEND_SENT);
		while (c->io->ops->rx(c->io, &in, 1) == 0)
			cr_assert_lt(conform_ms(), late, "seed %llu: no answer",
				     (unsigned long long)s->seed);
		cr_assert(in.len == 3 && in.peer == c->server);
		c->io->ops->rx_done(c->io);
		cr_assert_eq(s->server->ops->rx(s->server, &in, 1), 0);
		cr_assert_eq(c->io->ops->rx(c->io, &in, 1), 0);
	}
}

static void poll_idle(struct stage *s)
{
	struct lend_in in;

	for (int i = 0; i < SILENCE; i++)
		cr_assert_eq(s->server->ops->rx(s->server, &in, 1), 0);
}

static uint16_t port_of(const char *address)
{
	return (uint16_t)atoi(strrchr(address, ':') + 1);
}

/* Returns the peer's port of a socket of this process that is connected at the server's port; 0:
 * there is none. */
static uint16_t connected_port(const struct stage *s)
{
	uint16_t to = 0;

	for (int fd = 0; fd < FD_MAX; fd++) {
		struct sockaddr_in a = {.sin_port = 0}, b = {.sin_port = 0};
		socklen_t len = sizeof(a), other = sizeof(b);

		if (getsockname(fd, (void *)&a, &len) != 0 || a.sin_family != AF_INET ||
		    ntohs(a.sin_port) != port_of(s->address) ||
		    getpeername(fd, (void *)&b, &other) != 0)
			continue;
		cr_assert_eq(to, 0, "two connected sockets");
		to = ntohs(b.sin_port);
	}
	return to;
}

static uint16_t port_of_client(const struct stage *s, int i)
{
	char address[104];

	cr_assert_eq(s->client[i].io->ops->name(s->client[i].io, address, sizeof(address)), 0);
	return port_of(address);
}

Test(udp_connected, active_peer__gets_the_socket)
{
	struct stage s;

	begin_stage(&s);
	ping_pong(&s, 0, 100);
	cr_assert_eq(connected_port(&s), 0);
	ping_pong(&s, 0, ENOUGH);
	cr_assert_eq(connected_port(&s), port_of_client(&s, 0));
	ping_pong(&s, 1, 2 * ENOUGH); /* while the first is not quiet for long */
	ping_pong(&s, 0, 1);
	poll_idle(&s);
	ping_pong(&s, 2, ENOUGH);
	cr_assert_eq(connected_port(&s), port_of_client(&s, 2));
	ping_pong(&s, 0, 1);
	ping_pong(&s, 1, 1);
	end_stage(&s);
}

/* Datagrams of any client, single or joined, are not delayed by the socket that the listener
 * prefers. */
Test(udp_connected, random_traffic__stays_in_order)
{
	struct lend_rng rng;
	struct stage s;

	begin_stage(&s);
	lend_rng_seed(&rng, s.seed);
	for (int round = 0; round < 60; round++) {
		uint32_t id = (uint32_t)lend_rng_below(&rng, CLIENTS), n;

		switch (lend_rng_below(&rng, 4)) {
		case 0:
			ping_pong(&s, id, 1 + (uint32_t)lend_rng_below(&rng, 2 * ENOUGH));
			break;
		case 1:
			poll_idle(&s);
			break;
		default:
			n = 1 + (uint32_t)lend_rng_below(&rng, CONFORM_BURST);
			for (uint32_t i = 0; i <= lend_rng_below(&rng, CLIENTS); i++) {
				send_some(&s.client[id], id, n);
				id = (id + 1) % CLIENTS;
			}
			for (int i = 0; i < CLIENTS; i++)
				take_all(&s, &s.client[i]);
		}
	}
	end_stage(&s);
}

/* After that many round trips of the first client and then of the second, both send single and
 * joined datagrams. The listener polls twice, and both send one more. */
static void at_moment(uint32_t first, uint32_t second)
{
	struct stage s;

	begin_stage(&s);
	ping_pong(&s, 0, first);
	poll_idle(&s);
	ping_pong(&s, 1, second);
	for (uint32_t id = 0; id < 2; id++) {
		send_some(&s.client[id], id, 1);
		send_some(&s.client[id], id, 10);
	}
	for (int i = 0; i < 2; i++) {
		struct lend_in in;

		if (s.server->ops->rx(s.server, &in, 1) > 0)
			check_datagram(&s, &in);
		s.server->ops->rx_done(s.server);
	}
	for (uint32_t id = 0; id < 2; id++)
		send_some(&s.client[id], id, 1);
	for (uint32_t id = 0; id < 2; id++)
		take_all(&s, &s.client[id]);
	end_stage(&s);
}

/* The connected socket is opened, switches to plain mode, and changes its peer at some moment. At
 * each of them, datagrams queued at the other socket, or joined earlier, arrive in order, complete,
 * and under their sender's index. */
Test(udp_connected, at_any_moment)
{
	for (uint32_t n = 250; n < 260; n++) {
		at_moment(n, 0);
		at_moment(256 + n, 0);
		at_moment(700, n);
	}
}

/* The connected peer is not pinned, so unknown senders evict it from the table. It is recognised
 * again. */
Test(udp_connected, evicted_peer__is_recognised)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct lend_in in;
	struct stage s;

	begin_stage(&s);
	ping_pong(&s, 0, 2 * ENOUGH);
	s.server->ops->pin(s.server, s.client[0].index, false);
	to.sin_port = htons(port_of(s.address));
	for (int i = 0; i < STRANGERS; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);

		cr_assert_eq(sendto(fd, "x", 1, 0, (void *)&to, sizeof(to)), 1);
		close(fd);
		while (s.server->ops->rx(s.server, &in, 1) == 0)
			;
		s.server->ops->rx_done(s.server);
	}
	s.client[0].arrived = 0; /* its index is a new one now */
	s.client[0].sent = 0;
	ping_pong(&s, 0, 10);
	end_stage(&s);
}

/* A datagram at either socket wakes a sleeping listener. */
Test(udp_connected, both_sockets_wake)
{
	struct stage s;

	begin_stage(&s);
	for (int round = 0; round < 3; round++) {
		for (uint32_t id = 0; id < CLIENTS; id++) {
			poll_idle(&s);
			cr_assert(s.server->ops->arm(s.server));
			send_some(&s.client[id], id, 1);
			cr_assert_not(s.server->ops->arm(s.server));
			take_all(&s, &s.client[id]);
		}
		ping_pong(&s, (uint32_t)round, 2 * ENOUGH);
	}
	end_stage(&s);
}
