#include "kill/fail_nth_node.h"

#include <errno.h>
#include <stdlib.h>

#include "mn/node_server.h"
#include "mn/store/store.h"
#include "sys/mapped_memory.h"
#include "sys/last_error.h"
#include "util/check.h"

struct nth_node {
	struct lend_store *store;
	struct mn_serve *serve;
	struct lend_mapping arena, pages;
};

int nth_node_open(struct lend_ep *ep, struct nth_node **out)
{
	struct nth_node *node = calloc(1, sizeof(*node));
	struct lend_store_config c;
	int rc;

	if (!node)
		return lend_fail(ENOMEM, "no memory for the test's node");
	*out = node;
	lend_store_config_default(&c, 4 << 20, LEND_MEM_PAGE);
	c.node = c.epoch = 1;
	c.clients = 4;
	rc = lend_mapping_map(&node->arena, lend_store_size(&c));
	if (rc == 0)
		rc = lend_mapping_map(&node->pages, lend_store_pages_size(&c));
	if (rc < 0)
		return rc;
	node->store = lend_store_init(node->arena.base, &c, node->pages.base, lend_now(ep));
	return mn_serve_open(ep, node->store, &node->serve);
}

int nth_node_turn(struct nth_node *node, struct lend_ep *ep)
{
	int rc = lend_wait(ep, mn_serve_waits(node->serve) ? 0 : LEND_NEVER);

	mn_serve_turn(node->serve);
	return rc;
}

bool nth_node_idle(const struct nth_node *node)
{
	struct lend_memstats stats;

	lend_store_stats(node->store, &stats);
	return !stats.pages_pinned && !node->store->placement.used;
}

static const char *count(const struct lend_store *store, bool empty)
{
	static uint32_t scratch[1 << 14]; /* static: malloc() may be set to fail */
	struct lend_memstats stats;
	const char *bad;

	LEND_CHECK(lend_store_audit_size(store) <= sizeof(scratch));
	bad = lend_store_audit(store, scratch);
	lend_store_stats(store, &stats);
	if (!bad && empty && (stats.pages_used || stats.clients))
		bad = "the node keeps pages of clients that left";
	return bad;
}

const char *nth_node_close(struct nth_node *node, bool empty)
{
	const char *bad = NULL;

	if (!node)
		return NULL;
	if (node->store)
		bad = count(node->store, empty);
	if (node->serve)
		mn_serve_close(node->serve);
	lend_mapping_unmap(&node->arena);
	lend_mapping_unmap(&node->pages);
	free(node);
	return bad;
}
