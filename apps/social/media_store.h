/* media_store - the bytes of media: on the memory node, in both arms; their references are kept
 * here.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_MEDIA_STORE_H
#define APPS_SOCIAL_MEDIA_STORE_H

#include "apps/social/blob.h"

/* Continues a request, when all that it waits for has ended with success. */
typedef void media_next_fn(void *arg);

/* Stores the bytes of a medium for a request, of whose memory in is: adopts their reference, or
 * puts them. */
void media_store_add(void *request, int64_t id, const Social__Blob *in, media_next_fn *next,
		     void *arg);
/* Sets the body of a medium: to a reference, or to its bytes if they go by value. Fails the request
 * if there is no such medium. */
void media_store_read(void *request, Social__Media *media, media_next_fn *next, void *arg);
/* Releases the bytes of a medium, if it has any. */
void media_store_drop(int64_t id);

#endif
