#include "cn/lent/caller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cn/lent/arg_view.h"
#include "sys/last_error.h"

bool cn_caller_near(const struct lend_peer *peer, const char *home)
{
	static const uint8_t none[sizeof(peer->incarnation)];
	/* A peer on shared memory and a session that is not up may have no address. */
	const char *via = peer->address[0]                                ? peer->address
			  : memcmp(peer->incarnation, none, sizeof(none)) ? "shm:"
									  : "";
	size_t n = strcspn(home, ":");

	return n && home[n] == ':' && !strncmp(home, via, n + 1);
}

static bool is_used(const struct lend_mem *mem, uint16_t index)
{
	const struct cn_op *op;

	TAILQ_FOREACH(op, &mem->wait, all)
	if (op->node == index)
		return true;
	TAILQ_FOREACH(op, &mem->flight, all)
	if (op->node == index)
		return true;
	return false;
}

/* Returns the index of an entry that may be given another address: a new one, or the least recently
 * used idle one. -errno: there is none. */
static int take_entry(struct lend_mem *mem)
{
	int best = -1;

	for (int i = CN_NODES_MAX; i < CN_NODES_MAX + CN_CALLERS_MAX; i++) {
		if (!mem->node[i]) {
			mem->node[i] = calloc(1, sizeof(*mem->node[i]));
			if (!mem->node[i])
				return lend_fail(ENOMEM, "no memory for a session to a caller");
			mem->node[i]->mem = mem;
			mem->node[i]->life = 1;
			return i;
		}
		if (!is_used(mem, (uint16_t)i) &&
		    (best < 0 || mem->node[i]->read_seq < mem->node[best]->read_seq))
			best = i;
	}
	if (best < 0)
		return lend_fail(ENOSPC, "reads of arguments of %d callers are under way: wait",
				 CN_CALLERS_MAX);
	cn_node_lost(mem->node[best]);
	return best;
}

int cn_caller_find(struct lend_mem *mem, const char *home, uint8_t key)
{
	int i = CN_NODES_MAX;

	while (i < CN_NODES_MAX + CN_CALLERS_MAX && mem->node[i] &&
	       strcmp(mem->node[i]->address, home) != 0)
		i++;
	if (i == CN_NODES_MAX + CN_CALLERS_MAX || !mem->node[i])
		i = take_entry(mem);
	if (i < 0)
		return i;
	strcpy(mem->node[i]->address, home);
	mem->node[i]->read_seq = mem->seq;
	mem->node[i]->relay = false;
	mem->node[i]->key = key;
	return i;
}

int cn_caller_relay(struct lend_mem *mem, lend_session session)
{
	char name[32];
	int i;

	(void)snprintf(name, sizeof(name), "relay:%016" PRIx64, session.id);
	i = cn_caller_find(mem, name, 0);
	if (i < 0)
		return i;
	mem->node[i]->relay = true;
	mem->node[i]->session = session;
	return i;
}

bool cn_caller_ask_relay(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	lend_session via = {0};
	int i;

	if (!op->relayed && !op->ends && cn_op_outer(op)->parent.id)
		via = lend_request_session(mem->ep, cn_op_outer(op)->parent);
	i = via.id ? cn_caller_relay(mem, via) : -ESTALE;
	if (i < 0)
		return false;
	op->node = (uint16_t)i;
	op->relayed = op->by_message = true;
	op->placing = false;
	return !op->view || cn_arg_view_alloc(op);
}

bool cn_caller_dial(struct cn_node *caller)
{
	if (caller->connected && caller->state == CN_NODE_UP)
		return true;
	cn_node_lost(caller);
	if (caller->relay) { /* the session is not ours: it is not connected, and never ended */
		if (lend_session_message_max(caller->mem->ep, caller->session))
			caller->state = CN_NODE_UP;
		return caller->state == CN_NODE_UP;
	}
	if (lend_connect_key(caller->mem->ep, caller->address, caller->key, &caller->session) < 0)
		return false;
	caller->connected = true;
	caller->placed = false;
	caller->state = CN_NODE_UP;
	return true;
}

void cn_callers_drop(struct lend_mem *mem)
{
	for (int i = CN_NODES_MAX; i < CN_NODES_MAX + CN_CALLERS_MAX && mem->node[i]; i++) {
		cn_node_lost(mem->node[i]);
		free(mem->node[i]);
	}
}
