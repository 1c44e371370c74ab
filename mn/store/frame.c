#include "mn/store/frame.h"

#include <string.h>

#include "mn/store/frame_alloc.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"
#include "util/check.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A freed page keeps its bytes until it is taken or cleaned: a put that overwrites it whole needs
 * no zeros, and most pages are taken again soon. CLEAN_NS: time in which none is freed
 * before they are cleaned, so that this does not delay requests. CLEAN_STEP: bytes per tick. Up to
 * WARM_BYTES in all are zeroed through the cache, so that the next put finds them there. */
enum { CLEAN_NS = 10000000, CLEAN_STEP = 128 << 10, WARM_BYTES = 4 << 20 };

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

static bool is_dirty(const struct lend_store *s, uint32_t frame)
{
	return lend_set_word(s, &s->free.dirty, frame) >> (frame & 63) & 1;
}

uint32_t lend_frame_take(struct lend_store *s, uint32_t from, uint32_t to)
{
	uint32_t i = lend_free_take(s);
	struct lend_frame *f;

	LEND_CHECK(i);
	s->frame.used++;
	if (is_dirty(s, i)) {
		lend_set_remove(s, &s->free.dirty, i);
		if (from > 0)
			memset(lend_page(s, i), 0, from);
		if (to < lend_page_size(s))
			memset(lend_page(s, i) + to, 0, lend_page_size(s) - to);
	}
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
	s->freed++;
	lend_set_add(s, &s->free.dirty, frame);
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

lend_ns lend_frame_clean_deadline(const struct lend_store *s)
{
	return s->free.dirty.n ? s->clean_at : LEND_NEVER;
}

void lend_frame_clean(struct lend_store *s, lend_ns now)
{
	struct lend_set *dirty = &s->free.dirty;
	uint32_t n = lend_max_u32(CLEAN_STEP / lend_page_size(s), 1);

	if (now >= s->clean_at && s->freed != s->clean_freed) {
		s->clean_at = now + CLEAN_NS;
		s->clean_freed = s->freed;
	}
	if (now < s->clean_at)
		return;
	for (uint32_t i = 0; dirty->n && n > 0; n--) {
		i = lend_set_next(s, dirty, i);
		if (dirty->n <= WARM_BYTES / lend_page_size(s))
			memset(lend_page(s, i), 0, lend_page_size(s));
		else
			zero_cold(lend_page(s, i), lend_page_size(s));
		lend_set_remove(s, dirty, i);
	}
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
