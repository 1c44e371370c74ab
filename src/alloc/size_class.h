/* size_class - the sizes that small memory is rounded up to: four per doubling, 64 bytes to 64 KiB.
 * Layer: alloc. Pure functions.
 *
 * All are multiples of a cache line, so two objects never share one, and threads that use different
 * objects do not slow each other down. Above 320 bytes, at most a fifth of an object is rounding.
 */
#ifndef LEND_ALLOC_SIZE_CLASS_H
#define LEND_ALLOC_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

#include "util/bits.h"

enum {
	LEND_CLASSES = 36,
	LEND_CLASS_UNIT = 64,        /* bytes: every size is a multiple */
	LEND_CLASS_LEN_MAX = 65536,  /* bytes; of the last class */
	LEND_TILE_LEN = 16384,       /* memory is handed out in tiles */
	LEND_SLAB_OBJECTS = 8,       /* in a slab, at least; the rest at its end is unused */
	LEND_SLAB_OBJECTS_MAX = 256, /* objects of 64 bytes in one tile */
	LEND_BATCH_MAX = 30,         /* objects moved to or from a cache at once; see lend_bin */
};

/* Returns the smallest class for len <= LEND_CLASS_LEN_MAX; 0 bytes count as one. */
static inline uint32_t lend_class_of(size_t len)
{
	uint32_t unit = (uint32_t)((len - (len != 0)) / LEND_CLASS_UNIT), top;

	if (unit < 4)
		return unit;
	top = 31 - (uint32_t)__builtin_clz(unit);
	return 4 * top - 4 + (unit >> (top - 2) & 3);
}

static inline uint32_t lend_class_len(uint32_t class)
{
	if (class < 4)
		return (class + 1) * LEND_CLASS_UNIT;
	return (5 + (class & 3)) * LEND_CLASS_UNIT << (class / 4 - 1);
}

/* Returns the tiles of a slab; lend_class_objects(): its objects. At most an eighth is unused. */
static inline uint32_t lend_class_tiles(uint32_t class)
{
	return (LEND_SLAB_OBJECTS * lend_class_len(class) + LEND_TILE_LEN - 1) / LEND_TILE_LEN;
}

static inline uint32_t lend_class_objects(uint32_t class)
{
	return lend_class_tiles(class) * LEND_TILE_LEN / lend_class_len(class);
}

/* Returns the objects of a batch: 32 KiB of them, but at least 8, so that this many share one lock.
 */
static inline uint32_t lend_class_batch(uint32_t class)
{
	return lend_max_u32(8, lend_min_u32(LEND_BATCH_MAX, 32768 / lend_class_len(class)));
}

/* Returns the multiplier that replaces a division by a class's length; see lend_class_is_start().
 */
static inline uint32_t lend_class_magic(uint32_t class)
{
	return UINT32_MAX / (lend_class_len(class) / LEND_CLASS_UNIT) + 1;
}

/* Returns whether offset, from the start of a slab, is that of an object. With magic = ceil(2^32 /
 * d), the low half of n * magic is below magic exactly when d divides n, as long as n < magic. Here
 * n is below 8192, and magic at least 2^22 (d = 1 has magic 0; every n is a multiple then). */
static inline bool lend_class_is_start(uint32_t offset, uint32_t magic)
{
	return (offset & (LEND_CLASS_UNIT - 1)) == 0 &&
	       offset / LEND_CLASS_UNIT * magic <= magic - 1;
}

#endif
