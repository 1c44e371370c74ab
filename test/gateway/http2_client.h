/* http2_client - an HTTP/2 client of nghttp2 that tests run by hand. */
#ifndef LEND_TEST_GATEWAY_HTTP2_CLIENT_H
#define LEND_TEST_GATEWAY_HTTP2_CLIENT_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "lend/rpc.h"

enum { ANSWER_MAX = 8 << 20 };

/* One request and what came back. Set headers, body and len. */
struct answer {
	const char *headers; /* lines "name: value\n", more than the usual ones, or instead */
	const char *path;
	const void *body;
	size_t len, sent; /* bytes of body, and how many the library took */
	bool open;        /* the body does not end */
	int32_t stream;
	char http[8], initial[4096], trailing[4096]; /* status; "name: value\n" */
	uint8_t *bytes; /* received, with gRPC's prefix: 8 MiB at most */
	size_t n;
	bool over;
	uint32_t error; /* the stream's, by RST_STREAM */
};
struct http2_client {
	nghttp2_session *session;
	int fd;
	bool lost;          /* the server closed the connection */
	bool slow;          /* data are not acknowledged */
	const uint8_t *out; /* bytes that the socket did not take, of the session */
	size_t left;
};

void http2_client_open(struct http2_client *client, const char *address);
void http2_client_close(struct http2_client *client);
void http2_client_ask(struct http2_client *client, struct answer *answer);
/* Sends and receives what is possible without waiting, and runs a turn of the endpoint. */
void http2_client_turn(struct http2_client *client, struct lend_ep *ep);
/* Runs turns until *done or the end of the connection, at most 10 s. Asserts one of them. */
void http2_client_until(struct http2_client *client, struct lend_ep *ep, const bool *done);
/* Returns the value of a header in initial or trailing, or NULL. Valid until the next call. */
const char *answer_header(const char *headers, const char *name);

#endif
