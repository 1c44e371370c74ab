/* coalesce - short requests and replies in datagrams that they share, a frame each.
 *
 * A message is written into its session's open datagram as soon as it is known, and leaves with the
 * next output(). So a burst of calls costs one header, one number and one datagram of the carrier,
 * and no message waits for others. A session has one open datagram, of one class. A new one begins
 * if the class differs or the room is used up.
 *
 * A message takes the slow path, through the record of its call and sched.h, if it is long or
 * retransmitted, if its session is blocked or not up, or during a pause of bulk data. A request
 * does so, too, if any call is ready to be sent, or if calls are sent by deadline; a reply, if a
 * call of its class or of a more urgent one is ready.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_COALESCE_H
#define LEND_CORE_COALESCE_H

#include "core/packet_build.h"
#include "core/sched.h"

/* Longest payload of a frame, bytes. */
enum { LEND_FRAME_MAX = 512 };

_Static_assert((LEND_COALESCED_BYTES - sizeof(struct lend_pkt)) / sizeof(struct lend_pkt_frame) <=
		   LEND_PKT_FRAMES_MAX,
	       "a datagram is full before it has too many frames");

/* A datagram that is being filled, or was sent with the last output(). */
static inline struct lend_coalesced *lend_coalesced_at(struct lend_core *c, uint32_t i)
{
	return LEND_AT(c, at_coalesced, struct lend_coalesced) + i;
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
	uint32_t most = lend_min_u32(LEND_FRAME_MAX, lend_min_u32(s->payload, s->message_max));

	s->frame_limit = 0;
	if (s->state == LEND_SESS_UP && c->cfg.fast != LEND_FAST_NEVER &&
	    c->cfg.order != LEND_ORDER_DEADLINE)
		s->frame_limit = (uint16_t)(most + 1);
}

/* Begins a datagram with room for a payload of `length` bytes. NULL: there is none, or the session
 * is blocked. */
struct lend_coalesced *lend_coalesce_begin(struct lend_core *c, struct lend_sess *s, uint8_t class,
					   uint32_t length);
/* Returns the session's open datagram for one more frame, or begins one. It is closed when the
 * session is blocked. NULL: the message takes the slow path. */
LEND_HOT struct lend_coalesced *lend_coalesce_open(struct lend_core *c, struct lend_sess *s,
						   uint8_t class, uint32_t length)
{
	struct lend_coalesced *d;

	if (s->coalesced) {
		d = lend_coalesced_at(c, s->coalesced - 1u);
		if (d->class == class && d->at + lend_pkt_frame_len(length) <= d->end)
			return d;
	}
	return lend_coalesce_begin(c, s, class, length);
}

/* Appends a frame and returns it. The caller writes its block and a payload of `length` bytes. */
LEND_HOT struct lend_pkt_frame *lend_coalesce_add(struct lend_coalesced *d, uint32_t call,
						  uint32_t length, uint32_t flags)
{
	struct lend_pkt_frame *f = (struct lend_pkt_frame *)(void *)(d->bytes + d->at);
	uint32_t len = lend_pkt_frame_len(length);

	memset((uint8_t *)f + len - LEND_PKT_FRAME_ALIGN, 0, LEND_PKT_FRAME_ALIGN);
	f->call = call;
	f->length = (uint16_t)length;
	f->flags = (uint8_t)flags;
	f->zero = 0;
	d->frames++;
	d->at += len;
	return f;
}

/* Withdraws the message of a call from the datagrams that wait. False: it is in none, because it
 * was sent, or took the slow path. */
bool lend_coalesce_withdraw(struct lend_core *c, const struct lend_sess *s, uint32_t call,
			    uint32_t served);
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
uint32_t lend_coalesce_send(struct lend_core *c, const struct lend_bufs *bufs, struct lend_out *out,
			    struct lend_out_rec *rec, uint32_t cap);

#endif
