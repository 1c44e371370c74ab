#include "core/rx.h"

#include "core/call_record.h"
#include "core/grant.h"
#include "core/event.h"
#include "core/loss.h"
#include "core/memory_queue.h"

void lend_rx_begin(struct lend_rx *r, uint32_t granted)
{
	memset(r, 0, sizeof(*r));
	r->frags = LEND_NONE;
	r->granted = granted;
}

static void write_at(const struct lend_bufs *bufs, uint32_t *seg, uint32_t *base, uint32_t offset,
		     const uint8_t *data, uint32_t len)
{
	while (len > 0) {
		const struct lend_seg *s = &bufs->seg[*seg];
		uint32_t at = offset - *base, here;

		if (at >= s->cap) {
			LEND_CHECK(s->next != 0);
			*base += s->cap;
			*seg = s->next;
			continue;
		}
		here = lend_min_u32(len, s->cap - at);
		memcpy((uint8_t *)s->data + at, data, here);
		data += here;
		offset += here;
		len -= here;
	}
}

void lend_chain_write(const struct lend_bufs *bufs, uint32_t buf, uint32_t offset, const void *data,
		      uint32_t len)
{
	uint32_t base = 0;

	write_at(bufs, &buf, &base, offset, data, len);
}

static void write_payload(const struct lend_bufs *bufs, uint32_t *seg, uint32_t *base,
			  const struct lend_pkt_view *v)
{
	uint32_t at = v->head.offset;

	if (!v->parts)
		write_at(bufs, seg, base, at, v->payload, v->payload_len);
	for (uint32_t i = 0; i < v->parts; i++) {
		write_at(bufs, seg, base, at, v->part[i].data, v->part[i].len);
		at += v->part[i].len;
	}
}

void lend_chain_write_payload(const struct lend_bufs *bufs, uint32_t buf,
			      const struct lend_pkt_view *v)
{
	uint32_t base = 0;

	write_payload(bufs, &buf, &base, v);
}

uint64_t lend_chain_cap(const struct lend_bufs *bufs, uint32_t buf)
{
	uint64_t cap = 0;

	for (; buf; buf = bufs->seg[buf].next)
		cap += bufs->seg[buf].cap;
	return cap;
}

static void store_bytes(const struct lend_bufs *bufs, struct lend_rx *r,
			const struct lend_pkt_view *v)
{
	if (v->head.offset < r->base) {
		r->seg = r->buf;
		r->base = 0;
	}
	write_payload(bufs, &r->seg, &r->base, v);
}

static void put_in(struct lend_rx *r, uint32_t buf, bool pooled)
{
	r->buf = buf;
	r->seg = buf;
	r->base = 0;
	r->pooled = pooled;
	r->attached = !pooled;
}

void lend_rx_take_memory(struct lend_core *c, struct lend_call_rec *k, uint32_t len)
{
	uint32_t i = lend_pool_take(&c->free_frags, LEND_AT(c, at_free_frags, uint32_t));

	LEND_CHECK(i != LEND_NONE && (k->rx.buf || c->supply_n > 0));
	k->received = 1;
	lend_grants_begin(c, &k->rx);
	k->rx.frags = i;
	k->rx.last = c->now;
	k->rx.len = len;
	lend_list_push(&c->partials, lend_links_partial(c), lend_call_index(c, k));
	lend_grants_count_sender(c, lend_sess_at(c, k->sess), true);
	lend_frags_begin(lend_frags_at(c, i), lend_frag_count(lend_rx_unit(c, k), len));
	if (!k->rx.buf)
		put_in(&k->rx, LEND_AT(c, at_supply, uint32_t)[--c->supply_n], true);
}

static bool fragment_sane(struct lend_core *c, const struct lend_call_rec *k,
			  const struct lend_pkt_view *v)
{
	bool head = v->head.flags & LEND_PKT_WITH_HEAD, fine = v->head.flags & LEND_PKT_FINE;
	uint32_t unit = lend_frag_unit(lend_sess_at(c, k->sess), fine), len = v->head.length,
		 frag = v->head.offset / unit;

	if ((k->rx.frags != LEND_NONE && (len != k->rx.len || fine != k->rx.fine ||
					  head != ((k->marks & LEND_MARK_HEAD_IN) != 0))) ||
	    v->head.offset % unit != 0 || frag >= lend_frag_count(unit, len) ||
	    v->payload_len != lend_frag_len(unit, len, frag)) {
		LEND_COUNT(c, rx_length);
		return false;
	}
	return true;
}

static bool is_long(const struct lend_core *c, const struct lend_rx *r)
{
	return r->len > c->cfg.unscheduled;
}

void lend_rx_need(struct lend_core *c, struct lend_call_rec *k, const struct lend_bufs *bufs)
{
	struct lend_event *e;

	k->rx.needed = 1;
	e = lend_event_push(c, LEND_EV_NEED);
	e->session = lend_sess_at(c, k->sess)->id;
	e->call = lend_call_handle(k);
	e->tag = k->server ? 0 : k->tag;
	e->method = k->method;
	e->class = k->class;
	e->len = k->rx.len;
	e->head = (k->marks & LEND_MARK_HEAD_IN) != 0;
	e->data = bufs->seg[k->rx.buf].data;
	e->data_len = lend_min_u32(lend_rx_low(c, k), c->cfg.unscheduled);
}

/* Returns the bytes of a deferred message that are granted, and must be here before NEED is raised
 * again: half of the supplied buffer, in whole fragments. */
static uint32_t trial_bytes(const struct lend_core *c, const struct lend_sess *s)
{
	uint32_t half = c->cfg.unscheduled / 2;

	return lend_max_u32(half - half % s->payload, s->payload);
}

static void raise_need(struct lend_core *c, struct lend_call_rec *k, const struct lend_bufs *bufs)
{
	uint32_t least = k->rx.deferred ? trial_bytes(c, lend_sess_at(c, k->sess)) : 1;

	if (is_long(c, &k->rx) && !k->rx.attached && !k->rx.needed && lend_rx_low(c, k) >= least)
		lend_rx_need(c, k, bufs);
}

bool lend_rx_defer(struct lend_core *c, struct lend_call_rec *k)
{
	if (k->rx.deferred || lend_rx_low(c, k) >= trial_bytes(c, lend_sess_at(c, k->sess)))
		return false;
	k->rx.deferred = 1;
	k->rx.needed = 0;
	lend_rx_grant(c, k);
	return true;
}

/* Checks a fragment against the grant before any of it is stored. A peer that exceeds its grant
 * does so on purpose. */
static bool within_grant(struct lend_core *c, const struct lend_call_rec *k,
			 const struct lend_pkt_view *v)
{
	struct lend_sess *s = lend_sess_at(c, k->sess);

	if ((uint64_t)v->head.offset + v->payload_len <= k->rx.granted)
		return true;
	LEND_COUNT(c, rx_window);
	s->strikes += s->strikes < LEND_OVERRUNS_MAX;
	return false;
}

static void uncharge_budget(struct lend_core *c, struct lend_rx *r, uint32_t n)
{
	n = lend_min_u32(n, r->charged);
	r->charged -= n;
	c->budget_used -= n;
	c->fed |= n > 0;
	/* Budget was freed: messages that wait for it try again at the next tick. */
}

static enum lend_rx_verdict keep_fragment(struct lend_core *c, struct lend_bufs *bufs,
					  struct lend_call_rec *k, const struct lend_pkt_view *v)
{
	struct lend_frags *f = lend_frags_at(c, k->rx.frags);
	uint32_t frag = v->head.offset / lend_rx_unit(c, k);

	switch (lend_frags_mark(f, frag)) {
	case LEND_FRAG_BOGUS:
		LEND_COUNT(c, rx_window);
		return LEND_RX_DROPPED;
	case LEND_FRAG_DUP:
		LEND_COUNT(c, rx_dup);
		return LEND_RX_OLD;
	case LEND_FRAG_NEW:
		break;
	}
	store_bytes(bufs, &k->rx, v);
	k->rx.got += v->payload_len;
	k->rx.last = c->now;
	uncharge_budget(c, &k->rx, v->payload_len);
	if (lend_grants_apply(c, lend_sess_at(c, k->sess)))
		lend_grants_arrived(c, k, v->head.offset, v->payload_len);
	if (lend_frags_complete(f))
		return LEND_RX_WHOLE;
	raise_need(c, k, bufs);
	return LEND_RX_NEW;
}

enum lend_rx_verdict lend_rx_take(struct lend_core *c, struct lend_bufs *bufs,
				  struct lend_call_rec *k, const struct lend_pkt_view *v)
{
	if (!within_grant(c, k, v) || !fragment_sane(c, k, v))
		return LEND_RX_DROPPED;
	k->received = 1;
	if (v->head.flags & LEND_PKT_WITH_HEAD)
		k->marks |= LEND_MARK_HEAD_IN;
	if (k->rx.frags == LEND_NONE)
		k->rx.fine = (v->head.flags & LEND_PKT_FINE) != 0;
	if (k->rx.frags != LEND_NONE || lend_memq_take(c, k, v->head.length))
		return keep_fragment(c, bufs, k, v);
	lend_seen_forget(c, lend_sess_at(c, k->sess), v->head.number);
	return LEND_RX_DROPPED;
}

static void give_pooled(struct lend_core *c, uint32_t buf)
{
	c->fed = 1;
	if (c->supply_n < c->supply_cap) {
		LEND_AT(c, at_supply, uint32_t)[c->supply_n++] = buf;
		return;
	}
	lend_event_push(c, LEND_EV_BUF_BACK)->buf = buf;
}

void lend_rx_attach(struct lend_core *c, struct lend_bufs *bufs, struct lend_call_rec *k,
		    uint32_t buf)
{
	uint32_t pooled = k->rx.buf;

	LEND_CHECK(k->rx.pooled); /* NEED is raised once a buffer has its start */
	lend_chain_write(bufs, buf, 0, bufs->seg[pooled].data,
			 lend_min_u32(k->rx.len, c->cfg.unscheduled));
	put_in(&k->rx, buf, false);
	k->rx.needed = 0;
	give_pooled(c, pooled);
	lend_rx_grant(c, k);
}

uint32_t lend_rx_close(struct lend_core *c, struct lend_call_rec *k)
{
	struct lend_rx *r = &k->rx;
	uint32_t buf = r->buf;

	lend_list_remove(&c->partials, lend_links_partial(c), lend_call_index(c, k));
	lend_memq_leave(c, k);
	lend_grants_end(c, k);
	c->fed |= r->frags != LEND_NONE;
	if (r->frags != LEND_NONE) {
		lend_pool_give(&c->free_frags, LEND_AT(c, at_free_frags, uint32_t), r->frags);
		lend_grants_count_sender(c, lend_sess_at(c, k->sess), false);
	}
	r->frags = LEND_NONE;
	uncharge_budget(c, r, r->charged);
	r->buf = 0;
	r->needed = 0;
	return buf;
}

void lend_rx_drop(struct lend_core *c, struct lend_call_rec *k)
{
	bool pooled = k->rx.pooled;
	uint32_t buf = lend_rx_end(c, k);

	if (buf && pooled)
		give_pooled(c, buf);
	else if (buf)
		lend_event_push(c, LEND_EV_BUF_BACK)->buf = buf;
}

uint32_t lend_rx_low(struct lend_core *c, const struct lend_call_rec *k)
{
	uint64_t low;

	if (k->rx.frags == LEND_NONE)
		return 0;
	low = (uint64_t)lend_frags_at(c, k->rx.frags)->low * lend_rx_unit(c, k);
	return (uint32_t)lend_min_u64(low, k->rx.len);
}

/* Returns how many bytes past the lowest missing one a sender may send. */
static uint64_t window_bytes(const struct lend_sess *s)
{
	return lend_min_u64(lend_max_u64(LEND_GRANT_BYTES, (uint64_t)64 * s->payload),
			    (uint64_t)LEND_FRAGS_WINDOW * s->payload);
}

uint64_t lend_rx_reach(struct lend_core *c, const struct lend_call_rec *k)
{
	if (k->rx.frags == LEND_NONE)
		return 0;
	if (is_long(c, &k->rx) && !k->rx.attached)
		return k->rx.deferred ? trial_bytes(c, lend_sess_at(c, k->sess)) : 0;
	return lend_min_u64(k->rx.len, lend_rx_low(c, k) + window_bytes(lend_sess_at(c, k->sess)));
}

bool lend_rx_grant(struct lend_core *c, struct lend_call_rec *k)
{
	const struct lend_sess *s = lend_sess_at(c, k->sess);
	uint64_t reach = lend_rx_reach(c, k), more;

	if (reach <= k->rx.granted)
		return false;
	if (lend_grants_apply(c, s))
		return lend_grants_request(c, k);
	more = reach - k->rx.granted;
	/* Each grant costs a datagram: wait for a worthwhile one, unless it is the last. */
	if (reach < k->rx.len && more < window_bytes(s) / 4 && k->rx.attached)
		return false;
	more = lend_memq_take_budget(c, k, more);
	k->rx.granted += (uint32_t)more;
	return more > 0;
}
