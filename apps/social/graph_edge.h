/* graph_edge - changes of edges: the follower's list and the followee's list, in parallel.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_GRAPH_EDGE_H
#define APPS_SOCIAL_GRAPH_EDGE_H

#include "apps/social/social_store.h"
#include "social.pb-c.h"

/* Adds or removes the edge between two ids, and answers the request. */
void graph_edge_change(void *request, struct store *store, const Social__Edge *in, bool follow);
/* Does the same for two names. */
void graph_edge_change_named(void *request, struct store *store, const Social__Edge *in,
			     bool follow);

#endif
