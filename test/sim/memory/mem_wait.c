/* mem_wait - requests at a memory node that wait for the bytes of a snapshot, as in mn/
 * unwritten_reads. Part of mem_serve. Layer: test/sim. */
#include <string.h>

#include "sim/memory/mem_state.h"
#include "util/bits.h"

bool mem_wait_add(struct sim *sim, uint32_t node, const struct lend_event *e,
		  const uint8_t head[LEND_MEMOP_FIXED_MAX])
{
	struct mem_server *s = &sim->mem->server[node];
	struct mem_waiting *w = s->waiting;

	while (w < s->waiting + MEM_WAITING && w->e.call)
		w++;
	if (w == s->waiting + MEM_WAITING)
		return false;
	SIM_CHECK(sim, e->len <= sizeof(w->bytes), "node %u: a payload waits", node);
	w->e = *e;
	memcpy(w->bytes, head, e->len);
	w->e.data = w->bytes;
	w->e.data_len = (uint32_t)e->len;
	w->e.buf = 0;
	w->slot = s->out.awaits_slot;
	w->serial = s->out.awaits_serial;
	w->until = sim->now + 1000 * sim->plan.lease_us;
	return true;
}

void mem_wait_refuse(struct sim *sim, uint32_t node, const struct lend_event *e,
		     const uint8_t head[LEND_MEMOP_FIXED_MAX])
{
	struct lend_memop op;
	struct mem_op *mine = NULL;

	if (lend_memop_decode(head, e->len, e->len, &op) == LEND_MEM_OK)
		mine = mem_op_find(sim, head, &op, node);
	if (mine) {
		mine->execs++;
		mine->answers |= 1u << LEND_MEM_RESOURCE_EXHAUSTED;
	}
	(void)lend_core_reply(sim->node[node].core, sim->now, e->call, &sim->node[node].bufs,
			      LEND_MEM_RESOURCE_EXHAUSTED, 0);
	sim_node_kick(sim, node);
}

/* Returns the first request that has waited long enough; NULL: none. */
static struct mem_waiting *next_due(struct sim *sim, uint32_t node)
{
	struct mem_server *s = &sim->mem->server[node];

	for (struct mem_waiting *w = s->waiting; w < s->waiting + MEM_WAITING; w++)
		if (w->e.call && (w->until <= sim->now ||
				  !lend_store_awaits(sim->node[node].store, w->slot, w->serial)))
			return w;
	return NULL;
}

void mem_wait_turn(struct sim *sim, uint32_t node)
{
	const struct mem_model *m = &sim->mem->server[node].model;
	struct mem_waiting *w, due;

	while ((w = next_due(sim, node))) {
		due = *w;
		due.e.data = due.bytes;
		w->e.call = 0;
		/* A snapshot may be settled in the very turn in which a read has waited long
		 * enough. */
		if (due.until <= sim->now &&
		    lend_store_awaits(sim->node[node].store, due.slot, due.serial)) {
			SIM_CHECK(sim,
				  m->object[due.slot].serial == due.serial &&
				      m->object[due.slot].unwritten,
				  "node %u: a read waits for a snapshot that is written, or gone",
				  node);
			mem_wait_refuse(sim, node, &due.e, due.bytes);
			continue;
		}
		mem_request_run(sim, node, &due.e);
		if (sim->mem->server[node].out.status == LEND_MEM_OK)
			SIM_MARK(sim, mem_read_waited);
		else
			SIM_MARK(sim, mem_read_ended);
	}
}

lend_ns mem_wait_deadline(const struct sim *sim, uint32_t node)
{
	const struct mem_server *s = &sim->mem->server[node];
	lend_ns at = LEND_NEVER;

	for (const struct mem_waiting *w = s->waiting; w < s->waiting + MEM_WAITING; w++)
		if (w->e.call)
			at = lend_min_u64(at, w->until);
	return at;
}
