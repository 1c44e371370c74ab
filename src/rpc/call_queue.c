/* call_queue - calls that wait at their session, until its address is resolved or for a free slot:
 * by class, then in order of arrival, each until its deadline.
 *
 * The links are in lend_call.reserved, so a call that waits allocates nothing. Layer: rpc. Threads:
 * the endpoint's. */
#include <errno.h>

#include "rpc/endpoint.h"
#include "sys/last_error.h"
#include "util/bits.h"

/* Adds a call to those that wait at their session: behind all that are as urgent. */
static void insert_waiting(struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_call **link = &s->first;

	if (s->last && lend_call_priv(s->last)->class <= p->class)
		link = &lend_call_priv(s->last)->next;
	while (*link && lend_call_priv(*link)->class <= p->class)
		link = &lend_call_priv(*link)->next;
	p->next = *link;
	*link = call;
	if (!p->next)
		s->last = call;
	s->waiting++;
	p->flags |= LEND_CALL_WAITS;
}

/* Adds an open session to those with calls that wait for a slot, one of them up to a deadline. */
static void join_queue(struct lend_ep *ep, struct lend_session_rec *s, lend_ns deadline)
{
	ep->queue_at = lend_min_u64(ep->queue_at, deadline);
	if (s->queued)
		return;
	s->queued = true;
	s->next = ep->queued;
	ep->queued = (uint32_t)(s - ep->session);
}

int lend_calls_wait(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);

	if (!(p->flags & LEND_CALL_QUEUES) && s->waiting >= lend_core_slots(ep->core, p->class))
		return lend_fail(EAGAIN,
				 "%u calls wait for this session to open: wait for some to end",
				 s->waiting);
	insert_waiting(s, call);
	if (s->state == LEND_SESSION_OPEN)
		join_queue(ep, s, p->deadline);
	return 0;
}

/* Hands waiting calls to the core, in their order, until one has to wait for a slot. A call that
 * may not wait, or that the core does not accept, ends. */
static void submit_waiting(struct lend_ep *ep, struct lend_session_rec *s)
{
	while (s->first) {
		struct lend_call *call = s->first;
		struct lend_call_priv *p = lend_call_priv(call);
		struct lend_call *next = p->next;
		int rc;

		p->next = NULL;
		rc = lend_call_submit(ep, s, call);
		if (rc == -EAGAIN && p->flags & LEND_CALL_QUEUES) {
			p->next = next;
			return;
		}
		s->first = next;
		s->waiting--;
		if (rc < 0) {
			struct lend_session_rec one = {.first = call};

			lend_calls_abandon(ep, &one,
					   rc == -ESTALE    ? LEND_UNAVAILABLE
					   : rc == -ENOTSUP ? LEND_UNIMPLEMENTED
							    : LEND_RESOURCE_EXHAUSTED);
			continue;
		}
		p->flags &= ~(uint32_t)LEND_CALL_WAITS;
	}
	s->last = NULL;
}

void lend_calls_admit(struct lend_ep *ep, struct lend_session_rec *s)
{
	if (s->first)
		join_queue(ep, s, 0);
}

void lend_calls_leave(struct lend_ep *ep, struct lend_session_rec *s, enum lend_status status)
{
	uint32_t *at = &ep->queued;

	if (!s->queued)
		return;
	lend_calls_abandon(ep, s, status);
	while (&ep->session[*at] != s)
		at = &ep->session[*at].next;
	*at = s->next;
	s->queued = false;
}

/* Returns the status of a waiting call that has to end; LEND_OK: it still waits. */
static enum lend_status why_end(struct lend_ep *ep, const struct lend_call_priv *p)
{
	struct lend_req *parent;

	if (p->deadline <= ep->now)
		return LEND_DEADLINE_EXCEEDED;
	parent =
	    p->parent ? lend_serve_find(ep->home ? ep->home : ep, (lend_request){p->parent}) : NULL;
	return parent && atomic_load_explicit(&parent->cancelled, memory_order_relaxed)
		   ? LEND_CANCELLED
		   : LEND_OK;
}

void lend_calls_expire(struct lend_ep *ep, struct lend_session_rec *s)
{
	struct lend_call **link = &s->first;

	s->last = NULL;
	while (*link) {
		struct lend_call *call = *link;
		struct lend_call_priv *p = lend_call_priv(call);
		struct lend_session_rec one = {.first = call};
		enum lend_status status = why_end(ep, p);

		if (status == LEND_OK) {
			ep->queue_at = lend_min_u64(ep->queue_at, p->deadline);
			s->last = call;
			link = (struct lend_call **)&p->next;
			continue;
		}
		*link = p->next;
		s->waiting--;
		p->next = NULL;
		lend_calls_abandon(ep, &one, status);
	}
}

void lend_calls_unqueue(struct lend_ep *ep)
{
	bool due = ep->now >= ep->queue_at;
	uint32_t *at = &ep->queued;

	if (due)
		ep->queue_at = LEND_NEVER;
	while (*at != LEND_NONE32) {
		struct lend_session_rec *s = &ep->session[*at];
		struct lend_call *first = s->first;

		if (due)
			lend_calls_expire(ep, s);
		submit_waiting(ep, s);
		ep->dirty |= s->first != first;
		if (s->first) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		s->queued = false;
	}
	if (ep->ended)
		ep->ran += lend_calls_ended(ep);
}

/* Cancels a call if it waits at this session. */
static bool cancel_waiting(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_session_rec one = {.first = NULL};
	struct lend_call *before = NULL;

	for (struct lend_call *at = s->first; at; before = at, at = lend_call_priv(at)->next) {
		if (at != call)
			continue;
		if (before)
			lend_call_priv(before)->next = lend_call_priv(call)->next;
		else
			s->first = lend_call_priv(call)->next;
		if (s->last == call)
			s->last = before;
		s->waiting--;
		lend_call_priv(call)->next = NULL;
		one.first = call;
		lend_calls_abandon(ep, &one, LEND_CANCELLED);
		return true;
	}
	return false;
}

void lend_calls_cancel(struct lend_ep *ep, struct lend_call *call)
{
	for (uint32_t i = ep->pending; i != LEND_NONE32; i = ep->session[i].next)
		if (cancel_waiting(ep, &ep->session[i], call))
			return;
	for (uint32_t i = ep->queued; i != LEND_NONE32; i = ep->session[i].next)
		if (cancel_waiting(ep, &ep->session[i], call))
			return;
}
