/* explore_table - what the explorer has seen: records found by their key, and byte strings by their
 * content, both named by small numbers in order of appearance.
 *
 * Records never move. Layer: test. Lives by value in its owner until close(). */
#ifndef SIM_EXPLORE_EXPLORE_TABLE_H
#define SIM_EXPLORE_EXPLORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EX_CHUNK_BITS = 14, EX_CHUNKS = 1 << 14 };

struct ex_table {
	uint32_t key, width; /* bytes of a record, and of its key, which comes first */
	uint32_t n;          /* records 0 .. n - 1 */
	uint32_t mask;       /* of index */
	uint64_t *index;     /* by hash: its upper half, and record + 1; 0: free */
	uint8_t *chunk[EX_CHUNKS];
};

void ex_table_open(struct ex_table *t, uint32_t key, uint32_t width);
void ex_table_close(struct ex_table *t);
void *ex_table_at(const struct ex_table *t, uint32_t i);
/* The record with this key; *fresh: it was made now, zeros behind the key. */
uint32_t ex_table_add(struct ex_table *t, const void *key, bool *fresh);
size_t ex_table_bytes(const struct ex_table *t);

/* Byte strings: the difference to a base image is kept, eight bytes at a time. Two strings of one
 * 128-bit hash are taken for the same. */
enum { EX_ATTR = 48 };
struct ex_blob {
	uint64_t hash[2];
	uint8_t *words;        /* map of words that differ, then those */
	uint8_t attr[EX_ATTR]; /* the owner's */
};
struct ex_blobs {
	struct ex_table table;
	uint8_t *base; /* len bytes, a multiple of 8 */
	uint32_t len;
	uint8_t *block; /* where the next words go */
	uint32_t left;
	uint8_t **blocks;
	uint32_t n_blocks;
};

/* Strings of len bytes, near to base. */
void ex_blobs_open(struct ex_blobs *b, const void *base, uint32_t len);
void ex_blobs_close(struct ex_blobs *b);
uint32_t ex_blobs_add(struct ex_blobs *b, const void *bytes, bool *fresh);
void ex_blobs_get(const struct ex_blobs *b, uint32_t i, void *bytes);
struct ex_blob *ex_blobs_at(const struct ex_blobs *b, uint32_t i);
size_t ex_blobs_bytes(const struct ex_blobs *b);

/* Of len bytes, a multiple of 8. */
void ex_hash(const void *bytes, size_t len, uint64_t hash[2]);

#endif
