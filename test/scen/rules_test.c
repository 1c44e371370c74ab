/* Goal: rules with violations that show late, or only to a stranger: every counter returns to its
 * start, and an answer counts only for the request it belongs to. Method: two cores, each limit
 * used up several times over; answers changed on the wire. Covers: src/core/rx.c,
 * src/core/server_call.c, src/core/handshake.c, src/core/sent_ring.c, src/core/control.c,
 * src/core/grant.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)

static void small_budget(struct lend_core_config *c)
{
	c->receive_budget = 250000;
}

static void up_with(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	pair_start(d, lossless, tweak);
	d->on_end = pair_give_at_end;
}

Test(rules, the_budget_comes_back_with_every_message)
{
	struct core_pair d;

	up_with(&d, false, small_budget);
	for (uint32_t i = 1; i <= 20; i++) {
		pair_call(&d, pair_buf(&d, 0, 200000, 200000, 1),
			  i % 2 ? pair_buf(&d, 0, 200000, 0, 0) : 0, LEND_NEVER);
		pair_settle(&d);
		pair_pass(&d, 20 * MS);
		cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], i, "request %u", i);
		pair_free(&d, 1, d.side[1].request_buf);
		pair_reply(&d, 0, pair_buf(&d, 1, 200000, 200000, 2));
		pair_settle(&d);
		pair_pass(&d, 20 * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], i, "reply %u", i);
	}
	pair_close(&d);
}

Test(rules, an_orphan_that_answered_makes_room_for_another)
{
	struct core_pair d;

	up_with(&d, false, NULL);
	for (uint32_t round = 0; round < 4; round++) {
		uint64_t call[8], request[8];

		for (int i = 0; i < 8; i++) {
			call[i] = pair_call(&d, 0, 0, LEND_NEVER);
			pair_settle(&d);
			request[i] = d.side[1].request;
		}
		for (int i = 0; i < 8; i++)
			lend_core_cancel(d.side[0].core, call[i], 1);
		pair_settle(&d); /* and the slots are free for the next round */
		for (int i = 0; i < 8; i++) {
			d.side[1].request = request[i];
			if (round < 3)
				pair_reply(&d, 0, 0);
		}
		if (round < 3)
			continue;
		/* Eight orphans run; GONE for the ninth waits until one of them has answered. */
		call[0] = pair_call(&d, 0, 0, LEND_NEVER);
		pair_settle(&d);
		lend_core_cancel(d.side[0].core, call[0], 1);
		pair_settle(&d);
		cr_assert_eq(d.side[1].count[LEND_EV_CANCELLED], 33);
		pair_reply(&d, 0, 0);
		for (int i = 0; i < 8; i++) {
			d.side[1].request = request[i];
			pair_reply(&d, 0, 0);
		}
		pair_settle(&d);
	}
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 33);
	pair_close(&d);
}

/* Delivered to the client: an answer to another attempt, and its own from another address. */
Test(rules, an_answer_to_another_attempt_is_not_ours)
{
	struct core_pair d;
	struct pair_dgram *accept;
	struct lend_in in;
	uint8_t other[2048];

	pair_half_open(&d);
	accept = &d.side[1].wire[0];
	memcpy(other, accept->data, accept->len);
	other[sizeof(struct lend_pkt) + offsetof(struct lend_pkt_accept, connect)] ^= 1;
	other[offsetof(struct lend_pkt, number)] ^= 0x40;
	pair_inject(&d, 0, other, accept->len);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 0, "another attempt");
	in = (struct lend_in){.data = accept->data, .len = accept->len, .peer = LEND_PEER(0, 2)};
	lend_core_input(d.side[0].core, d.now, &d.side[0].bufs, &in, 1);
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 0, "another address");
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_UP], 1);
	pair_close(&d);
}

/* A copy of a CONNECT from another address gets no answer, at either address. */
Test(rules, a_connect_copied_from_elsewhere_is_not_answered)
{
	struct core_pair d;
	struct lend_in in;

	pair_half_open(&d);
	cr_assert_eq(d.side[1].n, 1);
	in = (struct lend_in){/* unchanged */
			      .data = d.side[0].wire[0].data,
			      .len = d.side[0].wire[0].len,
			      .peer = LEND_PEER(0, 2)};
	lend_core_input(d.side[1].core, d.now, &d.side[1].bufs, &in, 1);
	pair_output(&d, 1);
	cr_assert_eq(d.side[1].n, 1, "answered");
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_state, 1);
	pair_close(&d);
}

/* RESET is accepted only from the peer of the session that it names. */
Test(rules, a_reset_from_elsewhere_ends_nothing)
{
	struct core_pair d;
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
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	in.peer = LEND_PEER(0, 1);
	g.kind = LEND_PKT_RESET;
	g.session = d.side[1].session;
	lend_core_input(d.side[0].core, d.now, &d.side[0].bufs, &in, 1);
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 1);
	pair_close(&d);
}

static bool lose_replies(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)v;
	cr_assert_lt(nth, 1500, "retransmitted without end");
	return from == 1;
}

/* The server's ring of sent numbers fills with replies that no report mentions. */
Test(rules, sent_ring__unacked_replies__no_resend_loop)
{
	struct core_pair d;

	pair_start(&d, false, NULL);
	d.lose = lose_replies;
	d.nth = 0;
	for (int i = 0; i < 8; i++) {
		pair_call(&d, 0, 0, LEND_NEVER);
		pair_settle(&d);
		pair_reply(&d, 0, 0);
	}
	pair_pass(&d, 4900 * MS);
	d.lose = NULL;
	pair_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 8);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 8);
	pair_close(&d);
}

static void set_jumbo(struct lend_core_config *c)
{
	c->path[0].mtu = 9000;
	c->unscheduled = 4096;
}

/* A datagram must fit into the unscheduled window, or the first one of a message is never sent. */
Test(rules, datagrams_are_no_longer_than_the_memory_they_land_in)
{
	struct core_pair d;

	up_with(&d, false, set_jumbo);
	pair_call(&d, pair_buf(&d, 0, 20000, 20000, 3), 0, LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	cr_assert(pair_same(&d, 1, d.side[1].request_buf, 20000, 3));
	pair_free(&d, 1, d.side[1].request_buf);
	pair_reply(&d, 0, pair_buf(&d, 1, 9000, 9000, 4));
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	pair_pass(&d, 100 * MS);
	pair_close(&d);
}

/* Requests arrive, but all reports of the other end are lost. */
static bool lose_reports(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)nth;
	return from == 1 || v->head.kind != LEND_PKT_REQUEST || v->head.flags & LEND_PKT_ACKED;
}

/* Delivers the same request under another number. */
static void repeat_request(struct core_pair *d, struct pair_dgram *request, uint64_t number)
{
	memcpy(request->data + offsetof(struct lend_pkt, number), &number, sizeof(number));
	pair_inject(d, 1, request->data, request->len);
	pair_output(d, 1);
}

/* The server reports 300 times that a handler runs before the client acknowledges the reply. */
Test(rules, a_reply_is_known_however_many_control_datagrams_follow)
{
	static struct pair_dgram request;
	struct core_pair d;

	up_with(&d, false, NULL);
	for (int i = 0; i < 2; i++) {
		pair_call(&d, 0, 0, LEND_NEVER);
		pair_output(&d, 0);
	}
	request = d.side[0].wire[0];
	pair_settle(&d);
	pair_reply(&d, 0, pair_buf(&d, 1, 80, 80, 1));
	pair_output(&d, 1);
	d.lose = lose_reports;
	for (uint64_t i = 0; i < 300; i++)
		repeat_request(&d, &request, 1000 + i);
	pair_settle(&d);
	cr_assert_geq(lend_core_stats(d.side[1].core)->acks, 300);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 0);
	d.lose = NULL;
	pair_pass(&d, 2000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	pair_close(&d);
}

/* Memory granted in advance for a reply that takes long does not hold up other messages. */
Test(rules, a_reply_to_come_leaves_budget_for_others)
{
	struct lend_core_call call = {.deadline = LEND_NEVER};
	struct core_pair d;
	uint64_t handle;

	up_with(&d, false, small_budget);
	pair_call(&d, 0, pair_buf(&d, 0, 400000, 0, 0), LEND_NEVER);
	pair_settle(&d);
	call.request = pair_buf(&d, 1, 300000, 300000, 5);
	cr_assert_eq(pair_try(&d, 1, &call, &handle), 0);
	pair_pass(&d, 400 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_REQUEST], 1);
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	d.on_end = NULL;
	pair_free(&d, 0, d.side[0].request_buf);
	cr_assert_eq(
	    lend_core_reply(d.side[0].core, d.now, d.side[0].request, &d.side[0].bufs, 0, 0), 0);
	pair_pass(&d, 100 * MS);
	pair_free(&d, 1, d.side[1].ev[LEND_EV_CALL_END].buf);
	pair_close(&d);
}
