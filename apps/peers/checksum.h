/* checksum - the 8-byte answer to a request: CRC32C and length of the received bytes, of all of
 * them or of both ends. Layer: apps/peers. Threads: any. Lives by value in its owner. */
#ifndef APPS_PEERS_CHECKSUM_H
#define APPS_PEERS_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"
#include "util/crc32c.h"

enum { PEER_SUM_ENDS = 4096 };

struct peer_sum {
	uint64_t at, len; /* bytes added so far, and expected */
	uint32_t crc;
	bool ends; /* only the first and last PEER_SUM_ENDS bytes are read */
};

static inline void peer_sum_begin(struct peer_sum *sum, uint64_t len, bool ends)
{
	*sum = (struct peer_sum){.len = len, .ends = ends && len > 2 * PEER_SUM_ENDS};
}

/* Adds the part of bytes [at, at + n) that is in [first, end). */
static inline void peer_sum_range(struct peer_sum *sum, const void *bytes, uint64_t n,
				  uint64_t first, uint64_t end)
{
	uint64_t from = sum->at > first ? sum->at : first;
	uint64_t to = sum->at + n < end ? sum->at + n : end;

	if (from < to)
		sum->crc = lend_crc32c(sum->crc, (const char *)bytes + (from - sum->at), to - from);
}

static inline void peer_sum_add(struct peer_sum *sum, const void *bytes, uint64_t n)
{
	if (sum->ends) {
		peer_sum_range(sum, bytes, n, 0, PEER_SUM_ENDS);
		peer_sum_range(sum, bytes, n, sum->len - PEER_SUM_ENDS, sum->len);
	} else {
		sum->crc = lend_crc32c(sum->crc, bytes, n);
	}
	sum->at += n;
}

static inline void peer_sum_end(const struct peer_sum *sum, void *reply)
{
	lend_store_u32(reply, sum->crc);
	lend_store_u32((char *)reply + 4, (uint32_t)sum->at);
}

#endif
