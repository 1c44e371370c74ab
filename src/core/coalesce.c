#include "core/coalesce.h"

#include "core/loss.h"

/* Moves the last datagram before those of less urgent classes that are not late. */
__attribute__((noinline)) void lend_coalesce_sort(struct lend_core *c, uint8_t class)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t at = c->coalesced_n - 1;
	uint8_t i = a->order[at];

	if (c->cfg.order == LEND_ORDER_FIFO)
		return;
	for (; at > a->coalesced_late && lend_coalesced_at(c, a->order[at - 1])->class > class;
	     at--)
		a->order[at] = a->order[at - 1];
	a->order[at] = i;
}

__attribute__((noinline)) struct lend_coalesced *
lend_coalesce_report(struct lend_core *c, struct lend_sess *s, struct lend_coalesced *d)
{
	uint32_t len;

	d->acks = s->ack_due;
	len = lend_make_report_once(c, s, &d->head, d->start);
	d->start += len;
	d->at += len;
	d->end += len;
	return d;
}

static struct lend_pkt_frame *frame_at(struct lend_coalesced *d, uint32_t at)
{
	return (struct lend_pkt_frame *)(void *)(d->bytes + at);
}

static bool withdraw_from(struct lend_coalesced *d, uint32_t call, uint32_t served)
{
	for (uint32_t at = d->start; at < d->at;) {
		struct lend_pkt_frame *f = frame_at(d, at);

		if (f->call == call && (f->flags & LEND_PKT_SERVED) == served) {
			f->call = 0;
			d->withdrawn++;
			return true;
		}
		at += lend_pkt_frame_len(f->length);
	}
	return false;
}

bool lend_coalesce_withdraw(struct lend_core *c, const struct lend_sess *s, uint32_t call,
			    uint32_t served)
{
	const struct lend_unhashed *a = lend_unhashed(c);

	for (uint32_t i = 0; i < c->coalesced_n; i++) {
		struct lend_coalesced *d = lend_coalesced_at(c, a->order[i]);

		if (d->id == s->id && withdraw_from(d, call, served))
			return true;
	}
	return false;
}

void lend_coalesce_cut(struct lend_core *c, const struct lend_sess *s)
{
	for (uint32_t i = 0; i < c->coalesced_n; i++) {
		struct lend_coalesced *d = lend_coalesced_at(c, lend_unhashed(c)->order[i]);

		if (d->id == s->id)
			d->id = 0;
	}
}

/* Sets the times in the frames to the time of sending. */
static __attribute__((noinline)) void settle_times(const struct lend_core *c,
						   struct lend_coalesced *d)
{
	lend_ns passed = c->now - d->begun;
	uint32_t us = (uint32_t)lend_min_u64(passed / LEND_US, UINT32_MAX);

	for (uint32_t at = d->start; at < d->at;) {
		struct lend_pkt_frame *f = frame_at(d, at);
		uint32_t *left = &f->request.left_us, *delay = &f->reply.delay_ns;

		if (!(f->flags & LEND_PKT_SERVED) && *left != UINT32_MAX)
			*left -= lend_min_u32(*left, us);
		else if (f->flags & LEND_PKT_SERVED && *delay != UINT32_MAX)
			*delay = (uint32_t)lend_min_u64(*delay + passed, UINT32_MAX);
		at += lend_pkt_frame_len(f->length);
	}
	d->begun = c->now;
}

/* Has the result of a datagram that an earlier output left behind noted if its session is blocked.
 */
static __attribute__((noinline)) void
watch_late(struct lend_core *c, const struct lend_coalesced *d, struct lend_out_rec *rec)
{
	if (!lend_sess_at(c, d->id & LEND_INDEX_MASK)->blocked[d->fast])
		return;
	rec->news = 1;
	lend_unhashed(c)->news = 1;
}

/* Hands out a datagram. Returns 1; 0: its session has ended, or its messages were withdrawn. Of its
 * record, only these fields are set: output_result.c adds the others when it needs them. */
LEND_HOT uint32_t emit_datagram(struct lend_core *c, uint32_t i, struct lend_out *out,
				struct lend_out_rec *rec, bool late)
{
	struct lend_coalesced *d = lend_coalesced_at(c, i);

	if (d->id == 0 || d->withdrawn == d->frames)
		return 0;
	if (d->begun != c->now)
		settle_times(c, d);
	d->head.pkt.length = d->at - d->start;
	rec->ctl.call = i;
	rec->ctl.kind = LEND_PKT_CALLS;
	rec->news = 0;
	if (late)
		watch_late(c, d, rec);
	out->head = &d->head;
	out->tail = NULL;
	out->peer = d->peer;
	out->sess = (uint32_t)(d->id & LEND_INDEX_MASK);
	out->lengths = d->at; /* no tail, no piece */
	out->rank = d->rank;
	return 1;
}
_Static_assert(LEND_COALESCED_MAX <= UINT16_MAX, "lend_out.head_len");

/* Takes the entries that were sent off the list. None of the others gets more frames: a frame that
 * is added later could be of a slot that the peer knows from a datagram with a larger number, and
 * would count as an old copy. */
static void finish_sending(struct lend_core *c, struct lend_unhashed *a, uint32_t sent)
{
	c->coalesced_n -= sent;
	a->coalesced_late = c->coalesced_n;
	a->coalesced_last = 0;
	if (c->coalesced_n)
		memmove(a->order, a->order + sent, c->coalesced_n);
	a->coalesced_open = a->coalesced_next;
}

void lend_coalesce_end(struct lend_core *c)
{
	struct lend_unhashed *a = lend_unhashed(c);

	if (c->coalesced_n == 0)
		a->coalesced_open = a->coalesced_next = 0;
}

LEND_HOT uint32_t send_waiting(struct lend_core *c, struct lend_unhashed *a, struct lend_out *out,
			       struct lend_out_rec *rec, uint32_t cap)
{
	uint32_t i, n = 0, end = c->coalesced_n;
	bool late = a->coalesced_late;

	for (i = 0; i < end && n < cap; i++)
		n += emit_datagram(c, a->order[i], out + n, rec + n, late);
	finish_sending(c, a, i);
	return n;
}

uint32_t lend_coalesce_send(struct lend_core *c, struct lend_out *out, struct lend_out_rec *rec,
			    uint32_t cap)
{
	return send_waiting(c, lend_unhashed(c), out, rec, cap);
}

uint32_t lend_coalesce_send_only(struct lend_core *c, struct lend_out *out, uint32_t cap)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t n;

	a->news = 0;
	n = send_waiting(c, a, out, a->out, cap);
	lend_coalesce_end(c);
	a->stats.tx += n;
	return n;
}
