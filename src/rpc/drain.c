/* drain - the end of a server whose callers move to another one. Layer: rpc. Threads: the
 * endpoint's. */
#include <errno.h>

#include "rpc/endpoint.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/bits.h"

static const lend_ns check_time = 20000000; /* between checks that no event causes */

static bool is_drained(const struct lend_ep *ep)
{
	for (uint32_t i = 0; i < ep->gateways.n; i++)
		if (!ep->gateways.ops->drained(ep->gateways.gateway[i]))
			return false;
	return lend_core_requests(ep->core) == 0;
}

int lend_drain(struct lend_ep *ep, lend_ns timeout)
{
	lend_ns now = lend_clock_now(),
		end = timeout < LEND_NEVER - now ? now + timeout : LEND_NEVER;
	int rc = lend_ep_check(ep);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < ep->gateways.n && !ep->draining; i++)
		ep->gateways.ops->drain(ep->gateways.gateway[i]);
	ep->draining = true;
	while (!is_drained(ep) && rc >= 0) {
		if (now >= end)
			return lend_fail(ETIMEDOUT, "requests are still in progress");
		if (atomic_exchange_explicit(&ep->stop, false, memory_order_acquire))
			return lend_fail(EINTR, "lend_stop() ended it");
		rc = lend_wait(ep, lend_min_u64(end, now + check_time));
		now = lend_clock_now();
	}
	return rc < 0 ? rc : 0;
}
