/* Goal: a listener gives the peer that it talks with a socket of its own, and nobody notices: all
 * that is sent comes once, in its sender's order, under its sender's index, whoever else speaks,
 * one at a time or joined; and who falls silent gives the socket up. Method: the port's sockets as
 * the kernel shows them; clients in turns under seeds against what each has sent. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "util/rng.h"

enum { CLIENTS = 3, ENOUGH = 300, SILENCE = 3000, STRANGERS = 300, FD_MAX = 256 };

struct client {
	struct lend_io *io;
	uint32_t server; /* its index here, */
	uint32_t index;  /* and ours at the server */
	uint32_t sent, come;
};

struct stage {
	struct lend_io *server;
	struct client client[CLIENTS];
	uint64_t seed;
	char address[104];
};

static void begin(struct stage *s)
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

static void end(struct stage *s)
{
	for (int i = 0; i < CLIENTS; i++)
		s->client[i].io->ops->close(s->client[i].io);
	s->server->ops->close(s->server);
}

/* n in one burst: equally long, so that the kernel joins them. */
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

static void check(struct stage *s, const struct lend_in *in)
{
	uint32_t number[2];
	struct client *c;

	cr_assert_eq(in->len, sizeof(number), "seed %llu", (unsigned long long)s->seed);
	memcpy(number, in->data, sizeof(number));
	cr_assert_lt(number[0], CLIENTS);
	c = &s->client[number[0]];
	cr_assert_eq(number[1], c->come, "seed %llu: client %u's %u, not %u",
		     (unsigned long long)s->seed, number[0], number[1], c->come);
	if (c->come++ == 0) {
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

	while (c->come < c->sent && conform_ms() < late) {
		uint32_t n = s->server->ops->rx(s->server, in, CONFORM_BURST);

		for (uint32_t i = 0; i < n; i++)
			check(s, &in[i]);
		s->server->ops->rx_done(s->server);
	}
	cr_assert_eq(c->come, c->sent, "seed %llu: %u of %u came", (unsigned long long)s->seed,
		     c->come, c->sent);
}

/* One there and one back, and a look in vain. */
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

static void be_silent(struct stage *s)
{
	struct lend_in in;

	for (int i = 0; i < SILENCE; i++)
		cr_assert_eq(s->server->ops->rx(s->server, &in, 1), 0);
}

static uint16_t port_of(const char *address)
{
	return (uint16_t)atoi(strrchr(address, ':') + 1);
}

/* Whom a socket of this process at the server's port is connected to; 0: no such socket. */
static uint16_t line_to(const struct stage *s)
{
	uint16_t to = 0;

	for (int fd = 0; fd < FD_MAX; fd++) {
		struct sockaddr_in a = {.sin_port = 0}, b = {.sin_port = 0};
		socklen_t len = sizeof(a), other = sizeof(b);

		if (getsockname(fd, (void *)&a, &len) != 0 || a.sin_family != AF_INET ||
		    ntohs(a.sin_port) != port_of(s->address) ||
		    getpeername(fd, (void *)&b, &other) != 0)
			continue;
		cr_assert_eq(to, 0, "two lines");
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

Test(udp_line, goes_to_whom_one_talks_with)
{
	struct stage s;

	begin(&s);
	ping_pong(&s, 0, 100);
	cr_assert_eq(line_to(&s), 0);
	ping_pong(&s, 0, ENOUGH);
	cr_assert_eq(line_to(&s), port_of_client(&s, 0));
	ping_pong(&s, 1, 2 * ENOUGH); /* while the first is not silent for long */
	ping_pong(&s, 0, 1);
	be_silent(&s);
	ping_pong(&s, 2, ENOUGH);
	cr_assert_eq(line_to(&s), port_of_client(&s, 2));
	ping_pong(&s, 0, 1);
	ping_pong(&s, 1, 1);
	end(&s);
}

/* Somebody who asks, joined or not, is not kept waiting by what the listener is used to. */
Test(udp_line, nobody_notices)
{
	struct lend_rng rng;
	struct stage s;

	begin(&s);
	lend_rng_seed(&rng, s.seed);
	for (int round = 0; round < 60; round++) {
		uint32_t id = (uint32_t)lend_rng_below(&rng, CLIENTS), n;

		switch (lend_rng_below(&rng, 4)) {
		case 0:
			ping_pong(&s, id, 1 + (uint32_t)lend_rng_below(&rng, 2 * ENOUGH));
			break;
		case 1:
			be_silent(&s);
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
	end(&s);
}

/* After so many of the first client and then of the second, both send, one and some joined; the
 * listener looks twice; both send one more. */
static void at_moment(uint32_t first, uint32_t second)
{
	struct stage s;

	begin(&s);
	ping_pong(&s, 0, first);
	be_silent(&s);
	ping_pong(&s, 1, second);
	for (uint32_t id = 0; id < 2; id++) {
		send_some(&s.client[id], id, 1);
		send_some(&s.client[id], id, 10);
	}
	for (int i = 0; i < 2; i++) {
		struct lend_in in;

		if (s.server->ops->rx(s.server, &in, 1) > 0)
			check(&s, &in);
		s.server->ops->rx_done(s.server);
	}
	for (uint32_t id = 0; id < 2; id++)
		send_some(&s.client[id], id, 1);
	for (uint32_t id = 0; id < 2; id++)
		take_all(&s, &s.client[id]);
	end(&s);
}

/* The line is made, is read plainly, and goes over at some moment: whichever it is, what waits at
 * the other socket, or was joined before, comes in order, whole, and as its sender's. */
Test(udp_line, at_any_moment)
{
	for (uint32_t n = 250; n < 260; n++) {
		at_moment(n, 0);
		at_moment(256 + n, 0);
		at_moment(700, n);
	}
}

/* Strangers push the peer of the line out of the table, for nobody keeps it: it is known again. */
Test(udp_line, its_peer_is_forgotten)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct lend_in in;
	struct stage s;

	begin(&s);
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
	s.client[0].come = 0; /* its index is another one now */
	s.client[0].sent = 0;
	ping_pong(&s, 0, 10);
	end(&s);
}

/* Who sleeps is woken by what comes to either socket. */
Test(udp_line, both_sockets_wake)
{
	struct stage s;

	begin(&s);
	for (int round = 0; round < 3; round++) {
		for (uint32_t id = 0; id < CLIENTS; id++) {
			be_silent(&s);
			cr_assert(s.server->ops->arm(s.server));
			send_some(&s.client[id], id, 1);
			cr_assert_not(s.server->ops->arm(s.server));
			take_all(&s, &s.client[id]);
		}
		ping_pong(&s, (uint32_t)round, 2 * ENOUGH);
	}
	end(&s);
}
