/* Goal: rules whose breach shows only after a while, or only to a stranger: what was counted is
 * counted back, and an answer is believed only if it answers us. Method: two cores, each limit used
 * up several times over; answers changed on their way. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/duo.h"
#include "util/crc32c.h"

#define MS UINT64_C(1000000)

static void small_budget(struct lend_core_config *c)
{
	c->receive_budget = 250000;
}

static void up_with(struct duo *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	duo_start(d, lossless, tweak);
	d->on_end = duo_give_at_end;
}

Test(rules, the_budget_comes_back_with_every_message)
{
	struct duo d;

	up_with(&d, false, small_budget);
	for (uint32_t i = 1; i <= 20; i++) {
		duo_call(&d, duo_buf(&d, 0, 200000, 200000, 1),
			 i % 2 ? duo_buf(&d, 0, 200000, 0, 0) : 0, LEND_NEVER);
		duo_settle(&d);
		duo_pass(&d, 20 * MS);
		cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], i, "request %u", i);
		duo_free(&d, 1, d.side[1].request_buf);
		duo_reply(&d, 0, duo_buf(&d, 1, 200000, 200000, 2));
		duo_settle(&d);
		duo_pass(&d, 20 * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], i, "reply %u", i);
	}
	duo_close(&d);
}

Test(rules, an_orphan_that_answered_makes_room_for_another)
{
	struct duo d;

	up_with(&d, false, NULL);
	for (uint32_t round = 0; round < 4; round++) {
		uint64_t call[8], request[8];

		for (int i = 0; i < 8; i++) {
			call[i] = duo_call(&d, 0, 0, LEND_NEVER);
			duo_settle(&d);
			request[i] = d.side[1].request;
		}
		for (int i = 0; i < 8; i++)
			lend_core_cancel(d.side[0].core, call[i], 1);
		duo_settle(&d); /* and the slots are free, so the next round can begin */
		for (int i = 0; i < 8; i++) {
			d.side[1].request = request[i];
			if (round < 3)
				duo_reply(&d, 0, 0);
		}
		if (round < 3)
			continue;
		/* Eight orphans run: for the ninth GONE waits until it answered. */
		call[0] = duo_call(&d, 0, 0, LEND_NEVER);
		duo_settle(&d);
		lend_core_cancel(d.side[0].core, call[0], 1);
		duo_settle(&d);
		cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 33);
		duo_reply(&d, 0, 0);
		for (int i = 0; i < 8; i++) {
			d.side[1].request = request[i];
			duo_reply(&d, 0, 0);
		}
		duo_settle(&d);
	}
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 33);
	duo_close(&d);
}

/* As a client hears it: another attempt's answer, and ours from another address. */
Test(rules, an_answer_to_another_attempt_is_not_ours)
{
	struct duo d;
	struct duo_dgram *accept;
	struct lend_in in;
	uint8_t other[2048];

	duo_half_open(&d);
	accept = &d.side[1].wire[0];
	memcpy(other, accept->data, accept->len);
	other[sizeof(struct lend_pkt) + offsetof(struct lend_pkt_accept, connect)] ^= 1;
	other[offsetof(struct lend_pkt, number)] ^= 0x40;
	duo_inject(&d, 0, other, accept->len);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 0, "another attempt");
	in = (struct lend_in){.data = accept->data, .len = accept->len, .peer = LEND_PEER(0, 2)};
	lend_core_input(d.side[0].core, d.now, &d.side[0].bufs, &in, 1);
	duo_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 0, "another address");
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 1);
	duo_close(&d);
}

/* A copy of a CONNECT from elsewhere is not answered: not there, and not here. */
Test(rules, a_connect_copied_from_elsewhere_is_not_answered)
{
	struct duo d;
	struct lend_in in;

	duo_half_open(&d);
	cr_assert_eq(d.side[1].n, 1);
	in = (struct lend_in){/* as it lay there */
			      .data = d.side[0].wire[0].data,
			      .len = d.side[0].wire[0].len,
			      .peer = LEND_PEER(0, 2)};
	lend_core_input(d.side[1].core, d.now, &d.side[1].bufs, &in, 1);
	duo_output(&d, 1);
	cr_assert_eq(d.side[1].n, 1, "answered");
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_state, 1);
	duo_close(&d);
}

/* RESET is believed only from the peer whose session it names. */
Test(rules, a_reset_from_elsewhere_ends_nothing)
{
	struct duo d;
	struct lend_pkt g = {
	    .magic = LEND_PKT_MAGIC, .version = LEND_PKT_VERSION, .kind = LEND_PKT_RESET};
	struct lend_in in = {.data = &g, .len = sizeof(g), .peer = LEND_PEER(0, 2)};

	up_with(&d, true, NULL);
	g.session = d.side[1].session;
	lend_core_input(d.side[0].core, d.now, &d.side[0].bufs, &in, 1);
	g.kind = LEND_PKT_BYE;
	g.session = d.side[0].session;
	g.number = 1000;
	lend_core_input(d.side[0].core, d.now, &d.side[0].bufs, &in, 1);
	duo_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	in.peer = LEND_PEER(0, 1);
	g.kind = LEND_PKT_RESET;
	g.session = d.side[1].session;
	lend_core_input(d.side[0].core, d.now, &d.side[0].bufs, &in, 1);
	duo_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1);
	duo_close(&d);
}

static bool lose_replies(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)v;
	cr_assert_lt(nth, 1500, "sent without end");
	return from == 1;
}

/* The server's ring of sent numbers fills with replies of which nobody speaks. */
Test(rules, replies_that_nobody_acknowledges_do_not_chase_each_other)
{
	struct duo d;

	duo_start(&d, false, NULL);
	d.lose = lose_replies;
	d.nth = 0;
	for (int i = 0; i < 8; i++) {
		duo_call(&d, 0, 0, LEND_NEVER);
		duo_settle(&d);
		duo_reply(&d, 0, 0);
	}
	duo_pass(&d, 4900 * MS);
	d.lose = NULL;
	duo_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 8);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 8);
	duo_close(&d);
}

static void jumbo(struct lend_core_config *c)
{
	c->path[0].mtu = 9000;
	c->unscheduled = 4096;
}

/* A datagram must fit into what may come unasked, or the first of a message never does. */
Test(rules, datagrams_are_no_longer_than_the_memory_they_land_in)
{
	struct duo d;

	up_with(&d, false, jumbo);
	duo_call(&d, duo_buf(&d, 0, 20000, 20000, 3), 0, LEND_NEVER);
	duo_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	cr_assert(duo_same(&d, 1, d.side[1].request_buf, 20000, 3));
	duo_free(&d, 1, d.side[1].request_buf);
	duo_reply(&d, 0, duo_buf(&d, 1, 9000, 9000, 4));
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	duo_pass(&d, 100 * MS);
	duo_close(&d);
}

/* Requests get through, and what would tell of the other end does not. */
static bool lose_reports(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)nth;
	return from == 1 || v->head.kind != LEND_PKT_REQUEST || v->head.flags & LEND_PKT_ACKED;
}

/* The same request under another number. */
static void repeat(struct duo *d, struct duo_dgram *request, uint64_t number)
{
	uint32_t n = request->len - (uint32_t)sizeof(struct lend_pkt_trailer), crc;

	memcpy(request->data + offsetof(struct lend_pkt, number), &number, sizeof(number));
	crc = lend_crc32c(0, request->data, n);
	memcpy(request->data + n, &crc, sizeof(crc));
	duo_inject(d, 1, request->data, request->len);
	duo_output(d, 1);
}

/* The server says 300 times that a handler runs before the client says that it has a reply. */
Test(rules, a_reply_is_known_however_many_control_datagrams_follow)
{
	static struct duo_dgram request;
	struct duo d;

	up_with(&d, false, NULL);
	for (int i = 0; i < 2; i++)
		duo_call(&d, 0, 0, LEND_NEVER);
	duo_output(&d, 0);
	request = d.side[0].wire[0];
	duo_settle(&d);
	duo_reply(&d, 0, 0);
	duo_output(&d, 1);
	d.lose = lose_reports;
	for (uint64_t i = 0; i < 300; i++)
		repeat(&d, &request, 1000 + i);
	duo_settle(&d);
	cr_assert_geq(lend_core_stats(d.side[1].core)->acks, 300);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 0);
	d.lose = NULL;
	duo_pass(&d, 2000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	duo_close(&d);
}

/* What was offered in advance for a reply that is long in coming holds up nobody else. */
Test(rules, a_reply_to_come_leaves_budget_for_others)
{
	struct lend_core_call call = {.deadline = LEND_NEVER};
	struct duo d;
	uint64_t handle;

	up_with(&d, false, small_budget);
	duo_call(&d, 0, duo_buf(&d, 0, 400000, 0, 0), LEND_NEVER);
	duo_settle(&d);
	call.request = duo_buf(&d, 1, 300000, 300000, 5);
	cr_assert_eq(duo_try(&d, 1, &call, &handle), 0);
	duo_pass(&d, 400 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_REQUEST], 1);
	duo_reply(&d, 0, 0);
	duo_settle(&d);
	d.on_end = NULL;
	duo_free(&d, 0, d.side[0].request_buf);
	cr_assert_eq(
	    lend_core_reply(d.side[0].core, d.now, d.side[0].request, &d.side[0].bufs, 0, 0), 0);
	duo_pass(&d, 100 * MS);
	duo_free(&d, 1, d.side[1].ev[LEND_EV_CALL_END].buf);
	duo_close(&d);
}
