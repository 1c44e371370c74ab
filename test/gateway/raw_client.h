/* raw_client - an HTTP/2 client that writes any frame, also those that no library sends. */
#ifndef LEND_TEST_GATEWAY_RAW_CLIENT_H
#define LEND_TEST_GATEWAY_RAW_CLIENT_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lend_ep;

enum { RAW_IN_MAX = 32 << 10 };

struct raw_client {
	struct lend_ep *ep; /* its turns run while the socket takes no bytes */
	int fd;
	bool mute; /* reads nothing */
	bool lost; /* the server has closed the connection */
	nghttp2_hd_inflater *inflater;
	uint8_t in[RAW_IN_MAX]; /* bytes that are not a whole frame yet */
	size_t in_len;
	uint64_t sent; /* bytes */
	/* What the server has answered; -1: nothing. */
	int goaway;             /* error of the connection */
	int reset;              /* error of the last RST_STREAM */
	int http, grpc;         /* statuses of the last headers */
	unsigned resets, heads; /* numbers */
	uint64_t data;          /* bytes of DATA */
	uint8_t ping[8];        /* bytes of the last one */
	int32_t last;           /* stream of the last GOAWAY */
	unsigned pings;         /* PINGs of the server, which get no answer */
	char debug[32];         /* debug data of GOAWAY */
};

/* Connects, and sends the preface and empty settings. */
void raw_open(struct raw_client *c, struct lend_ep *ep, const char *address);
void raw_close(struct raw_client *c);
/* Sends bytes. Runs turns of the endpoint, at most 10 s, until the socket has taken them or is
 * lost. */
void raw_send(struct raw_client *c, const void *bytes, size_t len);
void raw_frame(struct raw_client *c, uint8_t type, uint8_t flags, uint32_t stream,
	       const void *payload, size_t len);
/* Sends the headers of a request to path, with lines "name: value\n" more. */
void raw_request(struct raw_client *c, uint32_t stream, const char *path, const char *more,
		 uint8_t flags);
/* Sends a frame n times. */
void raw_frames(struct raw_client *c, unsigned n, uint8_t type, uint32_t stream,
		const void *payload, size_t len);
/* Reads what has arrived, and runs a turn of the endpoint. */
void raw_turn(struct raw_client *c);

#endif
