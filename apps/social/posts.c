/* posts - see posts.h. */
#include "apps/social/posts.h"

#include <string.h>

#include "lend/alloc.h"

enum { POSTS_TAG = 1 << 3 | 2, VARINT_MAX = 10 };

size_t post_blobs(const Social__Post *post, Social__Blob *blob[POST_BLOBS_MAX])
{
	size_t n = 0;

	if (post->text)
		blob[n++] = post->text;
	for (size_t i = 0; i < post->n_media && n < POST_BLOBS_MAX; i++)
		if (post->media[i]->body)
			blob[n++] = post->media[i]->body;
	return n;
}

void *posts_join(const struct post_bytes *post, size_t n, size_t *len)
{
	size_t cap = 1;
	uint8_t *bytes, *at;

	for (size_t i = 0; i < n; i++)
		cap += 1 + VARINT_MAX + post[i].len;
	bytes = at = lend_malloc_shared(cap);
	for (size_t i = 0; bytes && i < n; i++) {
		size_t left = post[i].len;

		*at++ = POSTS_TAG;
		for (; left >= 0x80; left >>= 7)
			*at++ = (uint8_t)(left | 0x80);
		*at++ = (uint8_t)left;
		memcpy(at, post[i].data, post[i].len);
		at += post[i].len;
	}
	*len = (size_t)(at - bytes);
	return bytes;
}
