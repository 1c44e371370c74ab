/* memory_queue - FIFO queues of messages that wait for memory or for receive budget.
 *
 * A message of several datagrams needs a reassembly and a buffer. If one of them is missing, its
 * datagram is dropped and the sender is notified (LEND_PKT_WAIT); it then sends nothing more of
 * this message. Freed memory is reserved for the head of the queue before its sender is notified to
 * resume (LEND_PKT_DROPPED), so that no more senders resume than there is memory for. The receive
 * budget limits how many bytes may be in flight to this endpoint, and messages wait for it in the
 * same way. A message that is not more urgent than the waiting ones gets no budget before them.
 * Classes are served by fair_share.h, messages of one class in order of arrival.
 *
 * Layer: core (pure). Queues: messages that need a buffer, messages that have one, and messages
 * that wait for budget; behind them those of peers above their share. No message is in two. */
#ifndef LEND_CORE_MEMORY_QUEUE_H
#define LEND_CORE_MEMORY_QUEUE_H

#include "core/state.h"

void lend_memq_init(struct lend_core *c);
/* Takes memory for a message of len bytes. False: there is none, or others wait for it; the message
 * is queued, too. */
bool lend_memq_take(struct lend_core *c, struct lend_call_rec *k, uint32_t len);
/* Handles a query of the sender of a waiting message: may evict a partial message that receives no
 * data any more. */
void lend_memq_on_query(struct lend_core *c, const struct lend_call_rec *k);
/* Takes `more` bytes of the budget and returns how many it got. If that is less, the message waits
 * for the rest. */
uint64_t lend_memq_take_budget(struct lend_core *c, struct lend_call_rec *k, uint64_t more);
/* Serves the queues after memory or budget was released. */
void lend_memq_serve(struct lend_core *c);
/* Removes a message that ends from its queue. */
void lend_memq_leave(struct lend_core *c, struct lend_call_rec *k);

static inline uint32_t lend_memq_waiting(const struct lend_core *c)
{
	return c->memory_queue[0].n + c->memory_queue[1].n + c->budget_queue.n + c->behind[0].n +
	       c->behind[1].n;
}

#endif
