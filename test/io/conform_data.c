/* conform_data - cases about received data: content, order, loss, duplicates, heads and
 * pieces. Layer: test. */
#include <sched.h>
#include <string.h>

#include "io/conform.h"
#include "util/bits.h"
#include "util/rng.h"

/* Binds this thread to its CPU. The kernel does not reorder what one CPU sends to one socket, so
 * any reordering is the carrier's. */
static void stay_on_this_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

/* Sends a burst of up to most datagrams of random length. Returns how many were sent. */
static uint32_t send_some(struct conform_pair *p, struct conform_tally *t, struct lend_rng *rng,
			  uint32_t most)
{
	uint32_t len[CONFORM_BURST], n = 1 + (uint32_t)lend_rng_below(rng, CONFORM_BURST), sent;

	for (uint32_t i = 0; i < n; i++)
		len[i] = 16 + (uint32_t)lend_rng_below(rng, most - 15);
	sent = conform_burst(p->client, p->peer, t->sent, len, n);
	t->sent += sent;
	return sent;
}

static void begin_pair(struct conform_pair *p, struct conform_tally *t, struct lend_rng *rng,
		       const struct conform_row *row)
{
	conform_open(p, row);
	lend_rng_seed(rng, p->seed);
	*t = (struct conform_tally){.row = row, .seed = p->seed};
}

/* Datagrams arrive in the order in which they were sent, within a burst and across bursts, while
 * the queue fills and empties. */
void conform_order(const struct conform_row *row)
{
	static struct conform_tally t;
	struct conform_pair p;
	struct lend_rng rng;

	stay_on_this_cpu();
	begin_pair(&p, &t, &rng, row);
	t.ordered = true;
	t.lost_ms = 20; /* a late datagram must be in order, too */
	while (t.sent < 20000) {
		uint32_t most = lend_rng_below(&rng, 8) > 0 ? 100 : 512;

		if (send_some(&p, &t, &rng, most) > 0 && lend_rng_below(&rng, 4) > 0)
			continue;
		conform_settle(p.server, &t, t.sent);
		t.count = t.sent; /* ignore lost datagrams */
	}
	conform_close(&p);
}

/* No carrier loses a datagram while its queue is not full. */
static void lose_nothing(struct conform_pair *p, struct conform_tally *t, struct lend_rng *rng)
{
	t->lost_ms = conform_patience_ms; /* all arrive, however busy the machine is */
	for (uint32_t round = 0; round < 500; round++) {
		cr_assert_gt(send_some(p, t, rng, 512), 0, "the queue is empty, and refuses");
		conform_settle(p->server, t, t->sent);
		cr_assert_eq(t->count, t->sent, "%u of %u arrived over an empty queue", t->count,
			     t->sent);
	}
	t->lost_ms = 0;
}

/* With a full queue, a lossless carrier refuses datagrams and loses none, which conform_settle()
 * checks. Another carrier may lose some, and counts them where it can. */
static void overrun_peer(struct conform_pair *p, struct conform_tally *t)
{
	uint64_t before = p->server->stats.rx_missed;
	uint32_t lost;

	(void)conform_fill(p->client, p->peer, t, t->sent + 60000);
	conform_settle(p->server, t, t->sent);
	for (int i = 0; i < 10; i++)
		(void)conform_take(p->server, NULL, NULL);
	lost = t->sent - t->count;
	if (t->row->counts)
		cr_assert_eq(p->server->stats.rx_missed - before, lost, "%u lost", lost);
	t->count = t->sent;
}

void conform_loss(const struct conform_row *row)
{
	static struct conform_tally t;
	struct conform_pair p;
	struct lend_rng rng;

	begin_pair(&p, &t, &rng, row);
	lose_nothing(&p, &t, &rng);
	overrun_peer(&p, &t);
	overrun_peer(&p, &t);
	lose_nothing(&p, &t, &rng);
	conform_close(&p);
}

static void count_one(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	(void)in;
	(void)id;
	(void)seq;
	++*(uint32_t *)arg;
}

/* A datagram that is sent once arrives at most once, with an empty and with a full queue; the tally
 * checks it. A datagram that is sent twice arrives twice: a carrier does not compare contents. */
void conform_duplicates(const struct conform_row *row)
{
	static struct conform_tally t;
	struct conform_pair p;
	struct lend_rng rng;
	uint32_t n = 0;

	begin_pair(&p, &t, &rng, row);
	for (int round = 0; round < 3; round++) {
		(void)conform_fill(p.client, p.peer, &t, t.sent + 20000);
		conform_settle(p.server, &t, t.sent);
		t.count = t.sent;
		for (int i = 0; i < 50; i++) {
			(void)send_some(&p, &t, &rng, 512);
			conform_settle(p.server, &t, t.sent);
		}
	}
	for (int i = 0; i < 2; i++)
		cr_assert_eq(conform_send(p.client, p.peer, 0, 0, 100), LEND_SENT);
	for (uint64_t end = conform_ms() + 5000; n < 2 && conform_ms() < end;)
		(void)conform_take(p.server, count_one, &n);
	for (int i = 0; i < 1000; i++)
		(void)conform_take(p.server, count_one, &n);
	cr_assert_eq(n, 2, "sent twice, received %u times", n);
	conform_close(&p);
}

/* Sends one datagram. A carrier may be full, but must take it once its peer has polled. */
static enum lend_sent send_when_room(struct conform_pair *p, struct conform_tally *t, uint32_t len)
{
	enum lend_sent sent = conform_send(p->client, p->peer, 1, t->sent, len);

	for (uint32_t tries = 0; sent == LEND_SENT_FULL && tries < 100000; tries++) {
		conform_settle(p->server, t, t->sent);
		sched_yield();
		sent = conform_send(p->client, p->peer, 1, t->sent, len);
	}
	t->sent++;
	return sent;
}

void conform_content(const struct conform_row *row)
{
	static struct conform_tally t;
	struct conform_pair p;
	struct lend_rng rng;
	uint32_t mtu;

	begin_pair(&p, &t, &rng, row);
	mtu = p.client->path.mtu;
	for (uint32_t round = 0; round < 400; round++) {
		for (uint32_t i = 0; i < 16; i++) {
			uint32_t most = lend_rng_below(&rng, 2) ? mtu : 300;
			uint32_t len = 16 + (uint32_t)lend_rng_below(&rng, most - 15);

			cr_assert_eq(send_when_room(&p, &t, len), LEND_SENT);
		}
		conform_settle(p.server, &t, t.sent);
		t.count = t.sent; /* ignore lost datagrams */
	}
	conform_close(&p);
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
		conform_expect(p.server, want[i], (uint32_t)strlen(want[i]));
	}
	conform_close(&p);
}

/* Makes three datagrams of len bytes: all of it head; head and tail; head, piece and tail. */
static void split_head(struct lend_out out[3], const uint8_t *bytes, uint32_t len, uint32_t peer)
{
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t tail = i > 0 ? 16 : 0, piece = i > 1 ? (len - tail) / 2 : 0;
		uint32_t head = len - piece - tail;

		out[i] = (struct lend_out){.head = bytes,
					   .head_len = (uint16_t)head,
					   .tail = bytes + len - tail,
					   .tail_len = (uint8_t)tail,
					   .peer = peer,
					   .n = piece > 0,
					   .piece = {{1, head, piece}}};
	}
}

/* Datagrams with heads of up to the MTU, as several calls in one datagram have, arrive unchanged,
 * one at a time and in a burst. The head may be overwritten after tx(). */
void conform_long_head(const struct conform_row *row)
{
	static uint8_t bytes[1 << 16], want[1 << 16];
	struct lend_seg seg[2] = {{0}, {.data = want, .len = sizeof(want), .cap = sizeof(want)}};
	struct lend_bufs bufs = {seg, 2};
	struct lend_out out[3];
	struct conform_pair p;

	conform_open(&p, row);
	const uint32_t mtu = p.client->path.mtu, lens[] = {255, 256, 257, 1000, mtu - 1, mtu};

	for (uint32_t round = 0; round < 12; round++) {
		uint32_t len = lend_min_u32(lens[round / 2], mtu), step = round % 2 ? 3 : 1;

		for (uint32_t i = 0; i < len; i++)
			want[i] = (uint8_t)(i * 7 + (i >> 8) + round);
		for (uint32_t i = 0; i < 3; i += step) {
			memcpy(bytes, want, len);
			split_head(out, bytes, len, p.peer);
			p.client->ops->tx(p.client, &bufs, out + i, step);
			memset(bytes, '#', len);
			for (uint32_t k = i; k < i + step; k++) {
				cr_assert_eq(out[k].sent, LEND_SENT, "%u bytes", len);
				conform_expect(p.server, want, len);
			}
		}
		while (!lend_io_flush(p.client, 1))
			sched_yield();
	}
	conform_close(&p);
}

/* Sends a short and a maximal datagram, in two pieces. Changes to the pieces after flush() are not
 * sent. */
void conform_flush(const struct conform_row *row)
{
	static char body[1 << 16], want[1 << 16];
	struct lend_seg seg[2] = {{0}, {.data = body, .len = sizeof(body), .cap = sizeof(body)}};
	struct lend_bufs bufs = {seg, 2};
	struct conform_pair p;
	uint64_t end = conform_ms() + conform_patience_ms;

	conform_open(&p, row);
	want[0] = 'h';
	for (char round = 'a'; round < 'k'; round++) {
		uint32_t len = round % 2 ? 100 : p.client->path.mtu - 1;
		struct lend_out out = {.head = "h",
				       .head_len = 1,
				       .peer = p.peer,
				       .n = 2,
				       .piece = {{1, 0, 3}, {1, 3, len - 3}}};

		memset(body, round, len);
		memset(want + 1, round, len);
		p.client->ops->tx(p.client, &bufs, &out, 1);
		cr_assert_eq(out.sent, LEND_SENT);
		while (!lend_io_flush(p.client, 1))
			cr_assert_lt(conform_ms(), end, "flush ends in bounded time");
		memset(body, '#', len);
		conform_expect(p.server, want, len + 1);
	}
	conform_close(&p);
}
