/* node_select - selects the node of a new object, and another one if that fails.
 *
 * Objects that name no node go to all nodes in turn, or to the node with the smallest share of its
 * pages in use. That share is from the node's last statistics, plus what this client sent there
 * since. A node that does not answer, or is full, costs the operation one try: it goes to the next
 * node. A node that failed gets another HELLO in the background, because a HELLO to a dead host
 * takes long. A node where an argument's put timed out gets no object for DOUBT times that timeout.
 * Then it gets a single one, until it answers. Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <errno.h>
#include <string.h>

#include "cn/ref_ops.h"
#include "sys/last_error.h"

#define ASK_EVERY   UINT64_C(20000000)
#define RETRY_EVERY UINT64_C(200000000)
#define ASK_TIMEOUT UINT64_C(1000000000)

enum { DOUBT = 4 };

static bool node_fits(struct cn_node *node)
{
	lend_ns now = lend_now(node->mem->ep);

	if (node->failed && node->state == CN_NODE_DOWN && !node->clash && now >= node->retry_at) {
		node->retry_at = now + RETRY_EVERY;
		(void)cn_node_wake(node, 0);
	}
	return !node->failed && !node->clash && !node->retired && now >= node->doubt_until;
}

bool cn_node_may_choose(struct lend_mem *mem)
{
	for (uint32_t i = 0; i < mem->nodes; i++)
		if (node_fits(mem->node[i]))
			return true;
	return false;
}

void cn_node_pause(struct cn_node *node, lend_ns waited)
{
	node->doubt = DOUBT * waited;
	node->doubt_until = lend_now(node->mem->ep) + node->doubt;
}

static void stat_done(struct lend_call *call)
{
	struct cn_node *node = (struct cn_node *)((char *)call - offsetof(struct cn_node, ask));
	struct lend_ep *ep = node->mem->ep;
	uint8_t body[LEND_MEMOP_REPLY_MAX];
	size_t len = cn_buf_read(call->reply, body, sizeof(body));
	struct lend_memstats stats;

	if (call->status == LEND_OK && len <= sizeof(body) &&
	    lend_memstats_decode(body, len, &stats)) {
		node->total = stats.pages_total;
		node->used = stats.pages_used + stats.pages_quarantined;
		node->sent -= node->sent_before;
	}
	if (call->request)
		lend_buf_give(ep, call->request);
	if (call->reply)
		lend_buf_give(ep, call->reply);
	call->request = call->reply = NULL;
	node->asking = false;
}

static void query_node(struct cn_node *node)
{
	struct lend_memop say = {
	    .kind = LEND_MEMOP_STAT, .client = node->mem->client, .life = node->life};
	lend_ns now = lend_now(node->mem->ep);

	if (node->asking || !cn_node_ready(node) || (node->total && now < node->ask_at))
		return;
	node->ask_at = now + ASK_EVERY;
	memset(&node->ask, 0, sizeof(node->ask));
	node->ask.method = LEND_MEM_METHOD;
	node->ask.timeout = ASK_TIMEOUT;
	node->ask.done = stat_done;
	node->ask.request = cn_op_encode(node->mem, &say);
	if (!node->ask.request)
		return;
	node->sent_before = node->sent;
	node->asking = lend_call_start(node->mem->ep, node->session, &node->ask) == 0;
	if (!node->asking)
		lend_buf_give(node->mem->ep, node->ask.request);
}

/* Returns the used pages in millionths of all. A node without statistics counts as empty. */
static uint64_t used_share(const struct cn_node *node)
{
	return (node->used + node->sent) * 1000000 / (node->total ? node->total : UINT32_MAX);
}

static uint16_t least_used(struct lend_mem *mem)
{
	uint16_t best = UINT16_MAX;

	for (uint32_t i = 0; i < mem->nodes; i++) {
		uint16_t at = (uint16_t)((mem->next_node + i) % mem->nodes);
		struct cn_node *node = mem->node[at];

		if (!node_fits(node))
			continue;
		query_node(node);
		if (best == UINT16_MAX || used_share(node) < used_share(mem->node[best]))
			best = at;
	}
	mem->next_node++;
	return best;
}

static uint16_t in_turn(struct lend_mem *mem)
{
	for (uint32_t i = 0; i < mem->nodes; i++) {
		uint16_t at = (uint16_t)(mem->next_node++ % mem->nodes);

		if (node_fits(mem->node[at]))
			return at;
	}
	return UINT16_MAX;
}

/* Returns the next worker, in turn, of a node that was named. */
static uint16_t of_node(struct lend_mem *mem, uint16_t index)
{
	for (uint32_t i = 0; i < mem->nodes; i++) {
		uint16_t at = (uint16_t)(mem->next_node++ % mem->nodes);

		if (node_fits(mem->node[at]) && cn_workers_same(mem->node[at], mem->node[index]))
			return at;
	}
	return index;
}

static void count_sent(struct cn_op *op)
{
	struct cn_node *node = op->mem->node[op->node];

	node->sent += op->len / node->page + 1;
	if (node->doubt_until) /* the next object waits for the outcome of this one */
		node->doubt_until = op->mem->now + node->doubt;
}

int cn_pick_node(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	uint32_t named = cn_op_outer(op)->node;

	if (!mem->nodes)
		return lend_fail(EHOSTUNREACH, "this client has no memory node: add one");
	if (named > mem->n_named)
		return lend_fail(EINVAL, "node %u: this client has %u, counted from 1", named,
				 mem->n_named);
	op->node = named                            ? of_node(mem, mem->named[named - 1])
		   : mem->spread == LEND_LEAST_USED ? least_used(mem)
						    : in_turn(mem);
	if (op->node == UINT16_MAX) /* all have failed: the result is one's failure */
		op->node = (uint16_t)(mem->next_node++ % mem->nodes);
	op->tries = (uint16_t)(mem->nodes - 1);
	count_sent(op);
	return 0;
}

void cn_node_count_choice(struct cn_node *node)
{
	uint16_t index = cn_node_index(node);
	struct cn_op *op;

	TAILQ_FOREACH(op, &node->mem->wait, all)
	if (op->node == index && !op->parent && op->step <= CN_STEP_ALLOC &&
	    (op->kind == LEND_MEMOP_PUT || op->kind == LEND_MEMOP_ALLOC))
		op->node = of_node(node->mem, index);
}

bool cn_node_try_next(struct cn_op *op, enum lend_status status)
{
	struct lend_mem *mem = op->mem;

	if ((status != LEND_UNAVAILABLE && status != LEND_RESOURCE_EXHAUSTED) || op->parent ||
	    op->cancelled || mem->closing || op->step > CN_STEP_ALLOC)
		return false;
	for (uint32_t at = op->node; op->tries;) {
		op->tries--;
		at = (at + 1) % mem->nodes;
		if (!node_fits(mem->node[at]) ||
		    (cn_op_outer(op)->node && !cn_workers_same(mem->node[at], mem->node[op->node])))
			continue;
		op->node = (uint16_t)at;
		count_sent(op);
		return true;
	}
	return false;
}

int lend_mem_spread(struct lend_mem *mem, enum lend_spread spread)
{
	if (spread != LEND_ROUND_ROBIN && spread != LEND_LEAST_USED)
		return lend_fail(EINVAL, "write a value of enum lend_spread");
	mem->spread = spread;
	return 0;
}
