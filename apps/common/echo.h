/* echo - the two answers that measuring needs: the request itself, and its checksum.
 * Layer: apps. Threads: the endpoint's. Nothing to release. */
#ifndef APPS_COMMON_ECHO_H
#define APPS_COMMON_ECHO_H

#include <stdint.h>

#include "lend/rpc.h"

/* What APP_METHOD_SINK (and the last hop of a chain) answers: CRC32C and length of what it got. */
enum { APP_SUM_LEN = 12 };

/* CRC32C of the first and last 4 KiB of a message, or of all of a shorter one: it tells that a
 * message is whole and in place, at no cost that its length would show in. */
uint32_t app_ends_crc(const void *bytes, uint64_t len);

/* Serves APP_METHOD_ECHO (the received buffer goes back as it is), APP_METHOD_SINK and _ENDS.
 * app_die() if it cannot. */
void app_echo_serve(struct lend_ep *ep);

/* Answers request with crc and len, or RESOURCE_EXHAUSTED without memory. */
void app_sum_reply(struct lend_ep *ep, lend_request request, uint32_t crc, uint64_t len);
/* How many of the len bytes sent the answer denies: 0, or all of them. */
uint64_t app_sum_wrong(const struct lend_buf *reply, uint32_t crc, uint64_t len);

#endif
