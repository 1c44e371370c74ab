/* grpc_text - the texts that gRPC writes into HTTP/2 headers.
 *
 * Layer: gateway, pure. No state.
 * Source: "gRPC over HTTP2" of the gRPC project. */
#ifndef LEND_GATEWAY_GRPC_TEXT_H
#define LEND_GATEWAY_GRPC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a grpc-timeout: 1 to 8 digits and a unit, such as "100m". Returns nanoseconds, at most
 * INT64_MAX; -1: malformed. */
int64_t grpc_timeout_read(const uint8_t *text, size_t len);
enum { GRPC_TIMEOUT_MAX = 10 }; /* bytes of a grpc-timeout with its zero byte */
/* Writes a grpc-timeout that is not shorter than ns. */
void grpc_timeout_write(uint64_t ns, char out[GRPC_TIMEOUT_MAX]);
/* Writes UTF-8 as the value of grpc-message: bytes outside of printable ASCII, and '%', as %XX. out
 * has room for 3 * len bytes. Returns the bytes written. */
size_t grpc_percent_encode(const char *text, size_t len, char *out);
/* Reads a grpc-message into out, which has room for len + 1 bytes. '%' without two digits stays as
 * it is. Returns the bytes without the zero byte behind them. */
size_t grpc_percent_decode(const uint8_t *text, size_t len, char *out);
/* Bytes of base64 with padding, for len bytes. */
static inline size_t grpc_base64_len(size_t len)
{
	return (len + 2) / 3 * 4;
}
/* Writes base64 with padding. */
void grpc_base64_write(const uint8_t *bytes, size_t len, char *out);
/* Reads base64 with or without padding into out, which has room for len bytes. Returns the bytes
 * written; -1: malformed. */
ptrdiff_t grpc_base64_read(const uint8_t *text, size_t len, uint8_t *out);
/* Whether a content-type is that of gRPC: application/grpc, with any suffix "+..." or ";...". */
bool grpc_content_type(const uint8_t *text, size_t len);

#endif
