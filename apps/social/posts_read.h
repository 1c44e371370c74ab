/* posts_read - posts as readers get them: those of the cache, and the rest from the store, whose
 * long texts and media are put on the memory node first.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_POSTS_READ_H
#define APPS_SOCIAL_POSTS_READ_H

#include "apps/social/held.h"
#include "apps/social/posts.h"
#include "apps/social/social_store.h"

/* Returns a post's key in the store, which lives as social_state(). */
const char *post_key(void *request, int64_t id);
/* Answers a request with posts in the order of in, or fails it. */
void posts_read(void *request, struct store *store, struct held_map *cache, const Social__Ids *in);

#endif
