/* cn/client - a client of memory nodes, from open to close.
 * Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cn/paging/pager.h"
#include "cn/args/args.h"
#include "cn/args/args_serve.h"
#include "cn/args/inline_threshold.h"
#include "cn/lent/caller.h"
#include "cn/lent/lender.h"
#include "cn/lent/loan.h"
#include "cn/life.h"
#include "cn/deferred_release.h"
#include "cn/space_view.h"
#include "cn/pool/pool_client.h"
#include "sys/last_error.h"

#define CLOSE_WAIT UINT64_C(1000000000)
#define POLL_NS    UINT64_C(1000000) /* between looks for handlers that ran in a worker */

static atomic_uint clients; /* clients opened by this process so far: numbers them */

static int add_list(struct lend_mem *mem, const char *nodes)
{
	while (*nodes) {
		size_t len = strcspn(nodes, ",");
		int rc = cn_node_add(mem, nodes, len);

		if (rc < 0)
			return rc;
		nodes += len + (nodes[len] == ',');
	}
	return 0;
}

static void destroy_client(struct lend_mem *mem)
{
	for (uint32_t i = 0; i < mem->spaces; i++) {
		cn_view_close(&mem->space[i]);
		cn_pool_unshow(mem, &mem->space[i], false);
	}
	cn_pager_leave(mem);
	for (uint32_t i = 0; i < mem->nodes; i++) {
		cn_renew_leave(mem->node[i]->home, mem->client);
		cn_life_leave(mem->node[i]->home);
		cn_pool_leave(mem->node[i]);
		cn_forget_drop(mem->node[i]);
		free(mem->node[i]);
	}
	cn_callers_drop(mem);
	cn_loans_drop(mem);
	lend_alarm_set(mem->ep, &mem->alarm, LEND_NEVER);
	if (mem->lender)
		cn_lender_leave(mem->lender);
	cn_split_drop(mem);
	cn_deferred_drop(mem);
	cn_threshold_drop(mem);
	cn_serves_drop(mem);
	free(mem->space);
	lend_mapping_unmap(&mem->hold_heap);
	free(mem);
}

int lend_mem_open(struct lend_ep *ep, const char *nodes, struct lend_mem **out)
{
	struct lend_mem *mem = calloc(1, sizeof(*mem));
	int rc;

	if (!mem)
		return lend_fail(ENOMEM, "no memory for a client of memory nodes");
	mem->ep = ep;
	mem->pid = getpid();
	mem->client = atomic_fetch_add(&clients, 1) + 1;
	mem->space_free = UINT32_MAX;
	mem->next_node = mem->client * 7 + (uint32_t)getpid(); /* differs between clients */
	mem->inline_max = LEND_NEVER;
	mem->alarm.at = LEND_NEVER;
	TAILQ_INIT(&mem->wait);
	TAILQ_INIT(&mem->flight);
	TAILQ_INIT(&mem->wide);
	TAILQ_INIT(&mem->many);
	TAILQ_INIT(&mem->args);
	for (size_t i = 0; i < CN_BUCKETS; i++)
		TAILQ_INIT(&mem->bucket[i]);
	rc = add_list(mem, nodes ? nodes : "");
	if (rc < 0)
		destroy_client(mem);
	else
		*out = mem;
	return rc;
}

/* Adds a node. Outside a turn, waits until the node has identified itself. Inside a turn, that
 * happens with the first operation. */
int lend_mem_add(struct lend_mem *mem, const char *address)
{
	int rc = cn_node_add(mem, address, strlen(address));
	struct cn_node *node;

	if (rc < 0)
		return rc;
	node = mem->node[rc];
	node->failed = false;
	rc = cn_node_wake(node, 0);
	while (rc >= 0 && node->state == CN_NODE_HELLO)
		rc = lend_wait(mem->ep, LEND_NEVER);
	if (rc == -EDEADLK)
		return 0;
	if (rc < 0)
		return rc == -EINVAL || rc == -ENOMEM ? rc
						      : -EHOSTUNREACH; /* lend_why() has more */
	if (node->clash)
		return lend_fail(EEXIST,
				 "%s says it is memory node %08x, as another one does: start it "
				 "with another --id",
				 address, node->id);
	if (node->full)
		return lend_fail(ENOSPC,
				 "%s: the memory node takes no further client of this process: its "
				 "--clients, the process's share of them, or a --quota is used up; "
				 "end clients, or raise that",
				 address);
	if (!node->life)
		return lend_fail(EHOSTUNREACH,
				 "%s: no memory node answers; is lend-mn running there?", address);
	return 0;
}

static void cancel_all(struct lend_mem *mem)
{
	struct cn_op *op;

	while ((op = TAILQ_FIRST(&mem->wait)))
		cn_op_finish(op, LEND_CANCELLED, LEND_RAN_NO);
	TAILQ_FOREACH(op, &mem->flight, all)
	if (!op->parted)
		lend_call_cancel(mem->ep, &cn_op_outer(op)->call);
}

static void bye_done(struct lend_call *call)
{
	(void)call;
}

/* Ends this process's life at one node. Without this message, the lease would end the life later,
 * with everything that the client holds. */
static void send_bye(struct lend_mem *mem, struct cn_node *node)
{
	struct lend_memop say = {
	    .kind = LEND_MEMOP_BYE_CLIENT, .client = mem->client, .life = node->life};
	struct lend_call call = {
	    .method = LEND_MEM_METHOD, .timeout = CLOSE_WAIT, .done = bye_done};

	call.request = node->connected && node->life ? cn_op_encode(mem, &say) : NULL;
	if (!call.request)
		return;
	if (lend_call_sync(mem->ep, node->session, &call) < 0) {
		lend_buf_give(mem->ep, call.request);
		return;
	}
	if (call.request)
		lend_buf_give(mem->ep, call.request);
	if (call.reply)
		lend_buf_give(mem->ep, call.reply);
}

/* Returns whether the node has cleaning left to do. BYE does not release objects that this client
 * does not hold. */
static bool is_untidy(const struct cn_node *node)
{
	return (node->cleans || node->mem->deferred_n) && cn_node_ready(node);
}

static bool is_busy(const struct lend_mem *mem, bool late)
{
	bool busy = mem->live + mem->drops > 0 || cn_threshold_busy(mem) || cn_args_busy(mem, late);

	for (uint32_t i = 0; i < mem->nodes; i++)
		busy |= (is_untidy(mem->node[i]) && !late) || mem->node[i]->cleanings ||
			mem->node[i]->asking || mem->node[i]->state == CN_NODE_HELLO;
	return busy;
}

void lend_mem_close(struct lend_mem *mem)
{
	lend_ns until;

	if (!mem || mem->pid != getpid())
		return;
	until = lend_now(mem->ep) + CLOSE_WAIT;
	mem->closing = mem->pumping = true; /* nothing new starts */
	cn_serves_end(mem);
	(void)cn_args_expire(mem, true);
	cn_args_cancel_all(mem);
	cn_threshold_cancel(mem);
	cancel_all(mem);
	while (is_busy(mem, lend_now(mem->ep) >= until) || cn_serves_busy(mem)) {
		for (uint32_t i = 0; i < mem->nodes; i++) {
			if (mem->node[i]->state == CN_NODE_HELLO)
				lend_call_cancel(mem->ep, &mem->node[i]->hello);
			if (is_untidy(mem->node[i]))
				cn_forget_pump(mem->node[i]);
			if (mem->node[i]->asking)
				lend_call_cancel(mem->ep, &mem->node[i]->ask);
			if (lend_now(mem->ep) >= until)
				cn_forget_cancel(mem->node[i]);
		}
		if (lend_wait(mem->ep, cn_serves_busy(mem) ? lend_now(mem->ep) + POLL_NS : until) <
		    0)
			break;
	}
	cn_args_detach(mem);
	for (uint32_t i = 0; i < mem->nodes; i++) {
		send_bye(mem, mem->node[i]);
		cn_node_lost(mem->node[i]);
	}
	destroy_client(mem);
}
