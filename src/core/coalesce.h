/* coalesce - short requests and replies in datagrams that they share, a frame each.
 *
 * A message is written into its session's open datagram as soon as it is known, and leaves with the
 * next output(). So a burst of calls costs one header, one number and one datagram of the carrier,
 * and no message waits for others. A session has one open datagram, of one class. A new one begins
 * if the class differs, or if the room or the 64 frames are used up.
 *
 * A message takes the slow path, through the record of its call and sched.h, if it is long or
 * retransmitted, if its session is blocked or not up, or during a pause of bulk data. A request
 * does so, too, if any call is ready to be sent, or if calls are sent by deadline; a reply, if a
 * call of its class or of a more urgent one is ready. A short request that had to wait, or is
 * retransmitted, shares a datagram all the same, with those that output() sends for its session:
 * after a reduction of the window nearly all requests wait, and a datagram of its own for each
 * would cost the host most when it is overloaded.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_COALESCE_H
#define LEND_CORE_COALESCE_H

#include "core/packet_build.h"
#include "core/sched.h"

/* Bytes of a coalesced datagram that are not frames; longest message in a frame. Where datagrams
 * are long, longer messages are sent from their buffers, which costs a copy less. */
enum {
	LEND_FRAMES_AROUND = sizeof(struct lend_pkt) + sizeof(struct lend_pkt_seen),
	LEND_FRAME_MAX = LEND_COALESCED_MIN - LEND_FRAMES_AROUND - sizeof(struct lend_pkt_frame)
};
_Static_assert((LEND_COALESCED_MIN - LEND_FRAMES_AROUND) % LEND_PKT_FRAME_ALIGN == 0,
	       "the last frame is padded");

/* A datagram that is being filled, or was sent with the last output(). */
static inline struct lend_coalesced *lend_coalesced_at(struct lend_core *c, uint32_t i)
{
	return (struct lend_coalesced *)(void *)(LEND_AT(c, at_coalesced, char) +
						 (size_t)i * c->coalesced_stride);
}

/* Returns the bytes of a datagram's frames, without the report that it may begin with. */
LEND_HOT uint32_t lend_coalesce_room(const struct lend_core *c)
{
	return c->coalesced_stride - (uint32_t)offsetof(struct lend_coalesced, bytes) -
	       LEND_FRAMES_AROUND;
}

/* Returns whether the configuration lets a message take the fast path. draw: a number that differs
 * from message to message, for LEND_FAST_COIN. */
LEND_HOT bool lend_coalesce_draw(const struct lend_core *c, uint64_t draw)
{
	return c->cfg.fast == LEND_FAST_ALWAYS ||
	       (c->cfg.fast == LEND_FAST_COIN &&
		(draw ^ c->cfg.seed[0]) * UINT64_C(0x9e3779b97f4a7c15) >> 63);
}

/* Returns whether a message of this session and class may be coalesced now. */
LEND_HOT bool lend_coalesce_admits(const struct lend_core *c, const struct lend_sess *s,
				   uint8_t class, bool fast, uint64_t draw)
{
	if (s->state != LEND_SESS_UP ||
	    (c->ready.n && lend_sched_classes(c) & ((2u << class) - 1)) ||
	    (c->bulk_paused_until > c->now && !fast))
		return false;
	return lend_coalesce_draw(c, draw);
}

/* Sets the limit of the requests that the session's frames carry: none unless it is up. */
static inline void lend_coalesce_limit(const struct lend_core *c, struct lend_sess *s)
{
	uint32_t room = s->payload - (uint32_t)sizeof(struct lend_pkt_frame),
		 most = lend_min_u32(lend_min_u32(LEND_FRAME_MAX, room), s->message_max);

	s->frame_limit = 0;
	if (s->state == LEND_SESS_UP && c->cfg.fast != LEND_FAST_NEVER &&
	    c->cfg.order != LEND_ORDER_DEADLINE)
		s->frame_limit = (uint16_t)(most + 1);
}

/* Moves the datagram that was begun last to its place in the order. */
void lend_coalesce_sort(struct lend_core *c, uint8_t class);
/* Puts the report that is due before the first frame. Returns d. */
struct lend_coalesced *lend_coalesce_report(struct lend_core *c, struct lend_sess *s,
					    struct lend_coalesced *d);

/* Begins a datagram with room for a frame of `need` bytes. NULL: there is none, or the session is
 * blocked. */
LEND_HOT struct lend_coalesced *lend_coalesce_begin(struct lend_core *c, struct lend_unhashed *a,
						    struct lend_sess *s, uint8_t class,
						    uint32_t need)
{
	uint32_t most = lend_min_u32(lend_coalesce_room(c), s->payload);
	bool fast = lend_sched_is_fast(c, class);
	uint32_t i = a->coalesced_next;
	struct lend_coalesced *d;

	if (LEND_RARE(s->blocked[fast] || need > most || i >= c->coalesced_cap))
		return NULL;
	a->coalesced_next = i + 1;
	s->coalesced = (uint8_t)i;
	d = lend_coalesced_at(c, i);
	d->id = s->id;
	d->begun = c->now;
	d->due = c->now + s->pto;
	d->peer = s->peer;
	d->rank = class | (uint32_t)fast << 16;
	d->acks = 0;
	d->frames = 0;
	d->withdrawn = 0;
	d->start = sizeof(struct lend_pkt);
	d->at = sizeof(struct lend_pkt);
	d->end = sizeof(struct lend_pkt) + most;
	d->head.first = lend_pkt_first(LEND_PKT_CALLS, class);
	d->head.pkt.call = 0;
	d->head.pkt.session = s->peer_id;
	d->head.pkt.number = lend_sent_number(c, s, class, false);
	d->head.pkt.offset = 0;
	a->order[c->coalesced_n++] = (uint8_t)i;
	if (class < a->coalesced_last)
		lend_coalesce_sort(c, class);
	else
		a->coalesced_last = class;
	return s->ack_due ? lend_coalesce_report(c, s, d) : d;
}

/* Returns whether the session's newest datagram may get more frames. */
LEND_HOT bool lend_coalesce_is_open(struct lend_core *c, const struct lend_sess *s)
{
	const struct lend_unhashed *a = lend_unhashed(c);

	return s->coalesced >= a->coalesced_open && s->coalesced < a->coalesced_next &&
	       lend_coalesced_at(c, s->coalesced)->id == s->id;
}

/* Returns the session's open datagram for one more frame, or begins one. NULL: the message takes
 * the slow path. */
LEND_HOT struct lend_coalesced *lend_coalesce_open(struct lend_core *c, struct lend_sess *s,
						   uint8_t class, uint32_t length)
{
	struct lend_unhashed *a = lend_unhashed(c);
	uint32_t need = lend_pkt_frame_len(length);
	struct lend_coalesced *d;

	if (lend_coalesce_is_open(c, s)) {
		d = lend_coalesced_at(c, s->coalesced);
		if (d->class == class && d->at + need <= d->end && d->frames < LEND_PKT_FRAMES_MAX)
			return d;
	}
	return lend_coalesce_begin(c, a, s, class, need);
}

/* Writes the first eight bytes of a frame, and zeros behind its payload of `length` bytes. flags:
 * in the upper 16 bits. */
LEND_HOT struct lend_pkt_frame *lend_coalesce_write(void *at, uint32_t call, uint32_t length,
						    uint64_t flags)
{
	struct lend_pkt_frame *f = at;

	memset((uint8_t *)f + lend_pkt_frame_len(length) - LEND_PKT_FRAME_ALIGN, 0,
	       LEND_PKT_FRAME_ALIGN);
	f->first = call | (uint64_t)length << 32 | flags;
	return f;
}

/* Appends a frame and returns it. The caller writes its block and a payload of `length` bytes. */
LEND_HOT struct lend_pkt_frame *lend_coalesce_add(struct lend_coalesced *d, uint32_t call,
						  uint32_t length, uint32_t flags)
{
	void *at = d->bytes + d->at;

	d->frames++;
	d->at += lend_pkt_frame_len(length);
	return lend_coalesce_write(at, call, length, (uint64_t)flags << 48);
}

/* Withdraws the message of a call from the datagrams that wait. False: it is in none, because it
 * was sent, or took the slow path. */
bool lend_coalesce_withdraw(struct lend_core *c, const struct lend_sess *s, uint32_t call,
			    uint32_t served);
/* Drops the datagrams of a session that ends. */
void lend_coalesce_cut(struct lend_core *c, const struct lend_sess *s);
/* Returns whether datagrams wait that no ready call may overtake. Late ones count as most urgent,
 * so that none waits for more than one output. */
static inline bool lend_coalesce_ready(struct lend_core *c)
{
	const struct lend_unhashed *a = lend_unhashed(c);

	return c->coalesced_n &&
	       (a->coalesced_late ||
		!(lend_sched_classes(c) & ((1u << lend_coalesced_at(c, a->order[0])->class) - 1)));
}

/* Fills out[] with the datagrams that wait, at most cap, and returns their number. */
uint32_t lend_coalesce_send(struct lend_core *c, struct lend_out *out, struct lend_out_rec *rec,
			    uint32_t cap);
/* Frees the entries of datagrams that this output has handed out, if none waits. */
void lend_coalesce_end(struct lend_core *c);
/* Does all of output() if no control datagram and no call is ready, as most often. */
uint32_t lend_coalesce_send_only(struct lend_core *c, struct lend_out *out, uint32_t cap);

#endif
