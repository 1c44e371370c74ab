/* arg - arguments in a message: a small one inline, a large one as a reference.
 *
 * Each argument begins with a head of 8 bytes, little endian. Bits 0..39 are its length. Bit 63
 * set: a reference of 64 bytes follows, with the same length in it; clear: the bytes follow, with
 * zeros up to a multiple of 8. All other bits are zero. A message consists of arguments only.
 *
 * Layer: wire (pure). No state. */
#ifndef LEND_WIRE_ARG_H
#define LEND_WIRE_ARG_H

#include <stdbool.h>
#include <stdint.h>

#include "util/bits.h"
#include "wire/memref.h"

enum { LEND_ARG_HEAD = 8 };
#define LEND_ARG_BY_REF (UINT64_C(1) << 63)

/* Returns the bytes that an argument of len takes in a message. */
static inline uint64_t lend_arg_size(uint64_t len, bool by_ref)
{
	return LEND_ARG_HEAD + (by_ref ? LEND_MEMREF_LEN : (len + 7) / 8 * 8);
}

static inline void lend_arg_encode(uint64_t len, bool by_ref, uint8_t out[LEND_ARG_HEAD])
{
	lend_store_u64(out, len | (by_ref ? LEND_ARG_BY_REF : 0));
}

/* Reads the head of an argument. False: it is not valid. */
static inline bool lend_arg_decode(const uint8_t in[LEND_ARG_HEAD], uint64_t *len, bool *by_ref)
{
	uint64_t head = lend_load_u64(in);

	*by_ref = head & LEND_ARG_BY_REF;
	*len = head & ~LEND_ARG_BY_REF;
	return *len <= LEND_MEMREF_ROOT_MAX;
}

#endif
