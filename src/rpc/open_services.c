/* open_services - opens an endpoint with the services that every endpoint offers to its peers.
 * Layer: rpc. Threads: the one that becomes the endpoint's. */
#include "rpc/endpoint.h"

int lend_open(const struct lend_config *config, struct lend_ep **out)
{
	int rc = lend_ep_open(config, out);

	if (rc < 0)
		return rc;
	rc = lend_stats_serve(*out);
	if (rc < 0)
		lend_close(*out);
	return rc;
}
