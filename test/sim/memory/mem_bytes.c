#include "sim/memory/mem_bytes.h"

#include <string.h>

#include "util/bits.h"

/* The finish of splitmix64, which is invertible. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t undo_mix(uint64_t z)
{
	z = (z ^ z >> 31 ^ z >> 62) * UINT64_C(0x319642b2d24d8ec3);
	z = (z ^ z >> 27 ^ z >> 54) * UINT64_C(0x96de1b173f119089);
	return z ^ z >> 30 ^ z >> 60;
}

static uint64_t word_at(uint64_t version, uint64_t i)
{
	return version ? mix(version << 24 | (i & 0xffffff)) : 0;
}

static uint8_t byte_at(uint64_t version, uint64_t at)
{
	return (uint8_t)(word_at(version, at / 8) >> 8 * (at % 8));
}

void mem_fill(void *to, uint64_t version, uint64_t at, uint64_t len)
{
	uint8_t *b = to;

	for (; len && at % 8; len--)
		*b++ = byte_at(version, at++);
	for (; len >= 8; len -= 8, at += 8, b += 8)
		lend_store_u64(b, word_at(version, at / 8));
	for (; len; len--)
		*b++ = byte_at(version, at++);
}

uint64_t mem_match(const void *data, uint64_t version, uint64_t at, uint64_t len)
{
	const uint8_t *b = data;
	uint64_t i = 0;

	for (; i < len && (at + i) % 8; i++)
		if (b[i] != byte_at(version, at + i))
			return i;
	while (i + 8 <= len && lend_load_u64(b + i) == word_at(version, (at + i) / 8))
		i += 8;
	while (i < len && b[i] == byte_at(version, at + i))
		i++;
	return i;
}

bool mem_foreign(const void *data, uint64_t len, uint64_t *version, uint64_t *at)
{
	const uint8_t *b = data;

	for (uint64_t i = 0; i < 8 && i + 16 <= len; i++) {
		uint64_t one = undo_mix(lend_load_u64(b + i)),
			 two = undo_mix(lend_load_u64(b + i + 8));

		if (one + 1 != two || one >> 24 == 0)
			continue;
		*version = one >> 24;
		*at = (one & 0xffffff) * 8;
		*at -= lend_min_u64(*at, i);
		return true;
	}
	return false;
}

void mem_view_zero(struct mem_view *v, uint64_t len)
{
	v->len = len;
	v->blurred = false;
	v->n = len > 0;
	v->e[0] = (struct mem_extent){len, 0, 0};
}

static void add_extent(struct mem_view *v, uint64_t end, uint64_t version, uint64_t at)
{
	uint64_t start = v->n ? v->e[v->n - 1].end : 0;

	if (end <= start)
		return;
	if (v->n == MEM_EXTENTS) {
		v->blurred = true;
		v->e[v->n - 1].end = end;
		return;
	}
	v->e[v->n++] = (struct mem_extent){end, version, at};
}

/* Appends [from, to) of v to out. */
static void add_range(struct mem_view *out, const struct mem_view *v, uint64_t from, uint64_t to)
{
	uint64_t base = out->n ? out->e[out->n - 1].end : 0, start = 0;

	for (uint32_t i = 0; i < v->n && start < to; start = v->e[i++].end) {
		uint64_t first = lend_max_u64(start, from), end = lend_min_u64(v->e[i].end, to);

		if (first < end)
			add_extent(out, base + end - from, v->e[i].version,
				   v->e[i].at + first - start);
	}
}

void mem_view_slice(struct mem_view *out, const struct mem_view *v, uint64_t offset, uint64_t len)
{
	out->len = len;
	out->n = 0;
	out->blurred = v->blurred;
	add_range(out, v, offset, offset + len);
}

void mem_view_write(struct mem_view *v, uint64_t offset, uint64_t len, uint64_t version)
{
	struct mem_view old;

	if (len == 0)
		return;
	old.n = v->n;
	memcpy(old.e, v->e, v->n * sizeof(v->e[0]));
	v->n = 0;
	add_range(v, &old, 0, offset);
	add_extent(v, offset + len, version, 0);
	add_range(v, &old, offset + len, v->len);
}

uint64_t mem_view_match(const struct mem_view *v, uint64_t offset, const void *data, uint64_t len)
{
	uint64_t start = 0, end = offset + len;

	if (v->blurred)
		return len;
	for (uint32_t i = 0; i < v->n && start < end; start = v->e[i++].end) {
		uint64_t first = lend_max_u64(start, offset), last = lend_min_u64(v->e[i].end, end);
		uint64_t right;

		if (first >= last)
			continue;
		right = mem_match((const uint8_t *)data + (first - offset), v->e[i].version,
				  v->e[i].at + first - start, last - first);
		if (right < last - first)
			return first - offset + right;
	}
	return len;
}
