/* post_refs - the blobs of one post between its composer, the memory node and the store.
 *
 * Operations are those of a request: social_ended_with() counts them.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_POST_REFS_H
#define APPS_SOCIAL_POST_REFS_H

#include "apps/social/held.h"
#include "apps/social/posts.h"

struct post_taken;
typedef void post_taken_fn(struct post_taken *taken, void *arg);

/* One blob of a post. */
struct post_blob {
	struct social_blob_op get, hold; /* hold: adopts or puts */
	Social__Blob by_ref;             /* set while the node has the bytes for this post */
	struct post_taken *of;
	bool holds;
};
struct post_taken {
	void *request;
	Social__Post *post; /* with all its bytes */
	size_t index;       /* the caller's */
	size_t n;
	Social__Blob *blob[POST_BLOBS_MAX];
	struct post_blob *part;
	post_taken_fn *next;
	void *arg;
};

/* Makes the record of a post, which lives as social_state(). */
struct post_taken *post_refs_make(void *request, Social__Post *post);
/* Reads and adopts the references of a post, so that it has all its bytes; then next runs. */
void post_refs_take(struct post_taken *taken, post_taken_fn *next, void *arg);
/* Puts the long blobs of n posts on the node; then next runs, also if the node refused some. */
void post_refs_put(struct post_taken *const *taken, size_t n, post_taken_fn *next, void *arg);
/* Adds the post with its references to a cache, if it has any. */
void post_refs_cache(struct post_taken *taken, struct held_map *cache);
/* Returns the post for readers: with references, which the cache has then, or with all its bytes.
 */
struct post_bytes post_refs_bytes(struct post_taken *taken, struct held_map *cache);
/* Releases what was adopted or put. */
void post_refs_undo(struct post_taken *taken);

#endif
