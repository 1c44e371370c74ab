/* builtin - open functions, for lend_io_open(), of the carriers that need only libc. Layer: io.
 */
#ifndef LEND_IO_BUILTIN_H
#define LEND_IO_BUILTIN_H

#include <string.h>

#include "io/io.h"
#include "util/check.h"

/* As lend_io_open(), for addresses of this scheme. */
int lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io);
/* As lend_io_open(), for shm:NAME@PATH: rings in memory that several hosts map. */
int lend_io_multihost_open(const struct lend_io_config *config, struct lend_io **io);
/* As lend_io_open(), for broker:NAME: a device that a broker owns. */
int lend_io_broker_open(const struct lend_io_config *config, struct lend_io **io);
int lend_io_udp_open(const struct lend_io_config *config, struct lend_io **io);

/* Returns the bytes of a datagram, head and tail included. */
static inline uint32_t lend_out_len(const struct lend_out *out)
{
	uint32_t len = (uint32_t)out->head_len + out->tail_len;

	len += out->n ? out->piece[0].len : 0; /* most have one */
	for (uint32_t i = 1; i < out->n; i++)
		len += out->piece[i].len;
	return len;
}

/* Returns the address of a piece's bytes. The piece must be within one segment. */
static inline void *lend_piece_data(const struct lend_bufs *bufs, const struct lend_piece *piece)
{
	const struct lend_seg *seg;

	LEND_CHECK(piece->buf < bufs->n);
	seg = &bufs->seg[piece->buf];
	LEND_CHECK((uint64_t)piece->offset + piece->len <= seg->len);
	return (char *)seg->data + piece->offset;
}

#endif
