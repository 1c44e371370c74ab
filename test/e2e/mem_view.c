/* mem_view - spaces and their memory, for the tests of lend_space_pointer(). */
#include "e2e/mem_view.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lend/stats.h"

char *mem_pointer(struct mem_node *node, lend_space space)
{
	char *p = lend_space_pointer(node->mem, space);

	cr_assert(p, "%s", lend_why());
	cr_assert_eq(p, lend_space_pointer(node->mem, space));
	return p;
}

enum lend_status mem_seal(struct mem_node *node, lend_space space, uint64_t at, uint64_t len,
			  struct lend_ref *ref)
{
	struct lend_op op = {.timeout = SECOND * 30};
	enum lend_status status =
	    mem_end(node->mem, &op, lend_space_seal(node->mem, space, at, len, NULL, &op));

	*ref = op.ref;
	return status;
}

enum lend_status mem_prefetch(struct mem_node *node, lend_space space, uint64_t at, uint64_t len)
{
	struct lend_op op = {.timeout = SECOND * 30};

	return mem_end(node->mem, &op, lend_space_prefetch(node->mem, space, at, len, &op));
}

struct lend_mem_cache_stat mem_cache(void)
{
	struct lend_mem_cache_stat stat;

	lend_mem_cache_stat_get(&stat);
	return stat;
}

uint64_t mem_sent(struct mem_node *node)
{
	struct lend_stats stats;

	lend_stats_get(node->ep, &stats);
	return stats.tx_bytes;
}

void mem_expect(struct mem_node *node, const struct lend_ref *ref, const char *want, size_t len)
{
	char *got = malloc(len + 1);

	cr_assert_eq(lend_ref_len(ref), len);
	cr_assert_eq(mem_get(node->mem, ref, 0, got, len), LEND_OK);
	cr_assert(!memcmp(got, want, len), "a snapshot of %zu bytes is another", len);
	free(got);
}
