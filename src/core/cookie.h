/* cookie - proves that a client receives at its address, without state at the server.
 *
 * SipHash-128 of address, time and attempt, under a key that changes every minute; good for ten
 * seconds. Demanded from unproven addresses while many connect. Layer: core (pure). */
#ifndef LEND_CORE_COOKIE_H
#define LEND_CORE_COOKIE_H

#include "core/table.h"

/* holder: of the address, see lend_early_holder(). */
void lend_cookie_make(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      struct lend_pkt_cookie *to);
bool lend_cookie_good(const struct lend_core *c, uint64_t holder, uint64_t connect,
		      const struct lend_pkt_cookie *cookie);
/* Counts one CONNECT from an unproven address. Returns whether it needs a cookie: more than 64 came
 * within 100 ms, or a quarter of the half-open sessions that may be are in use. */
bool lend_cookie_demanded(struct lend_core *c);

#endif
