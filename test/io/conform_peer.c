/* conform_peer - cases about peers: unknown, many, closed, restarted. Layer: test. */
#include <string.h>

#include "io/conform.h"

struct last {
	uint32_t n, gone, peer, seq, id;
};

static void keep_last(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct last *l = arg;

	l->peer = in->peer;
	l->gone += in->gone;
	if (!in->gone) {
		l->n++;
		l->seq = seq;
		l->id = id;
	}
}

/* Sends until it arrives: a lossy carrier may lose a single datagram. */
static void send_one(struct lend_io *from, uint32_t peer, struct lend_io *to, uint32_t id,
		     struct last *l)
{
	for (int tries = 0; tries < 5; tries++) {
		uint64_t end = conform_ms() + 1000;

		*l = (struct last){0};
		cr_assert_eq(conform_send(from, peer, id, (uint32_t)tries, 200), LEND_SENT);
		while (l->n == 0 && conform_ms() < end)
			(void)conform_take(to, keep_last, l);
		if (l->n > 0)
			break;
	}
	cr_assert_eq(l->n, 1);
	cr_assert_eq(l->id, id);
}

void conform_unknown_sender(const struct conform_row *row)
{
	struct conform_pair p;
	struct lend_io_peer_info info;
	struct last l;
	uint32_t known;

	conform_open(&p, row);
	send_one(p.client, p.peer, p.server, 1, &l);
	known = l.peer;
	p.server->ops->pin(p.server, known, true);
	/* A reply reaches the client, and comes from the peer that it resolved. */
	send_one(p.server, known, p.client, 2, &l);
	cr_assert_eq(l.peer, p.peer);
	send_one(p.client, p.peer, p.server, 3, &l);
	cr_assert_eq(l.peer, known, "a pinned peer keeps its index");
	p.server->ops->peer_info(p.server, known, &info);
	cr_assert_geq(info.uid, -1);
	cr_assert_lt(strnlen(info.address, sizeof(info.address)), sizeof(info.address));
	/* A peer that is pinned twice stays pinned until it is unpinned twice. */
	p.server->ops->pin(p.server, known, true);
	p.server->ops->pin(p.server, known, false);
	send_one(p.client, p.peer, p.server, 4, &l);
	cr_assert_eq(l.peer, known);
	p.server->ops->pin(p.server, known, false);
	send_one(p.client, p.peer, p.server, 5, &l);
	send_one(p.server, l.peer, p.client, 6, &l);
	p.server->ops->pin(p.server, UINT32_MAX >> 4,
			   true); /* an index that was never used has no effect */
	conform_close(&p);
}

void conform_clients(const struct conform_row *row)
{
	enum { MOST = 40 };
	struct lend_io *server, *client[MOST];
	uint32_t n = row->clients < MOST ? row->clients : MOST, peer[MOST], back[MOST];
	char address[104];
	struct last l;

	conform_need(row);
	server = conform_listen(row, address);
	for (uint32_t i = 0; i < n; i++) {
		client[i] = conform_caller(row, address);
		peer[i] = conform_resolve(client[i], address, server);
	}
	for (uint32_t i = 0; i < n; i++) {
		send_one(client[i], peer[i], server, i, &l);
		back[i] = l.peer;
		server->ops->pin(server, back[i], true);
		for (uint32_t j = 0; j < i; j++)
			cr_assert_neq(back[i], back[j], "each has an index of its own");
	}
	/* After a long idle time, a client that is polled less often must still be received. */
	for (int i = 0; i < 20000; i++)
		(void)conform_take(server, NULL, NULL);
	for (uint32_t i = n; i-- > 0;) {
		send_one(client[i], peer[i], server, 100 + i, &l);
		cr_assert_eq(l.peer, back[i]);
		send_one(server, back[i], client[i], 200 + i, &l);
	}
	for (uint32_t i = 0; i < n; i++)
		client[i]->ops->close(client[i]);
	server->ops->close(server);
}

void conform_both_ends(const struct conform_row *row)
{
	char address[2][104];
	struct lend_io *a, *b;
	uint32_t to_b, to_a;
	struct last l;

	conform_need(row);
	if (!row->both)
		cr_skip_test("a listener does not send first");
	a = conform_listen(row, address[0]);
	b = conform_listen_far(row, address[1]);
	to_b = conform_resolve(a, address[1], b);
	send_one(a, to_b, b, 1, &l);
	send_one(b, l.peer, a, 2, &l);
	cr_assert_eq(l.peer, to_b);
	if (row->far == NULL) {
		to_a = conform_resolve(a, address[0], NULL);
		send_one(a, to_a, a, 3, &l);
		send_one(a, l.peer, a, 4, &l);
	}
	a->ops->close(a);
	b->ops->close(b);
}

static void take_for(struct lend_io *io, struct last *l, uint32_t n, uint32_t gone, uint64_t ms)
{
	uint64_t end = conform_ms() + ms;

	while ((l->n < n || l->gone < gone) && conform_ms() < end)
		(void)conform_take(io, keep_last, l);
}

void conform_close_in_flight(const struct conform_row *row)
{
	struct last l = {0};
	struct conform_pair p;

	conform_open(&p, row);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(conform_send(p.client, p.peer, 7, i, 3 + 16 + i * 40), LEND_SENT);
	p.client->ops->close(p.client);
	p.client = NULL;
	take_for(p.server, &l, 10, conform_has(row, LEND_CARRIER_HANGS_UP),
		 conform_has(row, LEND_CARRIER_LOSSLESS) ? conform_patience_ms : 100);
	if (conform_has(row, LEND_CARRIER_LOSSLESS))
		cr_assert_eq(l.n, 10, "earlier datagrams come first");
	cr_assert_leq(l.n, 10);
	cr_assert_eq(l.gone, conform_has(row, LEND_CARRIER_HANGS_UP));
	conform_close(&p);

	conform_open(&p, row);
	for (uint32_t i = 0; i < 10; i++)
		(void)conform_send(p.client, p.peer, 7, i, 300);
	p.server->ops->close(p.server);
	p.server = NULL;
	l = (struct last){0};
	take_for(p.client, &l, 0, conform_has(row, LEND_CARRIER_HANGS_UP), conform_patience_ms);
	cr_assert_eq(l.gone, conform_has(row, LEND_CARRIER_HANGS_UP));
	if (conform_has(row, LEND_CARRIER_HANGS_UP))
		cr_assert_eq(conform_send(p.client, p.peer, 7, 11, 300), LEND_SENT_DEAD);
	conform_close(&p);
}

void conform_restart(const struct conform_row *row)
{
	struct conform_pair p;
	struct last l;

	conform_open(&p, row);
	if (!row->rebinds)
		cr_skip_test("the address is not free at once");
	for (uint32_t round = 0; round < 5; round++) {
		char own[104];
		struct lend_io_config config = {.listen = own};

		cr_assert_eq(p.server->ops->name(p.server, own, sizeof(own)), 0);
		send_one(p.client, p.peer, p.server, round, &l);
		p.client->ops->pin(p.client, p.peer, true);
		p.server->ops->close(p.server);
		l = (struct last){0};
		take_for(p.client, &l, 0, conform_has(row, LEND_CARRIER_HANGS_UP),
			 conform_patience_ms);
		p.client->ops->pin(p.client, p.peer, false);
		p.server = conform_open_as(row, &config);
		p.peer = conform_resolve(p.client, p.address, p.server);
	}
	send_one(p.client, p.peer, p.server, 99, &l);
	conform_close(&p);
}
