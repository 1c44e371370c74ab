/* conform_size - cases about the shortest and the longest datagram. Layer: test. */
#include "io/conform.h"

static enum lend_sent send_bytes(struct lend_io *io, uint32_t peer, const void *bytes, uint8_t len)
{
	struct lend_bufs none = {0};
	struct lend_out out = {.head = bytes, .head_len = len, .peer = peer, .sent = 0xff};

	io->ops->tx(io, &none, &out, 1);
	return out.sent;
}

/* An empty datagram arrives in order, with length 0, and is not taken for a gone notice. The
 * padding that a device adds to short frames is not delivered. */
void conform_zero_length(const struct conform_row *row)
{
	static const char bytes[] = "no more than this";
	struct conform_pair p;

	conform_open(&p, row);
	for (uint8_t round = 0; round < 20; round++) {
		cr_assert_eq(send_bytes(p.client, p.peer, bytes, 0), LEND_SENT);
		cr_assert_eq(send_bytes(p.client, p.peer, bytes, round % 18), LEND_SENT);
		conform_expect(p.server, bytes, 0);
		conform_expect(p.server, bytes, round % 18);
	}
	cr_assert_eq(conform_take(p.server, NULL, NULL), 0, "no more than was sent");
	conform_close(&p);
}

/* Sends each length three times, one datagram at a time. */
static void send_lengths(struct lend_io *from, uint32_t peer, struct lend_io *to,
			 struct conform_tally *t, const uint32_t *len, uint32_t n)
{
	for (uint32_t i = 0; i < 3 * n; i++) {
		cr_assert_eq(conform_send(from, peer, 0, t->sent++, len[i / 3]), LEND_SENT,
			     "%u bytes are refused", len[i / 3]);
		conform_settle(to, t, t->sent);
		cr_assert_eq(t->count, t->sent, "%u bytes do not arrive", len[i / 3]);
	}
}

struct last {
	uint32_t peer;
};

static void keep_peer(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct last *l = arg;

	(void)id;
	(void)seq;
	l->peer = in->peer;
}

/* Returns the index of the client at the server. */
static uint32_t greet_server(struct conform_pair *p)
{
	uint64_t end = conform_ms() + conform_patience_ms;
	struct last l = {.peer = UINT32_MAX};

	cr_assert_eq(conform_send(p->client, p->peer, 0, 0, 16), LEND_SENT);
	while (l.peer == UINT32_MAX && conform_ms() < end)
		(void)conform_take(p->server, keep_peer, &l);
	p->server->ops->pin(p->server, l.peer, true);
	return l.peer;
}

void conform_mtu(const struct conform_row *row)
{
	static struct conform_tally s, t;
	struct conform_pair p;
	uint32_t client;

	conform_open(&p, row);
	s = t = (struct conform_tally){.row = row};
	uint32_t up = p.client->path.mtu, down = p.server->path.mtu, mtu = up < down ? up : down;
	uint32_t len[] = {16, 17, mtu - 1, mtu};

	cr_assert_geq(mtu, 512);
	client = greet_server(&p);
	send_lengths(p.client, p.peer, p.server, &s, len, 4);
	send_lengths(p.server, client, p.client, &t, len, 4);
	cr_assert_eq(p.server->stats.rx_truncated, 0);
	cr_assert_eq(p.client->stats.rx_truncated, 0);
	conform_close(&p);
}

/* The sender refuses a datagram of MTU + 1 bytes, returns an error and counts it. The next datagram
 * is sent. */
static void refuse_longer(struct lend_io *from, uint32_t peer, struct lend_io *to,
			  struct conform_tally *t)
{
	uint64_t before = from->stats.tx_dead;
	uint32_t want = t->count + 1;

	cr_assert_eq(conform_send(from, peer, 0, t->sent, from->path.mtu + 1), LEND_SENT_DEAD);
	cr_assert_eq(from->stats.tx_dead, before + 1, "counted");
	t->sent++;
	t->next += conform_has(t->row, LEND_CARRIER_LOSSLESS);
	cr_assert_eq(conform_send(from, peer, 0, t->sent++, 16), LEND_SENT);
	conform_settle(to, t, want);
	for (int i = 0; i < 100; i++)
		(void)conform_take(to, NULL, NULL);
	cr_assert_eq(t->count, want);
}

static void count_one(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	(void)id;
	(void)seq;
	*(uint32_t *)arg += !in->gone;
}

/* A receiver with a smaller MTU than the sender's delivers a longer datagram complete, or drops and
 * counts it. It delivers no part of it, which conform_take() would notice. The next datagram is
 * received. */
static void send_too_much(struct conform_pair *p, uint32_t len)
{
	uint64_t end = conform_ms() + 5000, before = p->server->stats.rx_truncated;
	uint32_t n = 0;

	cr_assert_eq(conform_send(p->client, p->peer, 0, 0, len + 1), LEND_SENT);
	cr_assert_eq(conform_send(p->client, p->peer, 0, 1, len), LEND_SENT);
	while (n + (p->server->stats.rx_truncated - before) < 2 && conform_ms() < end)
		(void)conform_take(p->server, count_one, &n);
	cr_assert_geq(n, 1, "%u bytes do not arrive after a longer datagram", len);
	cr_assert_eq(n + (p->server->stats.rx_truncated - before), 2, "dropped, but not counted");
}

static void truncate_at(const struct conform_row *row)
{
	char at[104], address[104];
	struct lend_io_config config = {.listen = at, .mtu = 1024};
	struct conform_pair p = {.row = row};

	row->address(at, sizeof(at));
	p.server = conform_open_as(row, &config);
	conform_name(row, p.server, address);
	p.client = conform_caller(row, address);
	p.peer = conform_resolve(p.client, address, p.server);
	cr_assert_leq(p.server->path.mtu, config.mtu);
	for (int i = 0; i < 3 && p.client->path.mtu > p.server->path.mtu; i++)
		send_too_much(&p, p.server->path.mtu);
	conform_close(&p);
}

void conform_mtu_plus_1(const struct conform_row *row)
{
	static struct conform_tally s, t;
	struct conform_pair p;
	uint32_t client;

	conform_open(&p, row);
	s = t = (struct conform_tally){.row = row};
	client = greet_server(&p);
	for (int i = 0; i < 3; i++) {
		refuse_longer(p.client, p.peer, p.server, &s);
		refuse_longer(p.server, client, p.client, &t);
	}
	conform_close(&p);
	truncate_at(row);
}
