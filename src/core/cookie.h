/* cookie - proves that a client receives at its address, without state at the server.
 *
 * SipHash-128 of address, time and attempt, under a key that changes every minute; good for ten
 * seconds. Demanded from unproven addresses while many connect. Layer: core (pure). */
#ifndef LEND_CORE_COOKIE_H
#define LEND_CORE_COOKIE_H

#include "core/arena.h"

/* Makes a cookie. holder: the number of the address, see lend_core_address(). */
void lend_cookie_make(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      struct lend_pkt_cookie *to);
bool lend_cookie_good(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      const struct lend_pkt_cookie *cookie);
/* Returns whether a CONNECT from an unproven address needs a cookie: a quarter of the half-open
 * sessions that may exist are in use. The rate of CONNECTs does not count, because a CONNECT costs
 * no more than the RETRY would, and clients that connect one after the other keep one round trip.
 */
bool lend_cookie_demanded(const struct lend_core *c);
/* The same for a sealed CONNECT, which it counts: these cost more, so more than 64 within 100 ms
 * count, too. */
bool lend_cookie_charged(struct lend_core *c);

#endif
