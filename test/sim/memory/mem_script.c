/* mem_script - draws the next operation of an actor: any operation, some of them invalid. Layer:
 * test/sim. */
#include <string.h>

#include "sim/memory/mem_state.h"
#include "util/bits.h"

void mem_script_keep(struct sim *sim, struct mem_actor *a, const struct lend_memref *ref,
		     uint32_t store)
{
	uint32_t i = a->refs < MEM_REFS ? a->refs++ : (uint32_t)mem_below(sim, MEM_REFS);

	a->ref[i] = (struct mem_ref){*ref, store};
}

/* Often selects the one of last time, so that operations on it overlap. */
struct mem_ref *mem_script_ref(struct sim *sim, struct mem_actor *a)
{
	if (a->hot_ref >= a->refs || mem_below(sim, 2))
		a->hot_ref = a->refs ? (uint32_t)mem_below(sim, a->refs) : 0;
	return a->refs ? &a->ref[a->hot_ref] : NULL;
}

static uint8_t choose_kind(struct sim *sim, const struct mem_actor *a)
{
	static const uint8_t often[] = {
	    LEND_MEMOP_PUT,     LEND_MEMOP_PUT,    LEND_MEMOP_PUT,     LEND_MEMOP_GET,
	    LEND_MEMOP_GET,     LEND_MEMOP_GET,    LEND_MEMOP_ALLOC,   LEND_MEMOP_READ,
	    LEND_MEMOP_READ,    LEND_MEMOP_WRITE,  LEND_MEMOP_WRITE,   LEND_MEMOP_WRITE,
	    LEND_MEMOP_SEAL,    LEND_MEMOP_SEAL,   LEND_MEMOP_MAP,     LEND_MEMOP_MAP,
	    LEND_MEMOP_ADOPT,   LEND_MEMOP_ADOPT,  LEND_MEMOP_ADOPT,   LEND_MEMOP_GRANT,
	    LEND_MEMOP_GRANT,   LEND_MEMOP_NARROW, LEND_MEMOP_RELEASE, LEND_MEMOP_RELEASE,
	    LEND_MEMOP_RELEASE, LEND_MEMOP_FREE,   LEND_MEMOP_RENEW,   LEND_MEMOP_STAT};

	static const uint8_t sparse[] = {LEND_MEMOP_ALLOC, LEND_MEMOP_WRITE, LEND_MEMOP_WRITE,
					 LEND_MEMOP_WRITE, LEND_MEMOP_WRITE, LEND_MEMOP_SEAL,
					 LEND_MEMOP_SEAL,  LEND_MEMOP_MAP};

	if (sim->mem->sparse && mem_below(sim, 8))
		return sparse[mem_below(sim, sizeof(sparse))];
	if (a->spaces == MEM_SPACES && mem_one_in(sim, 2))
		return LEND_MEMOP_FREE;
	if (a->refs == MEM_REFS && mem_one_in(sim, 2))
		return LEND_MEMOP_RELEASE;
	if (mem_one_in(sim, 250))
		return mem_one_in(sim, 3) ? LEND_MEMOP_BYE_CLIENT : LEND_MEMOP_HELLO;
	return often[mem_below(sim, sizeof(often))];
}

/* Passes references to another actor: in a message between processes, or directly. */
static void hand_over(struct sim *sim, struct mem_actor *a)
{
	struct mem_actor *to = &sim->mem->actor[mem_below(sim, sim->mem->actors)];
	const struct mem_ref *r = mem_script_ref(sim, a);
	struct mem_op *op;

	if (!r)
		return;
	if (to->node == a->node) {
		if (to->life == a->life)
			mem_script_keep(sim, to, &r->ref, r->store);
		return;
	}
	op = mem_op_new(sim, a, LEND_MEMOP_STAT, r->store);
	if (!op)
		return;
	op->hand = true;
	op->say.target = to->node;
	op->say.n = 1 + (uint32_t)mem_below(sim, 2);
	for (uint32_t i = 0; i < op->say.n; i++)
		lend_memref_encode(&mem_script_ref(sim, a)->ref, op->refs + i * LEND_MEMREF_LEN);
	mem_op_send(sim, op);
}

/* Uses an invalid id: below low water, beyond the window, or of another operation. One at a time,
 * to distinguish them. */
static void misuse_id(struct sim *sim, struct mem_actor *a, uint32_t store)
{
	const struct mem_link *l = &a->link[store];
	struct mem_op *op = mem_op_new(sim, a, LEND_MEMOP_STAT, store);
	const struct mem_op *first = sim->mem->op + (a - sim->mem->actor) * MEM_OPS;

	if (!op)
		return;
	for (const struct mem_op *o = first; o < first + MEM_OPS; o++)
		if (o->state != MEM_OP_FREE && o->garbage == MEM_STRAY) {
			mem_op_resolve(sim, op);
			return;
		}
	op->garbage = MEM_STRAY;
	op->say.kind = mem_one_in(sim, 2) ? LEND_MEMOP_ALLOC : LEND_MEMOP_PUT;
	op->say.id = l->low + l->open;
	if (mem_below(sim, 3))
		op->say.id = mem_one_in(sim, 2) ? l->low - 1 : l->low;
	op->say.id += op->say.id == 0;
	op->wrong = (uint8_t)mem_below(sim, 4);
	if (op->wrong == MEM_WRONG_LIFE || op->wrong == MEM_WRONG_LOW)
		op->say.id = l->next;
	op->say.len =
	    MEM_STRAY_MARK; /* length and terms distinguish it from the operation with that id */
	if (op->say.kind == LEND_MEMOP_PUT)
		op->say.terms = (struct lend_memterms){LEND_TERMS_TRANSFER, 0, MEM_STRAY_MARK};
	mem_op_send(sim, op);
}

/* Makes it malformed. */
static void spoil_op(struct sim *sim, struct mem_op *op)
{
	static const struct lend_memterms bad[] = {
	    {LEND_TERMS_SHARED, 1, 0},     {LEND_TERMS_TRANSFER, 0, 0},
	    {LEND_TERMS_TRANSFER, 1, 5},   {LEND_TERMS_OWNED, 0, 5},
	    {LEND_TERMS_SHARED + 1, 0, 5}, {LEND_TERMS_SHARED, 1, LEND_MEM_TTL_MAX + 1}};
	uint8_t kind = op->say.kind;
	bool terms = kind == LEND_MEMOP_PUT || kind == LEND_MEMOP_SEAL || kind == LEND_MEMOP_GRANT;

	op->garbage = (uint8_t)(MEM_NO_KIND + mem_below(sim, MEM_GARBAGES - MEM_NO_KIND - !terms));
	if (op->garbage == MEM_BAD_TERMS)
		op->say.terms = bad[mem_below(sim, 6)];
}

static void start_one(struct sim *sim, struct mem_actor *a, uint32_t store)
{
	struct mem_op *op = mem_op_new(sim, a, choose_kind(sim, a), store);

	if (!op)
		return;
	if (!mem_compose(sim, a, op)) {
		mem_op_resolve(sim, op);
		return;
	}
	if (mem_one_in(sim, 60))
		spoil_op(sim, op);
	else if (lend_memop_recorded(op->say.kind) && mem_one_in(sim, 60))
		mem_op_forget(sim, op); /* before it is sent */
	mem_op_send(sim, op);
}

void mem_script_one(struct sim *sim, struct mem_actor *a)
{
	uint32_t store = (uint32_t)mem_below(sim, sim->plan.stores);
	uint32_t n = mem_one_in(sim, 3) ? 1 + (uint32_t)mem_below(sim, 4) : 1;

	if (mem_one_in(sim, 10))
		hand_over(sim, a);
	else if (a->link[store].life && mem_one_in(sim, 80))
		misuse_id(sim, a, store);
	else
		for (uint32_t i = 0; i < n && a->link[store].life; i++)
			start_one(sim, a, store);
}
