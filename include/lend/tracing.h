/* lend/tracing.h - traces of calls over services.
 *
 * A trace is the tree of calls that one call causes. An endpoint that samples begins a trace for a
 * share of its calls that serve no request. Such a call carries ids, as metadata "grpc-trace-bin"
 * in the form of OpenCensus, and so does each call whose parent request came with them: handlers do
 * nothing for it. Both ends of each such call keep a span in a ring, which `lend trace` reads.
 *
 * An endpoint that does not sample still keeps the spans of calls that others trace, unless
 * $LEND_TRACE is 0. Not traced are methods of Lend itself, streams, 0-RTT calls, and calls by
 * number that start before their session is up.
 *
 * Threads: the endpoint's. */
#ifndef LEND_TRACING_H
#define LEND_TRACING_H

#include <lend/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The end of a call at which a span was measured. */
enum lend_span_kind {
	LEND_SPAN_SERVER = 2, /* from the request's arrival to the handler's reply */
	LEND_SPAN_CLIENT = 3, /* from lend_call_start() to done */
};
/* One end of one traced call. */
struct lend_span {
	uint8_t trace[16];  /* id of the trace, the same in all its spans; never zeros */
	uint8_t id[8];      /* id of this span; never the same */
	uint8_t parent[8];  /* id of the span that caused it; zeros: the first one */
	lend_ns start, end; /* times of lend_now() on its machine; end 0: it has not ended */
	uint32_t kind;      /* enum lend_span_kind */
	uint32_t status;    /* enum lend_status; LEND_UNKNOWN until it has ended */
	char name[64];      /* the method's name, or its number in decimal; cut to fit */
};
/* Samples a share of the calls, from 0 to 1, that serve no request and start from now on. Every
 * endpoint begins with the share of $LEND_TRACE, or 0.
 * Returns: 0; -EINVAL: share is not from 0 to 1; -ENOMEM: no memory for the ring. */
int lend_trace_sample(struct lend_ep *ep, double share);
/* Reads the span of a traced request that was not answered yet, for example for a log.
 * Returns: true; false: it is not traced, or the ring has a newer span in its place.
 * Ownership: borrows span.
 * Threads: the endpoint's, and that of a LEND_SLOW handler. */
bool lend_request_span(struct lend_ep *ep, lend_request request, struct lend_span *span);

/* Method that every endpoint serves: its ring. Request: the number of a span, 8 bytes; none: 0.
 * Reply: struct lend_trace_head, then n times struct lend_span, in the order of their starts and in
 * the byte order of the server. The callers are those of LEND_METHOD_STATS. */
#define LEND_METHOD_TRACE 0x4c454e55u
/* Head of a reply of LEND_METHOD_TRACE. */
struct lend_trace_head {
	uint32_t size;      /* bytes of this struct: later fields are added at its end */
	uint32_t span_size; /* bytes of struct lend_span, in the same way */
	uint32_t n;         /* number of spans in this reply */
	uint32_t pid;       /* process id of the server */
	uint64_t next;      /* number to continue from; 0: no more spans */
	lend_ns now;        /* lend_now() on the machine that replies */
	lend_ns unix_now;   /* nanoseconds since the Unix epoch, at the same moment */
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
