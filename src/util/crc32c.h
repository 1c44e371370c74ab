/* crc32c - the Castagnoli CRC of iSCSI and ext4. It uses products of polynomials or one instruction
 * per 8 bytes on machines that have them, a table on others. Layer: util. No state, any thread. */
#ifndef LEND_UTIL_CRC32C_H
#define LEND_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Start with crc 0 and chain: the CRC of a followed by b is lend_crc32c(lend_crc32c(0, a), b). */
uint32_t lend_crc32c(uint32_t crc, const void *data, size_t len);
/* The same CRC without products, and by table on every machine; tests compare these with
 * lend_crc32c(). */
uint32_t lend_crc32c_lanes(uint32_t crc, const void *data, size_t len);
uint32_t lend_crc32c_table(uint32_t crc, const void *data, size_t len);

/* Returns how two CRCs differ after an append. `apart` is the xor of the CRCs of two messages of
 * equal length; the result is the xor of their CRCs once the same len bytes, of any value, follow
 * both. For a message of zeros and another one, apart is ~lend_crc32c(UINT32_MAX, other, its
 * length). */
uint32_t lend_crc32c_past(uint32_t apart, uint64_t len);

#endif
