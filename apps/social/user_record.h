/* user_record - the record of a user in the store of users.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_USER_RECORD_H
#define APPS_SOCIAL_USER_RECORD_H

#include "apps/social/social.h"
#include "apps/social/social_store.h"

/* Returns the key of a user's record, which lives as social_state(). */
const char *user_key(void *request, const char *name);
/* Returns a new user's record, with a salted hash of the password. It lives as social_state(). */
struct store_bytes user_record_make(void *request, const Social__Account *in, int64_t id);
/* Returns a copy of a record, which lives as social_state(); NULL: there is none. */
Social__UserRecord *user_record_read(void *request, const struct store_bytes *bytes);
/* Continues with the record of a user. */
typedef void user_found_fn(const Social__UserRecord *record, void *state);
/* Reads the record of a user. Fails the request if there is none. */
void user_record_find(void *request, struct store *store, const char *name, user_found_fn *found,
		      void *state);

#endif
