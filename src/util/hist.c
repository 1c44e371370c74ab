#include "util/hist.h"

#include <string.h>

#include "util/bits.h"

_Static_assert(LEND_HIST_BUCKETS == 3776, "the last bucket holds UINT64_MAX");

void lend_hist_init(struct lend_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void lend_hist_merge(struct lend_hist *h, const struct lend_hist *from)
{
	h->count += from->count;
	h->sum += from->sum;
	h->min = lend_min_u64(h->min, from->min);
	h->max = lend_max_u64(h->max, from->max);
	for (uint32_t i = 0; i < LEND_HIST_BUCKETS; i++)
		h->bucket[i] += from->bucket[i];
}

/* Returns the middle of a bucket. */
static uint64_t value_of(uint32_t index)
{
	uint32_t shift;

	if (index < 2 * LEND_HIST_SUB)
		return index;
	shift = index / LEND_HIST_SUB - 1;
	return ((uint64_t)(index - shift * LEND_HIST_SUB) << shift) + (UINT64_C(1) << shift) / 2;
}

/* Returns how many values, in ascending order, make up the share q: at least one, at most all. */
static uint64_t rank_of(const struct lend_hist *h, double q)
{
	double exact = q * (double)h->count;
	uint64_t rank;

	if (!(exact > 0))
		return 1;
	if (exact >= (double)h->count)
		return h->count;
	rank = (uint64_t)exact;
	return lend_max_u64(rank + ((double)rank < exact), 1);
}

uint64_t lend_hist_quantile(const struct lend_hist *h, double q)
{
	uint64_t rank, seen = 0;
	uint32_t i;

	if (!h->count)
		return 0;
	rank = rank_of(h, q);
	if (rank == 1)
		return h->min;
	if (rank == h->count)
		return h->max;
	for (i = 0; i < LEND_HIST_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			break;
	}
	return lend_min_u64(lend_max_u64(value_of(i), h->min), h->max);
}

double lend_hist_mean(const struct lend_hist *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}

uint64_t lend_hist_min(const struct lend_hist *h)
{
	return h->count ? h->min : 0;
}

uint64_t lend_hist_max(const struct lend_hist *h)
{
	return h->max;
}
