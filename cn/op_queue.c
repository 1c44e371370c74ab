/* op_queue - an operation from its start to its one end: it waits in a queue, makes its calls,
 * ends.
 *
 * cn_op_begin() fills the state, cn_op_go() queues it. cn_pump() starts all operations that may
 * start, and runs again after each end. An operation waits for its node's HELLO, for earlier
 * operations that it depends on, for a free operation id, and for a free call slot.
 * Layer: cn. Threads: the endpoint's. The state is part of the caller's lend_op. */
#include "cn/client.h"

#include <errno.h>
#include <string.h>

#include "cn/lent/caller.h"
#include "cn/lent/in_place.h"
#include "sys/last_error.h"
#include "util/check.h"

#define DEFAULT_TIMEOUT UINT64_C(5000000000)
#define WALK_NS         UINT64_C(1000000)

int cn_op_begin(struct lend_mem *mem, struct lend_op *op, uint8_t kind)
{
	struct cn_op *o = cn_op_inner(op);
	lend_ns left = op->timeout ? op->timeout : DEFAULT_TIMEOUT;

	if (mem->closing)
		return lend_fail(EINVAL, "this client of memory nodes is being closed");
	if (op->priority > LEND_BULK)
		return lend_fail(EINVAL, "priority %u: write 1 (most urgent) to 8 (bulk), or 0",
				 op->priority);
	memset(o, 0, sizeof(*o));
	if (op->parent.id && !op->timeout)
		left = lend_request_left(mem->ep, op->parent);
	o->mem = mem;
	o->kind = kind;
	o->space = UINT32_MAX;
	mem->now = lend_now(mem->ep);
	o->deadline = left >= LEND_NEVER - mem->now ? LEND_NEVER : mem->now + left;
	return 0;
}

void cn_op_set_lack(struct cn_op *op, enum cn_lack lack)
{
	op->mem->ready += (lack == CN_LACKS_NOTHING) - (op->lacks == CN_LACKS_NOTHING);
	op->lacks = (uint8_t)lack;
}

static void leave_queue(struct cn_op *op)
{
	cn_op_set_lack(op, CN_LACKS_NOTHING);
	TAILQ_REMOVE(&op->mem->wait, op, all);
	op->mem->ready--;
}

void cn_op_started(struct cn_op *op)
{
	leave_queue(op);
	TAILQ_INSERT_TAIL(&op->mem->flight, op, all);
	op->state = CN_FLIGHT;
}

void cn_op_resume(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	struct cn_op *at = TAILQ_FIRST(&mem->wait);

	TAILQ_REMOVE(&mem->flight, op, all);
	op->state = CN_WAIT;
	mem->ready++;
	while (at && at->seq < op->seq)
		at = TAILQ_NEXT(at, all);
	if (at)
		TAILQ_INSERT_BEFORE(at, op, all);
	else
		TAILQ_INSERT_TAIL(&mem->wait, op, all);
}

/* Ends an operation. op may be invalid when this returns: done may free it. */
void cn_op_finish(struct cn_op *op, enum lend_status status, enum lend_ran ran)
{
	struct lend_mem *mem = op->mem;
	struct lend_op *outer = cn_op_outer(op);

	LEND_CHECK(op->state == CN_WAIT || op->state == CN_FLIGHT);
	if (op->state == CN_WAIT) { /* between two calls: none is under way */
		op->part = 0;
		if (ran == LEND_RAN_NO && (op->at || op->step > CN_STEP_ALLOC))
			ran = LEND_RAN_MAYBE;
	}
	cn_step_end(op, status, ran);
	if (op->state == CN_WAIT)
		leave_queue(op);
	else
		TAILQ_REMOVE(&mem->flight, op, all);
	cn_order_del(op);
	mem->live--;
	op->state = CN_DONE;
	outer->status = status;
	outer->ran = ran;
	if (outer->done)
		outer->done(outer);
}

/* Returns true if op started or finished, so that the list may have changed. */
static bool try_start(struct cn_op *op)
{
	lend_ns now = op->mem->now;
	struct cn_node *node;
	int rc;

	if (now >= op->deadline) {
		cn_op_finish(op, LEND_DEADLINE_EXCEEDED, LEND_RAN_NO);
		return true;
	}
	if (cn_call_lacks(op) || !cn_order_free(op))
		return false;
	node = cn_order_left(op);
	if (node && !cn_forget_waits(node))
		return false;
	if (node) {
		cn_op_finish(op, LEND_UNAVAILABLE, LEND_RAN_NO);
		return true;
	}
	rc = CN_GO;
	if (cn_order_wide(op))
		rc = cn_split_by_node(op);
	else if (op->kind == LEND_MEMOP_GET_MANY && !op->parent)
		rc = cn_split_many(op);
	if (rc == CN_GO)
		rc = cn_step_before(op);
	if (rc == CN_HOLD_ON)
		return false;
	if (rc == CN_SPLIT)
		cn_split_start(op);
	if (rc == CN_PARTED || rc == CN_SPLIT)
		return true;
	if (rc != CN_GO) {
		cn_op_finish(op, (enum lend_status)rc, rc == LEND_OK ? LEND_RAN_YES : LEND_RAN_NO);
		return true;
	}
	node = op->mem->node[op->node];
	if (op->lent && !cn_caller_dial(node) && cn_caller_ask_relay(op)) {
		op->mem->again = true;
		return false;
	}
	if (op->lent && node->state != CN_NODE_UP) {
		cn_op_finish(op, LEND_UNAVAILABLE, LEND_RAN_NO);
		return true;
	}
	rc = op->lent ? cn_in_place_before(op) : CN_GO;
	if (rc != CN_GO) {
		cn_op_finish(op, (enum lend_status)rc, LEND_RAN_YES);
		return true;
	}
	if (!cn_node_ready(node)) {
		if (!node->clash &&
		    cn_node_wake(node, op->deadline == LEND_NEVER ? 0 : op->deadline - now) == 0)
			return false;
		if (cn_node_try_next(op, LEND_UNAVAILABLE)) {
			op->mem->again = true;
			return false;
		}
		cn_op_finish(op, LEND_UNAVAILABLE, LEND_RAN_NO);
		return true;
	}
	if (cn_split_wanted(op)) {
		cn_split_start(op);
		return true;
	}
	switch (cn_call_start(op)) {
	case CN_WENT:
		return true;
	case CN_LATER:
		return false;
	case CN_NEVER:
		cn_op_finish(op, LEND_RESOURCE_EXHAUSTED, LEND_RAN_NO);
		return true;
	}
	return false;
}

/* Notes that an operation still lacks something for its call. */
static void note_lack(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;
	struct cn_node *node = mem->node[op->node];

	mem->full_nodes += node->full_in != mem->pass;
	node->full_in = mem->pass;
}

/* Returns whether no operation behind the `seen` ready ones can start: each lacks an id of its
 * node, or a place in the queue of calls, and none is left. All are tried every WALK_NS, because
 * their deadlines may be over. */
static bool all_lack(const struct lend_mem *mem, uint32_t seen)
{
	return seen >= mem->ready && (mem->calls_full || mem->full_nodes == mem->nodes) &&
	       mem->now < mem->walk_at;
}

/* Starts the waiting operations from op on that may start, each tried once. done functions may
 * start and end operations, so the walk begins again after each change. */
static void pump_once(struct lend_mem *mem, struct cn_op *op)
{
	bool whole = op == TAILQ_FIRST(&mem->wait);
	uint64_t after = op ? op->seq - 1 : 0;
	uint32_t seen = 0;
	struct cn_op *next;

	mem->pass++;
	mem->full_nodes = 0;
	for (; op; op = next) {
		uint64_t seq = op->seq;

		if (all_lack(mem, seen))
			return;
		next = TAILQ_NEXT(op, all);
		if (seq <= after)
			continue;
		after = seq;
		if (try_start(op)) /* next may have been freed */
			next = TAILQ_FIRST(&mem->wait);
		else if (op->lacks == CN_LACKS_NOTHING)
			seen++;
		else
			note_lack(op);
	}
	if (whole)
		mem->walk_at = mem->now + WALK_NS;
}

/* Starts what may start: of the operations from op on, then of all if something has changed. */
static void run_pump(struct lend_mem *mem, struct cn_op *op)
{
	if (mem->pumping) {
		mem->again = true;
		return;
	}
	mem->pumping = true;
	do {
		mem->again = mem->calls_full = false;
		pump_once(mem, op && mem->now < mem->walk_at ? op : TAILQ_FIRST(&mem->wait));
		op = NULL;
		for (uint32_t i = 0; i < mem->nodes; i++)
			cn_forget_pump(mem->node[i]);
	} while (mem->again);
	mem->pumping = false;
}

void cn_pump(struct lend_mem *mem)
{
	if (!TAILQ_EMPTY(&mem->wait))
		mem->now = lend_now(mem->ep);
	run_pump(mem, NULL);
}

int cn_op_go(struct cn_op *op)
{
	struct lend_mem *mem = op->mem;

	op->seq = ++mem->seq;
	op->state = CN_WAIT;
	cn_order_add(op);
	TAILQ_INSERT_TAIL(&mem->wait, op, all);
	mem->live++;
	mem->ready++;
	run_pump(mem, op); /* without reading the clock: cn_op_begin() just did */
	return 0;
}

void lend_op_cancel(struct lend_mem *mem, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);

	if (o->state == CN_WAIT) {
		cn_op_finish(o, LEND_CANCELLED, LEND_RAN_NO);
		cn_pump(mem);
	} else if (o->state == CN_FLIGHT) {
		o->cancelled = true;
		if (o->parted)
			cn_split_cancel(o);
		/* If the call has ended, only a carrier still uses the operation's memory. */
		else if (!o->ended)
			lend_call_cancel(mem->ep, &op->call);
	}
}

int lend_op_wait(struct lend_mem *mem, struct lend_op *op)
{
	struct cn_op *o = cn_op_inner(op);

	while (o->state == CN_WAIT || o->state == CN_FLIGHT) {
		bool waits = o->state == CN_WAIT || o->parted; /* or a part of it may wait */
		int rc = lend_wait(mem->ep, waits ? o->deadline : LEND_NEVER);

		if (rc < 0)
			return rc;
		if (waits)
			cn_pump(mem);
	}
	if (o->err == EHOSTUNREACH)
		return lend_fail(
		    EHOSTUNREACH,
		    "the reference is not of a known memory node: add its node's address");
	return -o->err;
}
