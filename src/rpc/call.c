/* call - calls that this endpoint makes: from lend_call_start() to done, exactly once.
 *
 * A call may wait at its session: for the address, or for a free slot. The core reports no free
 * slot. So after each turn that changed the core's state, the first call of each queue is tried.
 * Layer: rpc. Threads: the endpoint's. Ownership: the call and its buffers are lent to the endpoint
 * in between. All state is in lend_call.reserved, so starting a call allocates nothing. */
#include <errno.h>
#include <string.h>

#include "rpc/msg.h"
#include "rpc/heads.h"
#include "rpc/call_spans.h"
#include "stream/duplex.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/check.h"

enum { MESSAGE_MAX = 1 << 30 };

/* Copies a request into one segment if its chain has too many for the core: see lend_msg_fits(). */
static __attribute__((noinline)) uint32_t gather_request(struct lend_ep *ep,
							 const struct lend_buf *message, int *rc)
{
	struct lend_buf *flat = lend_msg_flat(ep->bufs, message);
	uint32_t handle;

	if (!flat) {
		*rc = lend_fail(ENOMEM, "no buffer to gather a chain of many small segments: "
					"send longer ones");
		return 0;
	}
	handle = lend_msg_lend(ep->bufs, flat, false, rc);
	if (!handle)
		lend_bufs_give(ep->bufs, flat);
	return handle;
}

/* Lends a call's message and landing memory to the core. */
static inline int prepare_call(struct lend_ep *ep, struct lend_call_priv *p,
			       struct lend_buf *message)
{
	int rc = 0;

	if (message)
		p->lent.request = lend_msg_fits(message, ep->mtu_max)
				      ? lend_msg_lend(ep->bufs, message, false, &rc)
				      : gather_request(ep, message, &rc);
	if (message != p->request && lend_mbuf(message)->state == LEND_MBUF_USER) {
		message->next = NULL; /* gathered, or refused */
		lend_bufs_give(ep->bufs, message);
	}
	if (p->landing && rc == 0)
		p->lent.landing = lend_msg_lend(ep->bufs, p->landing, true, &rc);
	return rc;
}

/* Undoes prepare_call(), also if it failed half-way: the chains are the caller's again. */
static void unprepare_call(struct lend_ep *ep, struct lend_call_priv *p)
{
	struct lend_buf *sent = lend_msg_back(ep->bufs, p->lent.request);

	if (p->flags & LEND_CALL_HEAD)
		sent = lend_call_head_free(ep, p->request, sent);
	if (sent != p->request)
		lend_bufs_give(ep->bufs, sent);
	(void)lend_msg_back(ep->bufs, p->lent.landing);
}

/* Hands a prepared call to the core; it stays prepared on failure. */
static inline int submit_call(struct lend_ep *ep, lend_ns now, uint64_t session,
			      struct lend_call *call, struct lend_call_priv *p)
{
	struct lend_core_call out = {.method = call->method,
				     .class = (uint8_t)(p->class | (p->flags & LEND_CALL_HEAD)),
				     .zero_rtt = call->zero_rtt,
				     .deadline = p->deadline,
				     .request = p->lent.request,
				     .reply = p->lent.landing,
				     .tag = (uintptr_t)call};
	int rc = lend_core_call(ep->core, now, session, &ep->bufs->table, &out, &p->core);

	if (rc < 0)
		return rc;
	ep->tick_at = lend_min_u64(ep->tick_at, p->deadline);
	lend_ep_pause_bulk(ep, p->class, false);
	if (p->parent && lend_nested_of(ep, p->parent))
		lend_nested_join(ep, call, p->parent);
	return 0;
}

int lend_call_submit(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call)
{
	return submit_call(ep, ep->now, s->core, call, lend_call_priv(call));
}

/* Starts a prepared call that may wait for a slot. It does not overtake waiting ones. */
static __attribute__((noinline)) int
submit_or_wait(struct lend_ep *ep, lend_ns now, struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);
	int rc = -EAGAIN;

	if (!s->first || p->class < lend_call_priv(s->first)->class)
		rc = submit_call(ep, now, s->core, call, p);
	return rc == -EAGAIN ? lend_calls_wait(ep, s, call) : rc;
}

static int explain_failure(int rc, uint64_t len)
{
	switch (rc) {
	case -EAGAIN:
		return lend_fail(EAGAIN, "the session or the endpoint has no room for another "
					 "call: wait for some to end");
	case -EMSGSIZE:
		return lend_fail(
		    EMSGSIZE,
		    "a request of %llu bytes is longer than the peer takes: raise its message_max",
		    (unsigned long long)len);
	case -ESTALE:
		return lend_fail(ESTALE, "the session has ended; connect again");
	default:
		return rc;
	}
}

/* Sets the result until the call ends: one that never started must not look successful. */
static void preset_result(struct lend_call *call)
{
	call->status = LEND_UNKNOWN;
	call->ran = LEND_RAN_NO;
}

static __attribute__((noinline)) int refuse_call(const struct lend_session_rec *s,
						 struct lend_call *call)
{
	if (!(lend_call_priv(call)->flags & LEND_CALL_BUSY))
		preset_result(call);
	if (!s)
		return explain_failure(-ESTALE, 0);
	if (call->priority > LEND_BULK)
		return lend_fail(EINVAL, "priority %u: write 1 (most urgent) to 8 (bulk), or 0",
				 call->priority);
	return lend_fail(EALREADY,
			 "this call is in flight: wait for its done, or use a new zeroed one");
}

/* Returns whether a message has segments of this request's. */
static bool has_taken(struct lend_buf *message, lend_request request)
{
	for (; message; message = message->next)
		if (lend_mbuf(message)->request == request.id)
			return true;
	return false;
}

/* Handles what most calls do not have: a request of several segments, or a parent request. */
static __attribute__((noinline)) int start_with_care(struct lend_ep *ep, struct lend_call *call,
						     struct lend_call_priv *p)
{
	uint8_t class = (uint8_t)p->class;
	int rc = 0;

	if (lend_msg_len(call->request) > MESSAGE_MAX)
		return -EMSGSIZE;
	if (call->parent.id) {
		if (call->hops || has_taken(call->request, call->parent))
			p->flags |= LEND_CALL_PASSES;
		rc = lend_nested_inherit(ep, call, &class, &p->deadline);
		p->parent = call->parent.id;
		p->class = class;
	}
	return rc;
}

/* Returns whether a request with a head is longer than its peer takes. The core's limit leaves room
 * for the head. */
static bool exceeds_peer(struct lend_ep *ep, const struct lend_session_rec *s,
			 const struct lend_call *call)
{
	return s->state == LEND_SESSION_OPEN && call->method != LEND_METHOD_STREAM &&
	       lend_msg_len(call->request) > lend_core_session_message_max(ep->core, s->core);
}

static __attribute__((noinline)) int start_failed(struct lend_ep *ep, struct lend_call *call,
						  int rc)
{
	struct lend_call_priv *p = lend_call_priv(call);

	unprepare_call(ep, p);
	if (p->flags & LEND_CALL_TRACED)
		lend_trace_end(ep, p->span, call, LEND_CANCELLED);
	*p = (struct lend_call_priv){.flags = 0};
	return explain_failure(rc, lend_msg_len(call->request));
}

static inline uint16_t class_of(const struct lend_call *call)
{
	return (uint16_t)((call->priority ? call->priority : LEND_NORMAL) - 1u);
}

/* Begins the span of a call, if it is sampled or its parent is traced. */
static void begin_trace(struct lend_ep *ep, const struct lend_session_rec *s,
			const struct lend_call *call, struct lend_call_priv *p)
{
	const struct lend_req *parent =
	    call->parent.id ? lend_serve_find(ep->home ? ep->home : ep, call->parent) : NULL;

	p->span = (uint16_t)lend_trace_call(ep, s, call, parent);
	p->flags |= p->span ? LEND_CALL_TRACED : 0;
}

/* Returns when a call that starts now has to end. */
static inline lend_ns deadline_of(const struct lend_ep *ep, lend_ns now,
				  const struct lend_call *call)
{
	lend_ns deadline, after = call->timeout ? call->timeout : ep->config.timeout;

	return __builtin_add_overflow(now, after, &deadline) ? LEND_NEVER : deadline;
}

/* Starts a call that waits, is urgent, or has something else than a request of one segment. */
static int start_special(struct lend_ep *ep, struct lend_session_rec *s, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_buf *message = call->request;
	lend_ns now = lend_ep_now(ep);
	bool headed;
	int rc = 0;

	*p = (struct lend_call_priv){.flags = call->queue ? LEND_CALL_BUSY | LEND_CALL_QUEUES
							  : LEND_CALL_BUSY,
				     .request = call->request,
				     .landing = call->reply,
				     .deadline = deadline_of(ep, now, call),
				     .class = class_of(call)};
	if (call->parent.id || (call->request && call->request->next))
		rc = start_with_care(ep, call, p);
	lend_ep_urgent(ep, (uint8_t)p->class);
	if (rc == 0 && (s->samples || call->parent.id))
		begin_trace(ep, s, call, p);
	headed = call->head || p->flags & LEND_CALL_TRACED;
	if (headed && exceeds_peer(ep, s, call))
		rc = -EMSGSIZE;
	if (rc == 0 && headed)
		rc = lend_call_head_make(ep, s, call, p, &message);
	if (rc == 0)
		rc = prepare_call(ep, p, message);
	if (rc == 0)
		rc = s->state == LEND_SESSION_PENDING ? lend_calls_wait(ep, s, call)
		     : call->queue                    ? submit_or_wait(ep, now, s, call)
						      : submit_call(ep, now, s->core, call, p);
	if (rc == -ENOTSUP) {
		struct lend_session_rec one = {.first = call};

		lend_calls_abandon(ep, &one, LEND_UNIMPLEMENTED); /* its peer reads no heads */
		rc = 0;
	}
	if (rc < 0)
		return start_failed(ep, call, rc);
	ep->dirty = true;
	ep->stats.calls_started++;
	return 0;
}

/* Starts a call that is not plain, or refuses it. */
static __attribute__((noinline)) int start_any(struct lend_ep *ep, lend_session session,
					       struct lend_call *call)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);

	if (!s || lend_call_priv(call)->flags & LEND_CALL_BUSY || call->priority > LEND_BULK)
		return refuse_call(s, call);
	preset_result(call);
	return start_special(ep, s, call);
}

/* Counts a call of a session that samples. Returns false if it is the one to be sampled. */
static inline bool is_unsampled(struct lend_ep *ep, const struct lend_session_rec *s)
{
	return s->state == LEND_SESSION_OPEN && ep->unsampled > 0 && ep->unsampled--;
}

/* Returns whether the session is open, and the call is not to be sampled. One comparison decides
 * for a session that does not sample. */
static inline bool is_open_unsampled(struct lend_ep *ep, const struct lend_session_rec *s)
{
	static const uint8_t open[2] = {LEND_SESSION_OPEN, false}; /* state, samples */

	_Static_assert(offsetof(struct lend_session_rec, samples) ==
			   offsetof(struct lend_session_rec, state) + 1,
		       "one comparison");
	return memcmp((const char *)s + offsetof(struct lend_session_rec, state), open,
		      sizeof(open)) == 0 ||
	       is_unsampled(ep, s);
}

/* Returns whether the common path starts a call: nothing else than a request of one segment. */
static inline bool is_plain(const struct lend_ep *ep, const struct lend_call *call)
{
	static const uint8_t special[4] = {(uint8_t)~LEND_NORMAL, 0xff, 0, 0xff};
	uint32_t options, mask;

	/* One comparison for priority (0 or LEND_NORMAL), zero_rtt, hops (any) and queue. */
	memcpy(&options, &call->priority, sizeof(options));
	memcpy(&mask, special, sizeof(mask));
	return !(call->parent.id | (uintptr_t)call->reply | (uintptr_t)call->head) &&
	       !(options & mask) && call->request && lend_msg_is_own(ep->bufs, call->request);
}

_Static_assert(offsetof(struct lend_call, queue) == offsetof(struct lend_call, priority) + 3 &&
		   offsetof(struct lend_call, hops) == offsetof(struct lend_call, priority) + 2,
	       "one comparison");

/* Takes back the request of a call that the core refused with rc. */
static __attribute__((noinline)) int refuse_plain(struct lend_ep *ep, struct lend_call *call,
						  int rc)
{
	(void)lend_msg_back(ep->bufs, lend_mbuf(call->request)->handle);
	return explain_failure(rc, call->request->len);
}

int lend_call_start(struct lend_ep *ep, lend_session session, struct lend_call *call)
{
	const struct lend_session_rec *s = lend_sessions_find(ep, session);
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_core_call out;
	lend_ns now;
	int rc;

	if (!s || p->flags || !is_plain(ep, call) || !is_open_unsampled(ep, s))
		return start_any(ep, session, call);
	preset_result(call);
	now = lend_ep_now(ep);
	out = (struct lend_core_call){.method = call->method,
				      .class = LEND_NORMAL - 1,
				      .deadline = deadline_of(ep, now, call),
				      .request = lend_msg_lend_own(ep->bufs, call->request, false),
				      .tag = (uintptr_t)call};
	p->request = call->request;
	rc = lend_core_call(ep->core, now, s->core, &ep->bufs->table, &out, &p->core);
	if (rc < 0)
		return refuse_plain(ep, call, rc);
	p->flags = LEND_CALL_BUSY | LEND_CALL_PLAIN;
	if (out.deadline < ep->tick_at)
		ep->tick_at = out.deadline;
	ep->dirty = true;
	ep->stats.calls_started++;
	return 0;
}

/* Gives back a reply that done did not keep. */
static __attribute__((noinline)) void give_unkept(struct lend_ep *ep)
{
	lend_bufs_give(ep->bufs, ep->unkept);
	ep->unkept = NULL;
}

/* Removes a call that ends from its parent's, and ends its span. */
static __attribute__((noinline)) void leave_tree(struct lend_ep *ep, struct lend_call *call,
						 const struct lend_call_priv *p)
{
	if (p->flags & LEND_CALL_TRACED)
		lend_trace_end(ep, p->span, call, call->status);
	if (p->flags & (LEND_CALL_CHILD | LEND_CALL_PASSES))
		lend_nested_leave(ep, call);
}

static inline void finish_call(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);

	if (p->flags & (LEND_CALL_CHILD | LEND_CALL_PASSES | LEND_CALL_TRACED))
		leave_tree(ep, call, p);
	p->flags = 0;
	ep->stats.calls_ended++;
	if (call->done)
		call->done(call);
	if (ep->unkept)
		give_unkept(ep);
}

int lend_call_keep(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_buf *copy;

	if (call->reply != &ep->view.pub) {
		ep->unkept = NULL;
		return 0;
	}
	copy = lend_msg_flat(ep->bufs, call->reply);
	if (!copy)
		return lend_fail(ENOMEM, "no buffer for the reply: give some back");
	call->reply = copy;
	return 0;
}

/* Sets the result of a call that had no memory for its whole reply. */
static __attribute__((noinline)) void exhaust_call(struct lend_call *call)
{
	call->status = LEND_RESOURCE_EXHAUSTED;
	call->ran = LEND_RAN_YES;
	lend_msg_landed(call->reply, 0);
}

/* Copies a reply that is in place in a carrier's slot to the caller's memory, or to a buffer. */
static void copy_reply(struct lend_ep *ep, struct lend_call *call, const struct lend_event *ev)
{
	struct lend_buf *to = call->reply;

	if (!to)
		to = call->reply = lend_bufs_take(ep->bufs, ev->data_len);
	if (!to || (to->cap < ev->data_len && lend_msg_cap(to) < ev->data_len))
		exhaust_call(call);
	else if (ev->parts)
		lend_msg_fill_parts(to, ev->part, ev->parts);
	else
		lend_msg_fill(to, ev->data, ev->data_len);
}

/* Sets the reply: the core's buffer, the caller's landing memory, a copy, or none. */
static __attribute__((noinline)) void take_reply(struct lend_ep *ep, struct lend_call *call,
						 const struct lend_event *ev)
{
	struct lend_buf *landing = lend_call_priv(call)->landing, *chain;

	call->reply = landing;
	if (ev->reply) {
		chain = lend_ep_back(ep, ev->reply, false);
		/* The reply is in a buffer of the core's, not in the landing memory. That never
		 * happens, but the buffer must not leak. */
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
	if (!call->reply && call->status == LEND_OK)
		exhaust_call(call);
	if (call->in_place && !landing)
		ep->unkept = call->reply;
}

/* Shows a reply of several parts in place, as a chain. Returns NULL for lack of buffers. */
static struct lend_buf *show_parts(struct lend_ep *ep, const struct lend_event *ev)
{
	struct lend_buf *chain = lend_reply_show(ep, ev->part[0].data, ev->part[0].len);
	struct lend_buf **last = &chain->next;

	for (uint32_t i = 1; i < ev->parts; i++) {
		*last = lend_bufs_wrap(ep->bufs, (void *)(uintptr_t)ev->part[i].data,
				       ev->part[i].len, NULL, NULL);
		if (!*last) {
			lend_bufs_give(ep->bufs, chain->next);
			return NULL;
		}
		last = &(*last)->next;
	}
	return chain;
}

/* Sets a reply of several parts. Returns buffers of those that are shown in place, to be given back
 * after done. */
static __attribute__((noinline)) struct lend_buf *
take_parts(struct lend_ep *ep, struct lend_call *call, const struct lend_event *ev)
{
	struct lend_buf *shown = call->in_place == LEND_CHAIN ? show_parts(ep, ev) : NULL;

	call->reply = shown;
	if (!shown)
		take_reply(ep, call, ev);
	return shown ? shown->next : NULL;
}

/* Notes that the server of an event's session ran the handler of a call's name. */
static void note_name_known(struct lend_ep *ep, struct lend_call *call, const struct lend_event *ev)
{
	lend_session session = lend_sessions_of(ep, ev->session);

	lend_call_head_answered(lend_sessions_find(ep, session), call,
				lend_call_priv(call)->flags >> LEND_CALL_NAME);
}

/* Ends a call whose reply is longer than message_max without its head. */
static void refuse_reply(struct lend_ep *ep, struct lend_call *call)
{
	if (ep->unkept == call->reply)
		ep->unkept = NULL;
	lend_bufs_give(ep->bufs, call->reply);
	call->reply = NULL;
	exhaust_call(call);
}

/* Sets a reply that begins with a head, without the head. */
static __attribute__((noinline)) void take_with_head(struct lend_ep *ep, struct lend_call *call,
						     const struct lend_event *ev)
{
	struct lend_buf *flat = ev->parts ? lend_bufs_take(ep->bufs, ev->data_len) : NULL;
	struct lend_event bare = *ev;

	if (flat) {
		lend_msg_fill_parts(flat, ev->part, ev->parts);
		bare.data = flat->data;
		bare.parts = 0;
	}
	if (bare.data && !bare.parts &&
	    lend_reason_cut(ep, call, lend_call_priv(call)->flags, &bare)) {
		call->reply_len = bare.len;
		take_reply(ep, call, &bare);
	} else { /* of several datagrams, or not valid */
		take_reply(ep, call, ev);
		lend_reason_take(ep, call, lend_call_priv(call));
	}
	lend_bufs_give(ep->bufs, flat);
	if (call->reply_len > ep->config.message_max && !lend_call_priv(call)->landing)
		refuse_reply(ep, call);
	if (ep->head_of == call && !lend_call_text(ep, call, LEND_TEXT_METHOD))
		note_name_known(ep, call, ev);
}

/* Gives back other buffers than the caller's. Returns the caller's request if a gathered copy was
 * sent, or NULL if it is still lent. */
static __attribute__((noinline)) struct lend_buf *
own_request(struct lend_ep *ep, struct lend_call *call, struct lend_buf *given,
	    struct lend_buf *back, const struct lend_event *ev)
{
	bool flat;

	back = lend_call_head_free(ep, given, back);
	if (!ev->head)
		note_name_known(ep, call, ev);
	if (!given || back == given)
		return back;
	flat = ev->buf && lend_mbuf(given)->state == LEND_MBUF_USER;
	lend_bufs_give(ep->bufs, back);
	return flat ? given : NULL;
}

/* Sets the rest of the state of a call that started on the common path. */
static void complete_plain(struct lend_call_priv *p)
{
	p->flags = LEND_CALL_BUSY;
	p->class = LEND_NORMAL - 1;
	p->landing = NULL;
}

void lend_calls_end(struct lend_ep *ep, const struct lend_event *ev)
{
	struct lend_call *call = (struct lend_call *)(uintptr_t)ev->tag;
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_buf *request = lend_ep_back(ep, ev->buf, ev->maybe_queued);
	struct lend_buf *rest = NULL;

	if (p->flags & LEND_CALL_PLAIN)
		complete_plain(p);
	lend_ep_pause_bulk(ep, p->class, true);
	call->status = (enum lend_status)ev->status;
	call->ran = (enum lend_ran)ev->ran;
	call->hops = (uint8_t)(ev->more_hops + (ev->ran == LEND_RAN_YES));
	if (request != p->request)
		request = own_request(ep, call, p->request, request, ev);
	call->request = request;
	call->reply_len = ev->len;
	if (ep->head_of == call)
		ep->head_of = NULL;
	if (ev->head)
		take_with_head(ep, call, ev);
	else if (!ev->data_len || ev->reply || p->landing)
		take_reply(ep, call, ev);
	else if (ev->parts)
		rest = take_parts(ep, call, ev);
	else if (call->in_place)
		call->reply = lend_reply_show(ep, ev->data, ev->data_len);
	else if (lend_bufs_has(ep->bufs, ev->data_len))
		call->reply = lend_msg_copy(ep->bufs, ev->data, ev->data_len);
	else
		take_reply(ep, call, ev);
	finish_call(ep, call);
	if (rest)
		lend_bufs_give(ep->bufs, rest);
}

/* Ends every call that waits at this session with a status; done runs in the next part of a
 * turn. */
void lend_calls_abandon(struct lend_ep *ep, struct lend_session_rec *s, enum lend_status status)
{
	while (s->first) {
		struct lend_call *call = s->first;
		struct lend_call_priv *p = lend_call_priv(call);

		s->first = p->next;
		unprepare_call(ep, p);
		call->status = status;
		call->ran = LEND_RAN_NO;
		call->hops = 0;
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
		finish_call(ep, call);
		call = next;
	}
	return n;
}

void lend_call_cancel(struct lend_ep *ep, struct lend_call *call)
{
	struct lend_call_priv *p = lend_call_priv(call);

	if (!(p->flags & LEND_CALL_BUSY))
		return;
	ep->dirty = true;
	if (p->flags & LEND_CALL_WAITS)
		lend_calls_cancel(ep, call);
	else
		lend_core_cancel(ep->core, p->core, LEND_CANCELLED);
}

int lend_call_sync(struct lend_ep *ep, lend_session session, struct lend_call *call)
{
	int rc = lend_ep_check(ep);

	if (!(lend_call_priv(call)->flags & LEND_CALL_BUSY))
		preset_result(call);
	call->in_place = 0;
	if (rc == 0)
		rc = lend_call_start(ep, session, call);
	while (rc >= 0 && lend_call_priv(call)->flags & LEND_CALL_BUSY)
		rc = lend_wait(ep, LEND_NEVER);
	return rc < 0 ? rc : 0;
}
