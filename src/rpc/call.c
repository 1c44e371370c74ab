/* call - calls made here: from lend_call_start() to done, exactly once.
 * Layer: rpc. Threads: the endpoint's. Ownership: the call and its buffers are lent to the endpoint
 * in between; all state lies in lend_call.reserved, so starting one allocates nothing. */
#include <errno.h>

#include "rpc/msg.h"
#include "rpc/ep.h"
#include "sys/why.h"
#include "util/check.h"

enum { MESSAGE_MAX = 1 << 30 };

/* Takes a call's buffers: their handles stay in priv.core until the core has the call. */
static int prepare(struct lend_ep *ep, struct lend_call_priv *p)
{
	struct lend_buf *flat = NULL;
	uint32_t request = 0, landing = 0;
	int rc = 0;

	if (!lend_msg_fits(p->request, ep->mtu_max)) {
		flat = lend_msg_flat(ep->bufs, p->request);
		if (!flat)
			return lend_fail(ENOMEM,
					 "no buffer to gather a chain of many small segments: "
					 "send longer ones");
	}
	if (p->request)
		request = lend_msg_lend(ep->bufs, flat ? flat : p->request, false, &rc);
	if (rc == 0 && p->landing)
		landing = lend_msg_lend(ep->bufs, p->landing, true, &rc);
	p->core = (uint64_t)request << 32 | landing;
	if (rc < 0 && request)
		(void)lend_msg_back(ep->bufs, request);
	if (rc < 0)
		lend_bufs_give(ep->bufs, flat);
	return rc;
}

/* Undoes it: the chains are the caller's again. */
static void unprepare(struct lend_ep *ep, struct lend_call_priv *p)
{
	struct lend_buf *sent = lend_msg_back(ep->bufs, (uint32_t)(p->core >> 32));

	if (sent != p->request)
		lend_bufs_give(ep->bufs, sent);
	(void)lend_msg_back(ep->bufs, (uint32_t)p->core);
}

/* Hands a prepared call to the core; it stays prepared on failure. */
int lend_calls_submit(struct lend_ep *ep, uint64_t session, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_core_call out = {.method = call->method,
				     .class = (uint8_t)p->class,
				     .early = call->early,
				     .deadline = p->deadline,
				     .request = (uint32_t)(p->core >> 32),
				     .reply = (uint32_t)p->core,
				     .tag = (uintptr_t)call};
	uint64_t handle;
	int rc;

	rc = lend_core_call(ep->core, lend_ep_now(ep), session, &ep->bufs->table, &out, &handle);
	if (rc < 0)
		return rc;
	p->core = handle;
	lend_ep_hush(ep, p->class, false);
	if (p->parent && lend_family_of(ep, p->parent))
		lend_family_join(ep, call, p->parent);
	return 0;
}

/* Puts a call behind the others that wait for their session's address. */
static int wait_there(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);

	if (s->waiting >= lend_core_slots(ep->core, p->class))
		return lend_fail(EAGAIN,
				 "%u calls wait for this session to open: wait for some to end",
				 s->waiting);
	if (s->last)
		lend_call_priv(s->last)->next = call;
	else
		s->first = call;
	s->last = call;
	s->waiting++;
	p->flags |= LEND_CALL_WAITS;
	return 0;
}

/* To the core, or behind those that wait for the session's address. */
static int hand_over(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);
	int rc = prepare(ep, p);

	if (rc < 0)
		return rc;
	if (s->state == LEND_SESSION_PENDING)
		rc = wait_there(ep, s, call);
	else
		rc = lend_calls_submit(ep, s->core, call);
	if (rc < 0)
		unprepare(ep, p);
	return rc;
}

static int explain(int rc, uint64_t len)
{
	switch (rc) {
	case -EAGAIN:
		return lend_fail(EAGAIN, "as many calls are in flight as the session or the "
					 "endpoint allows: wait for some to end");
	case -EMSGSIZE:
		return lend_fail(
		    EMSGSIZE,
		    "a request of %llu bytes is longer than the peer takes: raise its message_max",
		    (unsigned long long)len);
	case -ESTALE:
		return lend_fail(ESTALE, "session is gone; connect again");
	default:
		return rc;
	}
}

int lend_call_start(struct lend_ep *ep, lend_session session, struct lend_call *call)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);
	struct lend_call_priv *p = lend_call_priv(call);
	uint8_t class = (uint8_t)((call->priority ? call->priority : LEND_NORMAL) - 1);
	lend_ns now = lend_ep_now(ep), after = call->timeout ? call->timeout : ep->config.timeout;
	int rc = 0;

	if (!s)
		return lend_fail(ESTALE, "session is gone; connect again");
	if (p->flags & LEND_CALL_BUSY)
		return lend_fail(EALREADY,
				 "this call is under way: wait for its done, or zero a new one");
	if (call->priority > LEND_BULK)
		return lend_fail(EINVAL, "priority %u: write 1 (most urgent) to 8 (bulk), or 0",
				 call->priority);
	*p = (struct lend_call_priv){.flags = LEND_CALL_BUSY,
				     .request = call->request,
				     .landing = call->reply,
				     .deadline =
					 after < LEND_NEVER - now ? now + after : LEND_NEVER};
	if (call->request && call->request->next && lend_msg_len(call->request) > MESSAGE_MAX)
		rc = -EMSGSIZE;
	if (rc == 0 && call->parent.id) {
		rc = lend_family_inherit(ep, call, &class, &p->deadline);
		p->parent = call->parent.id;
	}
	p->class = class;
	lend_ep_urgent(ep, class);
	if (rc == 0)
		rc = hand_over(ep, s, call);
	if (rc < 0) {
		*p = (struct lend_call_priv){.flags = 0};
		return explain(rc, lend_msg_len(call->request));
	}
	ep->dirty = true;
	ep->stats.calls_started++;
	return 0;
}

static void finish(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);

	if (p->flags & LEND_CALL_CHILD)
		lend_family_leave(ep, call);
	p->flags = 0;
	ep->stats.calls_ended++;
	if (call->done)
		call->done(call);
}

/* The reply's bytes are in place in a carrier's slot: into the caller's memory, or a buffer. */
static void copy_reply(struct lend_ep *ep, struct lend_call *call, const struct lend_event *ev)
{
	struct lend_buf *to = call->reply;

	if (!to)
		to = call->reply = lend_bufs_take(ep->bufs, ev->data_len);
	if (!to || (to->cap < ev->data_len && lend_msg_cap(to) < ev->data_len)) {
		call->status = LEND_RESOURCE_EXHAUSTED;
		call->ran = LEND_RAN_YES;
		if (to)
			lend_msg_landed(to, 0);
		return;
	}
	lend_msg_fill(to, ev->data, ev->data_len);
}

/* What came back: memory of the core's supply or of a place, the caller's own, or bytes in place.
 */
static void take_reply(struct lend_ep *ep, struct lend_call *call, const struct lend_event *ev)
{
	struct lend_buf *landing = lend_call_priv(call)->landing, *chain = NULL;

	call->reply = landing;
	call->reply_len = ev->len;
	if (ev->reply) {
		chain = lend_ep_back(ep, ev->reply, false);
		/* No room in the caller's: cannot be, but nothing is lost. */
		if (landing && chain != landing) {
			lend_bufs_give(ep->bufs, chain);
			chain = landing;
		}
		call->reply = chain;
		lend_msg_landed(chain, ev->data ? 0 : ev->len);
		if (lend_msg_cap(chain) < ev->len)
			lend_msg_landed(chain, 0);
	}
	if (ev->data && (ev->data_len || landing))
		copy_reply(ep, call, ev);
	else if (!call->reply && ev->status == LEND_OK)
		call->reply = lend_bufs_take(ep->bufs, 0);
	if (!call->reply && call->status == LEND_OK) {
		call->status = LEND_RESOURCE_EXHAUSTED;
		call->ran = LEND_RAN_YES;
	}
}

void lend_calls_end(struct lend_ep *ep, const struct lend_event *ev)
{
	struct lend_call *call = (struct lend_call *)(uintptr_t)ev->tag;
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_buf *request = lend_ep_back(ep, ev->buf, ev->maybe_queued);

	lend_ep_hush(ep, p->class, true);
	call->status = (enum lend_status)ev->status;
	call->ran = (enum lend_ran)ev->ran;
	/* A gathered copy went out; or it is still lent. */
	if (p->request && request != p->request) {
		bool flat = ev->buf && lend_mbuf(p->request)->state == LEND_MBUF_USER;

		lend_bufs_give(ep->bufs, request);
		request = flat ? p->request : NULL;
	}
	call->request = request;
	take_reply(ep, call, ev);
	finish(ep, call);
}

/* Every call that waits at this session ends with a status, in the next part of a turn. */
void lend_calls_abandon(struct lend_ep *ep, struct lend_session_rec *s, enum lend_status status)
{
	while (s->first) {
		struct lend_call *call = s->first;
		struct lend_call_priv *p = lend_call_priv(call);

		s->first = p->next;
		unprepare(ep, p);
		call->status = status;
		call->ran = LEND_RAN_NO;
		p->next = ep->ended;
		p->flags &= ~(uint32_t)LEND_CALL_WAITS;
		ep->ended = call;
	}
	s->last = NULL;
	s->waiting = 0;
}

uint32_t lend_calls_ended(struct lend_ep *ep)
{
	struct lend_call *call = ep->ended;
	uint32_t n = 0;

	ep->ended = NULL;
	for (; call; n++) {
		struct lend_call *next = lend_call_priv(call)->next;

		call->reply_len = 0;
		finish(ep, call);
		call = next;
	}
	return n;
}

/* The session that a call waits at is found by looking: cancelling before an address is resolved is
 * rare. */
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

void lend_call_cancel(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);

	if (!(p->flags & LEND_CALL_BUSY))
		return;
	ep->dirty = true;
	if (!(p->flags & LEND_CALL_WAITS)) {
		lend_core_cancel(ep->core, p->core, LEND_CANCELLED);
		return;
	}
	for (uint32_t i = ep->pending; i != LEND_NONE32; i = ep->session[i].next)
		if (cancel_waiting(ep, &ep->session[i], call))
			return;
}

int lend_call_sync(struct lend_ep *ep, lend_session session, struct lend_call *call)
{
	int rc = lend_ep_check(ep);

	if (rc == 0)
		rc = lend_call_start(ep, session, call);
	while (rc >= 0 && lend_call_priv(call)->flags & LEND_CALL_BUSY)
		rc = lend_turn(ep, LEND_NEVER);
	return rc < 0 ? rc : 0;
}
