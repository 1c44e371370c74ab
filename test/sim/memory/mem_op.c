/* mem_op - an actor's operation from its id to its end: calls until its outcome is known, or until
 * the node has forgotten it. Layer: test/sim. */
#include <stdlib.h>
#include <string.h>

#include "sim/memory/mem_state.h"
#include "util/bits.h"

#define TAG (UINT64_C(1) << 63)

void mem_op_open(struct sim *sim)
{
	struct sim_mem *m = sim->mem;

	m->op = calloc((size_t)m->actors * MEM_OPS + 1, sizeof(*m->op));
	LEND_CHECK(m->op);
}

void mem_op_close(struct sim *sim)
{
	free(sim->mem->op);
	free(sim->mem->owner);
}

static uint32_t new_number(struct sim *sim, const struct mem_actor *a)
{
	struct sim_mem *m = sim->mem;

	if (++m->numbers >= m->owner_cap) {
		m->owner_cap = 2 * m->numbers + 64;
		m->owner = realloc(m->owner, m->owner_cap * sizeof(*m->owner));
		LEND_CHECK(m->owner);
	}
	m->owner[m->numbers] = (uint32_t)(a - m->actor);
	return m->numbers;
}

static struct mem_op *free_op(struct sim *sim, const struct mem_actor *a, uint8_t kind)
{
	struct mem_op *first = sim->mem->op + (a - sim->mem->actor) * MEM_OPS, *free = NULL;
	uint32_t n = 0;

	for (struct mem_op *op = first; op < first + MEM_OPS; op++) {
		if (op->state != MEM_OP_FREE)
			continue;
		free = op;
		n++;
	}
	/* The last three ids are for FORGET, which ends other operations, and the very last for
	 * HELLO, without which none can end. */
	if (kind == LEND_MEMOP_HELLO)
		return free;
	return n > (kind == LEND_MEMOP_FORGET ? 1 : 3) ? free : NULL;
}

struct mem_op *mem_op_new(struct sim *sim, struct mem_actor *a, uint8_t kind, uint32_t store)
{
	struct mem_op *op = free_op(sim, a, kind);
	struct mem_link *l = &a->link[store];
	bool recorded = lend_memop_recorded(kind);

	if (!op || (recorded && l->next - l->low >= lend_min_u32(l->open, MEM_WINDOW)))
		return NULL;
	if (!l->number) {
		l->number = new_number(sim, a);
		l->next = l->low = 1;
	}
	memset(op, 0, offsetof(struct mem_op, bytes));
	op->state = MEM_OP_OPEN;
	op->actor = (uint32_t)(a - sim->mem->actor);
	op->store = store;
	op->say.kind = kind;
	op->say.client = l->number;
	op->say.id = TAG | ++sim->mem->serial << 20 | (uint64_t)(op - sim->mem->op);
	if (recorded) {
		op->say.id = l->next++;
		l->busy |= UINT64_C(1) << op->say.id % MEM_WINDOW;
	}
	return op;
}

void mem_op_resolve(struct sim *sim, struct mem_op *op)
{
	struct mem_link *l = mem_op_link(sim, op);

	op->resolved = true;
	if (lend_memop_recorded(op->say.kind) && op->garbage != MEM_STRAY &&
	    l->number == op->say.client && op->say.id >= l->low) {
		l->busy &= ~(UINT64_C(1) << op->say.id % MEM_WINDOW);
		while (l->low < l->next && !(l->busy >> l->low % MEM_WINDOW & 1))
			l->low++;
	}
	mem_op_end(op);
}

static void spoil_op(struct mem_op *op, uint8_t *head, uint32_t *fixed)
{
	switch ((enum mem_garbage)op->garbage) {
	case MEM_NO_KIND:
		head[0] = op->say.id & 1 ? 0 : 0xfe;
		return;
	case MEM_NO_VERSION:
		head[1]++;
		return;
	case MEM_TOO_LONG:
		head[(*fixed)++] = 0;
		return;
	case MEM_BAD_FLAGS:
		head[3] = 0x80;
		return;
	case MEM_SOUND:
	case MEM_STRAY:
	case MEM_BAD_TERMS:
	case MEM_GARBAGES:
		return;
	}
}

/* Writes header and fields, then the data to write or the references to release. */
static uint32_t write_message(struct sim *sim, uint32_t node, struct mem_op *op)
{
	uint8_t head[LEND_MEMOP_FIXED_MAX + 1];
	uint32_t fixed = lend_memop_encode(&op->say, head), first, last;
	uint32_t len = (uint32_t)lend_memop_payload(&op->say);
	struct lend_seg *seg = sim->node[node].bufs.seg;
	bool chain = len && mem_one_in(sim, 2);

	spoil_op(op, head, &fixed);
	first = last =
	    sim_node_buf(sim, node, fixed + (chain ? 0 : len), fixed + (chain ? 0 : len));
	memcpy(seg[first].data, head, fixed);
	if (chain) {
		last = sim_node_buf(sim, node, len, len);
		seg[first].next = last;
	}
	if (op->say.kind == LEND_MEMOP_RELEASE)
		memcpy((uint8_t *)seg[last].data + (chain ? 0 : fixed), op->refs, len);
	else
		mem_fill((uint8_t *)seg[last].data + (chain ? 0 : fixed),
			 mem_version(op->say.client, op->store, op->say.id), 0, len);
	return first;
}

static uint32_t hand_message(struct sim *sim, uint32_t node, const struct mem_op *op)
{
	uint32_t len = 16 + op->say.n * LEND_MEMREF_LEN, b = sim_node_buf(sim, node, len, len);
	uint8_t *at = sim->node[node].bufs.seg[b].data;

	memset(at, 0, 16);
	at[0] = MEM_HAND;
	lend_store_u64(at + 8, (uint64_t)(op - sim->mem->op));
	memcpy(at + 16, op->refs, op->say.n * LEND_MEMREF_LEN);
	return b;
}

/* Fills in a HELLO with the life of its process, if known; some with a proof that must be
 * refused. */
static bool say_hello(struct sim *sim, struct mem_op *op)
{
	const struct mem_life *mine = mem_client_life(sim, op->actor, op->store), *use = mine;
	uint8_t context[LEND_MEMOP_CONTEXT];
	uint64_t session;

	if (!sim_node_session(sim, sim->mem->actor[op->actor].node, op->store, &session))
		return false;
	if (op->wrong == MEM_WRONG_PROCESS)
		use = mem_client_life(sim, (uint32_t)mem_below(sim, sim->mem->actors), op->store);
	op->say.life = use->life;
	memset(op->say.proof, 0, sizeof(op->say.proof));
	if (!use->life)
		return true;
	mem_session_context(sim, sim->mem->actor[op->actor].node, session, context);
	lend_memop_proof(use->key, context, &op->say, op->say.proof);
	if (op->wrong == MEM_WRONG_PROOF)
		op->say.proof[mem_below(sim, 16)] ^= 1;
	return true;
}

/* Sends the operation if a session has room; else it is retried later. */
void mem_op_send(struct sim *sim, struct mem_op *op)
{
	const struct mem_link *l = mem_op_link(sim, op);
	uint32_t node = sim->mem->actor[op->actor].node, buf, call, to = op->store;

	op->unsure = true;
	if (op->hand) {
		buf = hand_message(sim, node, op);
		to = (uint32_t)op->say.target;
	} else {
		op->say.life = l->life - (op->wrong == MEM_WRONG_LIFE);
		if (op->say.kind == LEND_MEMOP_HELLO && !say_hello(sim, op))
			return;
		op->say.low = op->say.kind == LEND_MEMOP_HELLO || op->garbage ? 0 : l->low;
		if (op->wrong == MEM_WRONG_LOW)
			op->say.low = op->say.id + 1;
		buf = write_message(sim, node, op);
	}
	sim->mem->made++;
	if (!sim_work_call(sim, node, to, buf, (uint32_t)(op - sim->mem->op), &call)) {
		sim_node_unbuf(sim, node, buf);
		return;
	}
	op->calls++;
	op->sent++;
	if (!sim->healing &&
	    sim_odds(sim, SIM_RNG_MEM, sim->plan.cancel_ppm + sim->plan.deadline_ppm))
		sim_at(sim, sim->now + mem_below(sim, 1000 * sim->plan.deadline_us + 1), SIM_CANCEL,
		       call, 0);
}

void mem_op_forget(struct sim *sim, struct mem_op *op)
{
	struct mem_op *f =
	    mem_op_new(sim, &sim->mem->actor[op->actor], LEND_MEMOP_FORGET, op->store);

	if (!f)
		return;
	f->say.target = op->say.id;
	f->about = (uint32_t)(op - sim->mem->op);
	op->forgetting = true;
	mem_op_send(sim, f);
}

static bool same_op(const struct lend_memop *a, const struct lend_memop *b)
{
	return a->kind == b->kind && (a->flags == b->flags || a->kind == LEND_MEMOP_PUT) &&
	       a->n == b->n && a->rights == b->rights && a->offset == b->offset &&
	       a->len == b->len && a->target == b->target && a->space.slot == b->space.slot &&
	       a->space.serial == b->space.serial && a->space.epoch == b->space.epoch &&
	       a->ref.slot == b->ref.slot && a->ref.serial == b->ref.serial &&
	       a->ref.depth == b->ref.depth && a->ref.root_len == b->ref.root_len &&
	       memcmp(a->ref.slice, b->ref.slice, sizeof(a->ref.slice)) == 0 &&
	       memcmp(a->ref.token, b->ref.token, 16) == 0 && a->terms.kind == b->terms.kind &&
	       a->terms.n == b->terms.n && a->terms.ttl == b->terms.ttl;
}

static bool is_stray(const struct lend_memop *say)
{
	return say && (say->kind == LEND_MEMOP_PUT ? say->terms.ttl == MEM_STRAY_MARK
						   : say->len == MEM_STRAY_MARK);
}

/* True when these bytes can be this operation. Malformed ones have few fields to compare. */
static bool op_fits(const struct mem_op *op, const uint8_t *head, const struct lend_memop *say)
{
	if (say)
		return op->garbage < MEM_NO_KIND && same_op(&op->say, say);
	return op->garbage >= MEM_NO_KIND || (op->forged && op->say.kind == head[0]);
}

struct mem_op *mem_op_find(struct sim *sim, const uint8_t *head, const struct lend_memop *say,
			   uint32_t store)
{
	struct sim_mem *m = sim->mem;
	uint32_t number = lend_load_u32(head + 4);
	uint64_t id = lend_load_u64(head + 8);
	struct mem_op *first, *best = NULL, *other = NULL;

	SIM_CHECK(sim, number > 0 && number <= m->numbers,
		  "node %u: an operation that no client sent", store);
	first = m->op + (size_t)m->owner[number] * MEM_OPS;
	for (struct mem_op *op = first; op < first + MEM_OPS; op++) {
		if (op->state == MEM_OP_FREE || op->say.client != number || op->say.id != id)
			continue;
		if (op->store != store || !op_fits(op, head, say))
			other = op->garbage ? other : op;
		else if (!best || best->execs >= best->sent - best->not_run)
			best = op;
	}
	SIM_CHECK(sim, best || !other || is_stray(say) || (say && other->say.kind != say->kind),
		  "node %u: %s %llu of client %u arrived with other fields", store,
		  mem_op_name(other->say.kind), (unsigned long long)id, number);
	return best; /* NULL: of an earlier life */
}

void mem_op_ran(struct sim *sim, struct mem_op *op, const struct lend_store_out *out,
		const struct mem_done *done)
{
	op->execs++;
	op->answers |= 1u << out->status;
	/* A malformed operation has no id of its own: an earlier one may have run under it. */
	SIM_CHECK(sim, op->garbage || op->execs <= op->sent - op->not_run,
		  "%s %llu of client %u ran %u times, %u calls, %u of them ended as not run",
		  mem_op_name(op->say.kind), (unsigned long long)op->say.id, op->say.client,
		  op->execs, op->sent, op->not_run);
	SIM_CHECK(sim,
		  !op->forged || out->status != LEND_MEM_OK || op->say.kind == LEND_MEMOP_RELEASE,
		  "node %u accepts a forged reference", op->store);
	if (out->status != LEND_MEM_OK)
		return;
	op->reply_len = (uint32_t)out->len;
	if (op->say.kind == LEND_MEMOP_GET || op->say.kind == LEND_MEMOP_READ)
		op->bytes = done->bytes;
	else
		memcpy(op->reply, out->head, lend_min_u64(out->len, sizeof(op->reply)));
}
