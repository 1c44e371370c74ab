/* nested_calls - calls made for a request: they inherit its deadline and class, and are cancelled
 * with it. Layer: rpc. Threads: the calls' endpoint's. A worker's calls have a parent in another
 * thread, and read the atomic fields of its record. */
#include <errno.h>

#include "rpc/endpoint.h"
#include "sys/last_error.h"

/* Returns the list of a request's nested calls; a worker's endpoint has one list for all. */
struct lend_call **lend_nested_of(struct lend_ep *ep, uint64_t parent)
{
	struct lend_req *req;

	if (ep->home)
		return &ep->adopted;
	req = lend_serve_find(ep, (lend_request){parent});
	if (!req)
		return NULL;
	req->rare = true;
	return &req->children;
}

void lend_nested_join(struct lend_ep *ep, struct lend_call *call, uint64_t parent)
{
	struct lend_call **head = lend_nested_of(ep, parent);
	struct lend_call_priv *p = lend_call_priv(call);

	p->prev = NULL;
	p->next = *head;
	if (*head)
		lend_call_priv(*head)->prev = call;
	*head = call;
	p->flags |= LEND_CALL_CHILD;
}

/* Adds the hops of a call that passed its parent's message on to those of the parent. */
static void note_hops(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_req *req =
	    lend_serve_find(ep->home ? ep->home : ep, (lend_request){lend_call_priv(call)->parent});

	if (req && call->hops > atomic_load_explicit(&req->more_hops, memory_order_relaxed))
		atomic_store_explicit(&req->more_hops, call->hops, memory_order_relaxed);
}

void lend_nested_leave(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_call **head = p->prev ? NULL : lend_nested_of(ep, p->parent);

	if (p->flags & LEND_CALL_PASSES)
		note_hops(ep, call);
	if (!(p->flags & LEND_CALL_CHILD))
		return;

	if (p->next)
		lend_call_priv(p->next)->prev = p->prev;
	if (p->prev)
		lend_call_priv(p->prev)->next = p->next;
	else if (head)
		*head = p->next;
	p->next = p->prev = NULL;
	p->flags &= ~(uint32_t)LEND_CALL_CHILD;
}

/* Ends a request: its nested calls are cancelled, or continue without a parent. */
void lend_nested_end(struct lend_ep *ep, struct lend_req *req, bool cancel)
{
	struct lend_call *call = req->children;

	if (cancel) {
		ep->queue_at = 0; /* some of its calls may wait for a slot */
		for (; call; call = lend_call_priv(call)->next)
			lend_core_cancel(ep->core, lend_call_priv(call)->core, LEND_CANCELLED);
		return;
	}
	req->children = NULL;
	while (call) {
		struct lend_call_priv *p = lend_call_priv(call);

		call = p->next;
		p->next = p->prev = NULL;
		p->flags &= ~(uint32_t)LEND_CALL_CHILD;
	}
}

/* For a worker's endpoint: cancels the calls with a cancelled parent. */
void lend_nested_adopt(struct lend_ep *ep)
{
	ep->queue_at = 0;
	for (struct lend_call *call = ep->adopted; call; call = lend_call_priv(call)->next)
		if (lend_request_cancelled(ep->home, (lend_request){lend_call_priv(call)->parent}))
			lend_core_cancel(ep->core, lend_call_priv(call)->core, LEND_CANCELLED);
}

/* Sets the class and deadline that a call inherits from its parent. -ESTALE: the parent is gone. */
int lend_nested_inherit(struct lend_ep *ep, const struct lend_call *call, uint8_t *class,
			lend_ns *deadline)
{
	struct lend_req *req = lend_serve_find(ep->home ? ep->home : ep, call->parent);
	lend_ns until;

	if (!req)
		return lend_fail(
		    ESTALE,
		    "the parent request was answered or has ended: start nested calls before that");
	until = atomic_load_explicit(&req->deadline, memory_order_relaxed);
	if (until < *deadline || (call->timeout == 0 && until != LEND_NEVER))
		*deadline = until;
	if (call->priority == 0)
		*class = req->class;
	return 0;
}
