/* call_spans - spans of traced calls, in a ring (lend/tracing.h).
 *
 * A span is named by its slot in the ring, from 1 on, and by its owner: the call, or the head of
 * the request. A newer span may take the slot; then the owner differs, and the older span is lost.
 *
 * Layer: rpc. Threads: the endpoint's, and its workers', whose calls keep their spans in the ring
 * of the endpoint. Ownership: the endpoint owns the ring. */
#ifndef LEND_RPC_CALL_SPANS_H
#define LEND_RPC_CALL_SPANS_H

#include "lend/tracing.h"
#include "rpc/heads.h"

struct lend_trace;

/* Bytes of a head's entry that carries a span's ids. */
enum { LEND_TRACE_ENTRY = 52 };

/* Reads $LEND_TRACE. Returns 0 or -errno. */
int lend_trace_open(struct lend_ep *ep);
void lend_trace_close(struct lend_ep *ep);

/* Begins the span of a call that is being started, if it is sampled or serves a traced request.
 * request: its parent, or NULL. Returns its slot; 0: it has none. */
uint32_t lend_trace_call(struct lend_ep *ep, const struct lend_session_rec *s,
			 const struct lend_call *call, const struct lend_req *request);
/* Begins the span of a request with this head, if that has ids. Stores its slot in the head. */
void lend_trace_request(struct lend_ep *ep, struct lend_req_head *head, const char *name,
			uint32_t number);
/* Writes the ids of an owner's span as metadata, if there is room for them. */
void lend_trace_put(struct lend_ep *ep, uint32_t slot, const void *owner,
		    struct lend_head_writer *w);
/* Ends an owner's span. */
void lend_trace_end(struct lend_ep *ep, uint32_t slot, const void *owner, enum lend_status status);
/* Copies the span of a request. False: it has none, or a newer one has its slot. */
bool lend_span_copy(struct lend_ep *ep, const struct lend_req *req, struct lend_span *span);
/* Copies spans from a number on, at most room of them; sets n and next of head. */
void lend_spans_read(struct lend_ep *ep, uint64_t from, uint32_t room, struct lend_trace_head *head,
		     char *to);

/* trace_service.c */
/* Serves LEND_METHOD_TRACE. */
int lend_trace_serve(struct lend_ep *ep);

#endif
