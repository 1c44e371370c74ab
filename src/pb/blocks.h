/* blocks - memory for tables, decoded messages and packed bytes, in blocks that the owner provides.
 *
 * Nothing is freed one by one: the owner frees all blocks. Layer: pb (pure). Threads: one at a
 * time. */
#ifndef LEND_PB_BLOCKS_H
#define LEND_PB_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lend_pb_blocks {
	uint8_t *at, *end; /* free bytes of the current block; at is aligned to 8 for structures */
	/* Replaces at and end by a block of at least len bytes, aligned to 8. false: none, the
	 * owner's limit is reached. */
	bool (*more)(struct lend_pb_blocks *blocks, size_t len);
	bool separate; /* encoder: each segment needs a block of its own */
};

/* Takes len bytes, aligned to 8. Returns NULL when the owner has no more. */
static inline void *lend_pb_take(struct lend_pb_blocks *b, size_t len)
{
	uint8_t *at;

	len = (len + 7) & ~(size_t)7;
	if (len > (size_t)(b->end - b->at) && !b->more(b, len))
		return NULL;
	at = b->at;
	b->at += len;
	return at;
}

#endif
