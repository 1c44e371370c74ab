/* Goal: a node with larger pages serves the same bytes, by calls and through pointers, and counts
 * its own pages. Method: nodes of 64 KiB and 2 MiB pages on shm, udp and as a pool; lengths in
 * pairs around a page, slices that begin inside one, stores of one byte. Covers:
 * cn/paging/paged_view.c, cn/pool/pool_view.c, mn/store/frame.c */
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "one_line_test.h"

enum { MAX = (4 << 20) + 3 };

static const char *const carriers[] = {"shm", "udp", "pool"};
static const struct {
	const char *option;
	uint32_t bytes;
} pages[] = {{"--page 64K --checksum", 64 << 10}, {"--page 2M", 2 << 20}};

static char *in, *out;

static void run_each(void (*rule)(struct mem_node *node, uint32_t page))
{
	in = malloc(MAX);
	out = malloc(MAX);
	mem_fill(in, MAX, 5);
	for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]); i++)
		for (size_t p = 0; p < sizeof(pages) / sizeof(pages[0]); p++) {
			struct mem_node node;

			mem_node_start(&node, carriers[i], "64M", pages[p].option);
			rule(&node, pages[p].bytes);
			mem_node_stop(&node);
		}
	free(in);
	free(out);
}

static void bytes_and_pages(struct mem_node *node, uint32_t page)
{
	const size_t size[] = {1, page - 1, page, page + 1, 2 * page - 4096, MAX};
	struct lend_mem_stat stat;
	struct lend_ref ref;

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		ref = mem_put(node->mem, in, size[i], NULL);
		mem_stat(node->mem, &stat);
		cr_expect_eq(stat.page_bytes, page);
		cr_expect_eq(stat.pages_total, (64 << 20) / page);
		cr_expect_geq(stat.pages_used, (size[i] + page - 1) / page, "%zu", size[i]);
		cr_assert_eq(mem_get(node->mem, &ref, 0, out, size[i]), LEND_OK, "%zu", size[i]);
		cr_assert_eq(memcmp(in, out, size[i]), 0, "%zu bytes of %s", size[i],
			     node->address);
		cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
		cr_assert(mem_pages_become(node->ep, node->mem, 0, 5000));
	}
}

TestRuns(mem_paged, bytes_and_pages, run_each(bytes_and_pages));

/* A slice from the middle of a page on, a store of one byte in it, a seal: all other bytes are
 * unchanged. */
static void through_a_pointer(struct mem_node *node, uint32_t page)
{
	const uint64_t base = page / 2 + 5, len = MAX - base, at = page - base - 1;
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref = mem_put(node->mem, in, MAX, NULL), part, sealed;
	lend_space space;
	char *p;

	cr_assert_eq(lend_ref_slice(&ref, base, len, LEND_READ | LEND_MAP, &part), 0);
	space = mem_map(node->mem, &part);
	p = lend_space_pointer(node->mem, space);
	cr_assert(p, "%s: %s", node->address, lend_why());
	cr_assert_eq(memcmp(p, in + base, len), 0, "%s", node->address);
	p[at]++;
	p[at + 1]++; /* on the next page */
	cr_assert_eq(mem_end(node->mem, &op, lend_space_seal(node->mem, space, 0, len, NULL, &op)),
		     LEND_OK);
	sealed = op.ref;
	cr_assert_eq(mem_get(node->mem, &sealed, 0, out, len), LEND_OK);
	cr_assert_eq(memcmp(out, p, len), 0, "%s", node->address);
	cr_assert_eq(mem_get(node->mem, &ref, 0, out, MAX), LEND_OK);
	cr_assert_eq(memcmp(out, in, MAX), 0, "%s", node->address);
	mem_free_space(node->mem, space);
	cr_assert_eq(mem_release(node->mem, &sealed), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

TestRuns(mem_paged, through_a_pointer, run_each(through_a_pointer));
