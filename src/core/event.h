/* event - the queue of events for the core's caller, in order of occurrence. Layer: core (pure).
 * The ring has twice the room of all events that the records can raise before the caller takes
 * them. */
#ifndef LEND_CORE_EVENT_H
#define LEND_CORE_EVENT_H

#include "core/arena.h"

enum { LEND_EVENTS_AT_ONCE = 64 }; /* events that one call takes, at most */

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

/* Restarts the ring, if it is empty, at its first cache lines, which are warm. */
LEND_HOT void lend_event_rewind(struct lend_unhashed *a)
{
	if (a->ev_n == 0) {
		a->ev_first = 0;
		a->ev_end = 0;
	}
}

/* Returns lend_event.what of an event with these fields; the others are 0. */
enum { LEND_EVENT_HOPS = 48 }; /* shift of more_hops */
LEND_HOT uint64_t lend_event_what(uint8_t kind, uint8_t status, uint8_t ran, uint8_t class)
{
	return kind | (uint32_t)status << 8 | (uint32_t)ran << 16 | (uint32_t) class << 24;
}

/* Appends a zeroed event of this kind and returns it, to be filled in place. */
LEND_HOT struct lend_event *lend_event_push(struct lend_core *c, uint8_t kind)
{
	struct lend_unhashed *a = lend_unhashed(c);
	struct lend_event *e;

	LEND_CHECK(a->ev_n + LEND_EVENTS_AT_ONCE < a->ev_cap); /* those taken last stay valid */
	e = lend_event_add(a);
	*e = (struct lend_event){.kind = kind};
	return e;
}

/* Returns whether there is room for the events of one more datagram (up to LEND_PKT_FRAMES_MAX
 * frames), call or session, and after them for the end of all calls and sessions. */
static inline bool lend_event_room(struct lend_core *c)
{
	return lend_unhashed(c)->ev_n < lend_unhashed(c)->ev_room;
}

#endif
