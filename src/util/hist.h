/* hist - histogram of 64-bit values in fixed memory, with 1 % resolution.
 *
 * Values below 2 * LEND_HIST_SUB have a bucket of their own. Above, each power of two is divided
 * into LEND_HIST_SUB equal buckets, so a bucket is at most 1/64 of its values wide and its middle
 * is off by at most 0.8 %. Layer: util. Lives by value in its owner (about 30 KB); one thread at a
 * time. */
#ifndef LEND_UTIL_HIST_H
#define LEND_UTIL_HIST_H

#include <stdint.h>

enum {
	LEND_HIST_SUB_BITS = 6,
	LEND_HIST_SUB = 1 << LEND_HIST_SUB_BITS,
	LEND_HIST_BUCKETS = (64 - LEND_HIST_SUB_BITS + 1) * LEND_HIST_SUB,
};

struct lend_hist {
	uint64_t count;    /* values added */
	uint64_t min, max; /* exact; min is UINT64_MAX while empty */
	double sum;        /* sum of the values; a double never wraps */
	uint64_t bucket[LEND_HIST_BUCKETS];
};

void lend_hist_init(struct lend_hist *h);
/* Adds all values of from, which is not changed. */
void lend_hist_merge(struct lend_hist *h, const struct lend_hist *from);
/* Returns the value that a share q in [0, 1] of all values does not exceed, to 1 %: 0.5 is the
 * median; 0 is the smallest value and 1 the largest, both exact. 0 while empty. */
uint64_t lend_hist_quantile(const struct lend_hist *h, double q);
/* Returns the mean, exact except for rounding; 0 while empty. */
double lend_hist_mean(const struct lend_hist *h);
/* Return the smallest and the largest value, exactly; 0 while empty. */
uint64_t lend_hist_min(const struct lend_hist *h);
uint64_t lend_hist_max(const struct lend_hist *h);

/* Returns the bucket of a value: the power of two above the sub-bucket bits, then those bits. */
static inline uint32_t lend_hist_index(uint64_t value)
{
	uint32_t shift;

	if (value < 2 * LEND_HIST_SUB)
		return (uint32_t)value;
	shift = 63u - (uint32_t)__builtin_clzll(value) - LEND_HIST_SUB_BITS;
	return shift * LEND_HIST_SUB + (uint32_t)(value >> shift);
}

static inline void lend_hist_add(struct lend_hist *h, uint64_t value)
{
	h->count++;
	h->sum += (double)value;
	if (value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->bucket[lend_hist_index(value)]++;
}

#endif
