/* core_pair_buf - the buffers of both sides: filled with a pattern; each must come back once. Part
 * of pair.h. Layer: test. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "scen/core_pair.h"

uint32_t pair_buf(struct core_pair *d, int side, uint32_t cap, uint32_t len, unsigned salt)
{
	struct pair_side *s = &d->side[side];

	for (uint32_t b = 1; b < PAIR_BUFS; b++) {
		if (s->taken[b])
			continue;
		s->taken[b] = true;
		s->seg[b] = (struct lend_seg){malloc(cap + 1), len, cap, 0, 0};
		for (uint32_t i = 0; i < len; i++)
			((uint8_t *)s->seg[b].data)[i] = pair_byte(i, salt);
		return b;
	}
	cr_assert_fail("no buffer left on side %d", side);
	return 0;
}

bool pair_same(struct core_pair *d, int side, uint32_t buf, uint32_t len, unsigned salt)
{
	const struct lend_seg *seg = d->side[side].seg;
	uint32_t i = 0;

	for (; buf && i < len; buf = seg[buf].next)
		for (uint32_t at = 0; at < seg[buf].cap && i < len; at++, i++)
			if (((uint8_t *)seg[buf].data)[at] != pair_byte(i, salt))
				return false;
	return i == len;
}

void pair_free(struct core_pair *d, int side, uint32_t buf)
{
	struct pair_side *s = &d->side[side];

	while (buf) {
		cr_assert(s->taken[buf], "side %d: buffer %u came back twice", side, buf);
		s->taken[buf] = false;
		free(s->seg[buf].data);
		s->seg[buf].data = NULL;
		buf = s->seg[buf].next;
	}
}
