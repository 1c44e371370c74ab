/* posts - the blobs of a post: its text, and media that it contains.
 * Layer: apps. Threads: any. */
#ifndef APPS_SOCIAL_POSTS_H
#define APPS_SOCIAL_POSTS_H

#include "apps/social/blob.h"

enum { POST_BLOBS_MAX = 64 };

/* Lists the blobs of a post. Returns their number, at most POST_BLOBS_MAX. */
size_t post_blobs(const Social__Post *post, Social__Blob *blob[POST_BLOBS_MAX]);

/* An encoded post. */
struct post_bytes {
	const void *data;
	size_t len;
};
/* Encodes posts as one Posts message: their bytes, each behind its length. Returns memory of
 * lend_malloc_shared(); NULL: there is none. */
void *posts_join(const struct post_bytes *post, size_t n, size_t *len);

#endif
