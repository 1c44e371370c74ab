/* Goal: a datagram may be answered before it is removed from its socket. It is received once, is
 * unchanged while lent, and leaves nothing behind, whatever happens before the turn ends.
 * Method: two ends that exchanged single datagrams for long; then each event that may come in
 * between.
 * Covers: src/io/udp/single.c */
#include <string.h>

#include "io/conform.h"

enum {
	LONG_ENOUGH = 1200,
	NORMAL = 3
}; /* rounds until the socket is connected and reads single datagrams */

struct talk {
	struct lend_io *server, *client;
	uint32_t to,
	    from;      /* to: the server's index at the client; from: the client's at the server */
	uint32_t sent; /* number of the newest datagram of either end */
	char address[104];
};

static void send_number(struct talk *t, struct lend_io *io)
{
	uint32_t number = ++t->sent;
	struct lend_out out = {.head = &number, .head_len = sizeof(number), .class = NORMAL};

	out.peer = io == t->client ? t->to : t->from;
	io->ops->tx(io, NULL, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT);
}

/* Receives the next datagram, which must be that number. */
static const void *receive(struct lend_io *io, uint32_t *peer, uint32_t number)
{
	uint64_t late = conform_ms() + 5000;
	struct lend_in in;

	while (io->ops->rx(io, &in, 1) == 0)
		cr_assert_lt(conform_ms(), late, "%u does not arrive", number);
	cr_assert_eq(in.len, sizeof(number));
	cr_assert_eq(memcmp(in.data, &number, sizeof(number)), 0, "not %u", number);
	*peer = in.peer;
	return in.data;
}

static void expect_nothing(struct lend_io *io)
{
	struct lend_in in;

	for (int i = 0; i < 40; i++)
		cr_assert_eq(io->ops->rx(io, &in, 1), 0);
}

static void begin_talk(struct talk *t)
{
	struct lend_io_config listen = {.listen = "udp:127.0.0.1:0"};
	uint32_t peer;

	*t = (struct talk){.sent = 0};
	cr_assert_eq(lend_io_open(&listen, &t->server), 0);
	cr_assert_eq(t->server->ops->name(t->server, t->address, sizeof(t->address)), 0);
	t->client = conform_client(t->address);
	t->to = conform_resolve(t->client, t->address, NULL);
	for (int i = 0; i < LONG_ENOUGH; i++) {
		send_number(t, t->client);
		(void)receive(t->server, &t->from, t->sent);
		send_number(t, t->server);
		t->server->ops->rx_done(t->server);
		(void)receive(t->client, &peer, t->sent);
		cr_assert_eq(peer, t->to);
		t->client->ops->rx_done(t->client);
		expect_nothing(t->server);
		expect_nothing(t->client);
	}
}

static void end_talk(struct talk *t)
{
	t->client->ops->close(t->client);
	if (t->server != NULL)
		t->server->ops->close(t->server);
}

/* More datagrams are received while one is lent. */
Test(udp_single, lent_datagram__is_unchanged)
{
	struct talk t;

	begin_talk(&t);
	for (uint32_t n = 1; n < 6; n++) {
		const void *lent[6];
		uint32_t first = t.sent + 1, peer;

		for (uint32_t i = 0; i < n; i++)
			send_number(&t, t.client);
		for (uint32_t i = 0; i < n; i++)
			lent[i] = receive(t.server, &peer, first + i);
		for (uint32_t i = 0; i < n; i++, first++)
			cr_assert_eq(memcmp(lent[i], &first, sizeof(first)), 0, "%u of %u", i, n);
		t.server->ops->rx_done(t.server);
		expect_nothing(t.server);
	}
	end_talk(&t);
}

/* The client resolves a second peer in the meantime, so its socket is connected no more. */
Test(udp_single, second_peer__ends_the_connection)
{
	struct lend_io_config listen = {.listen = "udp:127.0.0.1:0"};
	char address[104];
	struct lend_io *other;
	struct talk t;
	uint32_t peer;

	begin_talk(&t);
	cr_assert_eq(lend_io_open(&listen, &other), 0);
	cr_assert_eq(other->ops->name(other, address, sizeof(address)), 0);
	send_number(&t, t.server);
	(void)receive(t.client, &peer, t.sent);
	(void)conform_resolve(t.client, address, NULL);
	t.client->ops->rx_done(t.client);
	expect_nothing(t.client);
	send_number(&t, t.server);
	(void)receive(t.client, &peer, t.sent);
	cr_assert_eq(peer, t.to);
	t.client->ops->rx_done(t.client);
	expect_nothing(t.client);
	other->ops->close(other);
	end_talk(&t);
}

/* The sender closes, and the kernel reports this to the next send there. The receiver still
 * releases the datagram. */
Test(udp_single, sender_closes__datagram_is_released)
{
	struct talk t;
	uint32_t peer;

	begin_talk(&t);
	send_number(&t, t.server);
	(void)receive(t.client, &peer, t.sent);
	t.server->ops->close(t.server);
	t.server = NULL;
	send_number(&t, t.client);
	t.client->ops->rx_done(t.client);
	expect_nothing(t.client);
	end_talk(&t);
}

/* A datagram that was lent and released wakes no sleeper. */
Test(udp_single, released__allows_sleep)
{
	struct talk t;
	uint32_t peer;

	begin_talk(&t);
	send_number(&t, t.client);
	(void)receive(t.server, &peer, t.sent);
	t.server->ops->rx_done(t.server);
	cr_assert(t.server->ops->arm(t.server));
	send_number(&t, t.client);
	cr_assert_not(t.server->ops->arm(t.server));
	(void)receive(t.server, &peer, t.sent);
	t.server->ops->rx_done(t.server);
	cr_assert(t.server->ops->arm(t.server));
	end_talk(&t);
}
