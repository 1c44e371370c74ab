/* mem_compose - draws the fields of an operation: any range of any object that its actor knows, at
 * boundaries of pages, datagrams and page tables. Layer: test/sim. */
#include <string.h>

#include "sim/memory/mem_state.h"
#include "util/bits.h"
#include "util/siphash.h"
#include "wire/pkt.h"

/* Page size of the nodes, limited where it sets lengths: long messages are slow, however large the
 * pages are. */
static uint64_t page_of(const struct sim *sim)
{
	return UINT64_C(1) << sim->plan.page_bits;
}

static uint64_t some_page(struct sim *sim)
{
	return sim->plan.page_bits > 12 && mem_one_in(sim, 4) ? page_of(sim) : LEND_MEM_PAGE;
}

/* With a small budget, long messages are so slow that no time bound would hold. */
static uint64_t longest_len(const struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;
	uint64_t len = lend_min_u64(p->message_max - LEND_MEMOP_FIXED_MAX, LEND_MEM_PART_MAX);

	if (p->budget < 65536)
		len = lend_min_u64(len, UINT64_C(5) * LEND_MEM_PAGE);
	return lend_min_u64(len, p->pages * page_of(sim) / 3);
}

/* Longer than the unscheduled bytes, so that it can be received into pages; mostly by little. */
static uint64_t long_length(struct sim *sim)
{
	uint64_t max = longest_len(sim), min = lend_min_u64(sim->plan.unscheduled, max);
	uint64_t more = mem_below(sim, 4) ? UINT64_C(6) * LEND_MEM_PAGE : max;

	return min + mem_below(sim, lend_min_u64(max - min, more) + 1);
}

/* Half of the lengths are at a boundary; long ones are rare. */
static uint64_t draw_length(struct sim *sim)
{
	const struct sim_plan *p = &sim->plan;
	uint64_t payload =
		     (p->mtu - sizeof(struct lend_pkt_trailer) - LEND_PKT_OVERHEAD) & ~UINT64_C(15),
		 page = some_page(sim);
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
	uint64_t len, max = longest_len(sim), top = mem_one_in(sim, 12) ? max : 5 * page;

	if (mem_one_in(sim, 2)) {
		len = edge[mem_below(sim, mem_one_in(sim, 8) ? 12 : 10)] + mem_below(sim, 3);
		len -= len > 0;
	} else {
		len = mem_below(sim, lend_min_u64(top, max) + 1);
	}
	return lend_min_u64(len, max);
}

/* At boundaries of page tables and pages, so that operations meet in large sparse objects. */
static uint64_t draw_place(struct sim *sim, uint64_t whole)
{
	static const uint32_t page[] = {0, 0, 1, 2, 16, 63, 64, 65, 4095, 4096, 262144};
	uint64_t at = page[mem_below(sim, 11)] * page_of(sim);

	if (whole < 16 * page_of(sim) || mem_one_in(sim, 4))
		at = mem_below(sim, whole + 1);
	if (mem_one_in(sim, 3))
		at -= at % page_of(sim);
	else if (mem_one_in(sim, 3))
		at += mem_below(sim, 5000);
	return lend_min_u64(at, whole);
}

/* Draws a part of [0, whole); once in 24 times it is one byte too long. */
static void draw_part(struct sim *sim, uint64_t whole, uint64_t *offset, uint64_t *len)
{
	uint64_t max = longest_len(sim);

	*offset = mem_below(sim, 3) ? draw_place(sim, whole) : 0;
	if (mem_one_in(sim, 5)) /* remains of a truncated write at the end */
		*offset = whole - lend_min_u64(whole, 1 + mem_below(sim, 300));
	*len = whole - *offset;
	if (mem_below(sim, 3))
		*len = lend_min_u64(*len, draw_length(sim));
	*len = lend_min_u64(*len, max);
	if (mem_one_in(sim, 24))
		*len = lend_min_u64(whole - *offset + 1, max);
}

static struct lend_memterms draw_terms(struct sim *sim, bool owned_too)
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

/* The owner of a reference can sign any slice of it, even one beyond its end. */
static void sign_slice(struct lend_memref *ref, uint64_t offset, uint64_t len, uint8_t rights)
{
	uint8_t what[12], key[16];

	memcpy(key, ref->token, sizeof(key));
	ref->slice[ref->depth] = (struct lend_memslice){offset, len};
	what[0] = ++ref->depth;
	ref->rights[ref->depth] = rights;
	lend_store_u32(what + 1, (uint32_t)offset);
	what[5] = (uint8_t)(offset >> 32);
	lend_store_u32(what + 6, (uint32_t)len);
	what[10] = (uint8_t)(len >> 32);
	what[11] = rights;
	lend_siphash128(key, what, sizeof(what), ref->token);
}

static void exceed_range(struct sim *sim, struct lend_memref *ref)
{
	uint64_t len = lend_memref_len(ref), offset = mem_below(sim, len + 1);
	unsigned rights = lend_memref_rights(ref);

	if (ref->depth == LEND_MEMREF_DEPTH_MAX || len >= LEND_MEMREF_ROOT_MAX)
		ref->token[3] ^= 1;
	else if (mem_one_in(sim, 2) && rights != LEND_RIGHT_ALL)
		sign_slice(ref, offset, len - offset, LEND_RIGHT_ALL);
	else if (mem_one_in(sim, 2))
		sign_slice(ref, len + 1, 0, (uint8_t)rights);
	else
		sign_slice(ref, offset, len - offset + 1, (uint8_t)rights);
}

/* Forges a reference that no node made. */
static void forge_ref(struct sim *sim, struct lend_memref *ref)
{
	/* The upper bits are the worker's number. */
	static const uint8_t slot_bit[7] = {0, 1, 2, 3, 26, 28, 31};

	switch (mem_below(sim, 8)) {
	case 6:
	case 7:
		exceed_range(sim, ref);
		return;
	case 0:
		ref->token[mem_below(sim, 16)] ^= 1u << mem_below(sim, 8);
		return;
	case 1:
		ref->serial += 1 + mem_below(sim, 3);
		return;
	case 2:
		ref->slot ^= 1u << slot_bit[mem_below(sim, 7)];
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

/* Uses a reference: unchanged, narrowed, or forged. */
static bool use_ref(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	const struct mem_ref *r = mem_script_ref(sim, a);
	uint64_t offset, len;

	for (uint32_t i = 0; i < 4 && r && r->store != op->store; i++)
		r = mem_script_ref(sim, a);
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
		forge_ref(sim, &op->say.ref);
		op->forged = true;
	}
	return true;
}

/* Selects one of its own spaces; rarely another client's. */
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
	if (a->refs && mem_one_in(sim, 60)) { /* a snapshot is no space */
		const struct lend_memref *ref = &mem_script_ref(sim, a)->ref;

		op->say.space.slot = ref->slot & 0x3ffffff;
		op->say.space.serial = ref->serial;
	}
	return s;
}

static void drop_space(struct mem_actor *a, const struct mem_space *s)
{
	uint32_t i = (uint32_t)(s - a->space);

	if (s >= a->space && i < a->spaces)
		a->space[i] = a->space[--a->spaces];
}

static bool compose_release(struct sim *sim, struct mem_actor *a, struct mem_op *op)
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
	draw_part(sim, s->len, &op->say.offset, &op->say.len);
	if (op->say.kind == LEND_MEMOP_WRITE && sim->mem->sparse) {
		op->say.offset = mem_below(sim, s->len + 1);
		op->say.len = lend_min_u64(op->say.len, s->len - op->say.offset);
		op->say.len = lend_min_u64(op->say.len, mem_below(sim, 100));
	} else if (op->say.kind == LEND_MEMOP_WRITE &&
		   mem_one_in(sim, s->len > sim->plan.unscheduled ? 2 : 12)) {
		/* whole pages, except at the end */
		op->say.offset = mem_below(sim, 3) ? 0 : op->say.offset & ~(page_of(sim) - 1);
		op->say.len = lend_min_u64(s->len - lend_min_u64(op->say.offset, s->len),
					   mem_below(sim, 4) ? long_length(sim) : longest_len(sim));
	}
	if (op->say.kind == LEND_MEMOP_WRITE)
		return s->writes++ < (sim->mem->sparse ? 14u : 8u);
	if (op->say.kind != LEND_MEMOP_SEAL)
		return true;
	op->say.terms = draw_terms(sim, true);
	if (mem_one_in(sim, 2)) { /* up to the end of the space */
		op->say.offset = mem_below(sim, 2) ? 0 : draw_place(sim, s->len);
		op->say.len = s->len - op->say.offset;
		if (op->say.len > page_of(sim) && mem_one_in(sim, 4))
			op->say.len -= page_of(sim);
	}
	if (mem_one_in(sim, 3)) {
		op->say.flags = LEND_MEMOP_CONSUME;
		drop_space(a, s);
	}
	return true;
}

static uint64_t space_len(struct sim *sim)
{
	uint64_t whole = page_of(sim) * 64;

	if (mem_one_in(sim, 8))
		return long_length(sim);
	if (sim->mem->sparse && mem_below(sim, 4))
		return LEND_MEMREF_ROOT_MAX >> mem_below(sim, 6);
	if (mem_one_in(sim, 4)) /* full page tables, shared unchanged */
		return (whole << 6 * mem_below(sim, 3)) - mem_below(sim, 2);
	if (mem_one_in(sim, 16))
		return LEND_MEMREF_ROOT_MAX >> mem_below(sim, 20);
	return mem_one_in(sim, 60) ? LEND_MEMREF_ROOT_MAX + 1 : draw_length(sim);
}

/* Fills in an operation's fields; false: its actor has nothing to use. */
/* Some rights, or those of its parent; one time in four a byte more than its parent has. */
static void compose_narrow(struct sim *sim, struct lend_memop *say)
{
	say->rights = (uint32_t)mem_below(sim, 8);
	if (mem_below(sim, 2))
		say->rights = lend_memref_rights(&say->ref);
	if (mem_one_in(sim, 4))
		say->len = lend_memref_len(&say->ref) - say->offset + 1;
}

bool mem_compose(struct sim *sim, struct mem_actor *a, struct mem_op *op)
{
	struct lend_memop *say = &op->say;

	switch (say->kind) {
	case LEND_MEMOP_PUT:
		say->len = mem_one_in(sim, 8) ? long_length(sim) : draw_length(sim);
		say->terms = draw_terms(sim, true);
		if (sim->plan.early_ppm && say->len && say->terms.kind == LEND_TERMS_OWNED &&
		    mem_below(sim, 1000000) < sim->plan.early_ppm)
			say->flags = LEND_MEMOP_EARLY;
		return true;
	case LEND_MEMOP_ALLOC:
		say->len = space_len(sim);
		return true;
	case LEND_MEMOP_GET:
	case LEND_MEMOP_NARROW:
		if (!use_ref(sim, a, op))
			return false;
		draw_part(sim, lend_memref_len(&say->ref), &say->offset, &say->len);
		if (say->kind == LEND_MEMOP_NARROW)
			compose_narrow(sim, say);
		return true;
	case LEND_MEMOP_MAP:
	case LEND_MEMOP_ADOPT:
		return use_ref(sim, a, op);
	case LEND_MEMOP_GRANT:
		say->terms = draw_terms(sim, false);
		return use_ref(sim, a, op);
	case LEND_MEMOP_RELEASE:
		return compose_release(sim, a, op);
	case LEND_MEMOP_READ:
	case LEND_MEMOP_WRITE:
	case LEND_MEMOP_SEAL:
	case LEND_MEMOP_FREE:
		return on_space(sim, a, op);
	default:
		return true;
	}
}
