/* page_checksum - a CRC32C beside each page (config.checksum), so that bytes that memory has lost
 * are never served as those that were written.
 *
 * A sum follows a write from what that changes alone. The rest of the page is neither read nor
 * believed: a page that has lost a bit has a wrong sum until it is written whole, and so have
 * copies of it. Nothing is summed by seal, map or a fork of them. Free pages need no sum, for a
 * fresh one must be as frame 0 is, whose sum is always there.
 *
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_PAGE_CHECKSUM_H
#define MN_STORE_PAGE_CHECKSUM_H

#include "mn/store/undo_log.h"

static inline uint32_t *lend_sum_at(const struct lend_store *s, uint32_t frame)
{
	return (uint32_t *)lend_at(s, s->sums) + frame;
}

/* For the inline ones below: sums are on. */
void lend_sum_whole(struct lend_store *s, uint32_t frame);
uint32_t lend_sum_weigh(const struct lend_store *s, uint32_t frame, uint32_t from, uint32_t to);
void lend_sum_follow(struct lend_store *s, uint32_t frame, uint32_t old, uint32_t from, uint32_t to,
		     uint32_t weight);
bool lend_sum_fits(const struct lend_store *s, uint32_t frame);

/* [from, to) of a page is about to be written over, in place or in a copy: what these bytes add to
 * its sum. */
static inline uint32_t lend_sum_before(const struct lend_store *s, uint32_t frame, uint32_t from,
				       uint32_t to)
{
	return s->config.checksum ? lend_sum_weigh(s, frame, from, to) : 0;
}

/* From here to lend_sum_after() the bytes of this frame are ahead of its sum: a start after a kill
 * sums it anew, as part old, part new. */
static inline void lend_sum_begin(struct lend_store *s, uint32_t frame)
{
	if (!s->config.checksum)
		return;
	s->ahead = frame;
	lend_undo_fence();
}

/* frame is old with other bytes in [from, to); weight is what before() said of old. */
static inline void lend_sum_after(struct lend_store *s, uint32_t frame, uint32_t old, uint32_t from,
				  uint32_t to, uint32_t weight)
{
	if (!s->config.checksum)
		return;
	lend_sum_follow(s, frame, old, from, to, weight);
	lend_undo_fence();
	s->ahead = 0;
}

/* Its bytes are those that were written; of every frame where there are no sums. */
static inline bool lend_sum_holds(const struct lend_store *s, uint32_t frame)
{
	return !s->config.checksum || lend_sum_fits(s, frame);
}

/* After a restart: the frame that a write was cut short in, and how many do not hold. */
void lend_sum_recover(struct lend_store *s);

#endif
