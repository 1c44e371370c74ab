/* request - queries about a request that is not answered yet, and its bytes as its handler takes
 * them: in place, as a chain, or in a buffer.
 * Layer: rpc. Threads: as documented in lend/rpc.h for each function. */
#include "rpc/endpoint.h"
#include "rpc/msg.h"
#include "sys/clock.h"

/* Finds a request; in a slow handler also by the worker's own endpoint, on which the handler's
 * nested calls and memory operations run. */
static struct lend_req *find(struct lend_ep *ep, lend_request request)
{
	return lend_serve_find(ep->home ? ep->home : ep, request);
}

lend_session lend_request_session(struct lend_ep *ep, lend_request request)
{
	struct lend_req *req = lend_serve_find(ep, request);

	return req ? lend_sessions_of(ep, req->session) : (lend_session){0};
}

lend_ns lend_request_left(struct lend_ep *ep, lend_request request)
{
	struct lend_req *req = find(ep, request);
	lend_ns deadline = req ? atomic_load_explicit(&req->deadline, memory_order_relaxed) : 0,
		now;

	if (deadline == LEND_NEVER || deadline == 0)
		return deadline;
	now = lend_clock_now();
	return deadline > now ? deadline - now : 0;
}

unsigned lend_request_priority(struct lend_ep *ep, lend_request request)
{
	struct lend_req *req = find(ep, request);

	return req ? req->class + 1u : 0;
}

bool lend_request_cancelled(struct lend_ep *ep, lend_request request)
{
	struct lend_req *req = find(ep, request);

	return !req || atomic_load_explicit(&req->cancelled, memory_order_acquire);
}

struct lend_ep *lend_request_ep(struct lend_ep *ep, lend_request request)
{
	(void)request;
	return lend_worker_ep(ep);
}

void lend_reply_withdraw(struct lend_ep *ep, lend_request request)
{
	lend_core_withdraw(ep->core, lend_ep_now(ep), request.id);
	ep->dirty = true;
}

/* Works only while the handler runs, and once. */
struct lend_buf *lend_request_take(struct lend_ep *ep, lend_request request)
{
	struct lend_req *req = ep->serving;
	struct lend_buf *bytes;

	if (lend_worker_of(ep))
		return lend_worker_take(request);
	/* an inline handler may have replied before it takes: its record is still the one being
	 * served */
	if (!req || (uint32_t)(req - ep->req) != (uint32_t)request.id || !req->bytes ||
	    !lend_serve_own_bytes(ep, req))
		return NULL;
	bytes = req->bytes;
	lend_mbuf(bytes)->request = request.id;
	req->bytes = NULL;
	return bytes;
}

bool lend_serve_own_bytes(struct lend_ep *ep, struct lend_req *req)
{
	struct lend_buf *copy;

	if (req->bytes != &req->view)
		return true;
	copy = lend_msg_flat(ep->bufs, &req->view);
	if (!copy)
		return false;
	req->bytes = copy;
	return true;
}

void lend_serve_copy(struct lend_buf *to, const struct lend_event *ev)
{
	if (ev->parts)
		lend_msg_fill_parts(to, ev->part, ev->parts);
	else
		lend_msg_fill(to, ev->data, ev->len);
}

bool lend_serve_gather(struct lend_ep *ep, struct lend_req *req, const struct lend_event *ev)
{
	struct lend_buf *copy = lend_bufs_take(ep->bufs, ev->data_len);

	if (copy)
		lend_serve_copy(copy, ev);
	req->bytes = copy;
	return copy != NULL;
}

void lend_serve_show_part(struct lend_req *req, const struct lend_part *part)
{
	req->view = (struct lend_buf){
	    .data = (void *)(uintptr_t)part->data, .len = part->len, .cap = part->len};
}

bool lend_serve_take_parts(struct lend_ep *ep, struct lend_req *req,
			   const struct lend_method *method, const struct lend_event *ev)
{
	struct lend_buf **last = &req->view.next;

	if (req->bytes != &req->view)
		return true;
	if (!(method->flags & LEND_CHAIN))
		return lend_serve_gather(ep, req, ev);
	for (uint32_t i = 1; i < ev->parts; i++) {
		*last = lend_bufs_wrap(ep->bufs, (void *)(uintptr_t)ev->part[i].data,
				       ev->part[i].len, NULL, NULL);
		if (!*last)
			return false;
		last = &(*last)->next;
	}
	return true;
}
