/* forget - makes nodes forget operations that ended without a result, until they confirm it.
 *
 * Each operation that changes something owns a slot by its id. When its call ends with an unknown
 * result, the slot stays, and FORGET is sent for it. A release or a free is repeated instead,
 * because its caller wants it done. Some calls per node are under way at once, only one after a
 * failure; the window of ids limits the number of slots. A space that a failed long put left behind
 * gets a FREE of its own. Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <string.h>

#include "cn/deferred_release.h"
#include "util/bits.h"
#include "util/check.h"

#define CLEAN_TIMEOUT   UINT64_C(2000000000)
#define FORGET_RETRY_NS UINT64_C(5000000)

/* Appends a slot to those that wait for a call. Each is there once at most, so all have room. */
static void push_clean(struct cn_node *node, uint64_t id)
{
	LEND_CHECK(node->clean_behind - node->clean_first < LEND_MEM_OPEN_MAX);
	node->clean[node->clean_behind++ % LEND_MEM_OPEN_MAX] = id;
}

void cn_forget_mark(struct cn_node *node, uint64_t id)
{
	cn_id_slot(node, id)->state = CN_SLOT_CLEAN;
	node->cleans++;
	push_clean(node, id);
}

void cn_forget_cancel(struct cn_node *node)
{
	for (int i = 0; i < CN_CLEANINGS; i++)
		if (node->cleaning[i].id)
			lend_call_cancel(node->mem->ep, &node->cleaning[i].call);
}

void cn_forget_drop(struct cn_node *node)
{
	for (uint64_t id = node->low; id < node->next; id++)
		if (cn_id_slot(node, id)->state != CN_SLOT_FREE)
			cn_id_free(node, id);
	node->low = node->next;
	node->cleans = 0;
	node->clean_first = node->clean_behind;
}

/* Removes an orphan from their list, of which before is the one before it; UINT32_MAX: the first.
 */
static void unlink_orphan(struct lend_mem *mem, uint32_t index, uint32_t before)
{
	struct cn_space *space = &mem->space[index];

	if (before == UINT32_MAX)
		mem->orphan_first = space->next;
	else
		mem->space[before].next = space->next;
	if (mem->orphan_last == index)
		mem->orphan_last = before;
	mem->orphans--;
	space->orphan = false;
	cn_space_give(mem, index);
}

/* Gives each orphaned space of the node an id and a slot, to be cleaned by FREE. */
static void take_orphans(struct cn_node *node)
{
	struct lend_mem *mem = node->mem;
	uint32_t before = UINT32_MAX, index = mem->orphan_first, next;

	for (uint32_t left = mem->orphans; left > 0; left--, index = next) {
		const struct cn_space *space = &mem->space[index];
		uint64_t id;

		next = space->next;
		if (mem->node[space->node] != node) {
			before = index;
			continue;
		}
		if (space->life == node->life) {
			id = cn_id_take(node);
			if (!id)
				return;
			cn_id_slot(node, id)->kind = LEND_MEMOP_FREE;
			cn_id_slot(node, id)->space = space->wire;
			cn_forget_mark(node, id);
		}
		unlink_orphan(mem, index, before);
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

/* Counts a failure. Several calls that fail together are one. */
static void note_failure(struct cn_node *node)
{
	lend_ns now = lend_now(node->mem->ep);

	if (node->failures && now < node->clean_at)
		return;
	node->failures += node->failures < 8;
	node->clean_at = now + (FORGET_RETRY_NS << node->failures);
}

static void clean_done(struct lend_call *call)
{
	struct cn_cleaning *cleaning = (struct cn_cleaning *)call;
	struct cn_node *node = cleaning->node;
	struct lend_mem *mem = node->mem;
	struct cn_slot *slot = cn_id_slot(node, cleaning->id);
	bool waits = slot->state == CN_SLOT_CLEAN && cleaning->id >= node->low;

	if (call->ran == LEND_RAN_YES && waits)
		take_word(node, slot, call);
	if (call->request)
		lend_buf_give(mem->ep, call->request);
	if (call->reply)
		lend_buf_give(mem->ep, call->reply);
	call->request = call->reply = NULL;
	if (waits && call->ran != LEND_RAN_YES) {
		push_clean(node, cleaning->id);
	} else if (waits) {
		node->cleans--;
		cn_id_free(node, cleaning->id);
	}
	cleaning->id = 0;
	node->cleanings--;
	if (call->ran == LEND_RAN_YES) {
		node->failures = 0;
		if (call->status == LEND_ABORTED)
			cn_node_fenced(node);
	} else if (call->status != LEND_DEADLINE_EXCEEDED) { /* after a timeout, retry at once */
		note_failure(node);
		if (call->status == LEND_UNAVAILABLE)
			cn_node_lost(node);
	}
	cn_pump(mem);
}

static void fill_forget(const struct cn_node *node, uint64_t id, struct lend_memop *op,
			const struct cn_slot *slot)
{
	memset(op, 0, sizeof(*op));
	op->kind = slot->kind;
	op->client = node->mem->client;
	op->life = node->life;
	op->low = node->low;
	op->id = id;
	op->space = slot->space;
	op->n = slot->kind == LEND_MEMOP_RELEASE ? slot->n : 0;
	if (slot->kind == LEND_MEMOP_FORGET) {
		op->id = 0;
		op->target = id;
	}
}

/* Returns a call that is not under way; NULL: all are. */
static struct cn_cleaning *idle_cleaning(struct cn_node *node)
{
	for (int i = 0; i < CN_CLEANINGS; i++)
		if (!node->cleaning[i].id)
			return &node->cleaning[i];
	return NULL;
}

/* Starts the call for a slot. Returns false: it cannot start now. */
static bool start_forget(struct cn_node *node, uint64_t id)
{
	struct cn_cleaning *cleaning = idle_cleaning(node);
	struct cn_slot *slot = cn_id_slot(node, id);
	struct lend_call *call = &cleaning->call;
	struct lend_memop op;

	fill_forget(node, id, &op, slot);
	*cleaning = (struct cn_cleaning){.call = {.method = LEND_MEM_METHOD,
						  .priority = CN_GUESS,
						  .timeout = CLEAN_TIMEOUT,
						  .done = clean_done},
					 .node = node};
	call->request = cn_op_encode(node->mem, &op);
	if (!call->request)
		return false;
	if (op.n) {
		memcpy((char *)call->request->data + call->request->len, slot->refs,
		       (size_t)op.n * LEND_MEMREF_LEN);
		call->request->len += op.n * LEND_MEMREF_LEN;
	}
	if (lend_call_start(node->mem->ep, node->session, call) < 0) {
		lend_buf_give(node->mem->ep, call->request);
		call->request = NULL;
		return false;
	}
	cleaning->id = id;
	node->cleanings++;
	return true;
}

/* Starts calls for the slots that wait for one. */
static void start_cleanings(struct cn_node *node)
{
	uint32_t max = node->failures ? 1 : CN_CLEANINGS;

	while (node->cleanings < max && node->clean_first != node->clean_behind) {
		if (!start_forget(node, node->clean[node->clean_first % LEND_MEM_OPEN_MAX]))
			return;
		node->clean_first++;
	}
}

bool cn_forget_waits(const struct cn_node *node)
{
	return !node->cleanings && node->failures && lend_now(node->mem->ep) < node->clean_at;
}

void cn_forget_pump(struct cn_node *node)
{
	if ((!node->cleans && !node->mem->orphans && !node->mem->deferred_n) ||
	    cn_forget_waits(node))
		return;
	if (node->state != CN_NODE_UP) {
		if (!node->cleanings && node->life && cn_node_wake(node, 0) < 0) {
			note_failure(node);
			node->mem->again = true; /* waiting operations fail */
		}
		return;
	}
	take_orphans(node);
	if (!node->cleanings) /* else more of them fit into the next call */
		cn_deferred_take(node);
	start_cleanings(node);
}
