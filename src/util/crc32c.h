/* crc32c - the Castagnoli CRC of iSCSI and ext4: by products of polynomials or one instruction per
 * 8 bytes where the machine has them, by table elsewhere. Layer: util. No state, any thread. */
#ifndef LEND_UTIL_CRC32C_H
#define LEND_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Start with crc 0 and chain: the CRC of a followed by b is lend_crc32c(lend_crc32c(0, a), b). */
uint32_t lend_crc32c(uint32_t crc, const void *data, size_t len);
/* The same without products, and by table on every machine; tests hold one against the other. */
uint32_t lend_crc32c_lanes(uint32_t crc, const void *data, size_t len);
uint32_t lend_crc32c_table(uint32_t crc, const void *data, size_t len);

/* The CRCs of two messages of one length are apart by this (xor): by how much they are once both
 * are followed by the same len bytes, whatever those are. A message of zeros is apart from another
 * by ~lend_crc32c(UINT32_MAX, other, its length). */
uint32_t lend_crc32c_past(uint32_t apart, uint64_t len);

#endif
