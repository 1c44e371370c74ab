/* arg - arguments in a message: a small one inline, a large one as a reference.
 *
 * Each argument begins with a head of 8 bytes, little endian. Bits 0..39 are its length. Bit 63
 * set: a reference of 64 bytes follows, with the same length in it; clear: the bytes follow, with
 * zeros up to a multiple of 8. Bit 62 set, only with bit 63: the address of the reference's home
 * follows it, as 8 bytes of length (at most LEND_ARG_HOME_MAX) and text, with zeros up to a
 * multiple of 8. All other bits are zero. A message consists of arguments only.
 *
 * Layer: wire (pure). No state. */
#ifndef LEND_WIRE_ARG_H
#define LEND_WIRE_ARG_H

#include <stdbool.h>
#include <stdint.h>

#include "util/bits.h"
#include "wire/memref.h"

enum { LEND_ARG_HEAD = 8, LEND_ARG_HOME_MAX = 103 };
#define LEND_ARG_BY_REF (UINT64_C(1) << 63)
#define LEND_ARG_HOMED  (UINT64_C(1) << 62)

/* Returns the bytes that an argument of len takes in a message. */
static inline uint64_t lend_arg_size(uint64_t len, bool by_ref)
{
	return LEND_ARG_HEAD + (by_ref ? LEND_MEMREF_LEN : (len + 7) / 8 * 8);
}

/* Returns the bytes that a home's address takes after its reference; 0 bytes of text: none. */
static inline uint64_t lend_arg_home_size(uint64_t text)
{
	return text ? 8 + (text + 7) / 8 * 8 : 0;
}

/* Writes the head of an argument. homed is set only together with by_ref. */
static inline void lend_arg_encode(uint64_t len, bool by_ref, bool homed,
				   uint8_t out[LEND_ARG_HEAD])
{
	lend_store_u64(out, len | (by_ref ? LEND_ARG_BY_REF : 0) | (homed ? LEND_ARG_HOMED : 0));
}

/* Reads the head of an argument. False: it is not valid. */
static inline bool lend_arg_decode(const uint8_t in[LEND_ARG_HEAD], uint64_t *len, bool *by_ref,
				   bool *homed)
{
	uint64_t head = lend_load_u64(in);

	*by_ref = head & LEND_ARG_BY_REF;
	*homed = head & LEND_ARG_HOMED;
	*len = head & ~(LEND_ARG_BY_REF | LEND_ARG_HOMED);
	return *len <= LEND_MEMREF_ROOT_MAX && (*by_ref || !*homed);
}

#endif
