/* Goal: references that wait for their release go to their own node only, and those of a node that
 * no longer exists under its id are not kept. Method: a client with two nodes that have no
 * connection; references of both and of a third. Covers: cn/deferred_release.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cn/client.h"
#include "cn/deferred_release.h"

enum { EACH = 3 };

static void add_refs(struct lend_mem *mem, uint32_t node)
{
	static const uint8_t key[16];

	for (uint32_t i = 0; i < EACH; i++) {
		struct lend_memref ref = {
		    .node = node, .epoch = 1, .slot = i + 1, .serial = 1, .root_len = 8};
		struct lend_ref out;

		lend_memref_sign(&ref, key);
		lend_memref_encode(&ref, (uint8_t *)&out);
		cr_assert_eq(cn_deferred_reserve(mem, 1), 0);
		cn_deferred_add(mem, &out, false);
	}
}

static struct cn_node *make_node(struct lend_mem *mem, uint32_t id)
{
	struct cn_node *node = calloc(1, sizeof(*node));

	cr_assert_not_null(node);
	node->mem = mem;
	node->id = id;
	node->greeted = true;
	node->workers = 1;
	node->open = LEND_MEM_OPEN_MAX;
	node->next = node->low = 1;
	mem->node[mem->nodes++] = node;
	return node;
}

Test(deferred_release, each_goes_to_its_node__and_none_stays_without_one)
{
	struct lend_mem *mem = calloc(1, sizeof(*mem));
	struct cn_node *first, *second;

	cr_assert_not_null(mem);
	first = make_node(mem, 7);
	second = make_node(mem, 8);
	add_refs(mem, 7);
	add_refs(mem, 9);
	add_refs(mem, 8);
	cn_deferred_take(first);
	cr_assert_eq(first->cleans, 1);
	cr_assert_eq(cn_id_slot(first, 1)->n, EACH);
	cr_assert_eq(mem->deferred_n, EACH, "the second node's stay, those of no node do not");
	cn_deferred_take(second);
	cr_assert_eq(second->cleans, 1);
	cr_assert_eq(mem->deferred_n, 0);
	add_refs(mem, 9);
	cn_deferred_take(first);
	cr_assert_eq(first->cleans, 1, "no call for references of another node");
	cr_assert_eq(mem->deferred_n, 0);
	cn_forget_drop(first);
	cn_forget_drop(second);
	cn_deferred_drop(mem);
	free(first);
	free(second);
	free(mem);
}
