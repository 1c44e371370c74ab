/* rx - a message coming in: memory for it, what has arrived, how much more may come.
 *
 * A message of one datagram is delivered in place and never gets here, unless the caller named
 * memory for it. Layer: core (pure). Part of a call's record. */
#ifndef LEND_CORE_RX_H
#define LEND_CORE_RX_H

#include "core/state.h"

enum lend_rx_verdict {
	LEND_RX_DROPPED, /* counted */
	LEND_RX_OLD,     /* here already */
	LEND_RX_NEW,
	LEND_RX_WHOLE, /* and that was the last one missing */
};

/* No memory, nothing arrived; granted bytes may come. */
void lend_rx_begin(struct lend_rx *r, uint32_t granted);
/* Takes a reassembly, and a buffer unless it has one, for a message of len bytes. There are. */
void lend_rx_seat(struct lend_core *c, struct lend_call_rec *k, uint32_t len);
/* One fragment. Raises NEED when the message is long and its start is here. */
enum lend_rx_verdict lend_rx_take(struct lend_core *c, struct lend_bufs *bufs,
				  struct lend_call_rec *k, const struct lend_pkt_view *v);
/* Raises NEED, for memory that it has not yet. */
void lend_rx_need(struct lend_core *c, struct lend_call_rec *k, const struct lend_bufs *bufs);
/* Memory for the message; what lies in pooled memory is copied over. */
void lend_rx_attach(struct lend_core *c, struct lend_bufs *bufs, struct lend_call_rec *k,
		    uint32_t buf);
/* Lets go of window and budget, and hands out the memory: to the pool, or as the return value (0:
 * none) for the event that gives it back. */
uint32_t lend_rx_close(struct lend_core *c, struct lend_call_rec *k);
static inline uint32_t lend_rx_end(struct lend_core *c, struct lend_call_rec *k)
{
	/* Without memory and without a wish for some it holds nothing: budget and credit are
	 * charged for memory that is there. */
	return k->rx.buf || k->rx.want || k->rx.credit ? lend_rx_close(c, k) : 0;
}

/* The same, with EV_BUF_BACK for what was attached. */
void lend_rx_drop(struct lend_core *c, struct lend_call_rec *k);
/* Offers the sender more, within window and budget; true when the offer grew. */
bool lend_rx_grant(struct lend_core *c, struct lend_call_rec *k);
/* How far its sender may be allowed to send now; 0: no further than it is. */
uint64_t lend_rx_reach(struct lend_core *c, const struct lend_call_rec *k);
/* All bytes below this offset are here. */
uint32_t lend_rx_low(struct lend_core *c, const struct lend_call_rec *k);
/* Writes into a chain; the caller has checked that it fits. */
void lend_chain_write(const struct lend_bufs *bufs, uint32_t buf, uint32_t offset, const void *data,
		      uint32_t len);
uint64_t lend_chain_cap(const struct lend_bufs *bufs, uint32_t buf);

#endif
