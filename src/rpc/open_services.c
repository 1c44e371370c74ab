/* open_services - opens an endpoint with the services that every endpoint offers to its peers.
 * Layer: rpc. Threads: the one that becomes the endpoint's. */
#include "rpc/shown_memory.h"
#include "rpc/remotes.h"
#include "rpc/call_spans.h"

int lend_open(const struct lend_config *config, struct lend_ep **out)
{
	struct lend_ep *ep;
	int rc = lend_ep_open(config, &ep);

	if (rc < 0)
		return rc;
	lend_remotes_allow(ep);
	rc = lend_trace_open(ep);
	if (rc == 0)
		rc = lend_stats_serve(ep);
	if (rc == 0)
		rc = lend_trace_serve(ep);
	if (rc == 0)
		rc = lend_one_sided_serve(ep);
	if (rc == 0)
		rc = lend_gateways_open(ep, config ? config->listen : NULL);
	if (rc < 0)
		lend_close(ep);
	else
		*out = ep;
	return rc;
}
