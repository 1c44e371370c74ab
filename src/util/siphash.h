/* siphash - SipHash-2-4 (Aumasson, Bernstein): a keyed function of bytes that cannot be predicted
 * without the key. Tokens, tickets and session ids are made with it. Layer: util. No state, any
 * thread. */
#ifndef LEND_UTIL_SIPHASH_H
#define LEND_UTIL_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* The 128-bit variant is another function, not a longer output of the 64-bit one. */
void lend_siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16]);
uint64_t lend_siphash64(const uint8_t key[16], const void *data, size_t len);

#endif
