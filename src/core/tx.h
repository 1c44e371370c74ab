/* tx - an outgoing message: the next fragment, its buffers, what was acknowledged. Layer: core
 * (pure). Part of a call's record. */
#ifndef LEND_CORE_TX_H
#define LEND_CORE_TX_H

#include "core/arena.h"

/* Returns whether the message is a segment of shared memory, or a chain with such segments, within
 * the limits of LEND_PLACES. A peer that reads them there gets it in one datagram, of any length.
 */
bool lend_tx_is_shared(const struct lend_bufs *bufs, uint32_t buf);
/* Returns false for most messages of which that is false. */
static inline bool lend_tx_may_be_shared(const struct lend_bufs *bufs, uint32_t buf)
{
	return buf && (bufs->seg[buf].next | bufs->seg[buf].shared);
}

/* Returns the bytes of each fragment, except the last. */
static inline uint32_t lend_tx_unit(const struct lend_sess *s, const struct lend_tx *t)
{
	return t->win == LEND_NONE ? s->payload : lend_frag_unit(s, t->fine);
}

static inline uint32_t lend_tx_frag_len(const struct lend_sess *s, const struct lend_tx *t,
					uint32_t frag)
{
	return t->win == LEND_NONE ? t->len : lend_frag_len(lend_tx_unit(s, t), t->len, frag);
}

/* Resets the message to the state before its first datagram. */
static inline void lend_tx_reset(struct lend_tx *t)
{
	t->next = 0;
	t->low = 0;
	t->resend = 0;
	t->charged = 0;
	t->base = 0;
}

/* Starts a message of the len bytes of buf, in a record from which nothing else was sent. */
void lend_tx_open(struct lend_core *c, const struct lend_sess *s, struct lend_tx *t, uint32_t len);
static inline void lend_tx_begin(struct lend_core *c, const struct lend_sess *s, struct lend_tx *t,
				 uint32_t buf, uint32_t len, bool shared)
{
	t->buf = buf;
	t->len = len;
	t->total = 1;
	t->seg = buf;
	if (len > s->payload && !(shared && s->reads && len >= s->reads))
		lend_tx_open(c, s, t, len);
}

void lend_tx_close(struct lend_core *c, struct lend_tx *t);
static inline void lend_tx_end(struct lend_core *c, struct lend_tx *t)
{
	if (t->win != LEND_NONE)
		lend_tx_close(c, t);
	t->resend = 0;
	t->low = t->total;
	t->next = t->total;
}

/* Chooses the next fragment of a message with a window; false: none may be sent now. */
bool lend_tx_pick(struct lend_core *c, const struct lend_sess *s, const struct lend_tx *t,
		  uint32_t *frag);
/* Notes that the fragment was sent. */
void lend_tx_sent(struct lend_core *c, struct lend_tx *t, uint32_t frag);
/* Returns whether the fragment waits for retransmission, so that its last number is not in flight.
 */
bool lend_tx_waits_resend(struct lend_core *c, const struct lend_tx *t, uint32_t frag);
/* Marks the fragment for retransmission. */
void lend_tx_lost(struct lend_core *c, struct lend_tx *t, uint32_t frag);
void lend_tx_acked(struct lend_core *c, struct lend_tx *t, uint32_t frag);
/* Notes that all fragments below low have arrived; a value past what was sent is ignored. */
void lend_tx_acked_below(struct lend_core *c, struct lend_tx *t, uint32_t low);
/* Marks all fragments from first on to be sent again, because the receiver has discarded them. A
 * report that comes later may still say that earlier datagrams arrived: they do not count. */
void lend_tx_restart(struct lend_core *c, const struct lend_sess *s, struct lend_tx *t,
		     uint32_t first);
/* Fills piece[] with the segments of bytes [offset, offset + len), at most LEND_PIECES; returns
 * their number. */
uint8_t lend_tx_pieces_slow(struct lend_tx *t, const struct lend_bufs *bufs, uint32_t offset,
			    uint32_t len, struct lend_piece *piece);
static inline uint8_t lend_tx_pieces(struct lend_tx *t, const struct lend_bufs *bufs,
				     uint32_t offset, uint32_t len, struct lend_piece *piece)
{
	if (len == 0)
		return 0;
	if (bufs->seg[t->buf].next)
		return lend_tx_pieces_slow(t, bufs, offset, len, piece);
	piece[0] = (struct lend_piece){.buf = t->buf, .offset = offset, .len = len};
	return 1;
}

/* Returns whether every span of payload bytes is within LEND_PIECES segments, and the chain's
 * length in *len. */
bool lend_tx_fits_slow(const struct lend_bufs *bufs, uint32_t buf, uint32_t payload, uint64_t *len);
static inline bool lend_tx_fits(const struct lend_bufs *bufs, uint32_t buf, uint32_t payload,
				uint64_t *len)
{
	if (bufs->seg[buf].next)
		return lend_tx_fits_slow(bufs, buf, payload, len);
	*len = bufs->seg[buf].len;
	return true;
}

#endif
