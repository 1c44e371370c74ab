/* packet_build - a datagram under construction: its buffers and first bytes. Layer: core
 * (pure). */
#ifndef LEND_CORE_PACKET_BUILD_H
#define LEND_CORE_PACKET_BUILD_H

#include "core/seen.h"
#include "core/sent_ring.h"
#include "core/arena.h"
#include "util/traffic_class.h"

struct lend_making {
	struct lend_out *out;
	struct lend_out_rec *rec; /* valid until the next output */
};

/* Returns an empty datagram. */
static inline struct lend_making lend_make_begin(struct lend_out *out, struct lend_out_rec *rec)
{
	struct lend_making m = {out, rec};

	*m.out = (struct lend_out){
	    .head = &m.rec->head, .class = LEND_CLASS_NORMAL, .sess = LEND_NO_SESS};
	m.rec->first = 0;
	m.rec->acks = 0;
	m.rec->news = 0;
	return m;
}

static inline struct lend_pkt lend_make_header(uint8_t kind, uint8_t flags, uint32_t call)
{
	return (struct lend_pkt){.magic = LEND_PKT_MAGIC,
				 .version = LEND_PKT_VERSION,
				 .kind = kind,
				 .flags = flags,
				 .call = call};
}

/* Appends a block to the head. */
static inline void lend_make_put(struct lend_making *m, const void *block, size_t len)
{
	LEND_CHECK(m->out->head_len + len <= LEND_HEAD_BYTES);
	memcpy(m->rec->head.bytes + m->out->head_len, block, len);
	m->out->head_len = (uint8_t)(m->out->head_len + len);
}

/* Fills the block of a request that is sent at this time. */
static inline void lend_make_request(struct lend_pkt_request *to, const struct lend_call_rec *k,
				     lend_ns now)
{
	lend_ns left = k->deadline > now ? k->deadline - now : 0;

	to->method = k->method;
	to->left_us = UINT32_MAX;
	if (k->deadline != LEND_NEVER)
		to->left_us = (uint32_t)lend_min_u64(left / LEND_US, UINT32_MAX - 1);
	to->grant = k->rx.granted;
}

/* Repeats the report in the session's next datagram of this output. Where a carrier joins
 * neighbours of equal length, all datagrams of a session in one output carry the report: with it in
 * only some of them, their lengths would differ. */
static inline void lend_make_report_again(struct lend_core *c, struct lend_sess *s)
{
	struct lend_unhashed *a = lend_unhashed(c);

	LEND_CHECK(a->reported_n < LEND_OUT);
	a->reported[a->reported_n++] = lend_sess_index(c, s);
	s->ack_due = 1;
}

/* Writes the report that is due at len bytes of the head, and its flag. Returns its length. */
static inline uint32_t lend_make_report_once(struct lend_core *c, struct lend_sess *s,
					     union lend_head *to, uint32_t len)
{
	struct lend_pkt_seen seen;

	to->pkt.flags |= LEND_PKT_ACKED;
	lend_seen_report(c, s, &seen);
	memcpy(to->bytes + len, &seen, sizeof(seen));
	return (uint32_t)sizeof(seen);
}

/* Likewise, for one of the datagrams of this output. */
static inline uint32_t lend_make_report(struct lend_core *c, struct lend_sess *s,
					union lend_head *to, uint32_t len)
{
	len = lend_make_report_once(c, s, to, len);
	if (c->joins)
		lend_make_report_again(c, s);
	return len;
}

#endif
