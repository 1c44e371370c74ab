/* echo - the two replies of benchmark servers: the request itself, and its checksum.
 * Layer: apps. Threads: the endpoint's. Nothing to release. */
#ifndef APPS_COMMON_ECHO_H
#define APPS_COMMON_ECHO_H

#include <stdint.h>

#include "lend/rpc.h"

/* Length of the reply of APP_METHOD_SINK and of the last hop of a chain: CRC32C and length of the
 * received message. */
enum { APP_SUM_LEN = 12 };

/* Returns the CRC32C of the first and last 4 KiB of a message, which overlap in a shorter one. It
 * detects a truncated or misplaced message at a cost that does not grow with the length. */
uint32_t app_ends_crc(const void *bytes, uint64_t len);

/* Serves APP_METHOD_ECHO (returns the received buffer itself), APP_METHOD_SINK and APP_METHOD_ENDS.
 * app_die() if it cannot. */
void app_echo_serve(struct lend_ep *ep);

/* Answers request with crc and len, or RESOURCE_EXHAUSTED without memory. */
void app_sum_reply(struct lend_ep *ep, lend_request request, uint32_t crc, uint64_t len);
/* Returns how many of the len bytes sent are wrong by this reply: 0, or all of them (1 if len is
 * 0). */
uint64_t app_sum_wrong(const struct lend_buf *reply, uint32_t crc, uint64_t len);

#endif
