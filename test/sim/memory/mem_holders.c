/* mem_holders - holds, grants, clients and leases in the model. Layer: test/sim. */
#include <string.h>

#include "sim/memory/mem_model.h"
#include "util/bits.h"

void mem_hold(struct mem_model *m, struct mem_object *o, uint32_t client)
{
	if (!mem_holds(o, client))
		mem_stake_add(m, o, m->client[client].tenant);
	m->stats.holds += !mem_holds(o, client);
	o->held |= UINT64_C(1) << (client - 1);
}

void mem_unhold(struct mem_model *m, struct mem_object *o, uint32_t client)
{
	if (mem_holds(o, client))
		mem_stake_drop(m, o, m->client[client].tenant);
	m->stats.holds -= mem_holds(o, client);
	o->held &= ~(UINT64_C(1) << (client - 1));
}

/* There must be room. */
struct mem_grant *mem_grant_add(struct mem_model *m, uint32_t slot, uint8_t kind, uint32_t left,
				lend_ns expires, uint32_t tenant)
{
	struct mem_grant *g = &m->grant[1];

	while (g->serial)
		g++;
	if (g > &m->grant[m->grant_top])
		m->grant_top = (uint32_t)(g - m->grant);
	*g = (struct mem_grant){++m->grant_serial, expires, slot, left, kind, (uint8_t)tenant};
	mem_stake_add(m, &m->object[slot], tenant);
	m->object[slot].grants++;
	m->stats.grants++;
	m->grant_next = lend_min_u64(m->grant_next, expires);
	return g;
}

struct mem_grant *mem_grant_find(struct mem_model *m, uint64_t serial)
{
	for (uint32_t i = 1; serial && i <= m->grant_top; i++)
		if (m->grant[i].serial == serial)
			return &m->grant[i];
	return NULL;
}

/* Returns the grant that ends first; of several, the newest. */
struct mem_grant *mem_grant_next(struct mem_model *m, uint32_t slot)
{
	struct mem_grant *best = NULL;

	for (uint32_t i = 1; i <= m->grant_top; i++) {
		struct mem_grant *g = &m->grant[i];

		if (g->serial && g->object == slot && g->left &&
		    (!best || g->expires < best->expires ||
		     (g->expires == best->expires && g->serial > best->serial)))
			best = g;
	}
	return best;
}

void mem_grant_remove(struct mem_model *m, struct mem_grant *g)
{
	g->serial = 0;
	mem_stake_drop(m, &m->object[g->object], g->tenant);
	m->object[g->object].grants--;
	m->stats.grants--;
}

void mem_grant_use(struct mem_model *m, struct mem_grant *g)
{
	g->left--;
	if (g->kind == LEND_TERMS_TRANSFER)
		mem_grant_remove(m, g);
	else if (!g->left)
		SIM_MARK(m->sim, mem_shared_used_up);
}

void mem_grant_expire(struct mem_model *m)
{
	if (m->sim->now < m->grant_next)
		return;
	m->grant_next = LEND_NEVER;
	for (uint32_t i = 1; i <= m->grant_top; i++) {
		struct mem_grant *g = &m->grant[i];

		if (!g->serial)
			continue;
		if (g->expires > m->sim->now) {
			m->grant_next = lend_min_u64(m->grant_next, g->expires);
			continue;
		}
		mem_grant_remove(m, g);
		m->stats.grants_expired++;
		SIM_MARK(m->sim, mem_grant_expired);
		if (g->kind == LEND_TERMS_TRANSFER && !m->object[g->object].held)
			SIM_MARK(m->sim, mem_transfer_expired);
		mem_object_settle(m, g->object);
	}
}

uint32_t mem_life_find(const struct mem_model *m, uint64_t life)
{
	for (uint32_t i = 1; life && i <= m->cfg.incarnations; i++)
		if (m->incarnation[i].life == life)
			return i;
	return 0;
}

uint32_t mem_tenant_find(const struct mem_model *m, uint64_t life, uint32_t number)
{
	for (uint32_t i = 1; i <= m->cfg.clients; i++)
		if (m->client[i].incarnation && m->client[i].number == number &&
		    m->incarnation[m->client[i].incarnation].life == life)
			return i;
	return 0;
}

void mem_lease_renew(struct mem_model *m, uint32_t client)
{
	struct mem_incarnation *inc = &m->incarnation[m->client[client].incarnation];

	inc->expires = lend_max_u64(inc->expires, m->sim->now + m->cfg.lease);
	m->lease_next = lend_min_u64(m->lease_next, inc->expires);
}

/* True when only the last quarter of the clients is free, and this process has more clients than
 * are free. */
static bool has_its_share(const struct mem_model *m, uint64_t process)
{
	uint64_t room = m->cfg.clients - m->stats.clients, n = 0;

	for (uint32_t i = 1; i <= m->cfg.incarnations; i++)
		if (m->incarnation[i].life && m->incarnation[i].process == process)
			n += m->incarnation[i].clients;
	return m->cfg.clients >= 16 && 4 * room <= m->cfg.clients && n > room;
}

uint32_t mem_tenant_open(struct mem_model *m, uint64_t process, uint32_t incarnation,
			 uint32_t number)
{
	uint32_t i, inc = incarnation;
	uint32_t tenant = inc ? m->incarnation[inc].tenant : mem_tenant_of(process);

	i = inc ? mem_tenant_find(m, m->incarnation[inc].life, number) : 0;
	if (i)
		return i;
	if (m->tenant[tenant].clients >= m->tenant[tenant].quota.clients) {
		SIM_MARK(m->sim, mem_over_quota);
		return 0;
	}
	if (m->stats.clients == m->cfg.clients ||
	    (!inc && m->stats.incarnations == m->cfg.incarnations))
		return 0;
	if (has_its_share(m, process)) {
		SIM_MARK(m->sim, mem_share_of_clients);
		return 0;
	}
	for (i = 1; m->client[i].incarnation; i++)
		continue;
	if (!inc) {
		for (inc = 1; m->incarnation[inc].life; inc++)
			continue;
		m->incarnation[inc] =
		    (struct mem_incarnation){.process = process, .tenant = tenant};
		m->stats.incarnations++;
	}
	m->incarnation[inc].clients++;
	m->client[i] = (struct mem_client){inc, number, tenant, 0};
	m->tenant[tenant].clients++;
	m->stats.clients++;
	memset(m->record + (size_t)(i - 1) * m->cfg.open, 0, m->cfg.open * sizeof(*m->record));
	return i;
}

void mem_tenant_close(struct mem_model *m, uint32_t client)
{
	struct mem_incarnation *inc = &m->incarnation[m->client[client].incarnation];

	for (uint32_t i = 1; i <= m->object_top; i++) {
		struct mem_object *o = &m->object[i];

		if (o->kind == MEM_SPACE && o->owner == client) {
			mem_object_end(m, o);
		} else if (o->kind == MEM_SNAPSHOT && mem_holds(o, client)) {
			mem_unhold(m, o, client);
			mem_object_settle(m, i);
		}
	}
	m->client[client].incarnation = 0;
	m->tenant[m->client[client].tenant].clients--;
	m->stats.clients--;
	if (--inc->clients == 0) {
		inc->life = 0;
		m->stats.incarnations--;
	}
}

static void end(struct mem_model *m, uint32_t incarnation)
{
	uint64_t holds = m->stats.holds;

	for (uint32_t i = 1; i <= m->cfg.clients; i++)
		if (m->client[i].incarnation == incarnation)
			mem_tenant_close(m, i);
	if (m->stats.holds < holds)
		SIM_MARK(m->sim, mem_ended_with_holds);
	if (m->stats.pages_pinned)
		SIM_MARK(m->sim, mem_ended_while_pinned);
}

void mem_model_hangup(struct mem_model *m, uint64_t life)
{
	uint32_t i = mem_life_find(m, life);

	if (!i)
		return;
	end(m, i);
	m->stats.hangups++;
	SIM_MARK(m->sim, mem_hangup);
}

static void forgive(struct mem_model *m, lend_ns lost)
{
	for (uint32_t i = 1; i <= m->cfg.incarnations; i++)
		if (m->incarnation[i].life)
			m->incarnation[i].expires += lost;
	m->stats.pauses++;
	SIM_MARK(m->sim, mem_pause_forgiven);
}

void mem_model_tick(struct mem_model *m)
{
	lend_ns now = m->sim->now;

	mem_grant_expire(m);
	if (now < m->lease_next)
		return;
	if (now - m->lease_next > m->cfg.late)
		forgive(m, now - m->lease_next + m->cfg.late);
	m->lease_next = LEND_NEVER;
	for (uint32_t i = 1; i <= m->cfg.incarnations; i++) {
		if (!m->incarnation[i].life)
			continue;
		if (m->incarnation[i].expires <= now) {
			end(m, i);
			m->stats.leases_expired++;
			SIM_MARK(m->sim, mem_lease_ended);
		} else {
			m->lease_next = lend_min_u64(m->lease_next, m->incarnation[i].expires);
		}
	}
}

void mem_model_recover(struct mem_model *m)
{
	for (uint32_t i = 1; i <= m->object_top; i++) {
		if (m->object[i].kind != MEM_SNAPSHOT || !m->object[i].unwritten)
			continue;
		for (uint32_t c = 1; c <= m->cfg.clients; c++)
			mem_unhold(m, &m->object[i], c);
		mem_object_settle(m, i);
	}
	m->lease_next = LEND_NEVER;
	for (uint32_t i = 1; i <= m->cfg.incarnations; i++) {
		struct mem_incarnation *inc = &m->incarnation[i];

		if (!inc->life)
			continue;
		inc->expires = lend_max_u64(inc->expires, m->sim->now + m->cfg.lease);
		m->lease_next = lend_min_u64(m->lease_next, inc->expires);
	}
}
