#include "mn/store/page_checksum.h"

#include "util/crc32c.h"

/* Returns what bytes contribute to a checksum, compared with zeros, if they end the page. */
static uint32_t weigh_bytes(const uint8_t *at, uint32_t len)
{
	return ~lend_crc32c(UINT32_MAX, at, len);
}

void lend_sum_whole(struct lend_store *s, uint32_t frame)
{
	*lend_sum_at(s, frame) = lend_crc32c(0, lend_page(s, frame), lend_page_size(s));
}

uint32_t lend_sum_weigh(const struct lend_store *s, uint32_t frame, uint32_t from, uint32_t to)
{
	/* A write of the whole page does not depend on the old bytes. */
	return frame && to - from < lend_page_size(s)
		   ? weigh_bytes(lend_page(s, frame) + from, to - from)
		   : 0;
}

void lend_sum_follow(struct lend_store *s, uint32_t frame, uint32_t old, uint32_t from, uint32_t to,
		     uint32_t weight)
{
	if (to - from == lend_page_size(s)) {
		lend_sum_whole(s, frame);
		return;
	}
	weight ^= weigh_bytes(lend_page(s, frame) + from, to - from);
	*lend_sum_at(s, frame) =
	    *lend_sum_at(s, old) ^ lend_crc32c_past(weight, lend_page_size(s) - to);
}

/* Most pages are not in the cache: the cache lines of the first LEND_MEM_PAGE bytes are prefetched
 * at once. */
bool lend_sum_fits(const struct lend_store *s, uint32_t frame)
{
	const uint8_t *page = lend_page(s, frame);

	for (uint32_t i = 0; i < LEND_MEM_PAGE; i += 64)
		__builtin_prefetch(page + i);
	return *lend_sum_at(s, frame) == lend_crc32c(0, lend_page(s, frame), lend_page_size(s));
}

/* Returns how many frames of placements do not match, because their bytes are still arriving. */
static uint64_t arriving_frames(const struct lend_store *s)
{
	uint64_t n = 0;

	for (uint32_t p = 1; p <= s->placement.top; p++)
		for (uint32_t f = lend_placement_at(s, p)->first; f; f = lend_frame_at(s, f)->next)
			n += lend_frame_at(s, f)->refs && !lend_sum_fits(s, f);
	return n;
}

uint64_t lend_store_scrub(const struct lend_store *store)
{
	uint64_t n = 0;

	if (!store->config.checksum)
		return 0;
	for (uint32_t i = 1; i <= store->frame.top; i++)
		n += lend_frame_at(store, i)->refs && !lend_sum_fits(store, i);
	return n + !lend_sum_fits(store, 0) - arriving_frames(store);
}

void lend_sum_recover(struct lend_store *s)
{
	if (s->config.checksum && s->ahead && s->ahead <= s->frame.top)
		lend_sum_whole(s, s->ahead);
	s->ahead = 0;
	s->counts.damaged += lend_store_scrub(s);
}
