/* trace_service - the spans of an endpoint, for its own program and for authorized peers.
 * Layer: rpc. Threads: the endpoint's; lend_request_span() also a worker's. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rpc/call_spans.h"
#include "sys/clock.h"
#include "util/bits.h"

enum { AT_ONCE = 100 }; /* spans in a reply */

bool lend_request_span(struct lend_ep *ep, lend_request request, struct lend_span *span)
{
	return lend_span_copy(ep, lend_serve_find(ep->home ? ep->home : ep, request), span);
}

static void send_spans(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_ep *ep = arg;
	struct lend_trace_head head = {.size = sizeof(head),
				       .span_size = sizeof(struct lend_span),
				       .pid = (uint32_t)getpid(),
				       .now = lend_clock_now()};
	struct lend_buf *out;
	struct timespec time;

	if (!lend_stats_allowed(ep, request))
		return;
	out = lend_buf_take(ep, sizeof(head) + AT_ONCE * sizeof(struct lend_span));
	if (!out) {
		(void)lend_reply(ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &time);
	head.unix_now = (lend_ns)time.tv_sec * 1000000000u + (lend_ns)time.tv_nsec;
	lend_spans_read(ep, bytes->len >= 8 ? lend_load_u64(bytes->data) : 0, AT_ONCE, &head,
			(char *)out->data + sizeof(head));
	memcpy(out->data, &head, sizeof(head));
	out->len = (uint32_t)(sizeof(head) + head.n * sizeof(struct lend_span));
	(void)lend_reply(ep, request, LEND_OK, out);
}

int lend_trace_serve(struct lend_ep *ep)
{
	return lend_serve(ep, LEND_METHOD_TRACE, send_spans, ep, LEND_RESERVED);
}
