/* event - what the core has to tell its caller, in the order things happened.
 * Layer: core (pure). The ring holds twice what all records can raise between two polls. */
#ifndef LEND_CORE_EVENT_H
#define LEND_CORE_EVENT_H

#include "core/state.h"

/* A zeroed event of this kind, to be filled in place. */
static inline struct lend_event *lend_event_push(struct lend_core *c, uint8_t kind)
{
	struct lend_aside *a = lend_aside(c);
	struct lend_event *e;

	LEND_CHECK(a->ev_n < a->ev_cap);
	e = LEND_AT(c, at_events, struct lend_event) + (a->ev_first + a->ev_n++) % a->ev_cap;
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	return e;
}

/* Room for what one datagram, call or session can raise, and then for the end of everything. */
static inline bool lend_event_room(struct lend_core *c)
{
	return lend_aside(c)->ev_n + 4u * c->records + 2u * c->cfg.sessions < lend_aside(c)->ev_cap;
}

#endif
