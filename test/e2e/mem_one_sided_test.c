/* Goal: over a carrier with RC queue pairs, the client's device reads what it gets from a memory
 * node, and the node's device reads what it puts there, each byte of it. Method: a lend-mn process
 * at the carrier that scripts/conform.py gives; the client's counters show how the bytes went.
 * Covers: cn/op_one_sided.c, mn/node_one_sided.c, src/rpc/shown_memory.c, src/io/verbs/rc_link.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "kit/counter.h"

enum { LEN = 4 << 20, WARM_S = 60 };

/* Puts the bytes, gets them back and compares. */
static void put_and_get(struct mem_node *node, uint64_t seed)
{
	static char in[LEN], out[LEN];
	struct lend_ref ref;

	mem_fill(in, LEN, seed);
	memset(out, 0, LEN);
	ref = mem_put(node->mem, in, LEN, NULL);
	cr_assert_eq(mem_get(node->mem, &ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(in, out, LEN), "seed %llu", (unsigned long long)seed);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

Test(mem_one_sided, transfers_given, .timeout = 240)
{
	static const char *const counter[] = {"io_one_sided_reads", "io_one_sided_shows"};
	struct mem_node node;
	uint64_t seed = 1;

	if (!given_is_here())
		return;
	if (strncmp(getenv("LEND_TEST_LISTEN"), "verbs:", 6) != 0) {
		cr_skip_test("its peers do not read memory one-sided");
		return;
	}
	setenv("LEND_LEVEL", "none", 1); /* encrypted sessions have no one-sided reads */
	mem_node_start(&node, "given", "64M", "");
	for (int i = 0; i < 2; i++) { /* the queue pairs are set up by the first transfers */
		lend_ns end = lend_now(node.ep) + WARM_S * SECOND;

		while (counter_of(node.ep, counter[i]) == 0 && lend_now(node.ep) < end)
			put_and_get(&node, seed++);
	}
	for (int i = 0; i < 2; i++) {
		uint64_t before = counter_of(node.ep, counter[i]);

		for (int n = 0; n < 4; n++)
			put_and_get(&node, seed++);
		cr_assert_geq(counter_of(node.ep, counter[i]) - before, 4, "%s", counter[i]);
	}
	mem_node_stop(&node);
}
