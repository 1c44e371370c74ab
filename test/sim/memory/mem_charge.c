/* mem_charge - charges of the model's tenants, by the rules of mn/store/tenant.h. Layer: test/sim.
 */
#include "sim/memory/mem_model.h"
#include "util/bits.h"

bool mem_charge_room(const struct mem_model *m, const struct mem_tenant *t, uint64_t pages,
		     uint32_t refs)
{
	bool room = (!pages || t->pages + pages <= t->quota.pages) &&
		    (!refs || t->refs + refs <= t->quota.refs);

	if (!room)
		SIM_MARK(m->sim, mem_over_quota);
	return room;
}

uint32_t mem_charge_of(const struct mem_model *m, uint64_t base, uint64_t len, uint64_t pages)
{
	uint64_t first = base / m->cfg.page;
	uint64_t end = len ? (base + len - 1) / m->cfg.page + 1 : first;

	return (uint32_t)lend_min_u64(lend_min_u64(pages, end - first), m->cfg.pages);
}

uint64_t mem_stake_cost(const struct mem_object *o, uint32_t tenant)
{
	return o->stakes && o->payer == tenant ? 0 : o->charge;
}

void mem_stake_add(struct mem_model *m, struct mem_object *o, uint32_t tenant)
{
	m->tenant[tenant].refs++;
	m->tenant[tenant].pages += mem_stake_cost(o, tenant);
	if (!o->stakes)
		o->payer = tenant;
	if (o->payer == tenant)
		o->stakes++;
	else
		SIM_MARK(m->sim, mem_paid_by_two);
}

void mem_stake_drop(struct mem_model *m, struct mem_object *o, uint32_t tenant)
{
	m->tenant[tenant].refs--;
	if (o->stakes && o->payer == tenant && --o->stakes)
		return;
	m->tenant[tenant].pages -= o->charge;
}
