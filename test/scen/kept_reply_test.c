/* Goal: a reply of at most LEND_KEPT_MAX bytes is sent from its slot, without a record, a REPLY_END
 * or an acknowledgement, and its bytes answer each copy of the request until the slot's next call.
 * Method: two cores; datagrams are lost, refused by the carrier, or overtaken at each moment of a
 * call's life. Covers: src/core/kept_reply.c, src/core/server_reply.c, src/core/control.c,
 * src/core/output.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)
enum { URGENT = 1, NORMAL = 3, BULK = 5, REQUEST = 30, REPLY = 64 };

static void set_always(struct lend_core_config *c)
{
	c->fast = LEND_FAST_ALWAYS;
}

/* Compares the bytes of a reply in place with those of pair_answer(). */
static void check_bytes(struct core_pair *d, const struct lend_event *e)
{
	for (uint32_t i = 0; i < e->data_len; i++)
		cr_assert_eq(((const uint8_t *)e->data)[i], pair_byte(i, d->answer), "byte %u", i);
	pair_give_at_end(d, e);
}

static void start_pair(struct core_pair *d, bool lossless)
{
	pair_begin(d, lossless, set_always);
	d->on_end = check_bytes;
	d->answer = REPLY;
}

static uint64_t make_call(struct core_pair *d)
{
	return pair_request(d, REQUEST, NORMAL);
}

static bool lose_all_replies(struct core_pair *d, int from, const struct lend_pkt_view *v,
			     uint32_t nth)
{
	(void)d, (void)from, (void)nth;
	return v->head.kind == LEND_PKT_REPLY;
}

/* Only the longest reply has a record, and is acknowledged. */
Test(kept_reply, length__up_to_the_limit__is_kept)
{
	static const uint32_t len[] = {0, 1, 15, 63, REPLY, REPLY + 1};
	struct core_pair d;

	for (size_t i = 0; i < 2 * (sizeof(len) / sizeof(len[0])); i++) {
		start_pair(&d, i & 1);
		d.quiet = true;
		d.answer = len[i / 2];
		make_call(&d);
		pair_settle(&d);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].data_len, len[i / 2]);
		d.quiet = false;
		pair_pass(&d, 100 * MS);
		pair_expect(&d, len[i / 2] > REPLY ? "0> ACK\n1 reply_end\n" : "");
		pair_finish(&d);
	}
}

/* Every copy of the request is answered from the slot, with the same bytes. */
Test(kept_reply, reply__lost__sent_again_for_each_request)
{
	struct core_pair d;

	start_pair(&d, false);
	d.quiet = true;
	make_call(&d);
	d.lose = lose_all_replies;
	pair_settle(&d);
	pair_pass(&d, 30 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 0);
	cr_assert_geq(lend_core_stats(d.side[1].core)->repeats, 2);
	d.lose = NULL;
	pair_pass(&d, 100 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "at most once");
	pair_finish(&d);
}

/* On a lossless carrier the client's PROBE gets it. */
Test(kept_reply, reply__lost__sent_again_on_probe)
{
	struct core_pair d;

	start_pair(&d, true);
	d.quiet = true;
	make_call(&d);
	d.lose = lose_all_replies;
	pair_settle(&d);
	d.lose = NULL;
	d.quiet = false;
	pair_pass(&d, 30 * MS);
	pair_expect(&d, "0> PROBE\n1> REPLY 0+64 of 64\n0 call_end status 0 ran 1 len 64\n");
	pair_finish(&d);
}

/* The next call of the slot ends the life of the reply: a late copy of its request is dropped. */
Test(kept_reply, next_call__same_slot__forgets_the_reply)
{
	const size_t number_at = offsetof(struct lend_pkt, number);
	struct core_pair d;
	struct pair_dgram copy;

	start_pair(&d, false);
	make_call(&d);
	pair_output(&d, 0);
	copy = d.side[0].wire[0];
	pair_settle(&d);
	make_call(&d);
	pair_output(&d, 0);
	/* The first datagram of the second request is lost; a late copy of the first request takes
	 * its number. */
	memcpy(copy.data + number_at, d.side[0].wire[0].data + number_at, sizeof(uint64_t));
	d.side[0].n = 0;
	pair_pass(&d, 100 * MS);
	pair_forget(&d);
	pair_inject(&d, 1, copy.data, copy.len);
	pair_output(&d, 1);
	pair_expect(&d, "");
	d.quiet = true;
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2);
	pair_finish(&d);
}

Test(kept_reply, cancel__before_it_is_sent__no_reply)
{
	struct core_pair d;
	uint64_t call;

	start_pair(&d, true);
	call = make_call(&d);
	pair_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	pair_output(&d, 0);
	pair_forget(&d);
	pair_deliver(&d, 0);
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1> GONE\n");
	pair_finish(&d);
}

Test(kept_reply, close__before_it_is_sent__no_reply)
{
	struct core_pair d;

	start_pair(&d, true);
	make_call(&d);
	pair_output(&d, 0);
	pair_forget(&d);
	pair_deliver(&d, 0);
	lend_core_disconnect(d.side[1].core, d.side[1].session);
	pair_output(&d, 1);
	pair_expect(&d, "1 request 30\n1 down 1\n1> BYE\n");
	pair_settle(&d);
	pair_finish(&d);
}

/* Replies that the carrier refuses, and later ones of the session, are sent once when it has room.
 */
Test(kept_reply, carrier__full__sent_once_later)
{
	struct core_pair d;

	for (int lossless = 0; lossless < 2; lossless++) {
		start_pair(&d, lossless);
		d.quiet = true;
		for (int i = 0; i < 3; i++) {
			make_call(&d);
			pair_output(&d, 0);
			d.full = pair_full_server;
			pair_deliver(&d, 0);
			pair_output(&d, 1);
			cr_assert_eq(d.side[1].n, 0);
		}
		d.full = NULL;
		pair_pass(&d, MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 3);
		cr_assert_eq(lend_core_stats(d.side[0].core)->rx_dup, 0);
		pair_finish(&d);
	}
}

/* Calls that are more urgent overtake it, for one turn; others do not. */
Test(kept_reply, calls__made_after_it__overtake_if_urgent)
{
	static const struct {
		uint8_t made;
		const char *text;
	} row[] = {{URGENT, "1> REQUEST 0+60 of 60\n1> REPLY 0+64 of 64\n"},
		   {NORMAL, "1> REPLY 0+64 of 64\n1> REQUEST 0+60 of 60\n"},
		   {BULK, "1> REPLY 0+64 of 64\n1> REQUEST 0+60 of 60\n"}};
	struct core_pair d;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		start_pair(&d, true);
		d.on_end = NULL;
		d.on_request = NULL;
		make_call(&d);
		pair_settle(&d);
		pair_forget(&d);
		pair_reply(&d, 0, pair_buf(&d, 1, REPLY, REPLY, REPLY));
		pair_ask(&d, 1, 60, row[i].made, LEND_NEVER);
		pair_turn(&d, 1, 32);
		pair_expect(&d, row[i].text);
		d.quiet = true;
		lend_core_disconnect(d.side[0].core, d.side[0].session);
		pair_settle(&d);
		for (int side = 0; side < 2; side++)
			pair_free(&d, side, d.side[side].ev[LEND_EV_CALL_END].buf);
		pair_close(&d);
	}
}

/* Replies wait in order of class, whatever the order in which they were made. */
Test(kept_reply, replies__of_several_classes__most_urgent_first)
{
	static const uint8_t class[] = {BULK, NORMAL, URGENT, NORMAL, BULK};
	struct core_pair d;
	uint64_t request[5];

	start_pair(&d, true);
	d.quiet = true;
	d.on_request = NULL;
	for (int i = 0; i < 5; i++) {
		pair_request(&d, REQUEST, class[i]);
		pair_settle(&d);
		request[i] = d.side[1].request;
	}
	for (uint32_t i = 0; i < 5; i++) {
		d.side[1].request = request[i];
		pair_reply(&d, 0, pair_buf(&d, 1, 1 + i, 1 + i, REPLY));
	}
	d.quiet = false;
	for (int i = 0; i < 3; i++)
		pair_turn(&d, 1, 2);
	pair_expect(&d, "1> REPLY 0+3 of 3\n1> REPLY 0+2 of 2\n1> REPLY 0+4 of 4\n"
			"1> REPLY 0+1 of 1\n1> REPLY 0+5 of 5\n");
	d.quiet = true;
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 5);
	pair_finish(&d);
}

static void by_coin(struct lend_core_config *c)
{
	c->fast = LEND_FAST_COIN;
	c->inflight = 64;
}

/* Replies of both kinds in one session: all arrive, and the records of the held ones are freed. */
Test(kept_reply, both_kinds__under_loss__each_ends_once)
{
	struct core_pair d;

	pair_begin(&d, false, by_coin);
	d.on_end = check_bytes;
	d.answer = REPLY;
	d.quiet = true;
	for (uint32_t round = 0; round < 200; round++) {
		make_call(&d);
		d.lose = round % 7 == 0 ? lose_all_replies : NULL;
		pair_settle(&d);
		d.lose = NULL;
		pair_pass(&d, 30 * MS);
		cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], round + 1);
	}
	cr_assert_gt(lend_core_stats(d.side[0].core)->acks, 50);
	cr_assert_lt(lend_core_stats(d.side[0].core)->acks, 150);
	pair_finish(&d);
}

/* A CANCEL that was delayed until its slot's next call has run does not drop that call's reply. */
Test(kept_reply, cancel__of_the_slots_last_call__reply_stays)
{
	static struct pair_dgram late;
	struct core_pair d;
	uint64_t handle;

	start_pair(&d, false);
	d.quiet = true;
	handle = make_call(&d);
	pair_output(&d, 0);
	lend_core_cancel(d.side[0].core, handle, 1);
	pair_output(&d, 0);
	late = d.side[0].wire[--d.side[0].n];
	cr_assert_eq(late.data[2], LEND_PKT_CANCEL);
	pair_pass(&d, 50 * MS); /* a second CANCEL frees the slot */
	d.lose = lose_all_replies;
	make_call(&d);
	pair_settle(&d);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 2);
	pair_inject(&d, 1, late.data, late.len);
	d.lose = NULL;
	pair_pass(&d, 1000 * MS);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 2);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 0);
	d.quiet = false;
	pair_finish(&d);
}
