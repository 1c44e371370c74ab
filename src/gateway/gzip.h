/* gzip - messages compressed with gzip.
 *
 * zlib runs in the endpoint's thread: a MiB takes milliseconds. Layer: gateway. Threads: the
 * endpoint's. */
#ifndef LEND_GATEWAY_GZIP_H
#define LEND_GATEWAY_GZIP_H

#include "gateway/message.h"

#define GZIP_ACCEPTED "identity,gzip" /* of grpc-accept-encoding */

/* Decompresses the message that has arrived. max: its longest length then. Memory grows with what
 * was decompressed, at most twofold. Returns MESSAGE_COMPLETE; otherwise the message is unchanged.
 */
enum message_state gzip_inflate(struct message_in *in, struct lend_ep *ep, uint64_t max);
/* Returns a compressed copy of a message of *len bytes, and sets *len; NULL: it would not be
 * shorter, or there is no memory. */
struct lend_buf *gzip_deflate(struct lend_ep *ep, const struct lend_buf *message, uint64_t *len);

#endif
