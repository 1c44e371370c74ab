/* header - the bytes that a capture writes in front of a peer's datagrams: exported PDU tags and
 * the lead of capture.h.
 *
 * Querying a peer's identity from its carrier costs more than copying its datagram. So the result
 * is cached per index, until the index may belong to another peer. Layer: io. Threads: the
 * carrier's.
 */
#ifndef LEND_IO_CAPTURE_HEADER_H
#define LEND_IO_CAPTURE_HEADER_H

#include "io/capture/capture.h"

enum { LEND_CAPTURE_HEADER_MAX = 256, LEND_CAPTURE_HEADERS = 64, LEND_CAPTURE_ADDR_MAX = 32 };

struct lend_capture_header {
	bool known;
	uint32_t peer;
	uint8_t addr_len; /* the address in the carrier's own binary form */
	uint8_t addr[LEND_CAPTURE_ADDR_MAX];
	uint32_t at;     /* offset at which the lead of capture.h begins */
	uint32_t len[2]; /* bytes of the header before received datagrams, and before sent ones */
	uint8_t bytes[2][LEND_CAPTURE_HEADER_MAX];
};

struct lend_capture_headers {
	char self[104]; /* this carrier's address, or "" */
	uint32_t carrier;
	bool checked;
	struct lend_capture_header header[LEND_CAPTURE_HEADERS];
};

/* Returns the header for a peer's datagrams, for in->addr of a received one. in is NULL for a
 * sent one. ops are the carrier's own operations. Valid until the next call. */
struct lend_capture_header *lend_capture_header_of(struct lend_capture_headers *leads,
						   struct lend_io *io,
						   const struct lend_io_ops *ops, uint32_t peer,
						   const struct lend_in *in);
/* Drops the cached header: the index may belong to another peer from now on. */
void lend_capture_header_forget(struct lend_capture_headers *leads, uint32_t peer);

#endif
