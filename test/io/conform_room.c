/* conform_room - cases about backpressure: a peer that does not keep up. Layer: test. */
#include <sched.h>

#include "io/conform.h"
#include "util/bits.h"

void conform_back_pressure(const struct conform_row *row)
{
	static struct conform_tally s;
	struct conform_pair p;

	conform_open(&p, row);
	s = (struct conform_tally){.row = row};
	/* Three rounds, because a peer must also become full again. */
	for (int round = 0; round < 3; round++) {
		uint32_t before = s.sent;
		bool full = conform_fill(p.client, p.peer, &s, before + 60000);

		cr_assert(full || !conform_has(row, LEND_CARRIER_LOSSLESS),
			  "refuses instead of losing");
		cr_assert_gt(s.sent, before + 15, "takes at least one first");
		cr_assert(!full || p.client->stats.tx_full > 0, "counted");
		conform_settle(p.server, &s, s.sent);
		cr_assert_gt(s.count, 0);
		s.count = s.sent; /* ignore lost datagrams */
	}
	conform_close(&p);
}

/* Sends one datagram to each of two peers in one burst. Returns the second one's result. */
static enum lend_sent send_both(struct lend_io *io, const uint32_t peer[2], uint32_t seq)
{
	struct lend_bufs none = {0};
	uint8_t head[16];
	struct lend_out out[2] = {{.head = head, .head_len = 16, .peer = peer[0]},
				  {.head = head, .head_len = 16, .peer = peer[1]}};

	lend_store_u32(head, CONFORM_MAGIC);
	lend_store_u32(head + 4, 0);
	lend_store_u32(head + 8, seq);
	lend_store_u32(head + 12, 16);
	io->ops->tx(io, &none, out, 2);
	return out[1].sent;
}

void conform_stopped_peer(const struct conform_row *row)
{
	static struct conform_tally s, t;
	char address[2][104];
	struct lend_io *stopped, *alive, *client;
	uint32_t peer[2], lost = 0;
	uint64_t end = conform_ms() + 60000;
	enum lend_sent how;

	conform_need(row);
	stopped = conform_listen(row, address[0]);
	alive = conform_listen(row, address[1]);
	client = conform_caller(row, address[0]);
	peer[0] = conform_resolve(client, address[0], stopped);
	peer[1] = conform_resolve(client, address[1], alive);
	s = (struct conform_tally){.row = row};
	t = (struct conform_tally){.row = row};
	(void)conform_fill(client, peer[0], &s, 60000);
	for (uint32_t round = 0; round < 1000; round++) {
		while ((how = send_both(client, peer, t.sent)) == LEND_SENT_FULL && row->one_way &&
		       conform_ms() < end)
			sched_yield();
		cr_assert_eq(how, LEND_SENT, "refused because of the other peer");
		t.sent++;
		conform_settle(alive, &t, t.sent);
		lost += t.sent - t.count;
		t.count = t.sent;
	}
	cr_assert_lt(lost, 50);
	client->ops->close(client);
	alive->ops->close(alive);
	stopped->ops->close(stopped);
}

/* Receives urgent and normal datagrams; each kind must be in order. */
struct race {
	uint32_t came[2];
	uint32_t passed; /* number of normal datagrams before the first urgent one */
};

static void finish_race(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct race *r = arg;

	cr_assert(!in->gone);
	cr_assert_lt(id, 2);
	cr_assert_eq(seq, r->came[id], "%u instead of %u of kind %u", seq, r->came[id], id);
	if (id == 1 && seq == 0)
		r->passed = r->came[0];
	r->came[id]++;
}

static void await_room(struct lend_io *io, struct race *r, uint32_t slow, uint32_t fast)
{
	uint64_t end = conform_ms() + conform_patience_ms;

	while ((r->came[0] < slow || r->came[1] < fast) && conform_ms() < end)
		(void)conform_take(io, finish_race, r);
	cr_assert_eq(r->came[0], slow);
	cr_assert_eq(r->came[1], fast);
}

/* Sends as many urgent datagrams as there is room for. Normal ones are not blocked for ever. */
static void flood_fast(const struct conform_pair *p)
{
	struct race r = {0};
	uint32_t slow = 0, fast = 0;

	while (slow < 100 && conform_send(p->client, p->peer, 0, slow, 64) == LEND_SENT)
		slow++;
	for (uint32_t turn = 0; r.came[0] < slow && turn < 10000; turn++) {
		for (uint32_t i = 0; i < CONFORM_BURST; i++)
			fast += conform_send_fast(p->client, p->peer, 1, fast, 64) == LEND_SENT;
		(void)conform_take(p->server, finish_race, &r);
	}
	cr_assert_eq(r.came[0], slow, "starved");
	await_room(p->server, &r, slow, fast);
}

void conform_urgent(const struct conform_row *row)
{
	struct conform_pair p;
	struct race r = {0};
	uint32_t slow = 0;

	conform_need(row);
	if (!conform_has(row, LEND_CARRIER_LOSSLESS) && !conform_has(row, LEND_CARRIER_OVERTAKES))
		cr_skip("a carrier with one queue that loses datagrams promises no order");
	conform_open(&p, row);
	while (slow < 300 && conform_send(p.client, p.peer, 0, slow, 64) == LEND_SENT)
		slow++;
	if (conform_has(row, LEND_CARRIER_OVERTAKES))
		cr_assert_eq(conform_send_fast(p.client, p.peer, 1, 0, 64), LEND_SENT, "room");
	else
		await_room(p.server, &r, slow, 0);
	if (!conform_has(row, LEND_CARRIER_OVERTAKES))
		cr_assert_eq(conform_send_fast(p.client, p.peer, 1, 0, 64), LEND_SENT);
	await_room(p.server, &r, slow, 1);
	cr_assert(!conform_has(row, LEND_CARRIER_OVERTAKES) || r.passed < slow / 2,
		  "%u of %u came before the urgent one", r.passed, slow);
	flood_fast(&p);
	conform_close(&p);
}
