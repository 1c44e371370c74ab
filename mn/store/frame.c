#include "mn/store/frame.h"

#include <string.h>

#include "mn/store/frame_alloc.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"
#include "util/check.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Up to this many freed bytes that were not taken again are zeroed through the cache, so that the
 * next put finds a freed page there. */
enum { WARM_BYTES = 4 << 20 };

/* Zeroes a page by streaming stores: faster when the page is not in the cache, and without filling
 * it. */
static void zero_cold(uint8_t *page, uint32_t size)
{
#ifdef __SSE2__
	__m128i *at = (__m128i *)(void *)page, *end = at + size / sizeof(*at);
	const __m128i zero = _mm_setzero_si128();

	for (; at < end; at += 4) {
		_mm_stream_si128(at, zero);
		_mm_stream_si128(at + 1, zero);
		_mm_stream_si128(at + 2, zero);
		_mm_stream_si128(at + 3, zero);
	}
	_mm_sfence();
#else
	memset(page, 0, size);
#endif
}

static void zero_page(struct lend_store *s, uint8_t *page)
{
	uint32_t size = lend_page_size(s);

	if (s->warm >= WARM_BYTES / size) {
		zero_cold(page, size);
		return;
	}
	s->warm++;
	memset(page, 0, size);
}

uint32_t lend_frame_take(struct lend_store *s)
{
	uint32_t i = lend_free_take(s);
	struct lend_frame *f;

	LEND_CHECK(i);
	s->frame.used++;
	s->warm -= s->warm > 0;
	s->frame.top = lend_max_u32(s->frame.top, i);
	lend_undo_fence(); /* frames above top are zero */
	f = lend_frame_at(s, i);
	LEND_CHECK((f->refs | f->pins) == 0);
	f->refs = 1;
	f->next = 0;
	return i;
}

static void give_frame(struct lend_store *s, uint32_t frame)
{
	lend_frame_at(s, frame)->gen++;
	zero_page(s, lend_page(s, frame));
	if (s->config.quarantine)
		lend_free_quarantine(s, frame);
	else
		lend_free_add(s, frame);
	s->frame.used--;
}

void lend_frame_drop(struct lend_store *s, uint32_t frame)
{
	struct lend_frame *f = lend_frame_at(s, frame);

	LEND_CHECK(f->refs > 0);
	if (--f->refs == 0 && f->pins == 0)
		give_frame(s, frame);
}

void lend_frame_zero(struct lend_store *s, uint32_t frame)
{
	uint8_t *page = lend_page(s, frame);

	if (page[0] || memcmp(page, page + 1, lend_page_size(s) - 1))
		zero_cold(page, lend_page_size(s));
}

void lend_frame_pin(struct lend_store *s, uint32_t frame)
{
	struct lend_frame *f = lend_frame_at(s, frame);

	LEND_CHECK(f->pins < UINT32_MAX);
	if (f->pins++ == 0)
		s->pinned++;
}

void lend_frame_unpin(struct lend_store *s, uint32_t frame)
{
	struct lend_frame *f = lend_frame_at(s, frame);

	LEND_CHECK(f->pins > 0);
	if (--f->pins > 0)
		return;
	s->pinned--;
	if (f->refs == 0)
		give_frame(s, frame);
}

void lend_store_done(struct lend_store *store, uint32_t tenant, const struct lend_store_seg *seg,
		     uint32_t n)
{
	struct lend_store_usage *use = &lend_tenant_at(store, tenant)->use;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t first = (uint64_t)((const uint8_t *)seg[i].data - store->pages);
		uint64_t end = first + seg[i].len;

		LEND_CHECK(end <= ((uint64_t)store->frame.cap + 1) << store->page_bits);
		for (uint64_t f = lend_page_at(store, first); f << store->page_bits < end; f++) {
			if (!f)
				continue;
			lend_frame_unpin(store, (uint32_t)f);
			LEND_CHECK(use->pinned > 0);
			use->pinned--;
		}
	}
}
