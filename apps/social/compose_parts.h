/* compose_parts - the parts of a post: its text, creator, media and id, of four services in
 * parallel.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_COMPOSE_PARTS_H
#define APPS_SOCIAL_COMPOSE_PARTS_H

#include "apps/social/request_blob.h"

/* Fills a post for a request; next(state) runs when all four services have answered. Borrows in
 * and post until then. */
void compose_parts(void *request, const Social__ComposeReq *in, Social__Post *post,
		   social_next_fn *next, void *state);

#endif
