/* request_blob - blobs of a request: read from the memory node, put there, and given back.
 *
 * Reads and puts are operations of the request, as between social_begin() and social_ended_with():
 * next(state) runs when they are its last ones, and all have ended with success.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_REQUEST_BLOB_H
#define APPS_SOCIAL_REQUEST_BLOB_H

#include "apps/social/blob.h"

typedef void social_next_fn(void *state);

/* Replaces a reference by its bytes, in the request's memory. Fails the request if the node does
 * not have them. Borrows blob until the request ends. */
void social_blob_fetch(void *request, Social__Blob *blob, social_next_fn *next, void *state);
/* Replaces bytes by a reference, for the process that adopts it. Bytes that are to go by value, or
 * that the node refuses, stay in place. Borrows blob until the request ends. */
void social_blob_send(void *request, Social__Blob *blob, social_next_fn *next, void *state);
/* Releases a blob's reference, if it is one. */
void social_blob_give_back(const Social__Blob *blob);

#endif
