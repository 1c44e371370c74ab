/* Goal: calls that do not end well end once, say honestly whether the handler ran, and drain before
 * their slot is used again. Method: two cores, trace text. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/duo.h"

#define MS UINT64_C(1000000)

static bool lose_first_of_kind(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth)
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
	struct duo d;
	int kind = LEND_PKT_REQUEST;

	duo_open(&d, false);
	duo_up(&d);
	d.lose = lose_first_of_kind;
	d.arg = &kind;
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_expect(&d, "0> REQUEST lost\n");
	duo_pass(&d, 6 * MS);
	duo_expect(&d, "0> REQUEST 0+8 of 8\n1 request 8\n");
	duo_reply(&d, 0, 0);
	duo_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	duo_done(&d);
	duo_pass(&d, 50 * MS);
	duo_close(&d);
}

/* The server learns that a reply is known from an acknowledgement, or from a newer call of its
 * slot. Here the first is lost, and the second ended before it was sent. */
Test(end, an_old_reply_is_acknowledged_though_its_slot_was_used_again)
{
	struct duo d;
	struct duo_dgram reply;
	struct lend_pkt head;
	uint64_t call;

	duo_open_with(&d, true, one_slot);
	duo_up(&d);
	duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	duo_reply(&d, 0, duo_buf(&d, 1, 3, 3, 1));
	duo_output(&d, 1);
	reply = d.side[1].wire[0];
	duo_settle(&d);
	duo_done(&d);
	d.full = duo_full;
	call = duo_call(&d, 0, 0, LEND_NEVER);
	duo_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	d.full = NULL;
	duo_pass(&d, 50 * MS);
	duo_forget(&d);
	memcpy(&head, reply.data, sizeof(head));
	head.number++;
	memcpy(reply.data, &head, sizeof(head));
	duo_inject(&d, 0, reply.data, reply.len);
	duo_output(&d, 0);
	duo_expect(&d, "0> ACK\n");
	duo_settle(&d);
	duo_close(&d);
}

Test(end, a_lost_reply_is_repeated_when_the_client_asks)
{
	struct duo d;
	int kind = LEND_PKT_REPLY;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_settle(&d);
	d.lose = lose_first_of_kind;
	d.arg = &kind;
	duo_reply(&d, 0, duo_buf(&d, 1, 3, 3, 1));
	duo_settle(&d);
	duo_forget(&d);
	duo_pass(&d, 6 * MS);
	duo_expect(&d, "0> REQUEST 0+8 of 8\n1> REPLY 0+3 of 3\n"
		       "0 call_end status 0 ran 1 len 3\n");
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "at most once");
	duo_pass(&d, 20 * MS);
	duo_expect(&d, "0> ACK\n1 reply_end\n");
	duo_done(&d);
	duo_close(&d);
}

Test(end, a_running_handler_is_asked_about_and_not_run_again)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_forget(&d);
	duo_pass(&d, 17 * MS);
	duo_expect(&d, "0> REQUEST 0+8 of 8\n1> ACK\n0> PROBE\n1> ACK\n");
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	duo_reply(&d, 0, 0);
	duo_settle(&d);
	duo_done(&d);
	duo_pass(&d, 50 * MS);
	duo_close(&d);
}

Test(end, a_deadline_before_any_byte_left_says_not_run)
{
	struct duo d;

	duo_open(&d, false);
	d.lose = duo_lose_all;
	d.side[0].session = duo_connect(&d);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, 3 * MS);
	duo_settle(&d);
	duo_forget(&d);
	duo_pass(&d, 4 * MS);
	duo_expect(&d, "0 call_end status 4 ran 0 len 0\n");
	duo_done(&d);
	duo_close(&d);
}

Test(end, a_deadline_after_the_request_left_says_maybe_and_drains)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, 2 * MS);
	duo_settle(&d);
	duo_forget(&d);
	duo_pass(&d, 3 * MS);
	duo_expect(&d, "0 call_end status 4 ran 2 len 0\n0> CANCEL\n1 cancelled\n1> GONE\n");
	duo_done(&d);
	cr_assert_eq(lend_core_request_cancelled(d.side[1].core, d.side[1].request), true);
	duo_reply(&d, 0, duo_buf(&d, 1, 5, 5, 0));
	duo_settle(&d);
	duo_expect(&d, "1 reply_end\n");
	duo_close(&d);
}

Test(end, cancel_overtakes_the_request)
{
	struct duo d;
	uint64_t call;

	duo_open(&d, false);
	duo_up(&d);
	call = duo_call(&d, duo_buf(&d, 0, 8, 8, 1), 0, LEND_NEVER);
	duo_output(&d, 0);
	lend_core_cancel(d.side[0].core, call, 1);
	duo_output(&d, 0);
	cr_assert_eq(d.side[0].n, 2);
	/* Swap the two on the wire. */
	duo_inject(&d, 1, d.side[0].wire[1].data, d.side[0].wire[1].len);
	duo_inject(&d, 1, d.side[0].wire[0].data, d.side[0].wire[0].len);
	d.side[0].n = 0;
	duo_settle(&d);
	duo_expect(&d,
		   "0> REQUEST 0+8 of 8\n0 call_end status 1 ran 2 len 0\n0> CANCEL\n1> GONE\n");
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0, "consumed before it came");
	duo_done(&d);
	duo_close(&d);
}

Test(end, a_slot_is_not_used_again_before_gone)
{
	struct duo d;
	uint64_t call[8], more;
	struct lend_core_call c = {.method = 1, .deadline = LEND_NEVER};
	int kind = LEND_PKT_GONE;

	duo_open(&d, false);
	duo_up(&d);
	for (int i = 0; i < 8; i++)
		call[i] = duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	cr_assert_eq(duo_try(&d, 0, &c, &more), -11);
	d.lose = lose_first_of_kind;
	d.arg = &kind;
	lend_core_cancel(d.side[0].core, call[3], 1);
	duo_settle(&d);
	cr_assert_eq(duo_try(&d, 0, &c, &more), -11, "GONE was lost");
	duo_pass(&d, 8 * MS);
	cr_assert_eq(duo_try(&d, 0, &c, &more), 0, "CANCEL again, GONE again");
	lend_core_disconnect(d.side[0].core, d.side[0].session);
	duo_settle(&d);
	duo_close(&d);
}

Test(end, need_refused_is_told_and_the_handler_did_not_run)
{
	struct duo d;

	duo_start(&d, false, NULL);
	d.side[1].refuse = true;
	duo_call(&d, duo_buf(&d, 0, 200000, 200000, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_pass(&d, 50 * MS);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0);
	duo_done(&d);
	duo_close(&d);
}

Test(end, nothing_past_the_first_credit_comes_before_need_is_answered)
{
	struct duo d;
	uint64_t call;

	duo_start(&d, false, NULL);
	d.side[1].hold_need = true;
	call = duo_call(&d, duo_buf(&d, 0, 1000000, 1000000, 1), 0, LEND_NEVER);
	duo_settle(&d);
	duo_pass(&d, 300 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_NEED], 1);
	cr_assert_leq(d.side[0].sent_bytes, 80000, "%u bytes", d.side[0].sent_bytes);
	lend_core_cancel(d.side[0].core, call, 1);
	duo_settle(&d);
	duo_done(&d);
	duo_close(&d);
}

Test(end, a_reply_longer_than_its_memory_is_refused_and_its_length_told)
{
	static const uint32_t len[] = {100, 5000};

	for (int i = 0; i < 2; i++) {
		struct duo d;

		duo_start(&d, false, NULL);
		duo_call(&d, 0, duo_buf(&d, 0, 99, 0, 0), LEND_NEVER);
		duo_settle(&d);
		duo_reply(&d, 0, duo_buf(&d, 1, len[i], len[i], 0));
		duo_settle(&d);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 1);
		cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].len, len[i]);
		duo_done(&d);
		duo_pass(&d, 600 * MS);
		duo_close(&d);
	}
}

static bool lose_words_about_calls(struct duo *d, int from, const struct lend_pkt_view *v,
				   uint32_t nth)
{
	(void)d, (void)nth;
	return from == 0 && v->head.call != 0;
}

/* What the server may send was seen, and for the rest it would wait for ever. */
Test(end, a_reply_that_was_refused_ends_at_the_server_whatever_is_lost)
{
	struct duo d;

	duo_start(&d, false, NULL);
	duo_call(&d, 0, duo_buf(&d, 0, 99, 0, 0), LEND_NEVER);
	duo_settle(&d);
	d.lose = lose_words_about_calls;
	duo_reply(&d, 0, duo_buf(&d, 1, 100000, 100000, 0));
	duo_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 8);
	duo_done(&d);
	duo_pass(&d, 1200 * MS);
	d.lose = NULL;
	duo_pass(&d, 1200 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	duo_close(&d);
}

Test(end, a_message_longer_than_the_limit_is_not_sent)
{
	struct duo d;
	struct lend_core_call c = {.method = 1, .deadline = LEND_NEVER};
	uint64_t h;

	duo_open(&d, false);
	duo_up(&d);
	c.request = duo_buf(&d, 0, DUO_BIG + 1, DUO_BIG + 1, 0);
	cr_assert_eq(duo_try(&d, 0, &c, &h), -90);
	duo_free(&d, 0, c.request);
	duo_close(&d);
}

Test(end, every_reply_ends_once_also_one_that_says_not_run)
{
	struct duo d;

	duo_open(&d, false);
	duo_up(&d);
	duo_call(&d, 0, 0, LEND_NEVER);
	duo_settle(&d);
	duo_reply(&d, 12 | LEND_REPLY_NOT_RUN, 0);
	duo_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, 12);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	duo_pass(&d, 50 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1);
	duo_close(&d);
}
