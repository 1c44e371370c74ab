#include "sim/mem_model.h"

#include <stdlib.h>
#include <string.h>

#include "mn/store/store.h"
#include "util/bits.h"
#include "util/check.h"

static void *zeroed(size_t n, size_t size)
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
	m->page = zeroed(cfg->pages, sizeof(*m->page));
	m->object = zeroed(cfg->objects, sizeof(*m->object));
	m->rest = zeroed(cfg->pages, sizeof(*m->rest));
	m->grant = zeroed(cfg->grants, sizeof(*m->grant));
	m->incarnation = zeroed(cfg->incarnations, sizeof(*m->incarnation));
	m->record = zeroed((size_t)cfg->clients * cfg->open, sizeof(*m->record));
	m->grant_next = m->lease_next = LEND_NEVER;
	m->stats.pages_total = cfg->pages;
}

void mem_model_close(struct mem_model *m)
{
	for (uint32_t i = 0; m->object && i <= m->object_top; i++)
		free(m->object[i].pages.at);
	for (uint32_t i = 0; i < MEM_LIENS; i++)
		free(m->lien[i].o.pages.at);
	free(m->page);
	free(m->object);
	free(m->rest);
	free(m->grant);
	free(m->incarnation);
	free(m->record);
	memset(m, 0, sizeof(*m));
}

/* What both count; the store's own claims are proven by its audit now and then. */
#define COMPARED(X)                                                                                \
	X(pages_pinned)                                                                            \
	X(refs)                                                                                    \
	X(spaces)                                                                                  \
	X(liens)                                                                                   \
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

/* What the store lets go of bit by bit still counts, and what shares pages with it has to copy. */
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

/* What is still to be let go has its rest before it. */
bool mem_model_rests(const struct mem_model *m, uint64_t pages)
{
	bool late = lend_frame_room(m->store) < lend_table_room(&m->store->frame) ||
		    (m->cfg.quarantine && !m->cfg.yields && m->store->dying);
	bool yes = late && pages > lend_frame_room(m->store);

	if (yes)
		SIM_MARK(m->sim, mem_pages_rest);
	return yes;
}

/* There was no other frame, and those that rest may be used then. */
static bool is_pressed(const struct mem_model *m)
{
	return m->cfg.yields && m->store->frame.top == m->store->frame.cap;
}

/* No frame that was freed is in use again before its time. */
static void check_rest(struct mem_model *m, const char *after)
{
	lend_ns now = m->sim->now;

	for (uint32_t i = 1; m->cfg.quarantine && i <= m->store->frame.top; i++) {
		const struct lend_frame *f = lend_frame_at(m->store, i);
		struct mem_rest *r = &m->rest[i];
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
		*r = (struct mem_rest){f->gen, free, r->since};
	}
}

static void compare_tenants(struct mem_model *m, const char *after)
{
	struct lend_store_usage use;

	for (uint32_t i = 0; i < MEM_TENANTS; i++) {
		lend_store_usage(m->store, i, &use);
		SIM_CHECK(m->sim,
			  use.pages == m->tenant[i].pages && use.refs == m->tenant[i].refs &&
			      use.clients == m->tenant[i].clients &&
			      use.pinned == m->tenant[i].pinned,
			  "node %u after %s: tenant %u pays %llu pages and %u references, must pay "
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
	check_rest(m, after);
}

static uint32_t page_take(struct mem_model *m)
{
	uint32_t i = m->page_free;

	if (i)
		m->page_free = m->page[i].next;
	else
		i = ++m->page_top;
	LEND_CHECK(i <= m->cfg.pages);
	m->page[i] = (struct mem_page){.refs = 1};
	m->page_used++;
	return i;
}

static void page_give(struct mem_model *m, uint32_t page)
{
	if (m->page[page].refs || m->page[page].pins)
		return;
	m->page[page].next = m->page_free;
	m->page_free = page;
	m->page_used--;
}

static void page_drop(struct mem_model *m, uint32_t page)
{
	m->page[page].refs--;
	page_give(m, page);
}

void mem_model_unplace(struct mem_model *m, uint32_t tenant, uint32_t pages)
{
	m->placed -= pages;
	m->tenant[tenant].pages -= pages;
}

void mem_model_unpin(struct mem_model *m, uint32_t tenant, const uint32_t *page, uint32_t n)
{
	m->tenant[tenant].pinned -= n;
	for (uint32_t i = 0; i < n; i++) {
		m->stats.pages_pinned -= --m->page[page[i]].pins == 0;
		page_give(m, page[i]);
	}
}

/* The first entry at or behind index. */
static uint32_t lower(const struct mem_pages *p, uint64_t index)
{
	uint32_t low = 0, high = p->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (p->at[mid].index < index)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void reserve(struct mem_pages *p, uint32_t n)
{
	if (n <= p->cap)
		return;
	p->cap = n < 16 ? 16 : 2 * n;
	p->at = realloc(p->at, p->cap * sizeof(*p->at));
	LEND_CHECK(p->at);
}

struct mem_object *mem_object_make(struct mem_step *t, uint32_t slot, uint64_t serial,
				   enum mem_kind kind)
{
	struct mem_model *m = t->m;
	struct mem_object *o = &m->object[slot <= m->cfg.objects ? slot : 0];
	struct mem_pages pages = o->pages;

	SIM_CHECK(m->sim, slot >= 1 && slot <= m->cfg.objects && o->kind == MEM_NONE,
		  "node %u: %s got slot %u, which is another's", m->node, mem_op_name(t->op->kind),
		  slot);
	SIM_CHECK(m->sim, serial > m->serial, "node %u: serial %llu was given before", m->node,
		  (unsigned long long)serial);
	m->serial = serial;
	m->object_top = slot > m->object_top ? slot : m->object_top;
	pages.n = 0;
	memset(o, 0, offsetof(struct mem_object, view.e));
	o->pages = pages;
	o->serial = serial;
	o->kind = (uint8_t)kind;
	if (kind == MEM_SPACE) {
		o->owner = t->client;
		mem_payer(t)->refs++;
		m->stats.spaces++;
	} else {
		m->stats.refs++;
	}
	t->record.slot = slot;
	t->record.serial = serial;
	return o;
}

void mem_object_unshare(struct mem_model *m, struct mem_object *o)
{
	for (uint32_t i = 0; i < o->pages.n; i++)
		page_drop(m, o->pages.at[i].page);
	o->pages.n = 0;
}

void mem_object_end(struct mem_model *m, struct mem_object *o)
{
	mem_object_unshare(m, o);
	if (o->kind == MEM_SPACE) {
		mem_lien_part(m, (uint32_t)(o - m->object), false);
		m->tenant[m->client[o->owner].tenant].pages -= o->charge;
		m->tenant[m->client[o->owner].tenant].refs--;
		m->stats.spaces--;
	} else {
		m->stats.refs--;
	}
	o->kind = MEM_NONE;
	o->serial = 0;
}

void mem_object_settle(struct mem_model *m, uint32_t slot)
{
	struct mem_object *o = &m->object[slot];

	if (o->kind == MEM_SNAPSHOT && !o->held && !o->grants)
		mem_object_end(m, o);
}

void mem_object_share(struct mem_model *m, struct mem_object *out, const struct mem_object *o,
		      uint64_t offset, uint64_t len)
{
	uint64_t start = o->base + offset, first = start / m->cfg.page;
	uint64_t end = (start + len + m->cfg.page - 1) / m->cfg.page;

	mem_view_slice(&out->view, &o->view, offset, len);
	out->base = start % m->cfg.page;
	for (uint32_t i = lower(&o->pages, first);
	     len && i < o->pages.n && o->pages.at[i].index < end; i++) {
		struct mem_index e = o->pages.at[i];

		m->page[e.page].refs++;
		reserve(&out->pages, out->pages.n + 1);
		e.index -= first;
		out->pages.at[out->pages.n++] = e;
	}
}

void mem_object_move(struct mem_object *out, struct mem_object *o)
{
	struct mem_pages pages = out->pages;

	out->base = o->base;
	out->view = o->view;
	out->pages = o->pages;
	o->pages = pages;
}

/* Where the pages of a range are, and how many of them nobody else looks at. */
static uint64_t range(const struct mem_model *m, const struct mem_object *o, uint64_t offset,
		      uint64_t len, uint64_t *first, uint64_t *end)
{
	uint64_t sole = 0;

	*first = (o->base + offset) / m->cfg.page;
	*end = len ? (o->base + offset + len - 1) / m->cfg.page + 1 : *first;
	for (uint32_t i = lower(&o->pages, *first); i < o->pages.n && o->pages.at[i].index < *end;
	     i++) {
		const struct mem_page *p = &m->page[o->pages.at[i].page];

		sole += p->refs == 1 && p->pins == 0;
	}
	return sole;
}

/* What an object is charged once [first, end) has pages. */
static uint32_t charge_with(const struct mem_model *m, const struct mem_object *o, uint64_t first,
			    uint64_t end)
{
	uint32_t i = lower(&o->pages, first), there = lower(&o->pages, end) - i;

	return mem_pay_charge(m, o->base, o->view.len, o->charge + (end - first) - there);
}

/* Whoever writes the whole of a page makes a new one; else what it lost stays lost, in a copy, too.
 */
static bool still_rots(const struct mem_model *m, uint32_t page, bool whole)
{
	if (m->page[page].rot && whole)
		SIM_MARK(m->sim, mem_rot_over);
	else if (m->page[page].rot)
		SIM_MARK(m->sim, mem_rot_stays);
	return m->page[page].rot && !whole;
}

static void touch_one(struct mem_step *t, struct mem_object *o, uint64_t index, bool placed,
		      bool whole)
{
	struct mem_model *m = t->m;
	uint32_t i = lower(&o->pages, index);
	struct mem_index *e = &o->pages.at[i];
	bool rots;

	if (i == o->pages.n || e->index != index) {
		reserve(&o->pages, o->pages.n + 1);
		e = &o->pages.at[i];
		memmove(e + 1, e, (o->pages.n++ - i) * sizeof(*e));
		*e = (struct mem_index){index, page_take(m)};
		return;
	}
	rots = still_rots(m, e->page, whole);
	if (m->page[e->page].refs > 1) {
		m->stats.cow_copies++;
		SIM_MARK(m->sim, mem_cow_shared);
	} else if (!placed && m->page[e->page].pins) {
		m->stats.pin_copies++;
		SIM_MARK(m->sim, mem_cow_pinned);
	} else if (!placed) {
		SIM_MARK(m->sim, mem_write_sole);
		m->page[e->page].rot = rots;
		return;
	}
	i = page_take(m);
	m->page[i].rot = rots;
	page_drop(m, e->page);
	e->page = i;
}

bool mem_object_touch(struct mem_step *t, struct mem_object *o, uint64_t offset, uint64_t len)
{
	struct mem_model *m = t->m;
	uint64_t first, end, sole = range(m, o, offset, len, &first, &end);
	uint32_t charge = charge_with(m, o, first, end);
	bool placed = t->placed != 0;

	if (!placed && (end - first - sole > m->cfg.pages - m->page_used - m->placed ||
			(t->in->out->status == LEND_MEM_RESOURCE_EXHAUSTED &&
			 mem_model_rests(m, end - first))))
		return false;
	if (o->kind == MEM_SPACE) {
		if (charge > o->charge && !mem_pay_room(m, mem_payer(t), charge - o->charge, 0))
			return false;
		mem_payer(t)->pages += charge - o->charge;
		o->charge = charge;
	}
	m->placed -= t->placed;
	t->placed = 0;
	for (uint64_t at = o->base + offset; first < end; first++)
		touch_one(t, o, first, placed,
			  at <= first * m->cfg.page && (first + 1) * m->cfg.page <= at + len);
	return true;
}

bool mem_object_rots(const struct mem_model *m, const struct mem_object *o, uint64_t offset,
		     uint64_t len)
{
	uint64_t first, end;
	bool rots = false;

	range(m, o, offset, len, &first, &end);
	for (uint32_t i = lower(&o->pages, first); i < o->pages.n && o->pages.at[i].index < end;
	     i++)
		rots |= m->page[o->pages.at[i].page].rot;
	return rots;
}

void mem_object_pin(struct mem_step *t, const struct mem_object *o, uint64_t offset, uint64_t len)
{
	struct mem_model *m = t->m;
	uint64_t first, end;

	range(m, o, offset, len, &first, &end);
	for (uint32_t i = lower(&o->pages, first); i < o->pages.n && o->pages.at[i].index < end;
	     i++) {
		uint32_t page = o->pages.at[i].page;

		m->stats.pages_pinned += m->page[page].pins++ == 0;
		t->done->page[t->done->pages++] = page;
		mem_payer(t)->pinned++;
	}
	mem_view_slice(&t->done->bytes, &o->view, offset, len);
}
