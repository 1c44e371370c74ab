/* grant - under congestion control `credit` the receiver grants bytes for its own downlink, over
 * all messages of all sessions: what is granted and not yet here stays within a window of a few
 * times what the line holds, so it waits at the senders, not in the network.
 *
 * What a sender may send unasked is little (see the hello's `first`). Messages that want more stand
 * in a heap: by class, then as config.order has it: by what is left of them, but a message is
 * passed only by so many bytes of shorter ones: AGE times its own; by deadline, a class being worth
 * a second; or, without classes, as they came. A grant is a piece of a window, so that there are
 * several senders under way and one that is slow does not leave the line idle. The window shrinks
 * when datagrams come marked; where nobody marks, a wider or a narrower one is tried now and then,
 * and kept if more comes through, or as much. Credit for bytes that do not come (lost, or their
 * sender died) is taken back after a while; should they come after all, they have used none.
 *
 * Layer: core (pure). Parts of struct lend_core and struct lend_rx; sessions on which nothing is
 * lost have no share in it. */
#ifndef LEND_CORE_GRANT_H
#define LEND_CORE_GRANT_H

#include "core/state.h"

#define LEND_CREDIT_START UINT64_C(98304) /* what 100 Gb/s hold in 8 us */
#define LEND_CREDIT_MAX   UINT64_C(8388608)
#define LEND_CREDIT_CLASS (UINT64_C(1) << 26) /* bytes of other messages that a class is worth */
/* The same by deadline, in ns. What is due later than that is as if it were due then. */
#define LEND_CREDIT_CLASS_NS (1000 * LEND_MS)
#define LEND_CREDIT_YIELDS   (UINT64_C(1) << 62) /* behind all that need not yield */
enum { LEND_CREDIT_ALONE = 8 }; /* times the least window: what one sender may fill */

void lend_credit_init(struct lend_core *c);
/* Bytes of a message of several datagrams that a new session may send before a grant. */
uint32_t lend_credit_first(struct lend_core *c, const struct lend_sess *s);
/* What a reply into named memory may be granted together with its request: up to more bytes. */
uint32_t lend_credit_ahead(struct lend_core *c, struct lend_call_rec *k, uint64_t more);
/* A message of this session began to come in, or is over. */
void lend_credit_sender(struct lend_core *c, struct lend_sess *s, bool more);
/* This message may be granted up to `reach`: it waits for credit unless there is some. True: it got
 * some at once. */
bool lend_credit_want(struct lend_core *c, struct lend_call_rec *k);
/* It gets a reassembly: what it was granted ahead is under way from now on. */
static inline void lend_credit_begin(struct lend_core *c, const struct lend_rx *r)
{
	c->credit.ahead -= r->credit;
}

/* n bytes of it at this offset came. */
void lend_credit_came(struct lend_core *c, struct lend_call_rec *k, uint32_t offset, uint32_t n);
/* A datagram came marked. True: the sender has to hear of it. */
bool lend_credit_marked(struct lend_core *c);
/* It is over, or begins anew. */
void lend_credit_end(struct lend_core *c, struct lend_call_rec *k);
/* Grants what there is, and takes back what was granted in vain. */
void lend_credit_tick(struct lend_core *c);
/* When tick() has something to do. */
lend_ns lend_credit_next(const struct lend_core *c);

/* One sender alone, and where nobody marks, fills no queue but ours. */
static inline bool lend_credit_alone(const struct lend_credit *m)
{
	return m->senders <= 1 && !m->alpha;
}

/* Bytes that may be granted and not yet here. Who is alone may go on while we are away, in a
 * handler that reads a long message, say. */
static inline uint64_t lend_credit_width(const struct lend_credit *m)
{
	return lend_credit_alone(m) ? lend_max_u64(m->window, LEND_CREDIT_ALONE * m->least)
				    : m->window;
}

/* Does this session's credit count? */
static inline bool lend_credit_rules(const struct lend_core *c, const struct lend_sess *s)
{
	return c->cfg.congestion == LEND_CC_CREDIT && !s->lossless;
}

/* Bytes of the reply to one more call that may come before a grant. */
static inline uint32_t lend_credit_first_reply(const struct lend_core *c, const struct lend_sess *s)
{
	uint64_t sharers = c->used[0] + 1u;
	uint32_t share = s->payload;

	if (!lend_credit_rules(c, s))
		return c->cfg.unscheduled;
	if (sharers * share < c->credit.window) /* else that is more than the quotient */
		share = (uint32_t)c->credit.window / (uint32_t)sharers;
	return lend_min_u32(share, c->cfg.unscheduled);
}
_Static_assert(LEND_CREDIT_MAX <= UINT32_MAX, "a division of 32 bits will do");

#endif
