/* admission - which CONNECT may open a session, and RETRY to the others, which takes no memory.
 * Layer: core (pure). */
#ifndef LEND_CORE_ADMISSION_H
#define LEND_CORE_ADMISSION_H

#include "core/arena.h"

/* Returns whether this core made the attempt: a CONNECT that came back proves nothing. */
bool lend_connect_is_own(const struct lend_core *c, uint64_t connect);
/* Returns whether the pattern, and what goes with it, are known here. Sealed sessions need a caller
 * that opens them. */
bool lend_connect_is_known(const struct lend_core *c, const struct lend_pkt_connect *b);
/* Returns whether a CONNECT meets what its server demands. */
bool lend_connect_fits(const struct lend_pkt_connect *b, const struct lend_core_policy *policy);
/* Answers a CONNECT with RETRY. */
void lend_connect_refuse(struct lend_core *c, const struct lend_in *in,
			 const struct lend_pkt_connect *b, uint8_t reason, uint32_t wait_ms);

#endif
