/* mem_bytes - expected content of an object, without a copy of it.
 *
 * Every range that an operation writes is a version of its own, derived from the client and the
 * operation id. Its bytes are a bijection of (version, offset), so wrong bytes show their origin.
 * The content of an object is a few ranges of versions. Layer: test/sim. Plain values. */
#ifndef SIM_MEMORY_MEM_BYTES_H
#define SIM_MEMORY_MEM_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum { MEM_EXTENTS = 32 };

/* 16 bits of client number, 4 of store, 20 of operation id; 0: never written. */
static inline uint64_t mem_version(uint32_t client, uint32_t store, uint64_t id)
{
	return (uint64_t)(client & 0xffff) << 24 | (store & 15) << 20 | (id & 0xfffff);
}

void mem_fill(void *to, uint64_t version, uint64_t at, uint64_t len);
/* Returns how many bytes are right before the first wrong one. */
uint64_t mem_match(const void *data, uint64_t version, uint64_t at, uint64_t len);
/* Finds the version and offset of some 8 bytes of data. False: they belong to no version. */
bool mem_foreign(const void *data, uint64_t len, uint64_t *version, uint64_t *at);

/* Bytes of a version, from the previous extent's end up to end; at: offset in the version. */
struct mem_extent {
	uint64_t end, version, at;
};
struct mem_view {
	uint64_t len;
	uint32_t n;
	bool blurred; /* too many extents: content is unknown */
	struct mem_extent e[MEM_EXTENTS];
};

void mem_view_zero(struct mem_view *v, uint64_t len);
void mem_view_write(struct mem_view *v, uint64_t offset, uint64_t len, uint64_t version);
/* out becomes [offset, offset + len) of v; out is not v. */
void mem_view_slice(struct mem_view *out, const struct mem_view *v, uint64_t offset, uint64_t len);
/* Returns how many bytes of [offset, offset + len) are right before the first wrong one. */
uint64_t mem_view_match(const struct mem_view *v, uint64_t offset, const void *data, uint64_t len);

#endif
