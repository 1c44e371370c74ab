#include "sim/explore/explore_table.h"

#include <stdlib.h>
#include <string.h>

#include "util/bits.h"
#include "util/check.h"

enum { CHUNK = 1 << EX_CHUNK_BITS, INDEX_MIN = 1024, BLOCK = 1 << 20 };

static void *zero_array(size_t n)
{
	void *mem = calloc(1, n);

	LEND_CHECK(mem != NULL);
	return mem;
}

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* Four lanes, so that multiplications overlap. */
void ex_hash(const void *bytes, size_t len, uint64_t hash[2])
{
	uint64_t h[4] = {len, 1, 2, 3};
	const uint8_t *at = bytes;
	size_t n = len / 8, i = 0;

	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++)
			h[k] = mix(h[k], lend_load_u64(at + (i + (size_t)k) * 8));
	for (; i < n; i++)
		h[i % 4] = mix(h[i % 4], lend_load_u64(at + i * 8) + i);
	hash[0] = mix(mix(mix(mix(h[0], h[1]), h[2]), h[3]), len);
	hash[1] = mix(mix(mix(mix(h[3] + 7, h[2]), h[0]), h[1]), len);
}

void ex_table_open(struct ex_table *t, uint32_t key, uint32_t width)
{
	memset(t, 0, sizeof(*t));
	t->key = key;
	t->width = width;
	t->mask = INDEX_MIN - 1;
	t->index = zero_array(INDEX_MIN * sizeof(*t->index));
}

void ex_table_close(struct ex_table *t)
{
	for (uint32_t i = 0; i < EX_CHUNKS; i++)
		free(t->chunk[i]);
	free(t->index);
	memset(t, 0, sizeof(*t));
}

void *ex_table_at(const struct ex_table *t, uint32_t i)
{
	return t->chunk[i >> EX_CHUNK_BITS] + (size_t)(i & (CHUNK - 1)) * t->width;
}

static void put_entry(struct ex_table *t, uint64_t entry)
{
	uint32_t at = (uint32_t)(entry >> 32) & t->mask;

	while (t->index[at])
		at = (at + 1) & t->mask;
	t->index[at] = entry;
}

static void grow_table(struct ex_table *t)
{
	uint64_t *old = t->index;
	uint32_t n = t->mask + 1;

	t->mask = t->mask * 2 + 1;
	t->index = zero_array(((size_t)t->mask + 1) * sizeof(*t->index));
	for (uint32_t i = 0; i < n; i++)
		if (old[i])
			put_entry(t, old[i]);
	free(old);
}

uint32_t ex_table_add(struct ex_table *t, const void *key, bool *fresh)
{
	uint64_t hash[2];
	uint32_t at, i;

	ex_hash(key, t->key, hash);
	hash[0] &= ~(uint64_t)UINT32_MAX;
	for (at = (uint32_t)(hash[0] >> 32) & t->mask; t->index[at]; at = (at + 1) & t->mask) {
		i = (uint32_t)t->index[at] - 1;
		if ((t->index[at] ^ hash[0]) >> 32 == 0 &&
		    !memcmp(ex_table_at(t, i), key, t->key)) {
			*fresh = false;
			return i;
		}
	}
	i = t->n++;
	LEND_CHECK(i >> EX_CHUNK_BITS < EX_CHUNKS);
	if (!t->chunk[i >> EX_CHUNK_BITS])
		t->chunk[i >> EX_CHUNK_BITS] = zero_array((size_t)CHUNK * t->width);
	memcpy(ex_table_at(t, i), key, t->key);
	t->index[at] = hash[0] | (i + 1);
	if (t->n > t->mask / 2)
		grow_table(t);
	*fresh = true;
	return i;
}

size_t ex_table_bytes(const struct ex_table *t)
{
	return ((size_t)t->mask + 1) * sizeof(*t->index) + (size_t)t->n * t->width;
}

void ex_blobs_open(struct ex_blobs *b, const void *base, uint32_t len)
{
	memset(b, 0, sizeof(*b));
	LEND_CHECK(len % 8 == 0);
	ex_table_open(&b->table, 16, sizeof(struct ex_blob));
	b->len = len;
	b->base = zero_array(len);
	memcpy(b->base, base, len);
}

void ex_blobs_close(struct ex_blobs *b)
{
	ex_table_close(&b->table);
	for (uint32_t i = 0; i < b->n_blocks; i++)
		free(b->blocks[i]);
	free(b->blocks);
	free(b->base);
	memset(b, 0, sizeof(*b));
}

struct ex_blob *ex_blobs_at(const struct ex_blobs *b, uint32_t i)
{
	return ex_table_at(&b->table, i);
}

static uint32_t map_len(const struct ex_blobs *b)
{
	return (b->len / 8 + 63) / 64 * 8;
}

/* Takes room for the longest string; the unused rest is returned. */
static uint8_t *take_room(struct ex_blobs *b)
{
	if (b->left < map_len(b) + b->len + 8) {
		uint32_t size = lend_max_u32(BLOCK, map_len(b) + b->len + 8);

		b->blocks = realloc(b->blocks, (b->n_blocks + 1) * sizeof(*b->blocks));
		LEND_CHECK(b->blocks != NULL);
		b->block = zero_array(size);
		b->blocks[b->n_blocks++] = b->block;
		b->left = size;
	}
	return b->block;
}

/* Appends the difference to the base; returns its length. */
static uint32_t encode_difference(struct ex_blobs *b, const uint8_t *bytes)
{
	uint8_t *map = take_room(b), *to = map + map_len(b);

	for (uint32_t w = 0; w < map_len(b) / 8; w++) {
		uint32_t n = lend_min_u32(64, b->len / 8 - w * 64);
		uint64_t bits = 0;

		for (uint32_t i = 0; i < n; i++) {
			uint64_t word = lend_load_u64(bytes + (w * 64 + i) * 8);
			bool differs = word != lend_load_u64(b->base + (w * 64 + i) * 8);

			bits |= (uint64_t)differs << i;
			lend_store_u64(to, word);
			to += differs ? 8 : 0;
		}
		lend_store_u64(map + w * 8, bits);
	}
	return (uint32_t)(to - map);
}

uint32_t ex_blobs_add(struct ex_blobs *b, const void *bytes, bool *fresh)
{
	uint32_t len = encode_difference(b, bytes), i;
	uint64_t hash[2];

	ex_hash(b->block, len, hash);
	i = ex_table_add(&b->table, hash, fresh);
	if (*fresh) {
		ex_blobs_at(b, i)->words = b->block;
		b->block += len;
		b->left -= len;
	}
	return i;
}

void ex_blobs_get(const struct ex_blobs *b, uint32_t i, void *bytes)
{
	const uint8_t *map = ex_blobs_at(b, i)->words, *from = map + map_len(b);

	memcpy(bytes, b->base, b->len);
	for (uint32_t w = 0; w < map_len(b) / 8; w++)
		for (uint64_t bits = lend_load_u64(map + w * 8); bits; bits &= bits - 1) {
			uint32_t at = w * 64 + (uint32_t)__builtin_ctzll(bits);

			memcpy((uint8_t *)bytes + (size_t)at * 8, from, 8);
			from += 8;
		}
}

size_t ex_blobs_bytes(const struct ex_blobs *b)
{
	return ex_table_bytes(&b->table) + (size_t)b->n_blocks * BLOCK;
}
