/* core_pair_calls - calls and answers of both sides, and a pair of which only one side calls. Part
 * of pair.h. Layer: test. */
#include <criterion/criterion.h>
#include <string.h>

#include "scen/core_pair.h"

int pair_try(struct core_pair *d, int side, const struct lend_core_call *call, uint64_t *handle)
{
	struct pair_side *s = &d->side[side];

	return lend_core_call(s->core, d->now, s->session, &s->bufs, call, handle);
}

uint64_t pair_call(struct core_pair *d, uint32_t request, uint32_t reply, lend_ns timeout)
{
	struct lend_core_call call = {.method = 9,
				      .deadline =
					  timeout == LEND_NEVER ? LEND_NEVER : d->now + timeout,
				      .request = request,
				      .reply = reply,
				      .tag = 5};
	uint64_t handle;

	cr_assert_eq(pair_try(d, 0, &call, &handle), 0);
	return handle;
}

uint64_t pair_ask(struct core_pair *d, int side, uint32_t len, uint8_t class, lend_ns timeout)
{
	struct lend_core_call call = {.method = 9,
				      .class = class,
				      .deadline =
					  timeout == LEND_NEVER ? LEND_NEVER : d->now + timeout,
				      .request = pair_buf(d, side, len, len, len)};
	uint64_t handle;

	cr_assert_eq(pair_try(d, side, &call, &handle), 0);
	return handle;
}

void pair_reply(struct core_pair *d, uint8_t status, uint32_t buf)
{
	struct pair_side *s = &d->side[1];
	const struct lend_seg *seg = &s->bufs.seg[buf];

	if (!seg->next && lend_core_reply_short(s->core, d->now, s->request, status, seg->data,
						buf ? seg->len : 0) == 0) {
		s->count[LEND_EV_REPLY_END]++;
		pair_free(d, 1, buf);
		return;
	}
	cr_assert_eq(lend_core_reply(s->core, d->now, s->request, &s->bufs, status, buf), 0);
}

void pair_give_at_end(struct core_pair *d, const struct lend_event *e)
{
	pair_free(d, 0, e->buf);
	pair_free(d, 0, e->reply);
}

void pair_done(struct core_pair *d)
{
	struct lend_event *e = &d->side[0].ev[LEND_EV_CALL_END];

	pair_give_at_end(d, e);
	memset(e, 0, sizeof(*e));
}

void pair_answer(struct core_pair *d, const struct lend_event *e)
{
	const uint32_t n = d->answer;

	pair_free(d, 1, e->buf);
	d->side[1].request_buf = 0;
	pair_reply(d, 0, n ? pair_buf(d, 1, n, n, n) : 0);
}

void pair_begin(struct core_pair *d, bool lossless, void (*tweak)(struct lend_core_config *))
{
	pair_start(d, lossless, tweak);
	d->on_end = pair_give_at_end;
	d->on_request = pair_answer;
	d->quiet = false;
}

void pair_finish(struct core_pair *d)
{
	const uint32_t *served = d->side[1].count;

	d->quiet = true;
	d->full = NULL;
	pair_pass(d, 300000000);
	cr_assert_eq(served[LEND_EV_REQUEST], served[LEND_EV_REPLY_END]);
	pair_close(d);
}
