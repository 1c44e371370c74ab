/* page_checksum - a CRC32C per page (config.checksum), so that bytes lost in memory are never
 * served as valid.
 *
 * A write updates the checksum from the bytes that it changes. It does not read or verify the rest
 * of the page. A page that has lost a bit keeps a wrong checksum until it is written whole, and so
 * do its copies. Seal, map and a copy-on-write fork compute no checksum. Free pages need none: a
 * fresh one must equal frame 0, and frame 0 always has a checksum.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_PAGE_CHECKSUM_H
#define MN_STORE_PAGE_CHECKSUM_H

#include "mn/store/undo_log.h"

static inline uint32_t *lend_sum_at(const struct lend_store *s, uint32_t frame)
{
	return (uint32_t *)lend_at(s, s->sums) + frame;
}

/* Used by the inline functions below when checksums are enabled. */
void lend_sum_whole(struct lend_store *s, uint32_t frame);
uint32_t lend_sum_weigh(const struct lend_store *s, uint32_t frame, uint32_t from, uint32_t to);
void lend_sum_follow(struct lend_store *s, uint32_t frame, uint32_t old, uint32_t from, uint32_t to,
		     uint32_t weight);
bool lend_sum_fits(const struct lend_store *s, uint32_t frame);

/* Returns what the bytes [from, to) of a page contribute to its checksum. Call it before they are
 * overwritten, in place or in a copy. */
static inline uint32_t lend_sum_before(const struct lend_store *s, uint32_t frame, uint32_t from,
				       uint32_t to)
{
	return s->config.checksum ? lend_sum_weigh(s, frame, from, to) : 0;
}

/* Marks the frame: until lend_sum_after(), its checksum does not match its bytes. After a kill in
 * between, recovery recomputes the checksum, because the bytes are part old, part new. */
static inline void lend_sum_begin(struct lend_store *s, uint32_t frame)
{
	if (!s->config.checksum)
		return;
	s->ahead = frame;
	lend_undo_fence();
}

/* Updates the checksum of frame: a copy of old with other bytes in [from, to), or old itself.
 * weight is the result of lend_sum_before() for old. */
static inline void lend_sum_after(struct lend_store *s, uint32_t frame, uint32_t old, uint32_t from,
				  uint32_t to, uint32_t weight)
{
	if (!s->config.checksum)
		return;
	lend_sum_follow(s, frame, old, from, to, weight);
	lend_undo_fence();
	s->ahead = 0;
}

/* Returns whether a frame's bytes match its checksum; always true without checksums. */
static inline bool lend_sum_holds(const struct lend_store *s, uint32_t frame)
{
	return !s->config.checksum || lend_sum_fits(s, frame);
}

/* After a restart: recomputes the checksum of the frame that an interrupted write was changing, and
 * counts the frames that do not match. */
void lend_sum_recover(struct lend_store *s);

#endif
