/* short_call - the common path of calls whose request and reply fit a frame each (coalesce.h).
 *
 * Each function does what the general one does, for the usual value of every field: the session is
 * up and not blocked, no record is missing, no memory was named, nothing was retransmitted. All
 * conditions are tested before the first store but that of the core's time. If one fails, the
 * general function takes over. The call is the same either way, so both paths may serve one call in
 * turn.
 *
 * Layer: core (pure). */
#ifndef LEND_CORE_SHORT_CALL_H
#define LEND_CORE_SHORT_CALL_H

#include "core/state.h"

/* Handles the frames of a coalesced datagram up to the first faulty one. Changes the view. */
void lend_short_receive(struct lend_core *c, struct lend_bufs *bufs, struct lend_sess *s,
			struct lend_pkt_view *v);

#endif
