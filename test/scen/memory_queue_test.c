/* Goal: lack of memory delays a call and never ends or loses it. A datagram that its receiver
 * dropped or evicted is retransmitted, although its number was acknowledged, and although the
 * notice of the drop was lost or refused. Method: two cores with pools too small for their load;
 * calls without a deadline, all of which must end well. Covers: src/core/memory_queue.c,
 * src/core/rx.c, src/core/tx.c, src/core/control.c */
#include <string.h>

#include "scen/core_pair.h"
#include "one_line_test.h"

#define MS UINT64_C(1000000)

static void few_reassemblies(struct lend_core_config *c)
{
	c->reassemblies = 1;
}

static void few_of_both(struct lend_core_config *c)
{
	c->reassemblies = 1;
	c->receive_budget = 1500;
}

/* Takes the newest request of side 1 and answers it. */
static void serve_newest(struct core_pair *d, uint32_t reply_len)
{
	struct pair_side *s = &d->side[1];

	if (s->request_buf)
		pair_free(d, 1, s->request_buf);
	s->request_buf = 0;
	pair_reply(d, 0, reply_len ? pair_buf(d, 1, reply_len, reply_len, 4) : 0);
}

/* Starts n calls and takes the handle of each, as they arrive one by one. */
static void start_calls(struct core_pair *d, int n, uint32_t len, uint32_t named, uint64_t *request)
{
	for (int i = 0; i < n; i++) {
		pair_call(d, pair_buf(d, 0, len, len, 3), named ? pair_buf(d, 0, named, 0, 0) : 0,
			  LEND_NEVER);
		pair_settle(d);
		request[i] = d->side[1].request;
	}
}

/* Replies that find no reassembly are retransmitted once there is one. Several of them share a ring
 * of numbers that reports cover only in part. */
static void check_replies(bool lossless, uint32_t len, uint32_t named,
			  void (*tweak)(struct lend_core_config *))
{
	struct core_pair d;
	uint64_t request[6];

	pair_start(&d, lossless, tweak);
	d.on_end = pair_give_at_end;
	start_calls(&d, 6, 8, named, request);
	for (int i = 0; i < 6; i++) {
		d.side[1].request = request[i];
		serve_newest(&d, len);
	}
	pair_settle(&d);
	pair_pass(&d, 3000 * MS);
	cr_assert_gt(lend_core_stats(d.side[0].core)->rx_memory, 0, "nothing was dropped");
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 6, "lossless %d len %u named %u: %u ended",
		     lossless, len, named, d.side[0].count[LEND_EV_CALL_END]);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 6);
	pair_close(&d);
}

Test(memory_queue, no_reassembly__short_replies__are_resent)
{
	static const uint32_t len[] = {20000, 60000};

	for (int how = 0; how < 4; how++)
		check_replies(how & 1, len[how / 2], 0, few_reassemblies);
}

Test(memory_queue, no_reassembly__long_replies__are_resent)
{
	check_replies(true, 600000, 600000, few_reassemblies);
	check_replies(false, 600000, 600000, few_reassemblies);
}

/* A request of 200,000 bytes is deferred: 32,768 of them are granted, and NEED comes again when
 * these are here. It cannot be deferred a second time. */
Test(memory_queue, memory_deferred__needed_again_when_more_is_here)
{
	for (int lossless = 0; lossless < 2; lossless++) {
		struct core_pair d;
		struct pair_side *s = &d.side[1];
		uint64_t call;

		pair_start(&d, lossless, NULL);
		d.on_end = pair_give_at_end;
		s->hold_need = true;
		pair_request(&d, 200000, 3);
		pair_settle(&d);
		call = s->ev[LEND_EV_NEED].call;
		cr_assert_eq(s->count[LEND_EV_NEED], 1);
		cr_assert_leq(s->ev[LEND_EV_NEED].data_len, 16384);
		cr_assert(lend_core_defer(s->core, call));
		cr_assert(!lend_core_defer(s->core, call), "it was not needed again");
		pair_settle(&d);
		pair_pass(&d, 100 * MS);
		cr_assert_eq(s->count[LEND_EV_NEED], 2);
		cr_assert_geq(s->ev[LEND_EV_NEED].data_len, 31000);
		cr_assert(!lend_core_defer(s->core, call), "it is here already");
		cr_assert_eq(
		    lend_core_attach(s->core, call, &s->bufs, pair_buf(&d, 1, 200000, 0, 0)), 0);
		pair_settle(&d);
		pair_pass(&d, 100 * MS);
		cr_assert_eq(s->count[LEND_EV_REQUEST], 1);
		cr_assert_eq(s->request_len, 200000);
		cr_assert(pair_same(&d, 1, s->request_buf, 200000, 200000));
		serve_newest(&d, 0);
		pair_settle(&d);
		pair_pass(&d, 1000 * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
		pair_close(&d);
	}
}

/* The sender of a message that was dropped, and then lacks budget for its last byte, is notified of
 * both. */
Test(memory_queue, no_reassembly_and_no_budget__both_notified)
{
	for (uint32_t more = 0; more < 3000; more += 500)
		for (int how = 0; how < 4; how++)
			check_replies(how & 1, 65537 + more, how & 2 ? 70000 : 0, few_of_both);
}

/* While enabled, loses the last fragment of the first long message of side `from`, and its
 * receiver's first notice of a drop. */
struct bad_luck {
	int from;
	uint32_t call;
	bool last_fragment, word;
};

static bool drop_unlucky(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	struct bad_luck *b = d->arg;

	(void)nth;
	if (from == b->from && v->head.length == 5000 && v->head.offset == 3 * 1376) {
		if (b->call == 0)
			b->call = v->head.call;
		return b->call == v->head.call && b->last_fragment;
	}
	if (from != b->from && v->head.call == b->call && b->word &&
	    (v->head.kind == LEND_PKT_ACK || v->head.kind == LEND_PKT_PROBE) &&
	    v->head.length & LEND_PKT_DROPPED) {
		b->word = false;
		return true;
	}
	return false;
}

static void answer_event(struct core_pair *d, const struct lend_event *e)
{
	(void)e;
	serve_newest(d, 8);
}

/* A message stays without its last fragment while another needs its memory; then the losses end. */
static void short_of_one(int from)
{
	struct core_pair d;
	struct bad_luck b = {.from = from, .last_fragment = true, .word = true};

	pair_start(&d, false, few_reassemblies);
	d.on_end = pair_give_at_end;
	d.on_request = from == 0 ? answer_event : NULL;
	d.arg = &b;
	d.lose = drop_unlucky;
	d.side[!from].no_supply = true;
	for (int i = 0; i < 2; i++) {
		uint32_t len = from == 0 ? 5000 : 8;

		pair_call(&d, pair_buf(&d, 0, len, len, 3), 0, LEND_NEVER);
		pair_settle(&d);
		pair_pass(&d, 60 * MS);
		if (from == 1) {
			serve_newest(&d, 5000);
			pair_settle(&d);
			pair_pass(&d, 60 * MS);
		}
	}
	b.last_fragment = false;
	d.side[!from].no_supply = false;
	pair_output(&d, !from); /* provides memory */
	pair_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2, "from %d: %u ended", from,
		     d.side[0].count[LEND_EV_CALL_END]);
	cr_assert_eq(lend_core_stats(d.side[1].core)->evicted > 0, from == 0);
	cr_assert_eq(lend_core_stats(d.side[0].core)->evicted, 0, "replies are kept");
	pair_close(&d);
}

TestRuns(memory_queue, idle_request__holds_memory__is_evicted, short_of_one(0));
TestRuns(memory_queue, idle_reply__holds_memory__is_evicted, short_of_one(1));

static void keep_nothing(struct core_pair *d, const struct lend_event *e)
{
	(void)e;
	pair_free(d, 1, d->side[1].request_buf);
	d->side[1].request_buf = 0;
}

/* A message that waits for memory sends nothing and delays no other: its session credit and its
 * datagrams in flight are free for others. Freed memory resumes as many messages as it suffices
 * for. */
static void in_line(bool lossless)
{
	struct core_pair d;
	uint64_t repeats;

	pair_start(&d, lossless, few_reassemblies);
	d.on_end = pair_give_at_end;
	d.on_request = keep_nothing;
	for (int i = 0; i < 3; i++) { /* the rest of the pool is taken */
		d.side[1].no_supply = true;
		pair_call(&d, pair_buf(&d, 0, 60000, 60000, 3), 0, LEND_NEVER);
		pair_settle(&d);
	}
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	pair_call(&d, pair_buf(&d, 0, 1000, 1000, 3), 0, LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2, "a short call waits for long ones");
	serve_newest(&d, 0);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	repeats = lend_core_stats(d.side[0].core)->repeats;
	pair_pass(&d, 500 * MS);
	cr_assert_eq(lend_core_stats(d.side[0].core)->repeats, repeats, "it does not wait");
	d.side[1].no_supply = false;
	pair_output(&d, 1); /* provides memory */
	pair_settle(&d);
	cr_assert_geq(d.side[1].count[LEND_EV_REQUEST], 3, "told to go on");
	pair_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 4);
	cr_assert_leq(lend_core_stats(d.side[0].core)->repeats, repeats + 2 * 45,
		      "each went out once more: %llu",
		      (unsigned long long)lend_core_stats(d.side[0].core)->repeats);
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	pair_pass(&d, 1000 * MS);
	pair_close(&d);
}

Test(memory_queue, no_memory__messages_wait_in_a_queue)
{
	in_line(false);
	in_line(true);
}

/* An acknowledgement on a datagram that the carrier handed back is sent all the same. */
Test(memory_queue, carrier_full__acknowledgement__is_sent_later)
{
	struct core_pair d;
	struct pair_side *client;
	struct lend_core_call call = {.method = 1, .deadline = LEND_NEVER};
	struct lend_out out;
	uint64_t h;

	pair_start(&d, true, NULL);
	d.on_end = pair_give_at_end;
	client = &d.side[0];
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	serve_newest(&d, 8);
	pair_settle(&d);
	cr_assert_eq(client->count[LEND_EV_CALL_END], 1);
	cr_assert_eq(pair_try(&d, 0, &call, &h), 0);
	cr_assert_eq(lend_core_output(client->core, d.now, &client->bufs, &out, 1), 1);
	out.sent = LEND_SENT_FULL;
	lend_core_sent(client->core, &out, 1);
	lend_core_cancel(client->core, h, 1);
	pair_settle(&d);
	cr_assert_eq(client->ev[LEND_EV_CALL_END].ran, 0, "no byte of it left");
	pair_pass(&d, 200 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1, "the reply is held");
	lend_core_disconnect(client->core, client->session);
	pair_settle(&d);
	pair_close(&d);
}

/* A peer that does not drain its ring is probed repeatedly; the probes must not fill the queue of
 * control datagrams, which all sessions share. */
Test(memory_queue, full_ring__probes_do_not_fill_the_queue)
{
	struct core_pair d;
	struct pair_side *client;
	struct lend_out out[32];
	uint32_t n;

	pair_start(&d, true, NULL);
	d.on_end = pair_give_at_end;
	client = &d.side[0];
	for (int i = 0; i < 8; i++)
		pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	for (int i = 0; i < 50000; i++) {
		d.now += MS / 5;
		lend_core_tick(client->core, d.now);
		n = lend_core_output(client->core, d.now, &client->bufs, out, 32);
		for (uint32_t k = 0; k < n; k++)
			out[k].sent = LEND_SENT_FULL;
		lend_core_sent(client->core, out, n);
	}
	d.now += 5 * MS;
	n = lend_core_output(client->core, d.now, &client->bufs, out, 32);
	cr_assert(n > 0 && n <= 8, "%u questions about 8 calls", n);
	for (uint32_t k = 0; k < n; k++)
		out[k].sent = LEND_SENT_DEAD;
	lend_core_sent(client->core, out, n);
	cr_assert_eq(lend_core_output(client->core, d.now, &client->bufs, out, 32), 0);
	pair_output(&d, 0);
	cr_assert_eq(client->count[LEND_EV_CALL_END], 8);
	lend_core_disconnect(d.side[1].core, d.side[1].session);
	pair_settle(&d);
	pair_close(&d);
}
