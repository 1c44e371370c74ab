/* forget - makes nodes forget operations that ended without a result, until they confirm it.
 *
 * Each operation that changes something owns a slot by its id. When its call ends with an unknown
 * result, the slot stays, and FORGET is sent for it. A release or a free is repeated instead,
 * because its caller wants it done. At most one call per node is under way; the window of ids
 * limits the number of slots. A space that a failed long put left behind gets a FREE of its own.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <string.h>

#include "cn/deferred_release.h"
#include "util/bits.h"

#define CLEAN_TIMEOUT   UINT64_C(2000000000)
#define FORGET_RETRY_NS UINT64_C(5000000)

void cn_forget_mark(struct cn_node *node, uint64_t id)
{
	cn_id_slot(node, id)->state = CN_SLOT_CLEAN;
	node->cleans++;
}

void cn_forget_drop(struct cn_node *node)
{
	for (uint64_t id = node->low; id < node->next; id++)
		if (cn_id_slot(node, id)->state != CN_SLOT_FREE)
			cn_id_free(node, id);
	node->low = node->next;
	node->cleans = 0;
}

/* Gives each orphaned space of the node an id and a slot, to be cleaned by FREE. */
static void take_orphan(struct cn_node *node)
{
	struct lend_mem *mem = node->mem;

	for (uint32_t i = 0; i < mem->spaces; i++) {
		struct cn_space *space = &mem->space[i];
		uint64_t id;

		if (!space->orphan || mem->node[space->node] != node)
			continue;
		if (space->life == node->life) {
			id = cn_id_take(node);
			if (!id)
				return;
			cn_id_slot(node, id)->kind = LEND_MEMOP_FREE;
			cn_id_slot(node, id)->space = space->wire;
			cn_forget_mark(node, id);
		}
		space->orphan = false;
		mem->orphans--;
		cn_space_give(mem, i);
	}
}

/* Drops our hold if the node confirms that the GRANT that gave it away did run. */
static void take_word(struct cn_node *node, const struct cn_slot *slot, struct lend_call *call)
{
	uint8_t forgot[8] = {0};
	struct lend_memref ref;
	struct cn_hold *hold;

	if (slot->what != LEND_MEMOP_GRANT || !slot->refs || call->status != LEND_OK)
		return;
	cn_buf_read(call->reply, forgot, sizeof(forgot));
	if (forgot[0] != LEND_FORGOT_RAN || !lend_memref_decode(slot->refs, &ref))
		return;
	hold = cn_hold_find(node->mem, &ref);
	if (hold)
		cn_hold_del(hold);
}

static void clean_done(struct lend_call *call)
{
	struct cn_node *node = (struct cn_node *)((char *)call - offsetof(struct cn_node, clean));
	struct lend_mem *mem = node->mem;
	struct cn_slot *slot = cn_id_slot(node, node->clean_id);
	bool waits = slot->state == CN_SLOT_CLEAN && node->clean_id >= node->low;

	if (call->ran == LEND_RAN_YES && waits)
		take_word(node, slot, call);
	if (call->request)
		lend_buf_give(mem->ep, call->request);
	if (call->reply)
		lend_buf_give(mem->ep, call->reply);
	call->request = call->reply = NULL;
	node->cleaning = false;
	if (call->ran == LEND_RAN_YES) {
		node->failures = 0;
		if (waits) {
			node->cleans--;
			cn_id_free(node, node->clean_id);
		}
		if (call->status == LEND_ABORTED)
			cn_node_fenced(node);
	} else if (call->status != LEND_DEADLINE_EXCEEDED) { /* after a timeout, retry at once */
		node->failures += node->failures < 8;
		node->clean_at = lend_now(mem->ep) + (FORGET_RETRY_NS << node->failures);
		if (call->status == LEND_UNAVAILABLE)
			cn_node_lost(node);
	}
	cn_pump(mem);
}

static void fill_forget(struct cn_node *node, struct lend_memop *op, const struct cn_slot *slot)
{
	memset(op, 0, sizeof(*op));
	op->kind = slot->kind;
	op->client = node->mem->client;
	op->life = node->life;
	op->low = node->low;
	op->id = node->clean_id;
	op->space = slot->space;
	op->n = slot->kind == LEND_MEMOP_RELEASE ? slot->n : 0;
	if (slot->kind == LEND_MEMOP_FORGET) {
		op->id = 0;
		op->target = node->clean_id;
	}
}

static void start_forget(struct cn_node *node)
{
	struct cn_slot *slot = cn_id_slot(node, node->clean_id);
	struct lend_call *call = &node->clean;
	struct lend_memop op;

	fill_forget(node, &op, slot);
	memset(call, 0, sizeof(*call));
	call->method = LEND_MEM_METHOD;
	call->priority = CN_GUESS;
	call->timeout = CLEAN_TIMEOUT;
	call->done = clean_done;
	call->request = cn_op_encode(node->mem, &op);
	if (!call->request)
		return;
	if (op.n) {
		memcpy((char *)call->request->data + call->request->len, slot->refs,
		       (size_t)op.n * LEND_MEMREF_LEN);
		call->request->len += op.n * LEND_MEMREF_LEN;
	}
	node->cleaning = true;
	if (lend_call_start(node->mem->ep, node->session, call) < 0) {
		node->cleaning = false;
		lend_buf_give(node->mem->ep, call->request);
		call->request = NULL;
	}
}

bool cn_forget_waits(const struct cn_node *node)
{
	return !node->cleaning && node->failures && lend_now(node->mem->ep) < node->clean_at;
}

void cn_forget_pump(struct cn_node *node)
{
	if (node->cleaning || (!node->cleans && !node->mem->orphans && !node->mem->deferred_n) ||
	    cn_forget_waits(node))
		return;
	if (node->state != CN_NODE_UP) {
		if (node->life && cn_node_wake(node, 0) < 0) {
			node->failures += node->failures < 8;
			node->clean_at =
			    lend_now(node->mem->ep) + (FORGET_RETRY_NS << node->failures);
			node->mem->again = true; /* waiting operations fail */
		}
		return;
	}
	if (node->mem->orphans)
		take_orphan(node);
	cn_deferred_take(node);
	for (uint64_t id = node->low; node->cleans && id < node->next; id++)
		if (cn_id_slot(node, id)->state == CN_SLOT_CLEAN) {
			node->clean_id = id;
			start_forget(node);
			return;
		}
}
