/* node - one memory node: its session, its identity, our life there, our operation ids.
 *
 * HELLO is the first operation on each session. It joins the life that this process has at the
 * node. If that life has ended, HELLO opens another one, and all that we held at the node is gone.
 * Layer: cn. Threads: the endpoint's. Owned by its lend_mem. */
#include "cn/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cn/life.h"
#include "cn/pool/pool_client.h"
#include "sys/last_error.h"

enum { STEPS_MAX = 10 }; /* limit of HELLOs to enter a life */

int cn_node_make(struct lend_mem *mem, const char *address, size_t len)
{
	struct cn_node *node;

	for (uint32_t i = 0; i < mem->nodes; i++)
		if (strlen(mem->node[i]->address) == len &&
		    !memcmp(mem->node[i]->address, address, len))
			return (int)i;
	if (mem->nodes == CN_NODES_MAX)
		return lend_fail(ENOSPC, "%d workers of memory nodes at most; open another client",
				 CN_NODES_MAX);
	node = calloc(1, sizeof(*node));
	if (!node)
		return lend_fail(ENOMEM, "no memory for another memory node");
	node->mem = mem;
	memcpy(node->address, address, len);
	cn_life_home(mem->ep, node->address, node->home);
	node->next = node->low = 1;
	node->workers = 1;
	node->page = LEND_MEM_PAGE;
	if (cn_life_join(node->home) < 0) {
		free(node);
		return lend_fail(ENOMEM, "no memory for another memory node");
	}
	if (cn_renew_join(node->home, mem->client) < 0) {
		cn_life_leave(node->home);
		free(node);
		return lend_fail(ENOMEM, "no memory for the lease of another memory node");
	}
	mem->node[mem->nodes] = node;
	return (int)mem->nodes++;
}

/* "pool:NAME" is the node at shm:NAME, with its pages mapped. */
int cn_node_add(struct lend_mem *mem, const char *address, size_t len)
{
	bool pool = len > 5 && !strncmp(address, "pool:", 5);
	char dialled[CN_ADDRESS_MAX];
	int index;

	if (!len || len >= CN_ADDRESS_MAX)
		return lend_fail(
		    EINVAL, "\"%.*s\": no address of a memory node; give shm:NAME or udp:HOST:PORT",
		    (int)(len < 100 ? len : 100), address);
	if (pool)
		(void)snprintf(dialled, sizeof(dialled), "shm:%.*s", (int)len - 5, address + 5);
	index = cn_node_make(mem, pool ? dialled : address, pool ? len - 1 : len);
	for (uint32_t i = 0; index >= 0 && pool && i < mem->nodes; i++)
		if (cn_workers_same(mem->node[i], mem->node[index]) &&
		    cn_pool_join(mem->node[i]) < 0)
			return -ENOMEM;
	for (uint32_t i = 0; index >= 0 && i < mem->n_named; i++)
		if (mem->named[i] == index)
			return index;
	if (index >= 0 && mem->n_named == CN_NAMED_MAX)
		return lend_fail(ENOSPC, "%d memory nodes at most; open another client",
				 CN_NAMED_MAX);
	if (index >= 0)
		mem->named[mem->n_named++] = (uint16_t)index;
	return index;
}

bool cn_node_ready(const struct cn_node *node)
{
	return node->state == CN_NODE_UP && !node->clash;
}

uint16_t cn_node_index(const struct cn_node *node)
{
	uint16_t i = 0;

	while (node->mem->node[i] != node)
		i++;
	return i;
}

void cn_node_alias(struct lend_mem *mem, uint32_t id, uint32_t worker, uint16_t index)
{
	uint32_t at = mem->aliases % CN_ALIAS_MAX;

	for (uint32_t i = 0; i < mem->aliases && i < CN_ALIAS_MAX; i++)
		if (mem->alias[i].id == id && mem->alias[i].worker == worker)
			at = i;
	mem->alias[at].id = id;
	mem->alias[at].worker = (uint16_t)worker;
	mem->alias[at].node = index;
	if (at == mem->aliases % CN_ALIAS_MAX)
		mem->aliases++;
}

/* Returns whether its session ended while we had no call under way. */
static bool has_gone(const struct cn_node *node)
{
	struct lend_peer peer;

	return node->state == CN_NODE_UP &&
	       lend_session_peer(node->mem->ep, node->session, &peer) < 0;
}

enum lend_status cn_node_unknown(struct cn_op *op)
{
	bool silent = false;

	for (uint32_t i = 0; i < op->mem->nodes; i++) {
		const struct cn_node *node = op->mem->node[i];

		silent |= !node->retired && (node->failed || !node->greeted);
	}
	op->err = silent ? 0 : EHOSTUNREACH;
	return LEND_UNAVAILABLE;
}

/* A restarted node has another id; HELLO returns it. A worker that was not contacted yet is known
 * from the others. A reference of a worker that no longer exists goes to any worker, which reports
 * that. */
int cn_node_find(struct lend_mem *mem, const struct lend_memref *ref, uint16_t *index)
{
	uint32_t worker = lend_memref_worker(ref);
	int rc = -EHOSTUNREACH;

	for (uint32_t i = 0; i < mem->nodes; i++) {
		struct cn_node *node = mem->node[i];

		if (node->greeted && !node->clash && node->id == ref->node &&
		    (node->worker == worker || worker >= node->workers)) {
			*index = (uint16_t)i;
			return 0;
		}
		if (has_gone(node))
			cn_node_lost(node);
		if (node->failed || node->retired ||
		    (node->greeted && (node->state == CN_NODE_UP || !node->life)))
			continue;
		if (cn_node_wake(node, 0) == 0)
			rc = -EAGAIN;
	}
	for (uint32_t i = 0; rc != -EAGAIN && i < mem->aliases && i < CN_ALIAS_MAX; i++)
		if (mem->alias[i].id == ref->node && mem->alias[i].worker == worker) {
			*index = mem->alias[i].node;
			return 0;
		}
	if (rc == -EHOSTUNREACH)
		return lend_fail(EHOSTUNREACH,
				 "the reference is of memory node %08x, which this client does not "
				 "know: add that node's address",
				 ref->node);
	return rc;
}

/* Ends the operations that wait for this node, or moves them to another one. */
static void fail_waiters(struct cn_node *node)
{
	enum lend_status status = node->full ? LEND_RESOURCE_EXHAUSTED : LEND_UNAVAILABLE;
	struct lend_mem *mem = node->mem;
	uint64_t last = mem->seq;
	uint16_t index = cn_node_index(node);
	struct cn_op *op = TAILQ_FIRST(&mem->wait);

	while (op && op->seq <= last) {
		if (op->node == index && !cn_node_try_next(op, status)) {
			cn_op_finish(op, status, LEND_RAN_NO);
			op = TAILQ_FIRST(&mem->wait);
		} else {
			op = TAILQ_NEXT(op, all);
		}
	}
}

static void new_life(struct cn_node *node, const struct lend_memhello *hello)
{
	if (node->greeted && node->id != hello->node)
		cn_node_alias(node->mem, node->id, node->worker, cn_node_index(node));
	if (node->life) {
		cn_forget_drop(node);
		cn_handles_drop(node->mem, cn_node_index(node));
	}
	node->life = hello->life;
}

static bool is_taken(const struct cn_node *node, uint32_t id, uint32_t worker)
{
	const struct lend_mem *mem = node->mem;

	for (uint32_t i = 0; i < mem->nodes; i++)
		if (mem->node[i] != node && mem->node[i]->greeted && !mem->node[i]->clash &&
		    mem->node[i]->id == id && mem->node[i]->worker == worker)
			return true;
	return false;
}

static bool take_hello(struct cn_node *node, const struct lend_memhello *hello)
{
	uint32_t before = node->workers;
	bool anew = !node->life || node->id != hello->node || before != hello->workers;

	if (hello->life != node->life || (node->greeted && node->id != hello->node))
		new_life(node, hello);
	node->id = hello->node;
	node->epoch = hello->epoch;
	node->lease = hello->lease;
	node->open = hello->open;
	node->page = hello->page;
	node->worker = hello->worker;
	node->workers = hello->workers;
	node->greeted = true;
	node->retired = false;
	node->clash = is_taken(node, hello->node, hello->worker);
	if (anew && !node->clash)
		cn_workers_learn(node, before);
	cn_renew_life(node->home, node->mem->client, node->life, node->lease);
	return !node->clash;
}

enum { FINE, FAILED, MORE };

/* Evaluates the reply to a HELLO. MORE: another HELLO is needed, because several threads, or
 * addresses of the node, may have opened a life each. */
static int next_hello(struct cn_node *node, const uint8_t *body, size_t len)
{
	struct lend_memhello hello;

	if (!lend_memhello_decode(body, len, &hello) || (node->asked && node->asked != hello.life))
		return FAILED;
	cn_life_learn(node->home, &hello);
	if (cn_life_renamed(node->home, node->name))
		return MORE;
	if (!node->asked && cn_life_opened(node->home, &hello) != hello.life)
		return MORE;
	return take_hello(node, &hello) ? FINE : FAILED;
}

static int judge_hello(struct cn_node *node, const struct lend_call *call, const uint8_t *body,
		       size_t len)
{
	if (call->ran != LEND_RAN_YES)
		return FAILED;
	if (node->knocking)
		return MORE;
	if (call->status == LEND_ABORTED && node->asked) {
		if (!cn_life_renamed(node->home, node->name))
			cn_life_ended(node->home, node->asked);
		return MORE;
	}
	return call->status == LEND_OK ? next_hello(node, body, len) : FAILED;
}

static void hello_done(struct lend_call *call)
{
	struct cn_node *node = (struct cn_node *)((char *)call - offsetof(struct cn_node, hello));
	struct lend_mem *mem = node->mem;
	uint8_t body[LEND_MEMOP_REPLY_MAX];
	size_t len = cn_buf_read(call->reply, body, sizeof(body));
	int what;

	if (call->request)
		lend_buf_give(mem->ep, call->request);
	if (call->reply)
		lend_buf_give(mem->ep, call->reply);
	call->request = call->reply = NULL;
	what = judge_hello(node, call, body, len <= sizeof(body) ? len : 0);
	node->state = what == FINE ? CN_NODE_UP : CN_NODE_DOWN;
	if (what == MORE && ++node->steps < STEPS_MAX && !mem->closing &&
	    cn_node_wake(node, call->timeout) == 0)
		return;
	node->steps = 0;
	node->failed = what != FINE;
	node->full = call->ran == LEND_RAN_YES && call->status == LEND_RESOURCE_EXHAUSTED;
	if (call->status == LEND_UNAVAILABLE || call->status == LEND_DEADLINE_EXCEEDED)
		cn_node_lost(node);
	if (what == FINE) {
		node->failures = 0;
	} else {
		if (call->status != LEND_DEADLINE_EXCEEDED) { /* a failure is counted, or cleaning
								 would retry at once and spin */
			node->failures += node->failures < 8;
			node->clean_at = lend_now(mem->ep) + (UINT64_C(5000000) << node->failures);
		}
		fail_waiters(node);
	}
	cn_pump(mem);
}

static int send_hello(struct cn_node *node, lend_ns timeout)
{
	struct lend_memop say;
	int rc;

	(void)cn_life_encode(node->mem->ep, node->session, node->home, node->mem->client, &say);
	node->knocking = say.kind != LEND_MEMOP_HELLO;
	node->asked = say.life;
	memset(&node->hello, 0, sizeof(node->hello));
	node->hello.method = LEND_MEM_METHOD;
	node->hello.timeout = timeout;
	node->hello.done = hello_done;
	node->hello.request = cn_op_encode(node->mem, &say);
	if (!node->hello.request)
		return lend_fail(ENOMEM, "no message buffer for a memory node's HELLO");
	node->state = CN_NODE_HELLO;
	rc = lend_call_start(node->mem->ep, node->session, &node->hello);
	if (rc == 0)
		return 0;
	lend_buf_give(node->mem->ep, node->hello.request);
	node->state = CN_NODE_DOWN;
	return rc;
}

int cn_node_wake(struct cn_node *node, lend_ns timeout)
{
	int rc = 0;

	if (node->state != CN_NODE_DOWN)
		return 0;
	for (int attempt = 0; attempt < 2; attempt++) {
		if (node->connected && cn_life_renamed(node->home, node->name))
			cn_node_lost(node);
		if (!node->connected)
			rc =
			    cn_life_connect(node->mem->ep, node->home, &node->session, &node->name);
		if (rc < 0)
			break;
		node->connected = true;
		rc = send_hello(node, timeout);
		if (rc != -ESTALE)
			break;
		cn_node_lost(node); /* the session ended without notice: try once more */
		rc = 0;
	}
	if (rc < 0)
		node->failed = true;
	return rc;
}

void cn_node_fenced(struct cn_node *node)
{
	if (node->state == CN_NODE_UP)
		node->state = CN_NODE_DOWN;
}

void cn_node_lost(struct cn_node *node)
{
	if (node->connected)
		lend_disconnect(node->mem->ep, node->session);
	node->connected = false;
	if (node->pool)
		node->pool->doubt = true;
	if (node->state == CN_NODE_UP)
		node->state = CN_NODE_DOWN;
}
