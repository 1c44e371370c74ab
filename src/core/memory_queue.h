/* memory_queue - messages for which there is no memory or no budget: who waits, and who is next.
 *
 * A message of several datagrams needs a reassembly and a buffer. Who finds none is dropped, and
 * told to wait (LEND_PKT_WAIT); its sender then sends nothing of it. Memory that comes back is
 * set aside for the next in line before that one is told to go on (LEND_PKT_DROPPED), so that no
 * more senders go on than there is memory for. What may be on its way here at once, the receive
 * budget, is waited for in the same manner, and who is not more urgent than those who wait does not
 * take what came back before it was their turn. In line: classes by fair_share.h, and within a
 * class as they came.
 *
 * Layer: core (pure). Three lines: of those who need a buffer, of those who brought one, and of
 * those who wait for budget; nobody is in two. */
#ifndef LEND_CORE_MEMORY_QUEUE_H
#define LEND_CORE_MEMORY_QUEUE_H

#include "core/state.h"

void lend_want_init(struct lend_core *c);
/* Memory for a message of len bytes, unless others wait for it; false: it waits, too. */
bool lend_want_sit(struct lend_core *c, struct lend_call_rec *k, uint32_t len);
/* Its sender asks: a message of which nothing comes any more may give way. */
void lend_want_look(struct lend_core *c, const struct lend_call_rec *k);
/* Takes so many bytes of the budget, or what there is for it: then it waits for more. */
uint64_t lend_want_budget(struct lend_core *c, struct lend_call_rec *k, uint64_t more);
/* Memory or budget came back. */
void lend_want_feed(struct lend_core *c);
/* It ends, and leaves the line. */
void lend_want_leave(struct lend_core *c, struct lend_call_rec *k);

static inline uint32_t lend_want_waiting(const struct lend_core *c)
{
	return c->hungry[0].n + c->hungry[1].n + c->starved.n + c->behind[0].n + c->behind[1].n;
}

#endif
