/* packet_build - a datagram under construction: its buffers, first bytes and trailer. Layer: core
 * (pure). */
#ifndef LEND_CORE_PACKET_BUILD_H
#define LEND_CORE_PACKET_BUILD_H

#include "core/arena.h"
#include "util/traffic_class.h"
#include "util/crc32c.h"

struct lend_making {
	struct lend_out *out;
	struct lend_out_rec *rec; /* until the next output */
};

/* Returns an empty datagram. */
static inline struct lend_making lend_make_begin(struct lend_out *out, struct lend_out_rec *rec)
{
	struct lend_making m = {out, rec};

	*m.out = (struct lend_out){.head = &m.rec->head, .class = LEND_CLASS_NORMAL};
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

/* Fills the block of a request. */
static inline void lend_make_request(const struct lend_core *c, struct lend_pkt_request *to,
				     const struct lend_call_rec *k)
{
	lend_ns left = k->deadline > c->now ? k->deadline - c->now : 0;

	to->method = k->method;
	to->left_us = UINT32_MAX;
	if (k->deadline != LEND_NEVER)
		to->left_us = (uint32_t)lend_min_u64(left / LEND_US, UINT32_MAX - 1);
	to->grant = k->rx.granted;
}

/* Computes the trailer of out, for carriers that do not detect corruption. */
void lend_make_trailer(struct lend_out *out, struct lend_pkt_trailer *tail,
		       const struct lend_bufs *bufs);

#endif
