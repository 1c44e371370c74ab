/* host_queue - limit of the bytes in this host's own queue below a carrier: the kernel's queueing
 * discipline, the device's ring. A device sends in the order of its queue, so an urgent datagram
 * waits there behind all bytes of long messages before it.
 *
 * A carrier that knows reports these bytes: before each output after which some were queued, and
 * while messages wait. From the limit on, long messages wait in the core, where shorter and more
 * urgent ones overtake them, until half of it is sent. The limit is what keeps the device busy
 * until this thread looks again, as Linux finds it for drivers (dynamic queue limits): it doubles
 * when the device ran dry meanwhile, or reports nothing sent for LEND_HOST_STUCK. It shrinks by
 * half of what was left each time in 32 such waits. Messages of one datagram never wait.
 *
 * Layer: core (pure). State in struct lend_core, by carrier. */
#ifndef LEND_CORE_HOST_QUEUE_H
#define LEND_CORE_HOST_QUEUE_H

#include "core/state.h"

#define LEND_HOST_LEAST (UINT64_C(8) << 10)
#define LEND_HOST_START (UINT64_C(16) << 10)
#define LEND_HOST_MAX   (UINT64_C(4) << 20) /* bytes: what a kernel's socket holds */
#define LEND_HOST_STUCK (10 * LEND_MS)      /* longer than the largest segment on a slow link */

static inline struct lend_host_queue *lend_host_queue_of(struct lend_core *c,
							 const struct lend_sess *s)
{
	return &c->host[LEND_PEER_CARRIER(s->peer)];
}

/* Notes that a datagram of a long message was handed to the carrier. */
static inline void lend_host_queue_sent(struct lend_core *c, const struct lend_sess *s,
					uint32_t len)
{
	struct lend_host_queue *h = lend_host_queue_of(c, s);

	if (!h->queued)
		h->at = h->moved = c->now;
	h->queued += len;
	h->rounds += h->held;
	h->held = 0;
}

/* Returns whether the limit holds back a datagram of a long message, and notes it. */
static inline bool lend_host_queue_holds(struct lend_core *c, const struct lend_sess *s)
{
	struct lend_host_queue *h = lend_host_queue_of(c, s);

	if (!h->limit || h->queued < h->limit)
		return false;
	h->held = 1;
	return true;
}

/* Returns when a message that is held back tries again: when half of the limit is sent. */
lend_ns lend_host_queue_retry(const struct lend_core *c, const struct lend_sess *s);

#endif
