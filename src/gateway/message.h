/* message - messages with gRPC's prefix: a byte, 1 if it is compressed, and its length.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_MESSAGE_H
#define LEND_GATEWAY_MESSAGE_H

#include "gateway/gateway.h"

enum { GRPC_PREFIX = 5 };

/* A message that arrives. Zero: none has begun. */
struct message_in {
	uint8_t prefix[GRPC_PREFIX];
	unsigned prefix_len; /* bytes of prefix; all of them: bytes of the message follow */
	uint32_t left;       /* bytes of the message that have not arrived */
	uint64_t received;   /* bytes that have */
	struct lend_buf *first, *last;
};
enum message_state {
	MESSAGE_OPEN,
	MESSAGE_COMPLETE,
	MESSAGE_TOO_LONG,
	MESSAGE_NO_MEMORY,
	MESSAGE_MALFORMED /* of gzip_inflate() */
};

/* Takes bytes up to the end of the message; *taken is their number. max: its longest length. After
 * MESSAGE_COMPLETE the caller takes first, and clears the struct. Memory grows with what has
 * arrived, at most twofold. */
enum message_state message_receive(struct message_in *in, struct lend_ep *ep, uint64_t max,
				   const uint8_t *bytes, size_t len, size_t *taken);

/* A message that is sent. Zero: none. */
struct message_out {
	uint8_t prefix[GRPC_PREFIX];
	unsigned prefix_sent;
	struct lend_buf *buf, *at; /* the message, and its segment that is sent next */
	uint64_t len;
	bool some; /* there is a message, and not all of it was sent */
};

/* Begins with a message of len bytes, which it takes. */
void message_send(struct message_out *out, struct lend_buf *buf, uint64_t len, bool compressed);
/* Copies the next bytes. Returns their number; the message is given back with the last one. */
size_t message_next(struct message_out *out, struct lend_ep *ep, uint8_t *to, size_t cap);

#endif
