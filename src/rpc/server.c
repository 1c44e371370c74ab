/* rpc/server - requests that this endpoint serves, and their replies.
 *
 * The public handle of a request is the core's. Its lower half is an index, so the record is found
 * without a search, and a stale handle differs in its upper half. The endpoint's thread writes the
 * records; other threads read the atomic fields. Layer: rpc. Threads: as documented in lend/rpc.h
 * for each function. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpc/msg.h"
#include "rpc/heads.h"
#include "rpc/remotes.h"
#include "sys/last_error.h"
#include "util/check.h"

struct lend_req *lend_serve_find(struct lend_ep *ep, lend_request request)
{
	uint32_t i = (uint32_t)request.id;

	if (i >= ep->n_req || !request.id ||
	    atomic_load_explicit(&ep->req[i].id, memory_order_acquire) != request.id)
		return NULL;
	return &ep->req[i];
}

/* Copies a reply into one segment if its chain has too many for the core: see lend_msg_fits(). */
static __attribute__((noinline)) struct lend_buf *
fit_reply(struct lend_ep *ep, struct lend_buf *reply, enum lend_status *status)
{
	struct lend_buf *flat;

	if (lend_msg_fits(reply, ep->mtu_max))
		return reply;
	flat = lend_msg_flat(ep->bufs, reply);
	lend_bufs_give(ep->bufs, reply);
	if (!flat)
		*status = LEND_RESOURCE_EXHAUSTED;
	return flat;
}

/* Answers a caller that does not read heads with the reply behind its head. Returns what
 * lend_core_reply() does; *handle is then the one that was passed to it. */
static int answer_headless(struct lend_ep *ep, lend_request request, enum lend_status status,
			   uint32_t *handle)
{
	struct lend_buf *reply = lend_req_head_cut(ep, lend_msg_back(ep->bufs, *handle));
	int err;

	*handle = reply ? lend_msg_lend(ep->bufs, reply, false, &err) : 0;
	return lend_core_reply(ep->core, lend_ep_now(ep), request.id, &ep->bufs->table,
			       (uint8_t)(status & ~(unsigned)LEND_REPLY_HEAD), *handle);
}

/* Handles two cases: the caller no longer waits, or the core refused the reply with rc. */
static __attribute__((noinline)) int answer_again(struct lend_ep *ep, lend_request request, int rc,
						  enum lend_status status, uint32_t handle)
{
	if (rc == -ENOTSUP)
		rc = answer_headless(ep, request, status, &handle);
	if (rc < 0 && handle)
		lend_msg_drop(ep->bufs, handle);
	if (rc < 0 && rc != -ESTALE) /* the reply is longer than a message may be */
		rc = lend_core_reply(ep->core, lend_ep_now(ep), request.id, &ep->bufs->table,
				     LEND_RESOURCE_EXHAUSTED, 0);
	if (rc == -ESTALE ||
	    atomic_load_explicit(&ep->req[(uint32_t)request.id].cancelled, memory_order_relaxed))
		return lend_fail(ESTALE, "the caller no longer waits: nothing to do");
	return rc;
}

static __attribute__((noinline)) int refuse_late_answer(struct lend_ep *ep, struct lend_buf *reply)
{
	lend_bufs_give(ep->bufs, reply);
	return lend_fail(ESTALE, "the request was answered or its caller ended: nothing to do");
}

/* Answers with a short reply, which the core copies. False: the core needs it as a buffer. */
static inline bool answer_short(struct lend_ep *ep, struct lend_req *req, lend_request request,
				enum lend_status status, const void *data, uint32_t len)
{
	if (lend_core_reply_short(ep->core, lend_ep_now(ep), request.id, (uint8_t)status, data,
				  len) < 0)
		return false;
	atomic_store_explicit(&req->id, 0, memory_order_release);
	return true;
}

/* Gives back the segments of a reply before the first one that is in use. */
static void give_unlent(struct lend_ep *ep, struct lend_buf *reply)
{
	while (reply && lend_mbuf(reply)->state == LEND_MBUF_USER) {
		struct lend_buf *next = reply->next;

		reply->next = NULL;
		lend_bufs_give(ep->bufs, reply);
		reply = next;
	}
}

/* Answers with a reply that is longer, of several segments, or none, or that the core does not
 * copy. */
static __attribute__((noinline)) int answer_long(struct lend_ep *ep, struct lend_req *req,
						 lend_request request, enum lend_status status,
						 struct lend_buf *reply)
{
	uint32_t handle = 0;
	int rc, err;

	if (!reply && answer_short(ep, req, request, status, NULL, 0))
		return 0;
	if (reply && reply->next)
		reply = fit_reply(ep, reply, &status);
	if (reply) {
		handle = lend_msg_lend(ep->bufs, reply, false, &err);
		if (!handle) { /* one is in use, or there are too many */
			status = LEND_INTERNAL;
			give_unlent(ep, reply);
		}
	}
	atomic_store_explicit(&req->id, 0, memory_order_release);
	rc = lend_core_reply(ep->core, lend_ep_now(ep), request.id, &ep->bufs->table,
			     (uint8_t)status, handle);
	if (rc < 0 || atomic_load_explicit(&req->cancelled, memory_order_relaxed))
		return answer_again(ep, request, rc, status, handle);
	return 0;
}

/* Answers a request in the endpoint's thread. Always takes reply. */
static int answer_request(struct lend_ep *ep, lend_request request, enum lend_status status,
			  struct lend_buf *reply)
{
	struct lend_req *req = lend_serve_find(ep, request);

	if (!req)
		return refuse_late_answer(ep, reply);
	if (req->head)
		reply = lend_req_head_end(ep, req, &status, reply);
	if (req->children)
		lend_nested_end(ep, req, false);
	ep->dirty = true;
	ep->stats.replies++;
	if (atomic_load_explicit(&req->more_hops, memory_order_relaxed))
		lend_core_reply_hops(ep->core, request.id,
				     atomic_load_explicit(&req->more_hops, memory_order_relaxed));
	if (!reply || reply->len > LEND_KEPT_MAX || reply->next || status & LEND_REPLY_HEAD ||
	    lend_mbuf(reply)->state != LEND_MBUF_USER ||
	    !answer_short(ep, req, request, status, reply->data, reply->len))
		return answer_long(ep, req, request, status, reply);
	lend_bufs_give(ep->bufs, reply);
	return 0;
}

/* Queues another thread's answer for the endpoint's thread. */
static __attribute__((noinline)) int answer_from_afar(struct lend_ep *ep, lend_request request,
						      enum lend_status status,
						      struct lend_buf *reply)
{
	struct lend_req *req = lend_serve_find(ep, request);
	uint64_t before = req ? atomic_load_explicit(&req->answered, memory_order_relaxed) : 0;
	struct lend_answer *note = malloc(sizeof(*note));

	if (!note) {
		lend_bufs_give(NULL, reply);
		return lend_fail(ENOMEM,
				 "no memory to pass the reply to the endpoint: reply again");
	}
	if (!req || before == request.id ||
	    !atomic_compare_exchange_strong_explicit(&req->answered, &before, request.id,
						     memory_order_relaxed, memory_order_relaxed)) {
		free(note);
		lend_bufs_give(NULL, reply);
		return lend_fail(ESTALE,
				 "the request was answered or its caller ended: nothing to do");
	}
	atomic_fetch_add_explicit(&ep->touching, 1, memory_order_relaxed);
	*note = (struct lend_answer){.request = request, .status = status, .reply = reply};
	note->next = atomic_load_explicit(&ep->answers, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&ep->answers, &note->next, note,
						      memory_order_release, memory_order_relaxed))
		continue;
	lend_ep_wake(ep);
	atomic_fetch_sub_explicit(&ep->touching, 1, memory_order_release);
	return 0;
}

void lend_serve_drop(struct lend_ep *ep, lend_request request)
{
	(void)answer_from_afar(ep, request, LEND_DEADLINE_EXCEEDED | LEND_REPLY_NOT_RUN, NULL);
}

bool lend_serve_expired(const struct lend_req *req, lend_ns now)
{
	return atomic_load_explicit(&req->cancelled, memory_order_relaxed) ||
	       atomic_load_explicit(&req->deadline, memory_order_relaxed) <= now;
}

void lend_serve_answers(struct lend_ep *ep)
{
	struct lend_answer *note =
			       atomic_exchange_explicit(&ep->answers, NULL, memory_order_acquire),
			   *order = NULL;

	while (note) { /* oldest first */
		struct lend_answer *next = note->next;

		note->next = order;
		order = note;
		note = next;
	}
	while (order) {
		note = order;
		order = note->next;
		(void)answer_request(ep, note->request, note->status, note->reply);
		free(note);
	}
}

int lend_reply_flags(struct lend_ep *ep, lend_request request, enum lend_status status,
		     unsigned flags, struct lend_buf *reply)
{
	if ((unsigned)status > LEND_UNAUTHENTICATED)
		status = LEND_UNKNOWN;
	if (atomic_load_explicit(&ep->thread, memory_order_relaxed) == lend_thread_mark())
		return answer_request(ep, request, status | flags, reply);
	return answer_from_afar(ep, request, status | flags, reply);
}

int lend_reply(struct lend_ep *ep, lend_request request, enum lend_status status,
	       struct lend_buf *reply)
{
	return lend_reply_flags(ep, request, status, 0, reply);
}

/* Copies a reply into a buffer, which is answered with. */
static __attribute__((noinline)) int answer_copied(struct lend_ep *ep, lend_request request,
						   enum lend_status status, const void *data,
						   uint32_t len)
{
	struct lend_buf *copy = len ? lend_buf_take(ep, len) : NULL;

	if (len && !copy)
		status = LEND_RESOURCE_EXHAUSTED;
	if (copy)
		lend_msg_fill(copy, data, len);
	return lend_reply(ep, request, status, copy);
}

/* Returns whether this thread runs the handler of this request, and nothing rare applies to it. */
static inline bool is_serving_plain(const struct lend_ep *ep, lend_request request)
{
	const struct lend_req *req;

	if (atomic_load_explicit(&ep->thread, memory_order_relaxed) != lend_thread_mark())
		return false;
	req = ep->serving;
	return req && !req->rare &&
	       atomic_load_explicit(&req->id, memory_order_relaxed) == request.id;
}

/* Copies a reply outside of a plain request's handler. */
static __attribute__((noinline)) int reply_copy_any(struct lend_ep *ep, lend_request request,
						    enum lend_status status, const void *data,
						    uint32_t len)
{
	struct lend_req *req = lend_serve_find(ep, request);

	if (!req || req->head || len > LEND_KEPT_MAX || (unsigned)status > LEND_UNAUTHENTICATED ||
	    atomic_load_explicit(&ep->thread, memory_order_relaxed) != lend_thread_mark() ||
	    req->children || atomic_load_explicit(&req->more_hops, memory_order_relaxed) ||
	    !answer_short(ep, req, request, status, data, len))
		return answer_copied(ep, request, status, data, len);
	ep->dirty = true;
	ep->stats.replies++;
	return 0;
}

int lend_reply_copy(struct lend_ep *ep, lend_request request, enum lend_status status,
		    const void *data, uint32_t len)
{
	if (!is_serving_plain(ep, request) || (unsigned)status > LEND_UNAUTHENTICATED ||
	    lend_core_reply_short(ep->core, ep->now, request.id, (uint8_t)status, data, len) < 0)
		return reply_copy_any(ep, request, status, data, len);
	atomic_store_explicit(&ep->serving->id, 0, memory_order_release);
	ep->dirty = true;
	ep->stats.replies++;
	return 0;
}

int lend_refuse(struct lend_ep *ep, lend_request request, enum lend_status status)
{
	return lend_reply_flags(ep, request, status, LEND_REPLY_NOT_RUN, NULL);
}

void lend_req_forward(struct lend_ep *ep, lend_request request, void (*on_cancel)(void *),
		      void *arg)
{
	struct lend_req *req = lend_serve_find(ep, request);

	if (!req)
		return;
	req->rare = true;
	req->on_cancel = on_cancel;
	req->arg = arg;
}

void lend_serve_handled(struct lend_ep *ep, struct lend_req *req)
{
	if (req->slow) /* deferred: the bytes are a worker's */
		return;
	if (req->bytes && req->bytes != &req->view)
		lend_bufs_give(ep->bufs, req->bytes);
	req->bytes = NULL;
}

/* Runs an inline handler. Its bytes are in place, or in a buffer that it may take. */
static void run_here(struct lend_ep *ep, struct lend_req *req, const struct lend_method *method,
		     lend_request request)
{
	ep->serving = req;
	method->handler(request, req->bytes, method->arg);
	ep->serving = NULL;
	lend_serve_handled(ep, req);
}

static void explain_method(struct lend_ep *ep, uint32_t number, char *line)
{
	const struct lend_method *method = lend_methods_find(&ep->methods, number);

	if (method && method->name)
		(void)snprintf(line, LEND_WHY_ROOM, "no handler for method %s", method->name);
	else
		(void)snprintf(line, LEND_WHY_ROOM, "no handler for method %u", number);
}

/* line: the reason, in at most LEND_WHY_ROOM bytes; "": the usual one. */
static void refuse_request(struct lend_ep *ep, struct lend_req *req, const struct lend_event *ev,
			   enum lend_status status, char *line)
{
	lend_request request = {ev->call};
	struct lend_buf *head;

	if (req->bytes && req->bytes != &req->view)
		lend_bufs_give(ep->bufs, req->bytes);
	req->bytes = NULL;
	if (!line[0] && status == LEND_UNIMPLEMENTED)
		explain_method(ep, ev->method, line);
	else if (!line[0] && status == LEND_RESOURCE_EXHAUSTED)
		(void)snprintf(line, LEND_WHY_ROOM, "no memory for a request of %llu bytes",
			       (unsigned long long)ev->len);
	head = line[0] ? lend_bufs_take(ep->bufs, LEND_REASON_ROOM) : NULL;
	status |= LEND_REPLY_NOT_RUN;
	if (lend_req_head_reason(head, false, line)) {
		status |= LEND_REPLY_HEAD;
	} else {
		lend_bufs_give(ep->bufs, head);
		head = NULL;
	}
	(void)answer_request(ep, request, status, head);
}

/* Copies a request that arrived whole, but is longer than the unscheduled limit, into memory of the
 * method's landing function. False: it gave none, or too little. */
static bool land_whole(struct lend_ep *ep, struct lend_req *req, const struct lend_method *method,
		       const struct lend_event *ev)
{
	struct lend_buf *to;

	if (!method->landing || ev->buf || ev->len <= ep->core_config.unscheduled)
		return true;
	to = method->landing(lend_sessions_of(ep, ev->session), ev->method, ev->len, req->view.data,
			     req->view.len, method->landing_arg);
	if (to && lend_msg_cap(to) >= ev->len) {
		lend_serve_copy(to, ev);
		if (req->bytes != &req->view) /* its head was there, too */
			lend_bufs_give(ep->bufs, req->bytes);
		req->bytes = to;
		return true;
	}
	lend_bufs_give(ep->bufs, to);
	return false;
}

static void fill_request(struct lend_ep *ep, struct lend_req *req, const struct lend_event *ev)
{
	lend_req_fill(req, ev);
	req->rare = true;
	lend_ep_urgent(ep, ev->class);
	if (ev->buf) {
		req->bytes = lend_ep_back(ep, ev->buf, false);
		lend_msg_landed(req->bytes, ev->len);
	}
}

static void give_to_worker(struct lend_ep *ep, struct lend_req *req,
			   const struct lend_method *method)
{
	req->handler = method->handler;
	req->arg = method->arg;
	req->slow = true;
	req->deferred = false;
	lend_workers_push(ep, req);
}

/* Provides the bytes of a request as its handler takes them. Returns LEND_OK, or the status to
 * refuse it with. */
static enum lend_status prepare_request(struct lend_ep *ep, struct lend_req *req,
					const struct lend_method *method,
					const struct lend_event *ev)
{
	if (!method || !method->handler)
		return LEND_UNIMPLEMENTED;
	if (lend_serve_expired(req, ep->now))
		return LEND_DEADLINE_EXCEEDED;
	if (!land_whole(ep, req, method, ev) ||
	    (ev->parts && !lend_serve_take_parts(ep, req, method, ev)) ||
	    (method->flags & LEND_SLOW && !lend_serve_own_bytes(ep, req)))
		return LEND_RESOURCE_EXHAUSTED;
	return LEND_OK;
}

/* Returns whether a new request must go to another server. HTTP/2 clients are refused by their
 * connections, so their requests still run. */
static bool must_refuse(struct lend_ep *ep, const struct lend_event *ev)
{
	return ep->closing || (ep->draining && ev->method != LEND_METHOD_STREAM &&
			       !lend_sessions_route(ep, ev->session) &&
			       !lend_session_gateway(ep, lend_sessions_of(ep, ev->session)));
}

/* Serves a request that may have a head, be refused, copied or given to a worker. */
static __attribute__((noinline)) void serve_with_care(struct lend_ep *ep, struct lend_req *req,
						      const struct lend_method *method,
						      const struct lend_event *ev)
{
	enum lend_status refusal = must_refuse(ep, ev) ? LEND_UNAVAILABLE : LEND_OK;
	char why[LEND_WHY_ROOM];
	const struct lend_route *route = lend_sessions_route(ep, ev->session);
	struct lend_event bare;
	struct lend_buf *rest;

	why[0] = '\0';
	if (refusal != LEND_OK)
		(void)snprintf(why, sizeof(why), "this server ends: call another one");
	if (route && ev->method != LEND_METHOD_STREAM)
		method = NULL;
	if (route && !method && !ev->head)
		(void)snprintf(why, sizeof(why), "%s has methods with names only", route->address);
	if (method && method->name && !method->handler && ep->any.handler && !ev->head)
		method = &ep->any; /* the number is this name's alone */
	if (ev->parts)
		lend_serve_show_part(req, ev->part);
	if (ev->head && refusal == LEND_OK) {
		bare = *ev;
		bare.parts = 0;
		refusal = ev->parts && !lend_serve_gather(ep, req, ev)
			      ? LEND_RESOURCE_EXHAUSTED
			      : lend_req_head_take(ep, req, &bare, route, &method, why);
		ev = &bare;
	} else if (method && method->flags & LEND_OPENS_STREAMS && refusal == LEND_OK) {
		refusal = lend_req_head_differs(false, why);
	}
	if (refusal == LEND_OK)
		refusal = prepare_request(ep, req, method, ev);
	rest = req->view.next;
	if (refusal != LEND_OK)
		refuse_request(ep, req, ev, refusal, why);
	else if (method->flags & LEND_SLOW)
		give_to_worker(ep, req, method);
	else
		run_here(ep, req, method, (lend_request){ev->call});
	lend_bufs_give(ep->bufs, rest);
}

void lend_serve_request(struct lend_ep *ep, const struct lend_event *ev)
{
	const struct lend_method *method = lend_methods_find(&ep->methods, ev->method);
	struct lend_req *req = &ep->req[(uint32_t)ev->call];

	LEND_CHECK((uint32_t)ev->call < ep->n_req);
	fill_request(ep, req, ev);
	ep->stats.requests++;
	if (method && method->fast_path && !ev->parts && !ev->head && !ep->draining &&
	    !ep->routes && ev->deadline > ep->now)
		run_here(ep, req, method, (lend_request){ev->call});
	else
		serve_with_care(ep, req, method, ev);
}

void lend_serve_cancelled(struct lend_ep *ep, const struct lend_event *ev)
{
	struct lend_req *req = lend_serve_find(ep, (lend_request){ev->call});

	if (!req)
		return;
	req->rare = true;
	atomic_store_explicit(&req->cancelled, true, memory_order_release);
	lend_nested_end(ep, req, true);
	if (req->slow)
		lend_workers_wake(ep);
	if (ep->streams)
		ep->streams_cancelled(ep, req);
	if (req->on_cancel)
		req->on_cancel(req->arg);
}
