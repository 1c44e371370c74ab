/* mem_bytes - what bytes an object must have, without keeping them.
 *
 * Every range that an operation writes is a version of its own, made of who wrote it and under
 * which id; its bytes are a bijection of (version, place), so foreign bytes tell where they come
 * from. An object's bytes are a few ranges of versions. Layer: test/sim. Plain values. */
#ifndef SIM_MEMORY_MEM_BYTES_H
#define SIM_MEMORY_MEM_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum { MEM_EXTENTS = 32 };

/* 16 bits of client number, 4 of store, 20 of operation id; 0: bytes that nobody wrote. */
static inline uint64_t mem_version(uint32_t client, uint32_t store, uint64_t id)
{
	return (uint64_t)(client & 0xffff) << 24 | (store & 15) << 20 | (id & 0xfffff);
}

void mem_fill(void *to, uint64_t version, uint64_t at, uint64_t len);
/* How many of the bytes are right before the first that is not. */
uint64_t mem_match(const void *data, uint64_t version, uint64_t at, uint64_t len);
/* Says what 8 bytes somewhere in data are: of which version, at which place. False: of none. */
bool mem_foreign(const void *data, uint64_t len, uint64_t *version, uint64_t *at);

/* From the end of the one before it up to end: bytes of version, from at on. */
struct mem_extent {
	uint64_t end, version, at;
};
struct mem_view {
	uint64_t len;
	uint32_t n;
	bool blurred; /* written in too many pieces: no longer known */
	struct mem_extent e[MEM_EXTENTS];
};

void mem_view_zero(struct mem_view *v, uint64_t len);
void mem_view_write(struct mem_view *v, uint64_t offset, uint64_t len, uint64_t version);
/* out becomes [offset, offset + len) of v; out is not v. */
void mem_view_slice(struct mem_view *out, const struct mem_view *v, uint64_t offset, uint64_t len);
/* How many of the bytes of [offset, offset + len) are right before the first that is not. */
uint64_t mem_view_match(const struct mem_view *v, uint64_t offset, const void *data, uint64_t len);

#endif
