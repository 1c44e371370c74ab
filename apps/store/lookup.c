/* lookup - see lookup.h. */
#include "apps/store/lookup.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "apps/common/options.h"
#include "mn/store/page_tree.h"
#include "util/check.h"

enum { FRAME_BITS = 24, ALIGN = 2 << 20, GROUP = 16, FREE = 128 };

struct app_entry {
	uint64_t key; /* page + 1; 0: free */
	uint32_t frame, zero;
};

static struct lend_view table; /* pages of the one space */

static void *map_pages(uint64_t len, bool huge)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		app_die("%llu bytes for tables: %s; give a smaller --space",
			(unsigned long long)len, strerror(errno));
	(void)madvise(at, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return at;
}

/* Returns the frame stored for a page: any valid frame number; neighbouring pages get distant
 * frames. */
static uint32_t frame_of(uint64_t page)
{
	return (uint32_t)(page * UINT32_C(0x9e3779b1)) >> (32 - FRAME_BITS) | 1;
}

static uint64_t round_up(uint64_t len)
{
	return (len + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

/* Builds the page tables. A store reserves a tree node per 16 pages of its capacity; this space
 * needs one per 64. */
static void build_tree(struct app_lookup *l, bool huge)
{
	struct lend_store_config c;

	lend_store_config_default(&c, (l->pages / 3 + 1024) * LEND_MEM_PAGE, LEND_MEM_PAGE);
	c.objects = c.holds = c.grants = c.clients = c.incarnations = c.placements = c.open = 1;
	LEND_CHECK(lend_store_size(&c) > 0);
	l->bytes[APP_WAY_TREE] = round_up(lend_store_size(&c));
	l->store = lend_store_init(map_pages(l->bytes[APP_WAY_TREE], huge), &c, NULL, 0);
	table = (struct lend_view){.len = l->pages * LEND_MEM_PAGE};
	table.height = lend_tree_height(l->store, table.len);
	for (uint64_t page = 0; page < l->pages; page += LEND_FAN) {
		uint32_t *leaf = lend_tree_own(l->store, &table, page);

		for (uint32_t i = 0; i < LEND_FAN && page + i < l->pages; i++)
			leaf[i] = frame_of(page + i);
	}
}

static uint64_t hash_of(uint64_t key)
{
	unsigned __int128 product =
	    (unsigned __int128)(key ^ UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns a bit mask of the entries of a group with this tag. */
static inline unsigned tag_mask(const uint8_t *group, uint8_t tag)
{
#ifdef __SSE2__
	__m128i tags = _mm_load_si128((const __m128i *)(const void *)group);

	return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag)));
#else
	unsigned bits = 0;

	for (unsigned i = 0; i < GROUP; i++)
		bits |= (unsigned)(group[i] == tag) << i;
	return bits;
#endif
}

/* Returns the entry of a key, or a free one for it. */
static inline uint64_t flat_at(const struct app_lookup *l, uint64_t key)
{
	uint64_t hash = hash_of(key), mask = (UINT64_C(1) << l->bits) / GROUP - 1;
	uint64_t group = hash >> 7 & mask;

	for (uint64_t step = 1;; group = (group + step++) & mask) {
		const uint8_t *tag = &l->tag[group * GROUP];
		unsigned bits = tag_mask(tag, hash & 127);

		for (; bits; bits &= bits - 1) {
			uint64_t at = group * GROUP + (unsigned)__builtin_ctz(bits);

			if (l->flat[at].key == key)
				return at;
		}
		bits = tag_mask(tag, FREE);
		if (bits)
			return group * GROUP + (unsigned)__builtin_ctz(bits);
	}
}

static inline uint64_t linear_at(const struct app_lookup *l, uint64_t key)
{
	uint64_t mask = (UINT64_C(1) << l->bits) - 1;
	uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - l->bits);

	while (l->linear[at].key && l->linear[at].key != key)
		at = (at + 1) & mask;
	return at;
}

/* Builds both maps, at most seven eighths full, as in Abseil. */
static void build_maps(struct app_lookup *l, bool huge)
{
	for (l->bits = 10; (UINT64_C(1) << l->bits) * 7 / 8 < l->pages; l->bits++)
		;
	l->bytes[APP_WAY_LINEAR] = round_up(sizeof(struct app_entry) << l->bits);
	l->bytes[APP_WAY_FLAT] = l->bytes[APP_WAY_LINEAR] + round_up(UINT64_C(1) << l->bits);
	l->linear = map_pages(l->bytes[APP_WAY_LINEAR], huge);
	l->flat = map_pages(l->bytes[APP_WAY_FLAT], huge);
	l->tag = (uint8_t *)l->flat + l->bytes[APP_WAY_LINEAR];
	memset(l->tag, FREE, UINT64_C(1) << l->bits);
	for (uint64_t page = 0; page < l->pages; page++) {
		struct app_entry entry = {page + 1, frame_of(page), 0};
		uint64_t at = flat_at(l, entry.key);

		l->flat[at] = entry;
		l->tag[at] = hash_of(entry.key) & 127;
		l->linear[linear_at(l, entry.key)] = entry;
	}
}

void app_lookup_open(struct app_lookup *l, uint64_t pages, bool huge)
{
	*l = (struct app_lookup){.pages = pages};
	build_tree(l, huge);
	build_maps(l, huge);
}

void app_lookup_close(struct app_lookup *l)
{
	munmap(l->store, l->bytes[APP_WAY_TREE]);
	munmap(l->flat, l->bytes[APP_WAY_FLAT]);
	munmap(l->linear, l->bytes[APP_WAY_LINEAR]);
}

static inline uint32_t find_frame(const struct app_lookup *l, enum app_way which,
				  const struct lend_view *view, uint64_t page)
{
	if (which == APP_WAY_FLAT)
		return l->flat[flat_at(l, page + 1)].frame;
	if (which == APP_WAY_LINEAR)
		return l->linear[linear_at(l, page + 1)].frame;
	return lend_tree_frame(l->store, view, page);
}

/* Sums the frames. No frame has a bit above FRAME_BITS, but the compiler does not know it; so with
 * waits each lookup depends on the previous one. */
static inline __attribute__((always_inline)) uint64_t sum_frames(const struct app_lookup *l,
								 enum app_way which, bool waits,
								 const uint32_t *page, size_t n)
{
	const struct lend_view view = table;
	uint64_t all = 0;
	uint32_t last = 0;

	for (size_t i = 0; i < n; i++) {
		last = find_frame(l, which, &view, page[i] + (waits ? last >> FRAME_BITS : 0));
		all += last;
	}
	return all;
}

uint64_t app_lookup_sum(const struct app_lookup *l, enum app_way which, bool waits,
			const uint32_t *page, size_t n)
{
	switch (which) {
	case APP_WAY_TREE:
		return waits ? sum_frames(l, APP_WAY_TREE, true, page, n)
			     : sum_frames(l, APP_WAY_TREE, false, page, n);
	case APP_WAY_FLAT:
		return waits ? sum_frames(l, APP_WAY_FLAT, true, page, n)
			     : sum_frames(l, APP_WAY_FLAT, false, page, n);
	case APP_WAY_LINEAR:
		return waits ? sum_frames(l, APP_WAY_LINEAR, true, page, n)
			     : sum_frames(l, APP_WAY_LINEAR, false, page, n);
	case APP_WAYS:
		break;
	}
	return 0;
}

uint64_t app_lookup_wrong(const struct app_lookup *l, const uint32_t *page, size_t n)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		for (int which = 0; which < APP_WAYS; which++)
			wrong += find_frame(l, (enum app_way)which, &table, page[i]) !=
				 frame_of(page[i]);
	return wrong;
}
