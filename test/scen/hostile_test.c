/* Goal: a peer with a valid session that breaks the rules cannot stop this end, exceed its limits,
 * run a handler twice or keep its memory. Method: one real core; the test writes the other's
 * datagrams; each test is one thing a peer could do. Covers: src/core/input.c, src/core/rx.c,
 * src/core/server_call.c, src/core/handshake.c, src/core/memory_queue.c, src/core/control.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

enum { PAYLOAD = 1376 };

/* A handmade datagram; lossless, so without a trailer. */
struct craft {
	struct lend_pkt head;
	union {
		struct lend_pkt_request request;
		struct lend_pkt_reply reply;
		struct {
			struct lend_pkt_ack ack;
			struct lend_pkt_seen seen;
		};
		uint8_t bytes[2048 - sizeof(struct lend_pkt)];
	};
};

/* One datagram of a burst, as if from the other end of to's session. */
static void put_datagram(struct core_pair *d, int to, uint8_t kind, uint8_t flags, uint32_t call,
			 uint64_t number, struct craft *g, uint32_t block, uint32_t payload)
{
	g->head.magic = LEND_PKT_MAGIC;
	g->head.version = LEND_PKT_VERSION;
	g->head.kind = kind;
	g->head.flags = flags;
	g->head.call = call;
	g->head.session = d->side[to].session;
	g->head.number = number;
	pair_inject(d, to, g, (uint32_t)sizeof(g->head) + block + payload);
}

static void run_turn(struct core_pair *d, int side)
{
	lend_core_tick(d->side[side].core, d->now);
	pair_output(d, side);
	d->side[side].n = 0;
}

static void put_burst(struct core_pair *d, uint32_t call, uint64_t number, uint32_t offset,
		      uint32_t length, uint32_t payload)
{
	struct craft g = {.head = {.offset = offset, .length = length}};

	g.request.left_us = UINT32_MAX;
	put_datagram(d, 1, LEND_PKT_REQUEST, 0, call, number, &g, sizeof(g.request), payload);
}

static void put_request(struct core_pair *d, uint32_t call, uint64_t number, uint32_t offset,
			uint32_t length, uint32_t payload)
{
	put_burst(d, call, number, offset, length, payload);
	run_turn(d, 1);
}

static void put_plain(struct core_pair *d, uint8_t kind, uint32_t call, uint64_t number)
{
	struct craft g = {0};

	put_datagram(d, 1, kind, 0, call, number, &g, 0, 0);
	run_turn(d, 1);
}

static uint32_t call_id(uint32_t slot, uint32_t seq)
{
	return lend_pkt_call(slot, seq);
}

static void one_reassembly(struct lend_core_config *c)
{
	c->reassemblies = 1;
}

Test(hostile, a_length_that_grows_while_there_is_no_memory_stays_within_the_limit)
{
	struct core_pair d;

	pair_start(&d, true, one_reassembly);
	for (uint32_t i = 0; i < 2; i++) /* takes both reassemblies */
		put_request(&d, call_id(i, 1), 100 + i, 0, 5000, PAYLOAD);
	put_request(&d, call_id(3, 1), 110, 0, 5000, PAYLOAD);
	cr_assert_gt(lend_core_stats(d.side[1].core)->rx_memory, 0);
	for (uint32_t i = 0; i < 2; i++)
		put_plain(&d, LEND_PKT_CANCEL, call_id(i, 1), 120 + i);
	d.side[1].hold_need = true;
	put_request(&d, call_id(3, 1), 130, 0, 1u << 30, PAYLOAD);
	cr_assert_eq(d.side[1].count[LEND_EV_NEED], 0, "asked for %llu bytes",
		     (unsigned long long)d.side[1].ev[LEND_EV_NEED].len);
	put_plain(&d, LEND_PKT_CANCEL, call_id(3, 1), 140);
	pair_close(&d);
}

/* One datagram is dropped before any state is kept for it, a few more are dropped, then the session
 * is closed. */
Test(hostile, grants__ignored__dropped_then_session_closed)
{
	struct core_pair d;

	pair_start(&d, true, NULL);
	d.side[1].hold_need = true;
	put_request(&d, call_id(0, 1), 100, 100 * PAYLOAD, 1 << 20, PAYLOAD);
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_window, 1);
	cr_assert_eq(d.side[1].count[LEND_EV_NEED], 0);
	for (uint32_t i = 1; i < 15; i++)
		put_request(&d, call_id(0, 1), 100 + i, (100 + i) * PAYLOAD, 1 << 20, PAYLOAD);
	put_request(&d, call_id(0, 1), 120, 0, 1 << 20, PAYLOAD);
	cr_assert_eq(d.side[1].count[LEND_EV_NEED], 1, "what it may send is taken");
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 0);
	put_request(&d, call_id(0, 1), 121, 1 << 19, 1 << 20, 0);
	put_request(&d, call_id(0, 1), 122, 400 * PAYLOAD, 1 << 20, PAYLOAD);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_DOWN], 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->greedy, 1);
	pair_close(&d);
}

Test(hostile, numbers_at_both_ends_of_their_range)
{
	struct core_pair d;

	pair_start(&d, true, NULL);
	put_plain(&d, LEND_PKT_PING, 0, 0);
	put_plain(&d, LEND_PKT_PING, 0, UINT64_MAX);
	put_plain(&d, LEND_PKT_PING, 0, UINT64_MAX - 64);
	put_plain(&d, LEND_PKT_PING, 0, UINT64_MAX - 65);
	put_plain(&d, LEND_PKT_PING, 0, 0);
	put_request(&d, call_id(0, 1), UINT64_MAX, 0, 8, 8);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "seen before");
	put_request(&d, call_id(0, 1), UINT64_MAX - 1, 0, 8, 8);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	pair_reply(&d, 0, 0);
	pair_hang_up(&d);
}

/* The first datagram that a server accepts from a half-open session has number 0. */
Test(hostile, the_first_number_is_zero)
{
	struct core_pair d;
	struct lend_pkt head;

	pair_half_open(&d);
	/* The id of the server's session is in the hello of its ACCEPT. */
	memcpy(&d.side[1].session,
	       d.side[1].wire[0].data + sizeof(head) + offsetof(struct lend_pkt_accept, session),
	       8);
	put_plain(&d, LEND_PKT_PING, 0, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_SESSION_UP], 1);
	pair_close(&d);
}

Test(hostile, duplicate__slot_used_again__does_not_run)
{
	struct core_pair d;

	pair_start(&d, true, NULL);
	put_request(&d, call_id(2, 1), 10, 0, 8, 8);
	pair_reply(&d, 0, 0);
	put_request(&d, call_id(2, 2), 200, 0, 8, 8); /* acknowledges the first */
	pair_reply(&d, 0, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2);
	/* Older than the map of 64 numbers, so only its slot recognises it. */
	put_request(&d, call_id(2, 1), 11, 0, 8, 8);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2, "a sequence came back");
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_call, 1);
	pair_hang_up(&d);
}

Test(hostile, a_new_sequence_while_the_handler_runs_is_refused)
{
	struct core_pair d;

	pair_start(&d, true, NULL);
	put_request(&d, call_id(2, 1), 10, 0, 8, 8);
	put_request(&d, call_id(2, 2), 20, 0, 8, 8);
	put_plain(&d, LEND_PKT_CANCEL, call_id(2, 3), 30);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_state, 2);
	pair_reply(&d, 0, 0);
	pair_hang_up(&d);
}

Test(hostile, memory_for_a_reply_that_has_no_room_takes_nothing)
{
	struct core_pair d;
	struct craft g = {0};
	uint64_t h;
	struct lend_core_call call = {.method = 1, .deadline = LEND_NEVER};

	pair_start(&d, true, NULL);
	call.reply = pair_buf(&d, 0, 0, 0, 0);
	cr_assert_eq(pair_try(&d, 0, &call, &h), 0);
	pair_output(&d, 0);
	d.side[0].n = 0;
	g.head.length = 5000;
	put_datagram(&d, 0, LEND_PKT_REPLY, LEND_PKT_SERVED, call_id(0, 1), 50, &g, sizeof(g.reply),
		     PAYLOAD);
	run_turn(&d, 0);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
	pair_free(&d, 0, d.side[0].ev[LEND_EV_CALL_END].reply);
	pair_close(&d);
}

/* Not a peer but the local caller: calls and sessions without a poll of events must not overflow
 * the event queue. */
Test(hostile, events__never_polled__queue_does_not_overflow)
{
	struct core_pair d;
	uint64_t h;
	struct lend_core_call call = {.method = 1, .deadline = LEND_NEVER};
	int rc = 0;

	pair_start(&d, true, NULL);
	for (int i = 0; i < 100000 && rc == 0; i++) {
		rc = pair_try(&d, 0, &call, &h);
		if (rc == 0)
			lend_core_cancel(d.side[0].core, h, 1);
	}
	cr_assert_eq(rc, -11);
	pair_output(&d, 0);
	for (int i = 0; i < 100000 && (i == 0 || rc == 0); i++) {
		rc = lend_core_connect(d.side[0].core, d.now, LEND_PEER(0, 1), 1, NULL, &h);
		if (rc == 0)
			lend_core_disconnect(d.side[0].core, h);
	}
	cr_assert_eq(rc, -28);
	pair_output(&d, 0);
	pair_close(&d);
}

/* A message that waits for memory is notified once there is some, without another datagram or
 * timer. */
Test(hostile, memory__freed__tick_is_due)
{
	struct core_pair d;
	struct craft g = {0};

	pair_start(&d, true, one_reassembly);
	for (uint32_t i = 0; i < 3; i++)
		put_request(&d, call_id(i, 1), 100 + i, 0, 5000, PAYLOAD);
	cr_assert_gt(lend_core_stats(d.side[1].core)->rx_memory, 0);
	cr_assert_gt(lend_core_deadline(d.side[1].core), d.now, "nothing to do yet");
	put_datagram(&d, 1, LEND_PKT_CANCEL, 0, call_id(0, 1), 120, &g, 0, 0);
	pair_output(&d, 1);
	d.side[1].n = 0;
	cr_assert_leq(lend_core_deadline(d.side[1].core), d.now);
	lend_core_tick(d.side[1].core, d.now);
	pair_output(&d, 1);
	cr_assert_eq(d.side[1].n, 1, "it was told");
	d.side[1].n = 0;
	cr_assert_gt(lend_core_deadline(d.side[1].core), d.now, "and no more to do");
	for (uint32_t i = 0; i < 3; i++)
		put_plain(&d, LEND_PKT_CANCEL, call_id(i, 1), 130 + i);
	pair_close(&d);
}

static void two_sessions(struct lend_core_config *c)
{
	c->sessions = 2;
}

/* An invalid hello opens no session and gets no answer. */
Test(hostile, hello__invalid__changes_nothing)
{
	static const struct lend_pkt_connect bad[] = {
	    {.params = {.payload = 0, .calls = 1}, .session = 1 << 24},
	    {.params = {.payload = 48, .calls = 1}, .session = 1 << 24},
	    {.params = {.payload = 1375, .calls = 1}, .session = 1 << 24},
	    {.params = {.payload = 1376, .calls = 1}, .session = 0},
	    {.params = {.payload = 1376, .calls = 0}, .session = 1 << 24},
	    {.params = {.payload = 1376, .calls = 1}, .session = 1 << 24, .pattern = 2},
	    {.params = {.payload = 1376, .calls = 1}, .session = 1 << 24, .least = 1},
	};
	struct core_pair d;
	struct {
		struct lend_pkt head;
		struct lend_pkt_connect hello;
		struct lend_pkt_connect_end end;
	} g = {.head = {
		   .magic = LEND_PKT_MAGIC, .version = LEND_PKT_VERSION, .kind = LEND_PKT_CONNECT}};
	uint64_t hash;

	pair_open_with(&d, true, two_sessions);
	d.quiet = true;
	g.hello.params.payload = 1376;
	g.hello.params.calls = 1;
	g.hello.session = 1 << 24;
	pair_inject(&d, 1, &g, sizeof(g)); /* the queue is full */
	hash = lend_core_hash(d.side[1].core);
	for (int i = 0; i < 7; i++) {
		g.hello = bad[i];
		g.hello.connect = i % 2; /* some as a retransmission of the first hello */
		pair_inject(&d, 1, &g, sizeof(g));
		cr_expect_eq(lend_core_hash(d.side[1].core), hash, "hello %d", i);
	}
	cr_expect_eq(lend_core_stats(d.side[1].core)->rx_length, 7);
	pair_output(&d, 1);
	pair_close(&d);
}

static void one_reassembly_and_little_budget(struct lend_core_config *c)
{
	c->reassemblies = 1;
	c->receive_budget = 1500;
}

/* It was dropped without a reassembly, and was retransmitted in the burst that freed one. All are
 * used again, and no budget is left for more of it. Its sender is notified once, not at every
 * tick. */
Test(hostile, memory__no_budget__sender_is_notified_once)
{
	struct core_pair d;
	uint64_t acks;

	pair_start(&d, true, one_reassembly_and_little_budget);
	put_request(&d, call_id(0, 1), 10, 0, 70000, PAYLOAD); /* takes the budget */
	put_request(&d, call_id(1, 1), 11, 0, 2 * PAYLOAD, PAYLOAD);
	put_request(&d, call_id(2, 1), 12, 0, 70000, PAYLOAD);
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_memory, 1, "no reassembly for it");
	put_burst(&d, call_id(1, 1), 13, PAYLOAD, 2 * PAYLOAD, PAYLOAD);
	put_burst(&d, call_id(2, 1), 14, 0, 70000, PAYLOAD);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_NEED], 2);
	acks = lend_core_stats(d.side[1].core)->acks;
	for (int i = 0; i < 20; i++)
		run_turn(&d, 1);
	cr_assert_leq(lend_core_stats(d.side[1].core)->acks - acks, 3);
	cr_assert_gt(lend_core_deadline(d.side[1].core), d.now);
	pair_free(&d, 1, d.side[1].request_buf);
	pair_reply(&d, 0, 0);
	pair_hang_up(&d);
}
