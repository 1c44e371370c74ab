/* http_gateway - HTTP requests of the social network, as calls of its services.
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_HTTP_GATEWAY_H
#define APPS_SOCIAL_HTTP_GATEWAY_H

#include "apps/social/blob.h"
#include "apps/social/http.h"
#include "apps/social/password.h"
#include "apps/social/social.h"

/* An HTTP request: a handler answers it with gate_reply(), or fails it with social_fail(). */
struct gate {
	void *request;
	struct http_request *http;
	struct social_login login; /* routes that need a token: its user */
	bool by_token;
};

/* Starts the HTTP server at HOST:PORT; address becomes its URL. */
void gateway_open(const char *listen, size_t body_max, char *address, size_t cap);

/* Reads a field, in whole. Return false: it is missing, or no such number; then 400 was answered.
 */
bool gate_text(struct gate *g, const char *name, const char **text);
bool gate_number(struct gate *g, const char *name, int64_t min, int64_t max, int64_t *number);
/* Reads a decimal number. Returns false: it is none, or out of range. */
bool gate_parse(const char *text, int64_t min, int64_t max, int64_t *number);
/* Answers with a status and a text, and ends the request. */
void gate_reply(struct gate *g, unsigned status, const char *text);
/* Ends a request that was answered. */
void gate_end(struct gate *g);
/* Answers with posts as JSON, after the texts behind references were read. The posts are copied
 * if need be. */
void gate_reply_posts(struct gate *g, const Social__Posts *posts);

/* Returns the type of a file by its name, "jpg"; NULL: it is none of media, or the bytes are not of
 * that type. */
const char *gate_media_type(const char *filename, const char *data, size_t len);

/* Handlers of gateway_media.c, gateway_compose.c and gateway_timeline.c. */
void gate_upload_media(struct gate *g);
void gate_get_media(struct gate *g);
void gate_compose(struct gate *g);
void gate_read_home(struct gate *g);
void gate_read_user(struct gate *g);
/* Handlers of gateway_user.c. */
void gate_register_with_id(struct gate *g);
void gate_register(struct gate *g);
void gate_login(struct gate *g);
void gate_follow(struct gate *g);
void gate_unfollow(struct gate *g);
void gate_followers(struct gate *g);
void gate_followees(struct gate *g);

#endif
