/* mem_client - actors: clients of memory nodes, several per process. They send HELLO, are fenced,
 * retry or forget operations with unknown outcome, pass references on and send BYE. Layer:
 * test/sim. */
#include <stdlib.h>
#include <string.h>

#include "core/cc.h"
#include "sim/memory/mem_state.h"
#include "util/bits.h"

enum { MESSAGE_MIN = 1024 }; /* a HELLO's reply needs this much */
#define MS UINT64_C(1000000)

static uint32_t index_of(const struct sim *sim, const struct mem_actor *a)
{
	return (uint32_t)(a - sim->mem->actor);
}

static struct mem_op *ops_of(struct sim *sim, const struct mem_actor *a)
{
	return sim->mem->op + (size_t)index_of(sim, a) * MEM_OPS;
}

void mem_client_open(struct sim *sim)
{
	struct sim_mem *m = sim->mem;
	const struct sim_plan *p = &sim->plan;

	if (p->stores && p->memops && p->message_max >= MESSAGE_MIN)
		m->actors = (uint32_t)((p->nodes - p->stores) * p->clients);
	m->actor = calloc(m->actors + 1, sizeof(*m->actor));
	m->life = calloc(p->nodes * p->stores + 1, sizeof(*m->life));
	LEND_CHECK(m->life);
	LEND_CHECK(m->actor);
	for (uint32_t i = 0; i < m->actors; i++) {
		struct mem_actor *a = &m->actor[i];

		a->node = (uint32_t)(p->stores + i / p->clients);
		a->life = sim->node[a->node].life;
		a->link = calloc(p->stores, sizeof(*a->link));
		LEND_CHECK(a->link);
		sim_at(sim, sim->now + mem_below(sim, 1000 * p->span_us / 8 + 1), SIM_MEM, i, 0);
	}
}

/* Drops all that the client had at this store, and its open operations. */
void mem_client_fenced(struct sim *sim, struct mem_actor *a, uint32_t store)
{
	struct mem_link *l = &a->link[store];
	uint32_t left = 0;

	for (struct mem_op *op = ops_of(sim, a); op < ops_of(sim, a) + MEM_OPS; op++)
		if (op->state != MEM_OP_FREE && op->store == store && !op->hand &&
		    op->say.kind != LEND_MEMOP_HELLO)
			mem_op_resolve(sim, op);
	for (uint32_t i = 0; i < a->spaces; i++)
		if (a->space[i].store != store)
			a->space[left++] = a->space[i];
	a->spaces = left;
	l->life = l->had = 0;
}

struct mem_life *mem_client_life(struct sim *sim, uint32_t actor, uint32_t store)
{
	uint32_t node = sim->mem->actor[actor].node;
	struct mem_life *life = &sim->mem->life[node * sim->plan.stores + store];

	if (life->birth != sim->node[node].life)
		*life = (struct mem_life){.birth = sim->node[node].life};
	return life;
}

/* Restarts the client's process, which remembers nothing. */
static void reborn(struct sim *sim, struct mem_actor *a)
{
	for (struct mem_op *op = ops_of(sim, a); op < ops_of(sim, a) + MEM_OPS; op++)
		op->state = MEM_OP_FREE;
	memset(a->link, 0, sim->plan.stores * sizeof(*a->link));
	a->refs = a->spaces = 0;
	a->life = sim->node[a->node].life;
	SIM_MARK(sim, mem_client_died);
}

static void hello(struct sim *sim, struct mem_actor *a, uint32_t store)
{
	struct mem_op *op = mem_op_new(sim, a, LEND_MEMOP_HELLO, store);

	if (!op)
		return;
	a->link[store].asking = true;
	if (mem_one_in(sim, 4))
		op->wrong = mem_one_in(sim, 2) ? MEM_WRONG_PROOF : MEM_WRONG_PROCESS;
	mem_op_send(sim, op);
}

/* Handles an operation that may have run: retries, forgets or drops it. */
static void settle_unsure(struct sim *sim, struct mem_op *op)
{
	switch (op->say.kind) {
	case LEND_MEMOP_HELLO:
	case LEND_MEMOP_BYE_CLIENT:
	case LEND_MEMOP_FORGET:
		mem_op_send(sim, op);
		return;
	case LEND_MEMOP_RELEASE:
	case LEND_MEMOP_FREE:
		if (op->forgetting)
			return;
		mem_op_send(sim, op);
		return;
	default:
		break;
	}
	if (!lend_memop_recorded(op->say.kind) || op->garbage)
		mem_op_resolve(sim, op);
	else if (op->forgetting)
		return;
	else if (mem_one_in(sim, 2))
		mem_op_forget(sim, op);
	else
		mem_op_send(sim, op);
}

/* Handles an operation that was answered and still is in the window: retries, forgets or drops
 * it. */
static void settle_kept(struct sim *sim, struct mem_op *op)
{
	uint64_t what = sim->healing ? 0 : mem_below(sim, 6);

	if (op->forgetting)
		return;
	if (what == 1 || what == 2)
		mem_op_send(sim, op);
	else if (what == 3)
		mem_op_forget(sim, op);
	else if (what == 0)
		mem_op_resolve(sim, op);
	if (what == 2 && op->state != MEM_OP_FREE) /* both at once */
		mem_op_forget(sim, op);
}

/* Continues with operations that have not ended. Returns their number. */
static uint32_t settle(struct sim *sim, struct mem_actor *a)
{
	struct mem_op *first = ops_of(sim, a);
	uint32_t n = 0;

	for (struct mem_op *op = first; op < first + MEM_OPS; op++) {
		struct mem_link *l = &a->link[op->store];

		if (op->state == MEM_OP_FREE)
			continue;
		n++;
		if (op->calls && !op->hand && !op->resolved && !op->forgetting && !op->garbage &&
		    l->life && lend_memop_recorded(op->say.kind) && mem_one_in(sim, 60))
			mem_op_forget(sim, op); /* while it is on its way */
		if (op->calls || (!sim->healing && mem_below(sim, 2)))
			continue;
		if (op->hand)
			mem_op_resolve(sim, op);
		else if (op->say.kind != LEND_MEMOP_HELLO && !l->life)
			l->silent = false; /* needs a HELLO first */
		else if (op->unsure)
			settle_unsure(sim, op);
		else
			settle_kept(sim, op);
	}
	return n;
}

/* At the end: sends BYE, or nothing more until the lease ends. */
static void leave(struct sim *sim, struct mem_actor *a)
{
	for (uint32_t i = 0; i < sim->plan.stores; i++) {
		struct mem_link *l = &a->link[i];
		struct mem_op *op;

		if (!l->life || l->silent)
			continue;
		if (mem_one_in(sim, 2)) {
			l->silent = true;
			continue;
		}
		op = mem_op_new(sim, a, LEND_MEMOP_BYE_CLIENT, i);
		if (op)
			mem_op_send(sim, op);
	}
}

static bool at_peace(const struct sim *sim, const struct mem_actor *a)
{
	for (uint32_t i = 0; i < sim->plan.stores; i++)
		if (a->link[i].life && !a->link[i].silent)
			return false;
	return true;
}

/* True for plans in which all operations must have ended by then. */
static bool can_end(const struct sim_plan *p)
{
	return p->dead_us * 1000 >
		   100 * (p->delay_ns + p->jitter_ns + p->reorder_ns + p->turn_ns + 1000 * 1000) &&
	       p->sessions >= 2 * p->nodes && p->slots > 1 && p->budget >= 65536 &&
	       p->mbps >= 1000 && p->unscheduled >= p->mtu &&
	       (!p->cc ||
		(p->cc == LEND_CC_CREDIT && p->delay_ns <= 1000000 && p->reassemblies >= 8));
}

/* It took too long: sends nothing more, and leases end. Operations of a client that its node
 * refuses cannot end: dead and silent clients use a quota until their leases end. */
static void give_up(struct sim *sim, struct mem_actor *a)
{
	for (struct mem_op *op = ops_of(sim, a); op < ops_of(sim, a) + MEM_OPS; op++) {
		if (op->state == MEM_OP_FREE)
			continue;
		SIM_CHECK(sim, !can_end(&sim->plan) || a->link[op->store].refused,
			  "%s of client %u does not end", mem_op_name(op->say.kind),
			  op->say.client);
		mem_op_resolve(sim, op);
	}
	for (uint32_t i = 0; i < sim->plan.stores; i++)
		a->link[i].silent = true;
}

static void act(struct sim *sim, struct mem_actor *a)
{
	uint32_t left = settle(sim, a), store;

	for (store = 0; store < sim->plan.stores; store++) {
		struct mem_link *l = &a->link[store];

		if (!l->life && !l->asking && (!sim->healing || left) && mem_one_in(sim, 2))
			hello(sim, a, store);
	}
	if (sim->healing) {
		if (!left)
			leave(sim, a);
	} else if (sim->mem->made < sim->plan.memops) {
		mem_script_one(sim, a);
	}
}

void sim_mem_event(struct sim *sim, uint32_t actor)
{
	struct mem_actor *a = &sim->mem->actor[actor];
	const struct sim_node *n = &sim->node[a->node];
	const struct sim_plan *p = &sim->plan;
	lend_ns gap = 2000 * p->span_us * sim->mem->actors / (p->memops + 1) + 2;

	if (sim->healing && !sim->mem->healed)
		sim->mem->healed = sim->now;
	if (n->up && n->life != a->life)
		reborn(sim, a);
	if (sim->healing && sim->now > sim->mem->healed + 1000 * MS + 2000 * p->dead_us)
		give_up(sim, a);
	else if (n->up && n->paused <= sim->now)
		act(sim, a);
	if (sim->healing)
		gap = MS;
	else if (sim->mem->made >= p->memops)
		gap = 20 * MS;
	else if (sim->now > SIM_START + 1000 * p->span_us)
		gap = lend_max_u64(
		    gap, MS / 10); /* operations that did not fit into their time need not hurry */
	if (!sim->healing || mem_client_unfinished(sim))
		sim_at(sim, sim->now + 1 + mem_below(sim, lend_min_u64(gap, 50 * MS)), SIM_MEM,
		       actor, 0);
}

/* Handles a call that passes references to a node without a store: one of its actors keeps them. */
void mem_client_get_refs(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	struct sim_node *n = &sim->node[node];
	const uint8_t *at = e->data ? e->data : n->bufs.seg[e->buf].data;
	uint32_t refs = (uint32_t)(e->len - 16) / LEND_MEMREF_LEN, to;
	uint64_t from = lend_load_u64(at + 8);
	struct lend_memref ref;
	int rc;

	SIM_CHECK(sim, at[0] == MEM_HAND && from < (uint64_t)sim->mem->actors * MEM_OPS,
		  "node %u received another message than references", node);
	to = (node - (uint32_t)sim->plan.stores) * (uint32_t)sim->plan.clients +
	     (uint32_t)mem_below(sim, sim->plan.clients);
	for (uint32_t i = 0; i < refs; i++) {
		SIM_CHECK(sim, lend_memref_decode(at + 16 + i * LEND_MEMREF_LEN, &ref),
			  "node %u received no reference", node);
		if (sim->mem->actor[to].life == n->life)
			mem_script_keep(sim, &sim->mem->actor[to], &ref, ref.node - 1000);
	}
	rc = lend_core_reply(n->core, sim->now, e->call, &n->bufs, LEND_MEM_OK, 0);
	SIM_CHECK(sim, rc == 0, "node %u: reply returns %d", node, rc);
	sim_node_kick(sim, node);
	SIM_MARK(sim, mem_handed_over);
}

const char *mem_client_unfinished(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->mem->actors; i++) {
		struct mem_actor *a = &sim->mem->actor[i];

		if (!at_peace(sim, a))
			return "a memory client has not sent BYE";
		for (struct mem_op *op = ops_of(sim, a); op < ops_of(sim, a) + MEM_OPS; op++)
			if (op->state != MEM_OP_FREE)
				return "an operation has not ended";
	}
	return NULL;
}
