/* http - the HTTP server of the gateway, in the endpoint's wait.
 *
 * libmicrohttpd parses; its epoll descriptor is one of the endpoint's. A request is suspended until
 * http_reply(). Its form fields and body are bytes of lend_malloc_shared().
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_HTTP_H
#define APPS_SOCIAL_HTTP_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_FIELDS_MAX = 32, HTTP_PATH_MAX = 128 };

/* A field of a form. */
struct http_field {
	char name[32], filename[128]; /* filename "": none */
	char *data;                   /* ends with a 0 that len does not count */
	size_t len, cap;
};
struct http_request;
/* Handles a request; http_reply() is due, then or later. */
typedef void http_handler_fn(struct http_request *http);

/* Starts the server. handler runs for each request that is complete. address becomes
 * "http://HOST:PORT". app_die() if it cannot listen there. */
void http_open(const char *listen, size_t body_max, http_handler_fn *handler, char *address,
	       size_t cap);
/* Ends it; requests in progress get 503. */
void http_close(void);

/* Returns the method; the path, without scheme, host and query. */
const char *http_method(const struct http_request *http);
const char *http_path(const struct http_request *http);
/* Returns a field of the query or, without one, of the form; NULL: there is none, or it is empty.
 */
const char *http_field(struct http_request *http, const char *name);
/* Returns the i-th field of the form; NULL: there are no more. */
struct http_field *http_form(struct http_request *http, size_t i);
/* Returns a cookie; NULL: there is none. */
const char *http_cookie(struct http_request *http, const char *name);
/* Adds a header to the reply that follows. */
void http_header(struct http_request *http, const char *name, const char *value);
/* Replies. Takes body, of lend_malloc(), or borrows it until the server has closed: is_static. */
void http_reply(struct http_request *http, unsigned status, const char *type, char *body,
		size_t len, bool is_static);
/* Replies with a copy of a text and a newline. */
void http_reply_text(struct http_request *http, unsigned status, const char *text);

#endif
