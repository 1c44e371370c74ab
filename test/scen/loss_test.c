/* Goal: no pattern of loss keeps a call from ending well. Method: every set of lost datagrams among
 * the first twelve between two cores, both ways together, from CONNECT on; then the network heals.
 * Calls of one fragment, of eight, and with replies of eight, named and pooled. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/duo.h"

#define MS UINT64_C(1000000)

enum { FATES = 12, ONE = 8, EIGHT = 8 * 1376 };

static bool by_mask(struct duo *d, int from, const struct lend_pkt_view *v, uint32_t nth)
{
	const uint32_t *mask = d->arg;

	(void)from, (void)v;
	return nth < FATES && *mask >> nth & 1;
}

static void give_back_at_end(struct duo *d, const struct lend_event *e)
{
	cr_assert_eq(e->status, 0);
	cr_assert_eq(e->ran, 1);
	duo_free(d, 0, e->buf);
	duo_free(d, 0, e->reply);
}

struct shape {
	uint32_t len, reply;
	bool named;
};

static void answer(struct duo *d, const struct shape *s)
{
	struct duo_side *server = &d->side[1];

	if (server->request_buf) {
		cr_assert(duo_same(d, 1, server->request_buf, s->len, 3));
		duo_free(d, 1, server->request_buf);
		server->request_buf = 0;
	}
	duo_reply(d, 0, duo_buf(d, 1, s->reply, s->reply, 4));
	server->request = 0;
}

/* The masks apply from the CONNECT on, or once the session is up. */
static void run(const struct shape *s, uint32_t mask, bool connected)
{
	struct duo d;

	duo_open(&d, false);
	d.quiet = true;
	d.on_end = give_back_at_end;
	d.side[0].session = duo_connect(&d);
	if (connected)
		duo_settle(&d);
	d.arg = &mask;
	d.lose = by_mask;
	duo_call(&d, duo_buf(&d, 0, s->len, s->len, 3),
		 s->named ? duo_buf(&d, 0, s->reply, 0, 0) : 0, LEND_NEVER);
	duo_settle(&d);
	for (int i = 0; i < 400 && d.side[0].count[LEND_EV_CALL_END] == 0; i++) {
		if (d.side[1].request)
			answer(&d, s);
		duo_settle(&d);
		duo_pass(&d, 5 * MS);
	}
	cr_assert_eq(d.side[0].count[LEND_EV_CALL_END], 1, "mask %03x len %u reply %u: no end",
		     mask, s->len, s->reply);
	cr_assert_eq(d.side[1].count[LEND_EV_REQUEST], 1, "mask %03x ran %u times", mask,
		     d.side[1].count[LEND_EV_REQUEST]);
	duo_pass(&d, 4000 * MS);
	cr_assert_eq(d.side[1].count[LEND_EV_REPLY_END], 1, "mask %03x: the reply is held", mask);
	cr_assert_eq(d.side[0].count[LEND_EV_SESSION_DOWN], 0);
	duo_close(&d);
}

static void all_masks(struct shape s)
{
	for (uint32_t mask = 0; mask < 1u << FATES; mask++) {
		if (s.reply == ONE)
			run(&s, mask, false);
		run(&s, mask, true);
	}
}

Test(loss, every_pattern_on_a_call_of_one_fragment)
{
	all_masks((struct shape){ONE, ONE, false});
}

Test(loss, every_pattern_on_a_request_of_eight_fragments)
{
	all_masks((struct shape){EIGHT, ONE, false});
}

Test(loss, every_pattern_on_a_reply_of_eight_fragments)
{
	all_masks((struct shape){ONE, EIGHT, false});
}

Test(loss, every_pattern_on_a_reply_into_named_memory)
{
	all_masks((struct shape){ONE, EIGHT, true});
}
