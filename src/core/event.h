/* event - what the core has to tell its caller, in the order things happened.
 * Layer: core (pure). The ring holds twice what all records can raise before they are asked for. */
#ifndef LEND_CORE_EVENT_H
#define LEND_CORE_EVENT_H

#include "core/arena.h"

/* A zeroed event of this kind, to be filled in place. */
LEND_HOT struct lend_event *lend_event_push(struct lend_core *c, uint8_t kind)
{
	struct lend_aside *a = lend_aside(c);
	struct lend_event *e;

	LEND_CHECK(a->ev_n + 1 < a->ev_cap); /* the one given out last stays */
	e = &a->ev[a->ev_end];
	a->ev_n++;
	if (++a->ev_end == a->ev_cap)
		a->ev_end = 0;
	*e = (struct lend_event){.kind = kind};
	return e;
}

/* Room for what one datagram, call or session can raise, and then for the end of everything. */
static inline bool lend_event_room(struct lend_core *c)
{
	return lend_aside(c)->ev_n < lend_aside(c)->ev_room;
}

#endif
