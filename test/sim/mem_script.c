/* mem_script - what an actor does next: any operation, on anything it has heard of, at the edges of
 * pages, datagrams and page tables. Layer: test/sim. */
#include <string.h>

#include "sim/mem_state.h"
#include "util/bits.h"
#include "wire/pkt.h"

void mem_script_keep(struct sim *sim, struct mem_actor *a, const struct lend_memref *ref,
		     uint32_t store)
{
	uint32_t i = a->refs < MEM_REFS ? a->refs++ : (uint32_t)mem_below(sim, MEM_REFS);

	a->ref[i] = (struct mem_ref){*ref, store};
}

static uint64_t longest(const struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;

	return lend_min_u64(lend_min_u64(p->message_max - LEND_MEMOP_FIXED_MAX, LEND_MEM_PART_MAX),
			    p->pages * LEND_MEM_PAGE / 3);
}

/* Half of them at the edge of something; long ones are rare. */
static uint64_t length(struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;
	uint64_t payload = (p->mtu - LEND_PKT_OVERHEAD) & ~UINT64_C(15), page = LEND_MEM_PAGE;
	const uint64_t edge[] = {0,
				 8,
				 page,
				 page,
				 2 * page,
				 4 * page,
				 payload,
				 payload - lend_memop_fixed(LEND_MEMOP_PUT),
				 2 * payload - lend_memop_fixed(LEND_MEMOP_PUT),
				 2 * payload,
				 p->unscheduled - lend_memop_fixed(LEND_MEMOP_PUT),
				 64 * page};
	uint64_t len, max = longest(sim), top = mem_one_in(sim, 12) ? max : 5 * page;

	if (mem_one_in(sim, 2)) {
		len = edge[mem_below(sim, mem_one_in(sim, 8) ? 12 : 10)] + mem_below(sim, 3);
		len -= len > 0;
	} else {
		len = mem_below(sim, lend_min_u64(top, max) + 1);
	}
	return lend_min_u64(len, max);
}

/* Where page tables and pages begin and end, so that what is large and sparse is met again. */
static uint64_t place(struct sim *sim, uint64_t whole)
{
	static const uint32_t page[] = {0, 0, 1, 2, 16, 63, 64, 65, 4095, 4096, 262144};
	uint64_t at = page[mem_below(sim, 11)] * (uint64_t)LEND_MEM_PAGE;

	if (whole < 16 * LEND_MEM_PAGE || mem_one_in(sim, 4))
		at = mem_below(sim, whole + 1);
	if (mem_one_in(sim, 3))
		at -= at % LEND_MEM_PAGE;
	else if (mem_one_in(sim, 3))
		at += mem_below(sim, 5000);
	return lend_min_u64(at, whole);
}

/* Some part of [0, whole), one time in 24 a byte too much. */
static void part(struct sim *sim, uint64_t whole, uint64_t *offset, uint64_t *len)
{
	uint64_t max = longest(sim);

	*offset = mem_below(sim, 3) ? place(sim, whole) : 0;
	*len = whole - *offset;
	if (mem_below(sim, 3))
		*len = lend_min_u64(*len, length(sim));
	*len = lend_min_u64(*len, max);
	if (mem_one_in(sim, 24))
		*len = lend_min_u64(whole - *offset + 1, max);
}

static struct lend_memterms terms(struct sim *sim, bool owned_too)
{
	struct lend_memterms t = {(uint8_t)(owned_too ? mem_below(sim, 3) : 1 + mem_below(sim, 2)),
				  0, 0};
	uint64_t lease = sim->plan.lease_us * 1000;

	if (t.kind != LEND_TERMS_OWNED)
		t.ttl = 1 + mem_below(sim, mem_one_in(sim, 3) ? lease / 50 + 1 : lease);
	if (t.kind == LEND_TERMS_SHARED)
		t.n = (uint32_t)mem_below(sim, 4);
	return t;
}

/* Often the one of last time: what happens to it overlaps. */
static struct mem_ref *any_ref(struct sim *sim, struct mem_actor *a)
{
	if (a->hot_ref >= a->refs || mem_below(sim, 2))
		a->hot_ref = a->refs ? (uint32_t)mem_below(sim, a->refs) : 0;
	return a->refs ? &a->ref[a->hot_ref] : NULL;
}

/* One that no node made. */
static void forge(struct sim *sim, struct lend_memref *ref)
{
	switch (mem_below(sim, 6)) {
	case 0:
		ref->token[mem_below(sim, 16)] ^= 1u << mem_below(sim, 8);
		return;
	case 1:
		ref->serial += 1 + mem_below(sim, 3);
		return;
	case 2:
		ref->slot ^= 1u << mem_below(sim, 7);
		return;
	case 3:
		ref->epoch++;
		return;
	case 4:
		ref->root_len++;
		return;
	default:
		if (ref->depth) {
			ref->rights[ref->depth] ^= LEND_RIGHT_MAP;
			ref->rights[0] = LEND_RIGHT_ALL;
		}
		ref->token[0] ^= 0x80;
		return;
	}
}

/* As it is, narrowed, or forged. */
static bool use_ref(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	const struct mem_ref *r = any_ref(sim, a);
	uint64_t offset, len;

	for (uint32_t i = 0; i < 4 && r && r->store != op->store; i++)
		r = any_ref(sim, a);
	if (!r || (r->store != op->store && mem_below(sim, 8)))
		return false;
	op->say.ref = r->ref;
	len = lend_memref_len(&r->ref);
	if (mem_one_in(sim, 4)) {
		offset = mem_below(sim, len + 1);
		len = mem_below(sim, len - offset + 1);
		(void)lend_memref_slice(&r->ref, offset, len,
					lend_memref_rights(&r->ref) & (unsigned)mem_below(sim, 8),
					&op->say.ref);
		if (mem_one_in(sim, 3))
			mem_script_keep(sim, a, &op->say.ref, op->store);
	}
	if (mem_one_in(sim, 40)) {
		forge(sim, &op->say.ref);
		op->forged = true;
	}
	return true;
}

/* Its own, or now and then another's. */
static struct mem_space *use_space(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	struct mem_actor *of = a;
	struct mem_space *s;

	if (mem_one_in(sim, 30))
		of = &sim->mem->actor[mem_below(sim, sim->mem->actors)];
	if (!of->spaces)
		return NULL;
	if (of->hot_space >= of->spaces || mem_below(sim, 2))
		of->hot_space = (uint32_t)mem_below(sim, of->spaces);
	s = &of->space[of->hot_space];
	if (s->store != op->store)
		return NULL;
	op->say.space = s->space;
	return s;
}

static void drop_space(struct mem_actor *a, const struct mem_space *s)
{
	uint32_t i = (uint32_t)(s - a->space);

	if (s >= a->space && i < a->spaces)
		a->space[i] = a->space[--a->spaces];
}

static bool release(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	uint32_t n = mem_one_in(sim, 3) ? 1 + (uint32_t)mem_below(sim, MEM_BATCH) : 1;

	for (uint32_t i = 0; i < n; i++) {
		if (!use_ref(sim, a, op))
			return false;
		lend_memref_encode(&op->say.ref, op->refs + i * LEND_MEMREF_LEN);
		for (uint32_t r = 0; r < a->refs; r++)
			if (a->ref[r].ref.serial == op->say.ref.serial && mem_below(sim, 8))
				a->ref[r--] = a->ref[--a->refs];
	}
	memset(&op->say.ref, 0, sizeof(op->say.ref));
	op->say.n = n;
	return true;
}

static bool on_space(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	struct mem_space *s = use_space(sim, a, op);

	if (!s)
		return false;
	if (op->say.kind == LEND_MEMOP_FREE) {
		drop_space(a, s);
		return true;
	}
	part(sim, s->len, &op->say.offset, &op->say.len);
	if (op->say.kind == LEND_MEMOP_WRITE && sim->mem->sparse) {
		op->say.offset = mem_below(sim, s->len + 1);
		op->say.len = lend_min_u64(op->say.len, s->len - op->say.offset);
		op->say.len = lend_min_u64(op->say.len, mem_below(sim, 100));
	} else if (op->say.kind == LEND_MEMOP_WRITE &&
		   mem_one_in(sim, 6)) { /* a long one, in pages */
		op->say.offset -= op->say.offset % LEND_MEM_PAGE;
		op->say.len =
		    lend_min_u64(s->len - lend_min_u64(op->say.offset, s->len), longest(sim));
		op->say.len -= lend_min_u64(op->say.len, mem_below(sim, 3) * 100);
	}
	if (op->say.kind == LEND_MEMOP_WRITE)
		return s->writes++ < (sim->mem->sparse ? 14u : 8u);
	if (op->say.kind != LEND_MEMOP_SEAL)
		return true;
	op->say.terms = terms(sim, true);
	if (mem_one_in(sim, 2)) { /* to the end, however far */
		op->say.offset = mem_below(sim, 2) ? 0 : place(sim, s->len);
		op->say.len = s->len - op->say.offset;
		if (op->say.len > LEND_MEM_PAGE && mem_one_in(sim, 4))
			op->say.len -= LEND_MEM_PAGE;
	}
	if (mem_one_in(sim, 3)) {
		op->say.flags = LEND_MEMOP_CONSUME;
		drop_space(a, s);
	}
	return true;
}

static uint64_t space_len(struct sim *sim)
{
	uint64_t whole = LEND_MEM_PAGE * UINT64_C(64);

	if (sim->mem->sparse && mem_below(sim, 4))
		return LEND_MEMREF_ROOT_MAX >> mem_below(sim, 6);
	if (mem_one_in(sim, 4)) /* page tables that are full, and shared as they are */
		return (whole << 6 * mem_below(sim, 3)) - mem_below(sim, 2);
	if (mem_one_in(sim, 16))
		return LEND_MEMREF_ROOT_MAX >> mem_below(sim, 20);
	return mem_one_in(sim, 60) ? LEND_MEMREF_ROOT_MAX + 1 : length(sim);
}

/* Fills in what it says; false: there is nothing to say it about. */
static bool compose(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	struct lend_memop *say = &op->say;

	switch (say->kind) {
	case LEND_MEMOP_PUT:
		say->len = mem_one_in(sim, 10) ? longest(sim) - mem_below(sim, longest(sim) / 2 + 1)
					       : length(sim);
		say->terms = terms(sim, true);
		return true;
	case LEND_MEMOP_ALLOC:
		say->len = space_len(sim);
		return true;
	case LEND_MEMOP_GET:
	case LEND_MEMOP_NARROW:
		if (!use_ref(sim, a, op))
			return false;
		part(sim, lend_memref_len(&say->ref), &say->offset, &say->len);
		say->rights = say->kind == LEND_MEMOP_NARROW ? (uint32_t)mem_below(sim, 8) : 0;
		return true;
	case LEND_MEMOP_MAP:
	case LEND_MEMOP_ADOPT:
		return use_ref(sim, a, op);
	case LEND_MEMOP_GRANT:
		say->terms = terms(sim, false);
		return use_ref(sim, a, op);
	case LEND_MEMOP_RELEASE:
		return release(sim, a, op);
	case LEND_MEMOP_READ:
	case LEND_MEMOP_WRITE:
	case LEND_MEMOP_SEAL:
	case LEND_MEMOP_FREE:
		return on_space(sim, a, op);
	default:
		return true;
	}
}

static uint8_t choose(struct sim *sim, const struct mem_actor *a)
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

/* References go to another actor: in a message between processes, or from hand to hand. */
static void hand_over(struct sim *sim, struct mem_actor *a)
{
	struct mem_actor *to = &sim->mem->actor[mem_below(sim, sim->mem->actors)];
	const struct mem_ref *r = any_ref(sim, a);
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
		lend_memref_encode(&any_ref(sim, a)->ref, op->refs + i * LEND_MEMREF_LEN);
	mem_op_send(sim, op);
}

/* An id that it should not have: below low water, beyond the window, or another's. One at a time,
 * or they could not be told apart. */
static void misuse(struct sim *sim, struct mem_actor *a, uint32_t store)
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
	op->say.len = MEM_STRAY_MARK; /* by these it is told from what has that id */
	if (op->say.kind == LEND_MEMOP_PUT)
		op->say.terms = (struct lend_memterms){LEND_TERMS_TRANSFER, 0, MEM_STRAY_MARK};
	mem_op_send(sim, op);
}

static void one(struct sim *sim, struct mem_actor *a, uint32_t store)
{
	struct mem_op *op = mem_op_new(sim, a, choose(sim, a), store);

	if (!op)
		return;
	if (!compose(sim, a, op)) {
		mem_op_resolve(sim, op);
		return;
	}
	if (mem_one_in(sim, 100))
		op->garbage = (uint8_t)(MEM_NO_KIND + mem_below(sim, MEM_GARBAGES - MEM_NO_KIND));
	else if (lend_memop_recorded(op->say.kind) && mem_one_in(sim, 60))
		mem_op_forget(sim, op); /* before it is said at all */
	mem_op_send(sim, op);
}

void mem_script_one(struct sim *sim, struct mem_actor *a)
{
	uint32_t store = (uint32_t)mem_below(sim, sim->plan.stores);
	uint32_t n = mem_one_in(sim, 3) ? 1 + (uint32_t)mem_below(sim, 4) : 1;

	if (mem_one_in(sim, 10))
		hand_over(sim, a);
	else if (a->link[store].life && mem_one_in(sim, 80))
		misuse(sim, a, store);
	else
		for (uint32_t i = 0; i < n && a->link[store].life; i++)
			one(sim, a, store);
}
