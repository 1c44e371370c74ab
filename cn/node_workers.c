/* node_workers - the workers of a memory node. Each is a node to this client, with a session, a
 * life and operation ids of its own. All have the node's id and its epoch.
 *
 * The first worker that answers reports the number of workers. From then on, the addresses of the
 * others are derived by the rule of wire/worker_address. They are contacted when an object is first
 * placed on them, or when a reference leads there. Layer: cn. Threads: the endpoint's. */
#include "cn/client.h"

#include <string.h>

#include "cn/life.h"
#include "cn/pool/pool_client.h"
#include "wire/worker_address.h"

static struct cn_node *find_worker(const struct lend_mem *mem, uint32_t id, uint32_t worker)
{
	for (uint32_t i = 0; i < mem->nodes; i++) {
		struct cn_node *node = mem->node[i];

		if (node->greeted && !node->clash && node->id == id && node->worker == worker)
			return node;
	}
	return NULL;
}

/* Retires a worker that no longer exists. Its objects are gone, and the other workers report that
 * for old references. */
static void retire_worker(struct cn_node *other, const struct cn_node *node)
{
	struct lend_mem *mem = node->mem;

	other->retired = true;
	if (!other->life)
		return;
	cn_node_alias(mem, other->id, other->worker, cn_node_index(node));
	cn_forget_drop(other);
	cn_handles_drop(mem, cn_node_index(other));
	cn_node_lost(other);
	other->life = 0;
	other->greeted = false;
}

/* Prepares a worker that has not answered since this start of the node: its next use sends HELLO.
 */
static void expect_hello(struct cn_node *other, const struct cn_node *node, uint32_t worker)
{
	if (other == node || other->clash)
		return;
	if (worker >= node->workers) {
		retire_worker(other, node);
		return;
	}
	other->retired = other->failed = false;
	if (other->life || other->state == CN_NODE_HELLO) {
		cn_node_fenced(other);
		return;
	}
	other->id = node->id;
	other->epoch = node->epoch;
	other->worker = (uint8_t)worker;
	other->workers = node->workers;
	other->greeted = true;
}

void cn_workers_learn(struct cn_node *node, uint32_t before)
{
	struct lend_mem *mem = node->mem;
	uint32_t n = before > node->workers ? before : node->workers;
	char address[CN_ADDRESS_MAX];

	for (uint32_t worker = 0; worker < n; worker++) {
		int index;

		if ((worker < node->workers && find_worker(mem, node->id, worker)) ||
		    !lend_worker_address(node->address, node->worker, worker, address,
					 sizeof(address)))
			continue;
		index = cn_node_make(mem, address, strlen(address));
		if (index < 0)
			continue;
		cn_life_name(mem->node[index]->home, node->home);
		if (node->pool) /* without memory for it, this worker is used as over shm */
			(void)cn_pool_join(mem->node[index]);
		expect_hello(mem->node[index], node, worker);
	}
	if (node->workers > 1)
		cn_node_count_choice(node);
}

bool cn_workers_next(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	const struct cn_node *now = mem->node[op->node], *next;

	if (++op->tries >= now->workers)
		return false;
	next = find_worker(mem, now->id, (now->worker + 1u) % now->workers);
	if (!next)
		return false;
	op->node = cn_node_index(next);
	return true;
}

bool cn_workers_same(const struct cn_node *a, const struct cn_node *b)
{
	return a == b || (a->greeted && b->greeted && a->id == b->id);
}
