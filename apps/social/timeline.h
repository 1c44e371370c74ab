/* timeline - reading of timelines: a list of posts, then the posts.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_TIMELINE_H
#define APPS_SOCIAL_TIMELINE_H

#include "apps/social/social_store.h"
#include "social.pb-c.h"

/* Answers a request with the posts [start, stop) of the list kind:USER, newest first, as bytes of
 * post-storage. */
void timeline_read(void *request, struct store *store, char kind, const Social__Range *in);

#endif
