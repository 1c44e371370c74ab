/* duo_calls - how both sides call and answer, and a pair of which one only calls. Part of duo.h.
 * Layer: test. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/duo.h"

int duo_try(struct duo *d, int side, const struct lend_core_call *call, uint64_t *handle)
{
	struct duo_side *s = &d->side[side];

	return lend_core_call(s->core, d->now, s->session, &s->bufs, call, handle);
}

uint64_t duo_call(struct duo *d, uint32_t request, uint32_t reply, lend_ns timeout)
{
	struct lend_core_call call = {.method = 9,
				      .deadline =
					  timeout == LEND_NEVER ? LEND_NEVER : d->now + timeout,
				      .request = request,
				      .reply = reply,
				      .tag = 5};
	uint64_t handle;

	cr_assert_eq(duo_try(d, 0, &call, &handle), 0);
	return handle;
}

uint64_t duo_ask(struct duo *d, int side, uint32_t len, uint8_t class, lend_ns timeout)
{
	struct lend_core_call call = {.method = 9,
				      .class = class,
				      .deadline =
					  timeout == LEND_NEVER ? LEND_NEVER : d->now + timeout,
				      .request = duo_buf(d, side, len, len, len)};
	uint64_t handle;

	cr_assert_eq(duo_try(d, side, &call, &handle), 0);
	return handle;
}

void duo_reply(struct duo *d, uint8_t status, uint32_t buf)
{
	struct duo_side *s = &d->side[1];

	cr_assert_eq(lend_core_reply(s->core, d->now, s->request, &s->bufs, status, buf), 0);
}

void duo_give_at_end(struct duo *d, const struct lend_event *e)
{
	duo_free(d, 0, e->buf);
	duo_free(d, 0, e->reply);
}

void duo_done(struct duo *d)
{
	struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	duo_give_at_end(d, e);
	memset(e, 0, sizeof(*e));
}

void duo_answer(struct duo *d, const struct lend_event *e)
{
	const uint32_t n = d->answer;

	duo_free(d, 1, e->buf);
	d->side[1].request_buf = 0;
	duo_reply(d, 0, n ? duo_buf(d, 1, n, n, n) : 0);
}

void duo_begin(struct duo *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	duo_start(d, lossless, tweak);
	d->on_end = duo_give_at_end;
	d->on_request = duo_answer;
	d->quiet = false;
}

void duo_finish(struct duo *d)
{
	const uint32_t *served = d->side[1].count;

	d->quiet = true;
	d->full = NULL;
	duo_pass(d, 300000000);
	cr_assert_eq(served[LEND_EV_REQUEST], served[LEND_EV_REPLY_END]);
	duo_close(d);
}
