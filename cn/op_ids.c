/* op_ids - the window of operation ids of a node's life: taken in order, freed in any order.
 * Layer: cn. Threads: the endpoint's. */
#include <stdlib.h>

#include "cn/client.h"

struct cn_slot *cn_id_slot(struct cn_node *node, uint64_t id)
{
	return &node->slot[id % LEND_MEM_OPEN_MAX];
}

bool cn_id_left(const struct cn_node *node)
{
	return node->next - node->low < node->open;
}

uint64_t cn_id_take(struct cn_node *node)
{
	struct cn_slot *slot = cn_id_slot(node, node->next);

	if (!cn_id_left(node))
		return 0;
	slot->state = CN_SLOT_OPEN;
	slot->kind = LEND_MEMOP_FORGET;
	slot->what = 0;
	slot->refs = NULL;
	return node->next++;
}

void cn_id_free(struct cn_node *node, uint64_t id)
{
	struct cn_slot *slot = cn_id_slot(node, id);

	if (slot->refs != slot->one)
		free(slot->refs);
	slot->refs = NULL;
	slot->state = CN_SLOT_FREE;
	while (node->low < node->next && cn_id_slot(node, node->low)->state == CN_SLOT_FREE)
		node->low++;
}
