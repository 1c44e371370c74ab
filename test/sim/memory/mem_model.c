#include "sim/memory/mem_model.h"

#include <stdlib.h>
#include <string.h>

#include "mn/store/store.h"
#include "util/bits.h"
#include "util/check.h"

static void *zero_array(size_t n, size_t size)
{
	void *p = calloc(n + 1, size);

	LEND_CHECK(p);
	return p;
}

void mem_model_open(struct mem_model *m, struct sim *sim, uint32_t node,
		    const struct lend_store_config *cfg, struct lend_store *store)
{
	LEND_CHECK(cfg->clients <= MEM_CLIENTS);
	memset(m, 0, sizeof(*m));
	m->sim = sim;
	m->node = node;
	m->cfg = *cfg;
	m->store = store;
	m->page = zero_array(cfg->pages, sizeof(*m->page));
	m->object = zero_array(cfg->objects, sizeof(*m->object));
	m->rest = zero_array(cfg->pages, sizeof(*m->rest));
	m->grant = zero_array(cfg->grants, sizeof(*m->grant));
	m->incarnation = zero_array(cfg->incarnations, sizeof(*m->incarnation));
	m->record = zero_array((size_t)cfg->clients * cfg->open, sizeof(*m->record));
	m->grant_next = m->lease_next = LEND_NEVER;
	m->stats.pages_total = cfg->pages;
}

void mem_model_close(struct mem_model *m)
{
	for (uint32_t i = 0; m->object && i <= m->object_top; i++)
		free(m->object[i].pages.at);
	for (uint32_t i = 0; i < MEM_MAPPINGS; i++)
		free(m->pinned_map[i].o.pages.at);
	free(m->page);
	free(m->object);
	free(m->rest);
	free(m->grant);
	free(m->incarnation);
	free(m->record);
	memset(m, 0, sizeof(*m));
}

/* Statistics that both count. The store's own sums are checked by its audit now and then. */
#define COMPARED(X)                                                                                \
	X(pages_pinned)                                                                            \
	X(refs)                                                                                    \
	X(spaces)                                                                                  \
	X(pinned_maps)                                                                             \
	X(clients)                                                                                 \
	X(incarnations)                                                                            \
	X(holds)                                                                                   \
	X(grants)                                                                                  \
	X(repeats)                                                                                 \
	X(forgets)                                                                                 \
	X(pin_copies)                                                                              \
	X(grants_expired)                                                                          \
	X(leases_expired)                                                                          \
	X(hangups)                                                                                 \
	X(damaged)                                                                                 \
	X(pauses)

/* Objects that the store frees step by step still count, and writes to pages shared with them
 * copy. */
static void compare_late(struct mem_model *m, const struct lend_memstats *s, const char *after)
{
	bool now = m->store->dying != 0;

	m->late |= now;
	SIM_CHECK(m->sim,
		  s->pages_used == m->stats.pages_used ||
		      (now && s->pages_used > m->stats.pages_used),
		  "node %u after %s: pages_used is %llu, must be %llu", m->node, after,
		  (unsigned long long)s->pages_used, (unsigned long long)m->stats.pages_used);
	SIM_CHECK(m->sim,
		  s->cow_copies == m->stats.cow_copies ||
		      (m->late && s->cow_copies > m->stats.cow_copies),
		  "node %u after %s: cow_copies is %llu, must be %llu", m->node, after,
		  (unsigned long long)s->cow_copies, (unsigned long long)m->stats.cow_copies);
}

/* Objects that are being freed step by step are in quarantine afterwards. */
bool mem_model_quarantined(const struct mem_model *m, uint64_t pages)
{
	bool late = lend_frame_room(m->store) < lend_table_room(&m->store->frame) ||
		    (m->cfg.quarantine && !m->cfg.yields && m->store->dying);
	bool yes = late && pages > lend_frame_room(m->store);

	if (yes)
		SIM_MARK(m->sim, mem_pages_quarantined);
	return yes;
}

bool mem_model_has_run(const struct mem_model *m, uint64_t pages)
{
	const struct lend_set *any = &m->store->free.any;
	uint64_t n = 0;

	for (uint32_t i = 1; i <= m->store->frame.cap && n < pages; i++) {
		bool yes = lend_set_word(m->store, any, i) >> i % MEM_BLOCK & 1;

		n = yes ? (i % MEM_BLOCK ? n : 0) + 1 : 0;
	}
	return pages && n >= pages && m->store->frame.cap < MEM_BLOCKS * MEM_BLOCK;
}

/* True when no other frame was free, so that frames in quarantine may be used. */
static bool is_pressed(const struct mem_model *m)
{
	return m->cfg.yields && !m->store->free.any.n;
}

/* Checks that no freed frame is used again during its quarantine. */
static void check_quarantine(struct mem_model *m, const char *after)
{
	lend_ns now = m->sim->now;

	for (uint32_t i = 1; m->cfg.quarantine && i <= m->store->frame.top; i++) {
		const struct lend_frame *f = lend_frame_at(m->store, i);
		struct mem_quarantine *r = &m->rest[i];
		bool free = !f->refs && !f->pins;

		SIM_CHECK(m->sim,
			  free || is_pressed(m) ||
			      (f->gen == r->gen &&
			       (!r->free || !r->gen || now - r->since >= m->cfg.quarantine)),
			  "node %u after %s: a page is used again %llu ns after it was freed",
			  m->node, after,
			  (unsigned long long)(f->gen == r->gen ? now - r->since : 0));
		if (f->gen != r->gen)
			r->since = now;
		*r = (struct mem_quarantine){f->gen, free, r->since};
	}
}

static void compare_tenants(struct mem_model *m, const char *after)
{
	struct lend_store_usage use;

	for (uint32_t i = 0; i < MEM_TENANTS; i++) {
		lend_store_usage(m->store, i, &use);
		SIM_CHECK(
		    m->sim,
		    use.pages == m->tenant[i].pages && use.refs == m->tenant[i].refs &&
			use.clients == m->tenant[i].clients && use.pinned == m->tenant[i].pinned,
		    "node %u after %s: tenant %u is charged %llu pages and %u references, must be "
		    "%llu and %u",
		    m->node, after, i, (unsigned long long)use.pages, use.refs,
		    (unsigned long long)m->tenant[i].pages, m->tenant[i].refs);
	}
}

void mem_model_compare(struct mem_model *m, const char *after)
{
	struct lend_memstats s;

	lend_store_stats(m->store, &s);
	m->stats.pages_used = m->page_used + m->placed;
	m->nodes = (uint32_t)s.nodes_used;
#define X(name)                                                                                    \
	SIM_CHECK(m->sim, s.name == m->stats.name,                                                 \
		  "node %u after %s: " #name " is %llu, must be %llu", m->node, after,             \
		  (unsigned long long)s.name, (unsigned long long)m->stats.name);
	COMPARED(X)
#undef X
	compare_late(m, &s, after);
	compare_tenants(m, after);
	check_quarantine(m, after);
}
