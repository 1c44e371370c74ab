/* explore_table - storage of the explorer: records by key and byte strings by content, both
 * numbered in order of appearance.
 *
 * Records never move. Layer: test. Lives by value in its owner until close(). */
#ifndef SIM_EXPLORE_EXPLORE_TABLE_H
#define SIM_EXPLORE_EXPLORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EX_CHUNK_BITS = 14, EX_CHUNKS = 1 << 14 };

struct ex_table {
	uint32_t key, width; /* length of the key, which comes first, and of a record, in bytes */
	uint32_t n;          /* records 0 .. n - 1 */
	uint32_t mask;       /* mask of the hash index */
	uint64_t *index;     /* by hash: its upper half, and record + 1; 0: free */
	uint8_t *chunk[EX_CHUNKS];
};

void ex_table_open(struct ex_table *t, uint32_t key, uint32_t width);
void ex_table_close(struct ex_table *t);
void *ex_table_at(const struct ex_table *t, uint32_t i);
/* Returns the record with this key; *fresh: it was added now, with zeros behind the key. */
uint32_t ex_table_add(struct ex_table *t, const void *key, bool *fresh);
size_t ex_table_bytes(const struct ex_table *t);

/* Byte strings are stored as their difference to a base image, eight bytes at a time. Two strings
 * with the same 128-bit hash are taken for the same. */
enum { EX_ATTR = 48 };
struct ex_blob {
	uint64_t hash[2];
	uint8_t *words;        /* bit map of the words that differ, then these words */
	uint8_t attr[EX_ATTR]; /* attributes of the owner */
};
struct ex_blobs {
	struct ex_table table;
	uint8_t *base; /* len bytes, a multiple of 8 */
	uint32_t len;
	uint8_t *block; /* memory for the next words */
	uint32_t left;
	uint8_t **blocks;
	uint32_t n_blocks;
};

/* Opens a set of strings of len bytes that are similar to base. */
void ex_blobs_open(struct ex_blobs *b, const void *base, uint32_t len);
void ex_blobs_close(struct ex_blobs *b);
uint32_t ex_blobs_add(struct ex_blobs *b, const void *bytes, bool *fresh);
void ex_blobs_get(const struct ex_blobs *b, uint32_t i, void *bytes);
struct ex_blob *ex_blobs_at(const struct ex_blobs *b, uint32_t i);
size_t ex_blobs_bytes(const struct ex_blobs *b);

/* len: a multiple of 8. */
void ex_hash(const void *bytes, size_t len, uint64_t hash[2]);

#endif
