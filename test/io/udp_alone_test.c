/* Goal: a datagram that is answered before it has left its socket comes once, lies still as long as
 * it is lent, and leaves nothing behind, whatever is done before the turn is over. Method: two
 * ends that have talked alone for long, then each of the things that may happen in between. */
#include <string.h>

#include "io/conform.h"

enum { LONG_ENOUGH = 1200, NORMAL = 3 }; /* a line, and a plain one */

struct talk {
	struct lend_io *server, *client;
	uint32_t to, from; /* the server there, the client here */
	uint32_t sent;     /* by either */
	char address[104];
};

static void say(struct talk *t, struct lend_io *io)
{
	uint32_t number = ++t->sent;
	struct lend_out out = {.head = &number, .head_len = sizeof(number), .class = NORMAL};

	out.peer = io == t->client ? t->to : t->from;
	io->ops->tx(io, NULL, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT);
}

/* It has something, from that peer, which is number. */
static const void *hear(struct lend_io *io, uint32_t *peer, uint32_t number)
{
	uint64_t late = conform_ms() + 5000;
	struct lend_in in;

	while (io->ops->rx(io, &in, 1) == 0)
		cr_assert_lt(conform_ms(), late, "%u does not come", number);
	cr_assert_eq(in.len, sizeof(number));
	cr_assert_eq(memcmp(in.data, &number, sizeof(number)), 0, "not %u", number);
	*peer = in.peer;
	return in.data;
}

static void is_silent(struct lend_io *io)
{
	struct lend_in in;

	for (int i = 0; i < 40; i++)
		cr_assert_eq(io->ops->rx(io, &in, 1), 0);
}

static void begin(struct talk *t)
{
	struct lend_io_config listen = {.listen = "udp:127.0.0.1:0"};
	uint32_t peer;

	*t = (struct talk){.sent = 0};
	cr_assert_eq(lend_io_open(&listen, &t->server), 0);
	cr_assert_eq(t->server->ops->name(t->server, t->address, sizeof(t->address)), 0);
	t->client = conform_client(t->address);
	t->to = conform_resolve(t->client, t->address, NULL);
	for (int i = 0; i < LONG_ENOUGH; i++) {
		say(t, t->client);
		(void)hear(t->server, &t->from, t->sent);
		say(t, t->server);
		t->server->ops->rx_done(t->server);
		(void)hear(t->client, &peer, t->sent);
		cr_assert_eq(peer, t->to);
		t->client->ops->rx_done(t->client);
		is_silent(t->server);
		is_silent(t->client);
	}
}

static void end(struct talk *t)
{
	t->client->ops->close(t->client);
	if (t->server != NULL)
		t->server->ops->close(t->server);
}

/* More is received while it is lent. */
Test(udp_alone, lies_still)
{
	struct talk t;

	begin(&t);
	for (uint32_t n = 1; n < 6; n++) {
		const void *lent[6];
		uint32_t first = t.sent + 1, peer;

		for (uint32_t i = 0; i < n; i++)
			say(&t, t.client);
		for (uint32_t i = 0; i < n; i++)
			lent[i] = hear(t.server, &peer, first + i);
		for (uint32_t i = 0; i < n; i++, first++)
			cr_assert_eq(memcmp(lent[i], &first, sizeof(first)), 0, "%u of %u", i, n);
		t.server->ops->rx_done(t.server);
		is_silent(t.server);
	}
	end(&t);
}

/* A client finds a second peer in the meantime, so its socket has no line any more. */
Test(udp_alone, the_line_goes)
{
	struct lend_io_config listen = {.listen = "udp:127.0.0.1:0"};
	char address[104];
	struct lend_io *other;
	struct talk t;
	uint32_t peer;

	begin(&t);
	cr_assert_eq(lend_io_open(&listen, &other), 0);
	cr_assert_eq(other->ops->name(other, address, sizeof(address)), 0);
	say(&t, t.server);
	(void)hear(t.client, &peer, t.sent);
	(void)conform_resolve(t.client, address, NULL);
	t.client->ops->rx_done(t.client);
	is_silent(t.client);
	say(&t, t.server);
	(void)hear(t.client, &peer, t.sent);
	cr_assert_eq(peer, t.to);
	t.client->ops->rx_done(t.client);
	is_silent(t.client);
	other->ops->close(other);
	end(&t);
}

/* Its sender ends, and the kernel says so to who sends there: before that one's receive ends. */
Test(udp_alone, its_sender_goes)
{
	struct talk t;
	uint32_t peer;

	begin(&t);
	say(&t, t.server);
	(void)hear(t.client, &peer, t.sent);
	t.server->ops->close(t.server);
	t.server = NULL;
	say(&t, t.client);
	t.client->ops->rx_done(t.client);
	is_silent(t.client);
	end(&t);
}

/* Nobody is woken by what was lent and is done with. */
Test(udp_alone, one_can_sleep)
{
	struct talk t;
	uint32_t peer;

	begin(&t);
	say(&t, t.client);
	(void)hear(t.server, &peer, t.sent);
	t.server->ops->rx_done(t.server);
	cr_assert(t.server->ops->arm(t.server));
	say(&t, t.client);
	cr_assert_not(t.server->ops->arm(t.server));
	(void)hear(t.server, &peer, t.sent);
	t.server->ops->rx_done(t.server);
	cr_assert(t.server->ops->arm(t.server));
	end(&t);
}
