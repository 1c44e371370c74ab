#include "kill/nth_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mn/serve.h"
#include "sys/heap.h"
#include "sys/why.h"

struct nth_node {
	struct lend_store *store;
	struct mn_serve *serve;
	struct lend_heap arena, pages;
};

int nth_node_open(struct lend_ep *ep, struct nth_node **out)
{
	struct nth_node *node = calloc(1, sizeof(*node));
	struct lend_store_config c;
	int rc;

	if (!node)
		return lend_fail(ENOMEM, "no memory for a node: of the test");
	*out = node;
	lend_store_config_default(&c, 4 << 20);
	c.node = c.epoch = 1;
	c.clients = 4;
	rc = lend_heap_map(&node->arena, lend_store_size(&c));
	if (rc == 0)
		rc = lend_heap_map(&node->pages, lend_store_pages_size(&c));
	if (rc < 0)
		return rc;
	node->store = lend_store_init(node->arena.base, &c, node->pages.base, lend_now(ep));
	return mn_serve_open(ep, node->store, &node->serve);
}

void nth_node_close(struct nth_node *node)
{
	const char *bad = NULL;
	void *scratch;

	if (!node)
		return;
	if (node->store) {
		scratch = malloc(lend_store_audit_size(node->store));
		bad = scratch ? lend_store_audit(node->store, scratch) : NULL;
		free(scratch);
	}
	if (bad) {
		fprintf(stderr, "the node's audit: %s\n", bad);
		abort();
	}
	if (node->serve)
		mn_serve_close(node->serve);
	lend_heap_unmap(&node->arena);
	lend_heap_unmap(&node->pages);
	free(node);
}
