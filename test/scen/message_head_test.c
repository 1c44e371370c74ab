/* Goal: whether a message begins with a head is known at the other end, however its datagrams
 * arrive; no head goes to a peer that reads none; and datagrams of one message agree about it.
 * Method: two cores; a handshake changed on the wire; a forged fragment. Covers:
 * src/core/client_call.c, src/core/server_reply.c, src/core/rx.c, src/core/handshake.c */
#include <criterion/criterion.h>
#include <stddef.h>

#include "scen/core_pair.h"
#include "wire/head.h"

enum { NORMAL = 3, WITH_HEAD = NORMAL | LEND_CALL_HEAD, UNIMPLEMENTED = 12 };
#define MS UINT64_C(1000000)
/* Lengths of one datagram, of several, and of a message that waits for memory. */
static const uint32_t lengths[] = {4, 60, 1200, 5000, 200000};

static int call_with_head(struct core_pair *d, uint32_t len, uint64_t *handle)
{
	struct lend_core_call call = {
	    .class = WITH_HEAD, .deadline = LEND_NEVER, .request = pair_buf(d, 0, len, len, 1)};
	int rc = pair_try(d, 0, &call, handle);

	if (rc < 0)
		pair_free(d, 0, call.request);
	return rc;
}

static void answer_with_head(struct core_pair *d, uint32_t len)
{
	struct pair_side *s = &d->side[1];

	pair_free(d, 1, s->request_buf);
	cr_assert_eq(lend_core_reply(s->core, d->now, s->request, &s->bufs, LEND_REPLY_HEAD,
				     pair_buf(d, 1, len, len, 2)),
		     0);
}

/* One datagram in five is lost. */
static bool lose_some(struct core_pair *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	(void)d, (void)from, (void)v;
	return nth % 5 == 2;
}

static void run_call(struct core_pair *d, uint32_t len)
{
	const struct pair_side *s = d->side;
	uint64_t handle;
	uint32_t n = s[1].count[LEND_EV_REQUEST];

	cr_assert_eq(call_with_head(d, len, &handle), 0);
	pair_settle(d);
	pair_pass(d, 2000 * MS);
	cr_assert_eq(s[1].count[LEND_EV_REQUEST], n + 1, "%u bytes", len);
	cr_assert(s[1].ev[LEND_EV_REQUEST].head, "%u bytes", len);
	answer_with_head(d, len);
	pair_settle(d);
	pair_pass(d, 2000 * MS);
	cr_assert_eq(s[0].count[LEND_EV_CALL_END], n + 1, "%u bytes", len);
	cr_assert(s[0].ev[LEND_EV_CALL_END].head, "%u bytes", len);
	cr_assert_eq(s[0].ev[LEND_EV_CALL_END].len, len);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(s[i].ev[LEND_EV_NEED].head, len > 65536);
}

Test(message_head, both_directions__each_length__with_and_without_loss)
{
	for (int lossy = 0; lossy < 2; lossy++) {
		struct core_pair d;

		pair_start(&d, false, NULL);
		d.on_end = pair_give_at_end;
		d.lose = lossy ? lose_some : NULL;
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			run_call(&d, lengths[i]);
		/* and none without */
		pair_call(&d, pair_buf(&d, 0, 10, 10, 1), 0, LEND_NEVER);
		pair_pass(&d, 2000 * MS);
		cr_assert_not(d.side[1].ev[LEND_EV_REQUEST].head);
		pair_reply(&d, 0, 0);
		pair_pass(&d, 2000 * MS);
		cr_assert_not(d.side[0].ev[LEND_EV_CALL_END].head);
		d.lose = NULL;
		pair_finish(&d);
	}
}

/* Connects; the datagrams of the handshake that `without` names have no features. */
static void connect_without(struct core_pair *d, unsigned without)
{
	size_t at = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_connect, features);

	cr_assert_eq(offsetof(struct lend_pkt_connect, features),
		     offsetof(struct lend_pkt_accept, features));
	pair_open(d, true);
	d->on_end = pair_give_at_end;
	d->side[0].session = pair_connect(d);
	for (int side = 0; side < 2; side++) {
		pair_output(d, side);
		cr_assert_eq(d->side[side].n, 1);
		cr_assert_eq(d->side[side].wire[0].data[at],
			     (LEND_FEATURE_REPLY_HEADS | LEND_FEATURE_REQUEST_HEADS |
			      LEND_FEATURE_RUNNING | LEND_FEATURE_LATE));
		if (without & 1u << side)
			d->side[side].wire[0].data[at] = 0;
		if (side == 0)
			pair_deliver(d, side);
	}
}

Test(message_head, server_without_heads__the_call_does_not_run)
{
	struct core_pair d;
	uint64_t handle;

	connect_without(&d, 2);
	cr_assert_eq(call_with_head(&d, 100, &handle), 0, "not known yet");
	pair_settle(&d);
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].status, UNIMPLEMENTED);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].ran, 0);
	cr_assert_eq(call_with_head(&d, 100, &handle), -95);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0);
	pair_finish(&d);
}

Test(message_head, client_without_heads__the_reply_is_refused)
{
	struct core_pair d;
	uint32_t buf;

	connect_without(&d, 1);
	pair_call(&d, 0, 0, LEND_NEVER);
	pair_settle(&d);
	buf = pair_buf(&d, 1, 10, 10, 2);
	cr_assert_eq(lend_core_reply(d.side[1].core, d.now, d.side[1].request, &d.side[1].bufs,
				     LEND_REPLY_HEAD, buf),
		     -95);
	pair_reply(&d, 0, buf);
	pair_settle(&d);
	cr_assert_eq(d.side[0].ev[LEND_EV_CALL_END].len, 10);
	pair_finish(&d);
}

/* The second of four fragments has another head flag: it is dropped, and sent again. */
Test(message_head, a_fragment_that_disagrees_is_dropped)
{
	struct core_pair d;
	uint64_t handle, dropped;
	uint8_t *flags;

	pair_start(&d, true, NULL);
	d.on_end = pair_give_at_end;
	dropped = lend_core_stats(d.side[1].core)->rx_length;
	cr_assert_eq(call_with_head(&d, 5000, &handle), 0);
	pair_output(&d, 0);
	cr_assert_eq(d.side[0].n, 4);
	flags = &d.side[0].wire[1].data[offsetof(struct lend_pkt, flags)];
	cr_assert_eq(*flags & LEND_PKT_WITH_HEAD, LEND_PKT_WITH_HEAD);
	*flags &= (uint8_t)~LEND_PKT_WITH_HEAD;
	pair_settle(&d);
	cr_assert_eq(lend_core_stats(d.side[1].core)->rx_length, dropped + 1);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 0);
	pair_pass(&d, 2000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1);
	cr_assert(d.side[1].ev[LEND_EV_REQUEST].head);
	answer_with_head(&d, 10);
	pair_pass(&d, 2000 * MS);
	pair_finish(&d);
}
