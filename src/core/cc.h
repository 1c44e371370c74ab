/* cc - congestion control: how many datagrams of long messages may be in flight. Layer: core
 * (pure). */
#ifndef LEND_CORE_CC_H
#define LEND_CORE_CC_H

#include "core/state.h"

enum lend_cc { LEND_CC_NONE };

/* Datagrams that the session may have in flight now, 1 .. LEND_RING. */
static inline uint32_t lend_cc_window(const struct lend_core *c, const struct lend_sess *s)
{
	(void)s;
	LEND_CHECK(c->cfg.congestion == LEND_CC_NONE);
	return LEND_RING;
}

#endif
