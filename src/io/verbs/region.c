/* region - registered memory, which the device reads and writes in place.
 * Layer: io. Threads: one per carrier.
 */
#include "io/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"

const struct verbs_region *verbs_region_of(struct verbs *v, const uint8_t *data, uint32_t len)
{
	uint32_t low = 0, high = v->n_regions;
	const struct verbs_region *r;

	if (v->n_regions == 0)
		return NULL;
	r = &v->region[v->last_region];
	if (data >= r->base && len <= r->len && (size_t)(data - r->base) <= r->len - len)
		return r;
	while (high - low > 1) {
		uint32_t mid = (low + high) / 2;

		if (v->region[mid].base <= data)
			low = mid;
		else
			high = mid;
	}
	r = &v->region[low];
	if (data < r->base || len > r->len || (size_t)(data - r->base) > r->len - len)
		return NULL;
	v->last_region = low;
	return r;
}

/* Registers memory with as many of its uses as possible: some devices have no windows, and some
 * memory is only readable. */
static struct ibv_mr *register_region(struct verbs *v, struct verbs_region *region)
{
	static const int access[] = {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
				     IBV_ACCESS_LOCAL_WRITE, 0};

	for (size_t i = v->io.one_sided ? 0 : 2; i < 3 && !region->mr; i++) {
		region->mr = ibv_reg_mr(v->ring->pd, region->base, region->len, access[i]);
		region->windows = access[i] & IBV_ACCESS_MW_BIND;
		region->writable = access[i] & IBV_ACCESS_LOCAL_WRITE;
	}
	return region->mr;
}

int verbs_reg(struct lend_io *io, void *memory, size_t len)
{
	struct verbs *v = (struct verbs *)(void *)io;
	struct verbs_region *more, region = {.base = memory, .len = len};
	uint32_t at = 0;

	more = realloc(v->region, (v->n_regions + 1) * sizeof(*more));
	if (more == NULL)
		return lend_fail(ENOMEM, "no memory to remember a registration");
	v->region = more;
	if (register_region(v, &region) == NULL)
		return lend_fail(errno, "%s: %zu KiB cannot be registered, and are copied from: %s",
				 v->device, len >> 10,
				 errno == ENOMEM ? "raise ulimit -l" : strerror(errno));
	while (at < v->n_regions && more[at].base < (uint8_t *)memory)
		at++;
	memmove(more + at + 1, more + at, (v->n_regions - at) * sizeof(*more));
	more[at] = region;
	v->n_regions++;
	v->last_region = at;
	return 0;
}
