/* grant - receiver-driven grants for the downlink of this endpoint, under congestion control
 * `credit`. The bytes granted and not yet received, over all messages of all sessions, stay within
 * a window of a few times what the downlink carries in one round trip. So data waits at the
 * senders, not in the network.
 *
 * A sender may send only little without a grant (see `first` in the parameters of CONNECT and
 * ACCEPT). Messages that need more wait in a heap. Their rank depends on config.order:
 * - shortest: the bytes left, plus 64 MiB per class, plus 1/AGE of all bytes granted so far. So
 *   shorter messages overtake a message by at most AGE times its length.
 * - deadline: the deadline, or a second from now if that is earlier, plus a second per class.
 * - FIFO: the order of entry into the heap, without classes.
 * - fair: the peer's virtual time, plus the bytes left, at most 64 KiB, plus 64 MiB per class. A
 *   peer's time advances by the bytes granted to it, and starts no earlier than that of the newest
 *   grant (start-time fair queueing, Goyal et al., SIGCOMM'96). So peers share the downlink.
 *
 * A grant is a fraction of the window, so that several senders are active and a slow one does not
 * leave the downlink idle. The window shrinks when datagrams arrive with ECN marks. While none
 * does, another window is tried now and then: a wider one is kept if the throughput rises by more
 * than an eighth, a narrower one if it falls by no more. Grants for bytes that do not arrive for
 * two RTOs (lost, or the sender died) are taken back; if the bytes arrive later, they use no grant.
 *
 * A loop that is longer than the smallest one shows a queue. Where paths differ, or datagrams have
 * random delays, the smallest one is of the luckiest path. So the reordering that this end's own
 * datagrams always suffer is added to it: queues reorder, too, but not at all times.
 *
 * Layer: core (pure). Parts of struct lend_core and struct lend_rx; sessions on lossless carriers
 * are exempt. */
#ifndef LEND_CORE_GRANT_H
#define LEND_CORE_GRANT_H

#include "core/state.h"

#define LEND_GRANTS_START UINT64_C(98304) /* bytes in 8 us at 100 Gb/s */
#define LEND_GRANTS_MAX   UINT64_C(8388608)
#define LEND_GRANTS_CLASS (UINT64_C(1) << 26) /* rank of a class if shortest first, bytes */
/* One class under LEND_ORDER_DEADLINE, in ns. A later deadline counts as this. */
#define LEND_GRANTS_CLASS_NS (1000 * LEND_MS)
#define LEND_GRANTS_YIELDS   (UINT64_C(1) << 62) /* sorts behind all messages that do not yield */
enum { LEND_GRANTS_ONE_SENDER = 8 }; /* window of a single sender, in units of the least window */

void lend_grants_init(struct lend_core *c);
/* Returns the bytes of a message of several datagrams that a new session may send before a grant.
 */
uint32_t lend_grants_first(struct lend_core *c, const struct lend_sess *s);
/* Returns how many bytes of a reply into memory that the caller named are granted together with its
 * request: at most `more`. */
uint32_t lend_grants_ahead(struct lend_core *c, struct lend_call_rec *k, uint64_t more);
/* Notes that a message of this session began to arrive (more), or has ended. */
void lend_grants_count_sender(struct lend_core *c, struct lend_sess *s, bool more);
/* Grants a message some bytes now, up to lend_rx_reach(), or puts it into the heap until the window
 * has room. True: it got some at once. */
bool lend_grants_request(struct lend_core *c, struct lend_call_rec *k);
/* Counts the grant that a message got in advance as in flight from now on: the message gets a
 * reassembly. */
static inline void lend_grants_begin(struct lend_core *c, const struct lend_rx *r)
{
	c->grants.ahead -= r->credit;
}

/* Notes that n bytes of the message at this offset arrived. */
void lend_grants_arrived(struct lend_core *c, struct lend_call_rec *k, uint32_t offset, uint32_t n);
/* Notes that a datagram arrived with an ECN mark. True: the mark must be reported to the sender. */
bool lend_grants_marked(struct lend_core *c);
/* Takes back the grants of a message that has ended, or starts again. */
void lend_grants_end(struct lend_core *c, struct lend_call_rec *k);
/* Grants the free part of the window, and takes back grants that were not used. */
void lend_grants_tick(struct lend_core *c);
/* Returns the time at which lend_grants_tick() has work to do. */
lend_ns lend_grants_next(const struct lend_core *c);

/* Returns whether at most one sender is active and no marks arrive: then only our own queue can
 * fill. */
static inline bool lend_grants_one_sender(const struct lend_grants *m)
{
	return m->senders <= 1 && !m->alpha;
}

/* Returns how many bytes may be granted and not yet received. A sender that is alone gets more, so
 * that it can continue while this thread is in a handler that runs for long. */
static inline uint64_t lend_grants_width(const struct lend_grants *m)
{
	return lend_grants_one_sender(m)
		   ? lend_max_u64(m->window, LEND_GRANTS_ONE_SENDER * m->least)
		   : m->window;
}

/* Returns whether grants of this session count against the window. */
static inline bool lend_grants_apply(const struct lend_core *c, const struct lend_sess *s)
{
	return c->cfg.congestion == LEND_CC_CREDIT && !s->lossless;
}

/* Returns how many bytes of the reply to one more call may arrive before a grant. more: calls that
 * are not counted yet. */
static inline uint32_t lend_grants_first_reply(const struct lend_core *c, const struct lend_sess *s,
					       uint32_t more)
{
	uint64_t sharers = c->used[0] + more + 1u;
	uint32_t share = s->payload;

	if (!lend_grants_apply(c, s))
		return c->cfg.unscheduled;
	if (sharers * share < c->grants.window) /* otherwise the quotient is at most the payload */
		share = (uint32_t)c->grants.window / (uint32_t)sharers;
	return lend_min_u32(share, c->cfg.unscheduled);
}
_Static_assert(LEND_GRANTS_MAX <= UINT32_MAX, "a division of 32 bits will do");

#endif
