/* mem_rot - memory that loses bits.
 *
 * A memory node with checksums must answer reads of such a page with DATA_LOSS until it is
 * overwritten completely, never with its bytes. Layer: test/sim. */
#include "mn/store/store.h"
#include "mn/store/page_tree.h"
#include "sim/memory/mem_state.h"

/* Draws a page of an object that no reply reads at present. Pages of a reply were verified
 * before. */
static struct mem_page *some_page(struct sim *sim, uint32_t node, uint32_t *frame)
{
	struct mem_model *m = &sim->mem->server[node].model;
	struct lend_store *store = sim->node[node].store;

	for (int tries = 0; m->object_top && tries < 8; tries++) {
		uint32_t slot = 1 + (uint32_t)sim_below(sim, SIM_RNG_ROT, m->object_top);
		const struct mem_pages *p = &m->object[slot].pages;
		struct lend_view v = lend_object_view(store, slot);
		const struct mem_index *at;

		if (m->object[slot].kind == MEM_NONE || !p->n)
			continue;
		at = &p->at[sim_below(sim, SIM_RNG_ROT, p->n)];
		if (m->page[at->page].rot || m->page[at->page].pins)
			continue;
		*frame = lend_tree_frame(store, &v, lend_page_at(store, v.base) + at->index);
		return &m->page[at->page];
	}
	return NULL;
}

void mem_rot_turn(struct sim *sim, uint32_t node)
{
	struct lend_store *store = sim->node[node].store;
	struct mem_page *page;
	uint32_t frame = 0;

	if (!sim->plan.rot_ppm || sim->healing ||
	    sim_below(sim, SIM_RNG_ROT, 1000000) >= sim->plan.rot_ppm)
		return;
	page = some_page(sim, node, &frame);
	if (!page)
		return;
	SIM_CHECK(sim, frame, "node %u: a page that was written does not exist", node);
	lend_page(store, frame)[sim_below(sim, SIM_RNG_ROT, lend_page_size(store))] ^=
	    (uint8_t)(1u << sim_below(sim, SIM_RNG_ROT, 8));
	page->rot = true;
	SIM_MARK(sim, mem_rot);
}

uint64_t mem_rot_count(const struct mem_model *m)
{
	uint64_t n = 0;

	for (uint32_t i = 1; i <= m->page_top; i++)
		n += m->page[i].refs && m->page[i].rot;
	return n;
}

void mem_rot_audit(struct mem_model *m)
{
	uint64_t is = lend_store_scrub(m->store), must = mem_rot_count(m);

	/* Objects that are freed step by step count until they are gone. */
	SIM_CHECK(m->sim, is == must || (m->store->dying && is > must),
		  "node %u: %llu pages do not match their checksums, must be %llu", m->node,
		  (unsigned long long)is, (unsigned long long)must);
}
