/* flight - limit of what a session has in flight of long messages: twice what its path carries in
 * one round trip until the rate stops rising, then 1.5 times, 1.25 times while buffers overflow,
 * and one millisecond's worth.
 *
 * Grants keep the receiver's downlink busy; one sender gets a window that short buffers on the way
 * do not hold. So the sender measures the rate at which its datagrams are reported, per round, and
 * the smallest round trip, as BBR does (draft-cardwell-iccrg-bbr). A round ends with the report of
 * a datagram sent after its begin. Only rounds that this limit held back lower the rate: others
 * show what the application sent. The millisecond covers the delays of hosts, so the limit does not
 * matter on paths of a few microseconds. Its own queue hides the smallest round trip: after
 * LEND_FLIGHT_STALE without a new one the session lets the queue drain for two rounds. A session
 * begins with what the last one of its peer has measured (peer_window.h).
 *
 * Layer: core (pure). State in struct lend_few; only under `credit`, not on lossless carriers. */
#ifndef LEND_CORE_FLIGHT_H
#define LEND_CORE_FLIGHT_H

#include "core/arena.h"
#include "core/cc.h"
#include "util/bits.h"

#define LEND_FLIGHT_STALE (5000 * LEND_MS)
enum { LEND_FLIGHT_LEAST = 16 }; /* datagrams */

/* Returns whether the limit holds back a datagram, and notes it. Numbers that were reported behind
 * a lost one do not count. */
static inline bool lend_flight_holds(struct lend_core *c, const struct lend_sess *s)
{
	struct lend_flight *f = &lend_few_of(c, s)->flight;

	if (!s->has_flight || lend_min_u64(s->number - s->oldest, f->out) < f->limit)
		return false;
	f->held = true;
	return true;
}

/* Notes that a datagram of a long message was sent, or (-1) refused by the carrier. */
static inline void lend_flight_sent(struct lend_core *c, const struct lend_sess *s, int n)
{
	struct lend_flight *f = &lend_few_of(c, s)->flight;

	if (s->has_flight && (n > 0 || f->out > 0))
		f->out = (uint32_t)lend_min_u64(f->out + (uint32_t)n, s->number - s->oldest);
}

/* Keeps what a session that ends has measured, for the next one of its peer. */
void lend_flight_keep(struct lend_core *c, const struct lend_sess *s);
/* Notes a report: the largest number, how many datagrams of long messages it is the first to cover
 * and to declare lost, and the round trip without the peer's delay, 0 if unknown. */
void lend_flight_reported(struct lend_core *c, struct lend_sess *s, const struct lend_cc_report *r);

#endif
