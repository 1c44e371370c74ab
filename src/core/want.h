/* want - messages for which there is no memory: who waits, and who is next.
 *
 * A message of several datagrams needs a reassembly and a buffer. Who finds none is dropped, and
 * told to wait (LEND_PKT_WAIT); its sender then sends nothing of it. Memory that comes back is
 * set aside for the next in line before that one is told to go on (LEND_PKT_DROPPED), so that no
 * more senders go on than there is memory for. In line: classes as sched.h serves them, and within
 * a class as they came.
 *
 * Layer: core (pure). Two lines: of those who need a buffer, and of those who brought one. */
#ifndef LEND_CORE_WANT_H
#define LEND_CORE_WANT_H

#include "core/state.h"

/* Memory for a message of len bytes, unless others wait for it; false: it waits, too. */
bool lend_want_sit(struct lend_core *c, struct lend_call_rec *k, uint32_t len);
/* Its sender asks: a message of which nothing comes any more may give way. */
void lend_want_look(struct lend_core *c, const struct lend_call_rec *k);
/* Memory came back. */
void lend_want_feed(struct lend_core *c);
/* It ends, and leaves the line. */
void lend_want_leave(struct lend_core *c, struct lend_call_rec *k);

static inline uint32_t lend_want_waiting(const struct lend_core *c)
{
	return c->hungry[0].n + c->hungry[1].n;
}

#endif
