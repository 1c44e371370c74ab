/* rx - an incoming message: its memory, what has arrived, how much more may be sent.
 *
 * A message of one datagram is delivered in place and does not use this, unless the caller named
 * memory for it. Layer: core (pure). Part of a call's record. */
#ifndef LEND_CORE_RX_H
#define LEND_CORE_RX_H

#include "core/arena.h"

enum lend_rx_verdict {
	LEND_RX_DROPPED, /* the datagram was dropped and counted */
	LEND_RX_OLD,     /* a duplicate */
	LEND_RX_NEW,
	LEND_RX_WHOLE, /* stored, and the message is complete */
};

/* Resets the state: no memory, nothing arrived; granted bytes may arrive. */
void lend_rx_begin(struct lend_rx *r, uint32_t granted);
/* Takes a reassembly, and a buffer unless the message has one, for a message of len bytes. The
 * caller has checked that both are free. */
/* Returns the bytes of each fragment of an incoming message, except the last. */
static inline uint32_t lend_rx_unit(struct lend_core *c, const struct lend_call_rec *k)
{
	return lend_frag_unit(lend_sess_at(c, k->sess), k->rx.fine);
}

void lend_rx_take_memory(struct lend_core *c, struct lend_call_rec *k, uint32_t len);
/* Handles one fragment. Raises NEED when the message is long and its first bytes have arrived. */
enum lend_rx_verdict lend_rx_take(struct lend_core *c, struct lend_bufs *bufs,
				  struct lend_call_rec *k, const struct lend_pkt_view *v);
/* Raises NEED for a message that has no memory of its own. */
void lend_rx_need(struct lend_core *c, struct lend_call_rec *k, const struct lend_bufs *bufs);
/* Defers a long message's memory: grants half of the supplied buffer only, and raises NEED again
 * when that is full. Returns false if it is already. */
bool lend_rx_defer(struct lend_core *c, struct lend_call_rec *k);
/* Sets the message's memory; copies the bytes that arrived in pooled memory. */
void lend_rx_attach(struct lend_core *c, struct lend_bufs *bufs, struct lend_call_rec *k,
		    uint32_t buf);
/* Ends reassembly: releases grant window and budget, and the memory. Pooled memory returns to the
 * pool; other memory is the return value (0: none), for the event that gives it back. */
uint32_t lend_rx_close(struct lend_core *c, struct lend_call_rec *k);
static inline uint32_t lend_rx_end(struct lend_core *c, struct lend_call_rec *k)
{
	/* A message without memory that does not wait for any holds nothing: budget and grants are
	 * charged only to a message with memory. */
	return k->rx.buf || k->rx.memq_state || k->rx.credit ? lend_rx_close(c, k) : 0;
}

/* Ends reassembly and raises EV_BUF_BACK for memory that was attached. */
void lend_rx_drop(struct lend_core *c, struct lend_call_rec *k);
/* Grants the sender more, within window and budget; returns whether the grant grew. */
bool lend_rx_grant(struct lend_core *c, struct lend_call_rec *k);
/* Returns the offset up to which the sender may be allowed to send now; 0: no further than it is
 * already. */
uint64_t lend_rx_reach(struct lend_core *c, const struct lend_call_rec *k);
/* Returns the offset below which all bytes have arrived. */
uint32_t lend_rx_low(struct lend_core *c, const struct lend_call_rec *k);
/* Writes into a chain; the caller has checked the length. */
void lend_chain_write(const struct lend_bufs *bufs, uint32_t buf, uint32_t offset, const void *data,
		      uint32_t len);
/* Writes the payload of a whole message. */
void lend_chain_write_payload(const struct lend_bufs *bufs, uint32_t buf,
			      const struct lend_pkt_view *v);
uint64_t lend_chain_cap(const struct lend_bufs *bufs, uint32_t buf);

#endif
