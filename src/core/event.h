/* event - the queue of events for the core's caller, in order of occurrence. Layer: core (pure).
 * The ring has twice the room of all events that the records can raise before the caller takes
 * them. */
#ifndef LEND_CORE_EVENT_H
#define LEND_CORE_EVENT_H

#include "core/arena.h"

/* Appends an event and returns it, to be filled in place: all of its fields. The caller has called
 * lend_event_room(). */
LEND_HOT struct lend_event *lend_event_add(struct lend_unhashed *a)
{
	struct lend_event *e = &a->ev[a->ev_end];

	a->ev_n++;
	if (++a->ev_end == a->ev_cap)
		a->ev_end = 0;
	return e;
}

/* Appends a zeroed event of this kind and returns it, to be filled in place. */
LEND_HOT struct lend_event *lend_event_push(struct lend_core *c, uint8_t kind)
{
	struct lend_unhashed *a = lend_unhashed(c);
	struct lend_event *e;

	LEND_CHECK(a->ev_n + 1 < a->ev_cap); /* the event returned last stays valid */
	e = lend_event_add(a);
	*e = (struct lend_event){.kind = kind};
	return e;
}

/* Returns whether there is room for the events of one more datagram, call or session, and after
 * them for the end of all calls and sessions. */
static inline bool lend_event_room(struct lend_core *c)
{
	return lend_unhashed(c)->ev_n < lend_unhashed(c)->ev_room;
}

#endif
