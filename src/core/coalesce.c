#include "core/coalesce.h"

#include "core/loss.h"

/* Moves the last datagram before those of less urgent classes that are not late. */
static __attribute__((noinline)) void sort_last(struct lend_core *c, uint8_t class)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t at = c->coalesced_n - 1;
	uint8_t i = a->order[at];

	for (; at > a->coalesced_late && lend_coalesced_at(c, a->order[at - 1])->class > class;
	     at--)
		a->order[at] = a->order[at - 1];
	a->order[at] = i;
}

/* Inserts the datagram behind late ones, those of its class and of more urgent ones. */
LEND_HOT void insert_in_order(struct lend_core *c, uint32_t i, uint8_t class)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t n = c->coalesced_n++;

	a->order[n] = (uint8_t)i;
	if (n > a->coalesced_late && c->cfg.order != LEND_ORDER_FIFO &&
	    lend_coalesced_at(c, a->order[n - 1])->class > class)
		sort_last(c, class);
}

/* Returns a free entry; LEND_NONE: there is none. The entries of the last output() are free, too,
 * once no datagram waits. */
static uint32_t take_entry(struct lend_core *c)
{
	struct lend_unhashed *a = lend_unhashed(c);

	if (c->coalesced_n == 0)
		a->coalesced_next = 0;
	return a->coalesced_next < c->coalesced_cap ? a->coalesced_next++ : LEND_NONE;
}

/* Puts the report that is due before the first frame. */
static __attribute__((noinline)) struct lend_coalesced *
begin_with_report(struct lend_core *c, struct lend_sess *s, struct lend_coalesced *d)
{
	uint32_t len;

	d->acks = s->ack_due;
	len = lend_make_report_once(c, s, &d->head, d->start);
	d->start += len;
	d->at += len;
	d->end += len;
	return d;
}

/* Calls nothing but for a report, so that it needs no stack. */
__attribute__((noinline)) struct lend_coalesced *
lend_coalesce_begin(struct lend_core *c, struct lend_sess *s, uint8_t class, uint32_t length)
{
	uint32_t most =
	    LEND_COALESCED_BYTES - sizeof(struct lend_pkt) - sizeof(struct lend_pkt_seen);
	uint32_t i;
	bool fast = lend_sched_is_fast(c, class);
	struct lend_coalesced *d;

	most = lend_min_u32(most, s->payload);
	if (s->blocked[fast] || lend_pkt_frame_len(length) > most ||
	    (i = take_entry(c)) == LEND_NONE)
		return NULL;
	d = lend_coalesced_at(c, i);
	d->sess = lend_sess_index(c, s);
	d->id = s->id;
	d->class = class;
	d->fast = fast;
	d->acks = 0;
	d->first = 0;
	d->begun = c->now;
	d->due = c->now + lend_loss_rto(s, 0);
	d->frames = 0;
	d->withdrawn = 0;
	d->head.first = lend_pkt_first(LEND_PKT_CALLS, class);
	d->head.pkt.call = 0;
	d->head.pkt.session = s->peer_id;
	d->head.pkt.number = lend_sent_number(c, s, class, false);
	d->head.pkt.offset = 0;
	d->start = sizeof(struct lend_pkt);
	d->at = sizeof(struct lend_pkt);
	d->end = sizeof(struct lend_pkt) + most;
	s->coalesced = (uint8_t)(i + 1);
	insert_in_order(c, i, class);
	return s->ack_due ? begin_with_report(c, s, d) : d;
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

/* Sets the times in the frames to the time of sending. */
static void settle_times(const struct lend_core *c, struct lend_coalesced *d)
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

/* Hands out a datagram. Returns 1; 0: its session has ended, or its messages were withdrawn. */
LEND_HOT uint32_t emit_datagram(struct lend_core *c, uint32_t i, const struct lend_bufs *bufs,
				struct lend_out *out, struct lend_out_rec *rec)
{
	struct lend_coalesced *d = lend_coalesced_at(c, i);
	struct lend_sess *s = lend_sess_at(c, d->sess);

	if (s->id != d->id)
		return 0;
	if (s->coalesced == i + 1)
		s->coalesced = 0;
	if (s->state != LEND_SESS_UP || d->withdrawn == d->frames)
		return 0;
	if (d->begun != c->now)
		settle_times(c, d);
	d->head.pkt.length = d->at - d->start;
	rec->ctl.sess = d->sess;
	rec->ctl.id = d->id;
	rec->ctl.call = i;
	rec->ctl.kind = LEND_PKT_CALLS;
	rec->first = 0;
	rec->acks = d->acks;
	rec->news = 0;
	if (s->blocked[d->fast]) {
		rec->news = 1;
		lend_unhashed(c)->news = 1;
	}
	out->head = &d->head;
	out->tail = NULL;
	out->peer = s->peer;
	out->head_len = (uint16_t)d->at;
	out->tail_len = 0;
	out->n = 0;
	out->class = d->class;
	out->sent = 0;
	out->fast = d->fast;
	if (!s->checked)
		lend_make_trailer(out, &rec->tail, bufs);
	return 1;
}

/* Closes the datagrams that an output leaves behind. A frame that is added later could be of a slot
 * that the peer knows from a datagram with a larger number, and would count as an old copy. */
static void close_late(struct lend_core *c)
{
	for (uint32_t k = 0; k < c->coalesced_n; k++) {
		uint32_t i = lend_unhashed(c)->order[k];
		struct lend_sess *s = lend_sess_at(c, lend_coalesced_at(c, i)->sess);

		if (s->coalesced == i + 1)
			s->coalesced = 0;
	}
}

static __attribute__((noinline)) uint32_t send_several(struct lend_core *c,
						       const struct lend_bufs *bufs,
						       struct lend_out *out,
						       struct lend_out_rec *rec, uint32_t cap)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t i, n = 0;

	for (i = 0; i < c->coalesced_n && n < cap; i++)
		n += emit_datagram(c, a->order[i], bufs, out + n, rec + n);
	c->coalesced_n -= i;
	a->coalesced_late = c->coalesced_n;
	if (c->coalesced_n) {
		memmove(a->order, a->order + i, c->coalesced_n);
		close_late(c);
	}
	return n;
}

uint32_t lend_coalesce_send(struct lend_core *c, const struct lend_bufs *bufs, struct lend_out *out,
			    struct lend_out_rec *rec, uint32_t cap)
{
	struct lend_unhashed *a = lend_unhashed(c);

	if (c->coalesced_n != 1 || cap == 0)
		return send_several(c, bufs, out, rec, cap);
	c->coalesced_n = 0;
	a->coalesced_late = 0;
	return emit_datagram(c, a->order[0], bufs, out, rec);
}
