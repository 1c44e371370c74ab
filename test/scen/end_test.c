/* Goal: calls that fail end once, report correctly whether the handler ran, and drain before their
 * slot is used again. Method: two cores, trace text. Covers: src/core/client_call.c,
 * src/core/client_reply.c, src/core/server_call.c */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

#define MS UINT64_C(1000000)

static bool lose_first_of_kind(struct core_pair *d, int from, const struct lend_pkt_view *v,
			       uint32_t nth)
{
	int *kind = d->arg;

	(void)from, (void)nth;
	if (v->head.kind != *kind)
		return false;
	*kind = -1;
	return true;
}

static void one_slot(struct lend_core_config *c)
{
	c->calls = 1;
}

Test(end, a_lost_request_is_repeated_once_the_timer_fires)
{
	struct core_pair d;
	int kind = LEND_PKT_REQUEST;

	pair_open(&d, false);
	pair_up(&d);
	d.lose = lose_first_of_kind;
	d.arg = &kind;
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_expect(&d, "0> REQUEST lost\n");
	pair_pass(&d, 6 * MS);
	pair_expect(&d, "0> REQUEST 0+8 of 8\n1 request 8\n1> ACK\n"); /* of the hole */
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	pair_done(&d);
	pair_pass(&d, 50 * MS);
	pair_close(&d);
}

/* The server learns of a reply's arrival from an acknowledgement, or from a newer call of its slot.
 * Here the acknowledgement is lost, and the newer call ended before it was sent. */
Test(end, reply__slot_used_again__is_acknowledged)
{
	struct core_pair d;
	struct pair_dgram reply;
	struct lend_pkt head;
	uint64_t call;

	pair_open_with(&d, true, one_slot);
	pair_up(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	pair_reply(&d, 0, pair_buf(&d, 1, 3, 3, 1));
	pair_output(&d, 1);
	reply = d.side[1].wire[0];
	pair_settle(&d);
	pair_done(&d);
	d.full = pair_full;
	call = pair_call(&d, 0, 0, LEND_NEVER);
	pair_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	d.full = NULL;
	pair_pass(&d, 50 * MS);
	pair_forget(&d);
	memcpy(&head, reply.data, sizeof(head));
	head.number++;
	memcpy(reply.data, &head, sizeof(head));
	pair_inject(&d, 0, reply.data, reply.len);
	pair_output(&d, 0);
	pair_expect(&d, "0> ACK\n");
	pair_settle(&d);
	pair_close(&d);
}

Test(end, reply__lost__resent_on_probe)
{
	struct core_pair d;
	int kind = LEND_PKT_REPLY;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_settle(&d);
	d.lose = lose_first_of_kind;
	d.arg = &kind;
	pair_reply(&d, 0, pair_buf(&d, 1, 80, 80, 1));
	pair_settle(&d);
	pair_forget(&d);
	pair_pass(&d, 6 * MS);
	pair_expect(&d, "0> REQUEST 0+8 of 8\n1> REPLY 0+80 of 80\n"
			"0 call_end status 0 ran 1 len 80\n0> ACK\n1 reply_end\n");
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "at most once");
	pair_done(&d);
	pair_close(&d);
}

Test(end, a_running_handler_is_asked_about_and_not_run_again)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_forget(&d);
	pair_pass(&d, 17 * MS);
	pair_expect(&d, "0> REQUEST 0+8 of 8\n1> ACK\n0> PROBE\n1> ACK\n");
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	pair_reply(&d, 0, 0);
	pair_settle(&d);
	pair_done(&d);
	pair_pass(&d, 50 * MS);
	pair_close(&d);
}

Test(end, deadline__nothing_sent__ran_no)
{
	struct core_pair d;

	pair_open(&d, false);
	d.lose = pair_lose_all;
	d.side[0].session = pair_connect(&d);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, 3 * MS);
	pair_settle(&d);
	pair_forget(&d);
	pair_pass(&d, 4 * MS);
	pair_expect(&d, "0 call_end status 4 ran 0 len 0\n");
	pair_done(&d);
	pair_close(&d);
}

Test(end, deadline__request_sent__ran_maybe_and_drains)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, 2 * MS);
	pair_settle(&d);
	pair_forget(&d);
	pair_pass(&d, 3 * MS);
	pair_expect(&d, "0 call_end status 4 ran 2 len 0\n0> CANCEL\n1 cancelled\n1> GONE\n");
	pair_done(&d);
	cr_assert_eq(lend_core_request_cancelled(d.side[1].core, d.side[1].request), true);
	pair_reply(&d, 0, pair_buf(&d, 1, 5, 5, 0));
	pair_settle(&d);
	pair_expect(&d, "1 reply_end\n");
	pair_close(&d);
}

Test(end, cancel_overtakes_the_request)
{
	struct core_pair d;
	uint64_t call;

	pair_open(&d, false);
	pair_up(&d);
	call = pair_call(&d, pair_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	pair_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].n, 2);
	/* Swap the two on the wire. */
	pair_inject(&d, 1, d.side[0].wire[1].data, d.side[0].wire[1].len);
	pair_inject(&d, 1, d.side[0].wire[0].data, d.side[0].wire[0].len);
	d.side[0].n = 0;
	pair_settle(&d);
	pair_expect(&d,
		    "0> REQUEST 0+8 of 8\n0 call_end status 1 ran 2 len 0\n0> CANCEL\n1> GONE\n");
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "consumed before it came");
	pair_done(&d);
	pair_close(&d);
}

Test(end, a_slot_is_not_used_again_before_gone)
{
	struct core_pair d;
	uint64_t call[8], more;
	struct lend_core_call c = {.method = 1, .deadline = LEND_NEVER};
	int kind = LEND_PKT_GONE;

	pair_open(&d, false);
	pair_up(&d);
	for (int i = 0; i < 8; i++)
		call[i] = pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	cr_assert_eq(pair_try(&d, 0, &c, &more), -11);
	d.lose = lose_first_of_kind;
	d.arg = &kind;
	lend_core_cancel(d.side[0].core, call[3], 1);
	pair_settle(&d);
	cr_assert_eq(pair_try(&d, 0, &c, &more), -11, "GONE was lost");
	pair_pass(&d, 8 * MS);
	cr_assert_eq(pair_try(&d, 0, &c, &more), 0, "CANCEL again, GONE again");
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	pair_settle(&d);
	pair_close(&d);
}

Test(end, need__refused__handler_did_not_run)
{
	struct core_pair d;

	pair_start(&d, false, NULL);
	d.side[1].refuse = true;
	pair_call(&d, pair_buf(&d, 0, 200000, 200000, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_pass(&d, 50 * MS);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0);
	pair_done(&d);
	pair_close(&d);
}

Test(end, nothing_past_the_first_credit_comes_before_need_is_answered)
{
	struct core_pair d;
	uint64_t call;

	pair_start(&d, false, NULL);
	d.side[1].hold_need = true;
	call = pair_call(&d, pair_buf(&d, 0, 1000000, 1000000, 1), 0, LEND_NEVER);
	pair_settle(&d);
	pair_pass(&d, 300 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_NEED], 1);
	cr_assert_leq(d.side[0].sent_bytes, 80000, "%u bytes", d.side[0].sent_bytes);
	lend_core_cancel(d.side[0].core, call, 1);
	pair_settle(&d);
	pair_done(&d);
	pair_close(&d);
}

Test(end, reply__longer_than_memory__refused_with_its_length)
{
	static const uint32_t len[] = {100, 5000};

	for (int i = 0; i < 2; i++) {
		struct core_pair d;

		pair_start(&d, false, NULL);
		pair_call(&d, 0, pair_buf(&d, 0, 99, 0, 0), LEND_NEVER);
		pair_settle(&d);
		pair_reply(&d, 0, pair_buf(&d, 1, len[i], len[i], 0));
		pair_settle(&d);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 1);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].len, len[i]);
		pair_done(&d);
		pair_pass(&d, 600 * MS);
		pair_close(&d);
	}
}

static bool lose_words_about_calls(struct core_pair *d, int from, const struct lend_pkt_view *v,
				   uint32_t nth)
{
	(void)d, (void)nth;
	return from == 0 && v->head.call != 0;
}

/* The refusal acknowledges all that the server may send; the rest would never be granted. */
Test(end, reply__refused__ends_whatever_is_lost)
{
	struct core_pair d;

	pair_start(&d, false, NULL);
	pair_call(&d, 0, pair_buf(&d, 0, 99, 0, 0), LEND_NEVER);
	pair_settle(&d);
	d.lose = lose_words_about_calls;
	pair_reply(&d, 0, pair_buf(&d, 1, 100000, 100000, 0));
	pair_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
	pair_done(&d);
	pair_pass(&d, 1200 * MS);
	d.lose = NULL;
	pair_pass(&d, 1200 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	pair_close(&d);
}

Test(end, a_message_longer_than_the_limit_is_not_sent)
{
	struct core_pair d;
	struct lend_core_call c = {.method = 1, .deadline = LEND_NEVER};
	uint64_t h;

	pair_open(&d, false);
	pair_up(&d);
	c.request = pair_buf(&d, 0, PAIR_BIG + 1, PAIR_BIG + 1, 0);
	cr_assert_eq(pair_try(&d, 0, &c, &h), -90);
	pair_free(&d, 0, c.request);
	pair_close(&d);
}

Test(end, reply__any_kind__ends_once)
{
	struct core_pair d;

	pair_open(&d, false);
	pair_up(&d);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	pair_reply(&d, 12 | LEND_REPLY_NOT_RUN, 0);
	pair_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 12);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	pair_pass(&d, 50 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	pair_close(&d);
}
