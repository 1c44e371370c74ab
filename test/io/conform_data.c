/* conform_data - the cases about datagrams: content, order, sizes, pieces, room. */
#include <sched.h>
#include <string.h>

#include "io/conform.h"
#include "util/bits.h"
#include "util/rng.h"

enum { IDLE_MS = 100 /* after which a datagram that has not come is lost */ };

struct seen {
	const struct conform_row *row;
	uint32_t sent; /* seqs below this were sent */
	uint32_t next; /* lossless: the seq that must come next */
	uint32_t count;
	uint32_t gone;
	uint8_t mark[200000];
};

static void note(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct seen *s = arg;

	(void)id;
	if (in->gone) {
		s->gone++;
		return;
	}
	cr_assert_lt(seq, s->sent, "invented");
	cr_assert_eq(s->mark[seq], 0, "%u came twice", seq);
	if (s->row->lossless)
		cr_assert_eq(seq, s->next, "order: %u instead of %u", seq, s->next);
	s->mark[seq] = 1;
	s->next = seq + 1;
	s->count++;
}

/* Receives until all came, or for what may lose: until nothing has come for a while. */
static void settle(struct lend_io *io, struct seen *s, uint32_t want)
{
	uint64_t wait = s->row->lossless ? 10000 : IDLE_MS, end = conform_ms() + wait;

	while (s->count < want && conform_ms() < end) {
		if (conform_take(io, note, s) > 0)
			end = conform_ms() + wait;
	}
	if (s->row->lossless)
		cr_assert_eq(s->count, want);
}

/* A carrier may say that it is full, and must then take it once its peer has looked. */
static enum lend_sent send_when_room(struct conform_pair *p, struct seen *s, uint32_t len)
{
	enum lend_sent sent = conform_send(p->client, p->peer, 1, s->sent, len);

	for (uint32_t tries = 0; sent == LEND_SENT_FULL && tries < 100000; tries++) {
		settle(p->server, s, s->sent);
		sched_yield();
		sent = conform_send(p->client, p->peer, 1, s->sent, len);
	}
	s->sent++;
	return sent;
}

void conform_content(const struct conform_row *row)
{
	static struct seen s;
	struct conform_pair p;
	struct lend_rng rng;
	uint32_t mtu;

	conform_open(&p, row);
	lend_rng_seed(&rng, p.seed);
	s = (struct seen){.row = row};
	mtu = p.client->path.mtu;
	for (uint32_t round = 0; round < 400; round++) {
		for (uint32_t i = 0; i < 16; i++) {
			uint32_t most = lend_rng_below(&rng, 2) ? mtu : 300;
			uint32_t len = 16 + (uint32_t)lend_rng_below(&rng, most - 15);
			enum lend_sent sent = send_when_room(&p, &s, len);

			cr_assert_eq(sent, LEND_SENT, "seed %lu", (unsigned long)p.seed);
		}
		settle(p.server, &s, s.sent);
		s.count = s.sent; /* what is lost is lost */
	}
	conform_close(&p);
}

static void expect_only(struct lend_io *io, struct seen *s, uint32_t want)
{
	settle(io, s, want);
	for (int i = 0; i < 100; i++)
		(void)conform_take(io, note, s);
	cr_assert_eq(s->count, want);
}

void conform_edges(const struct conform_row *row)
{
	static struct seen s;
	struct conform_pair p;
	uint32_t mtu, len[6], n = 0;

	conform_open(&p, row);
	s = (struct seen){.row = row};
	mtu = p.client->path.mtu;
	cr_assert_geq(mtu, 512);
	len[n++] = 16;
	len[n++] = 17;
	len[n++] = mtu - 1;
	len[n++] = mtu;
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_eq(conform_send(p.client, p.peer, 0, s.sent++, len[i]), LEND_SENT);
		settle(p.server, &s, s.sent);
	}
	s.sent++;
	cr_assert_neq(conform_send(p.client, p.peer, 0, s.sent - 1, mtu + 1), LEND_SENT);
	cr_assert_eq(conform_send(p.client, p.peer, 0, s.sent++, 16), LEND_SENT);
	s.next++;
	expect_only(p.server, &s, 5);
	conform_close(&p);
}

/* Takes one datagram and compares it with want. */
static void expect_bytes(struct lend_io *io, const void *want, uint32_t len)
{
	struct lend_in in[1];
	uint64_t end = conform_ms() + 10000;
	uint32_t n = 0;

	while (n == 0 && conform_ms() < end)
		n = io->ops->rx(io, in, 1);
	cr_assert_eq(n, 1);
	cr_assert_eq(in[0].len, len);
	cr_assert_eq(memcmp(in[0].data, want, len), 0);
	io->ops->rx_done(io);
}

void conform_pieces(const struct conform_row *row)
{
	static char a[] = "..one", b[] = "two....", c[] = "x";
	struct lend_seg seg[4] = {{0},
				  {.data = a, .len = 5, .cap = 5},
				  {.data = b, .len = 7, .cap = 7},
				  {.data = c, .len = 1, .cap = 1}};
	struct lend_bufs bufs = {seg, 4};
	struct conform_pair p;

	conform_open(&p, row);
	struct lend_out out[] = {
	    {.head = "h", .head_len = 1, .peer = p.peer},
	    {.head = "h", .head_len = 1, .tail = "t", .tail_len = 1, .peer = p.peer},
	    {.head = "h", .head_len = 1, .peer = p.peer, .n = 2, .piece = {{1, 0, 0}, {2, 7, 0}}},
	    {.head = "head",
	     .head_len = 4,
	     .tail = "tail",
	     .tail_len = 4,
	     .peer = p.peer,
	     .n = 4,
	     .piece = {{1, 2, 3}, {3, 0, 1}, {2, 0, 3}, {1, 0, 1}}},
	};
	static const char *const want[] = {"h", "ht", "h", "headonextwo.tail"};

	p.client->ops->tx(p.client, &bufs, out, 4);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(out[i].sent, LEND_SENT);
		expect_bytes(p.server, want[i], (uint32_t)strlen(want[i]));
	}
	conform_close(&p);
}

void conform_flush(const struct conform_row *row)
{
	char body[100];
	struct lend_seg seg[2] = {{0}, {.data = body, .len = sizeof(body), .cap = sizeof(body)}};
	struct lend_bufs bufs = {seg, 2};
	struct conform_pair p;
	char want[101] = "h";
	uint64_t end = conform_ms() + 10000;

	conform_open(&p, row);
	struct lend_out out = {
	    .head = "h", .head_len = 1, .peer = p.peer, .n = 1, .piece = {{1, 0, sizeof(body)}}};

	memset(body, 'a', sizeof(body));
	memset(want + 1, 'a', sizeof(body));
	p.client->ops->tx(p.client, &bufs, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT);
	while (!p.client->ops->flush(p.client, 1))
		cr_assert_lt(conform_ms(), end, "flushes in bounded time");
	memset(body, 'b', sizeof(body));
	expect_bytes(p.server, want, sizeof(want));
	conform_close(&p);
}

/* Sends until the carrier says full, at most as many as there are marks. */
static bool fill(struct lend_io *io, uint32_t peer, struct seen *s, uint32_t most)
{
	while (s->sent < most) {
		if (conform_send(io, peer, 0, s->sent, 64) == LEND_SENT_FULL)
			return true;
		s->sent++;
	}
	return false;
}

void conform_full(const struct conform_row *row)
{
	static struct seen s;
	struct conform_pair p;

	conform_open(&p, row);
	s = (struct seen){.row = row};
	/* Three times, so that it also becomes full after it was. */
	for (int round = 0; round < 3; round++) {
		uint32_t before = s.sent;
		bool full = fill(p.client, p.peer, &s, before + 60000);

		cr_assert(full || !row->lossless, "says full rather than lose");
		cr_assert_gt(s.sent, before + 15, "takes some first");
		settle(p.server, &s, s.sent);
		cr_assert_gt(s.count, 0);
	}
	conform_close(&p);
}

void conform_stopped_peer(const struct conform_row *row)
{
	static struct seen s, t;
	char address[2][104];
	struct lend_io *stopped, *alive, *client;
	uint32_t to_stopped, to_alive;

	conform_need(row);
	stopped = conform_listen(row, address[0]);
	alive = conform_listen(row, address[1]);
	client = conform_client(address[0]);
	to_stopped = conform_resolve(client, address[0], stopped);
	to_alive = conform_resolve(client, address[1], alive);
	s = (struct seen){.row = row};
	t = (struct seen){.row = row};
	(void)fill(client, to_stopped, &s, 60000);
	for (uint32_t round = 0; round < 1000; round++) {
		struct lend_bufs none = {0};
		uint8_t head[16];
		struct lend_out out[2] = {{.head = head, .head_len = 16, .peer = to_stopped},
					  {.head = head, .head_len = 16, .peer = to_alive}};

		lend_store_u32(head, 0x4c454e44);
		lend_store_u32(head + 4, 0);
		lend_store_u32(head + 8, t.sent++);
		lend_store_u32(head + 12, 16);
		client->ops->tx(client, &none, out, 2);
		cr_assert_eq(out[1].sent, LEND_SENT, "the other one is not held up");
		settle(alive, &t, t.sent);
	}
	cr_assert_gt(t.count, 900);
	client->ops->close(client);
	alive->ops->close(alive);
	stopped->ops->close(stopped);
}
