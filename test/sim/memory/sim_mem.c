#include "sim/memory/sim_mem.h"

#include <stdlib.h>

#include "mn/store/store.h"
#include "sim/memory/mem_state.h"

void sim_mem_open(struct sim *sim)
{
	sim->mem = calloc(1, sizeof(*sim->mem));
	LEND_CHECK(sim->mem);
	sim->mem->sparse = mem_one_in(sim, 6);
	mem_serve_open(sim);
	mem_client_open(sim);
	mem_op_open(sim);
}

void sim_mem_close(struct sim *sim)
{
	struct sim_mem *m = sim->mem;

	if (!m)
		return;
	mem_serve_close(sim);
	mem_op_close(sim);
	for (uint32_t i = 0; m->actor && i < m->actors; i++)
		free(m->actor[i].link);
	free(m->actor);
	free(m->life);
	free(m);
	sim->mem = NULL;
}

void sim_mem_audit(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->mem->servers; i++) {
		struct mem_server *s = &sim->mem->server[i];
		const char *bad;

		if (!sim->node[i].up)
			continue;
		bad = lend_store_audit(sim->node[i].store, s->scratch);
		SIM_CHECK(sim, !bad, "node %u: %s", i, bad);
		mem_rot_audit(&s->model);
		mem_model_compare(&s->model, "an audit");
	}
}

static const char *find_leak(const struct lend_store *store)
{
	if (store->object.used)
		return "a snapshot or space is left";
	if (store->hold.used || store->grant.used)
		return "a hold or grant is left";
	if (store->client.used || store->incarnation.used)
		return "a client or lease is left";
	if (store->placement.used || store->pinned)
		return "a placement or pin is left";
	if (store->frame.used || store->node.used)
		return "a page or page table is left";
	return lend_store_deadline(store) == LEND_NEVER ? NULL : "something is still to end";
}

const char *sim_mem_unfinished(struct sim *sim)
{
	const char *why = mem_client_unfinished(sim);

	for (uint32_t i = 0; i < sim->mem->servers && !why; i++)
		why = find_leak(sim->node[i].store);
	return why;
}
