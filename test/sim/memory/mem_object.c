#include "sim/memory/mem_model.h"

#include <stdlib.h>
#include <string.h>

#include "mn/store/store.h"
#include "util/bits.h"
#include "util/check.h"

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
	mem_model_landed(m, page, n);
}

void mem_model_land(struct mem_model *m, const struct mem_object *o, uint32_t *page)
{
	for (uint32_t i = 0; i < o->pages.n; i++) {
		page[i] = o->pages.at[i].page;
		m->stats.pages_pinned += m->page[page[i]].pins++ == 0;
	}
}

void mem_model_landed(struct mem_model *m, const uint32_t *page, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		m->stats.pages_pinned -= --m->page[page[i]].pins == 0;
		page_give(m, page[i]);
	}
}

/* Returns the first entry at or behind index. */
static uint32_t lower_bound(const struct mem_pages *p, uint64_t index)
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

static void reserve_entries(struct mem_pages *p, uint32_t n)
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
		  "node %u: %s got slot %u, which is in use", m->node, mem_op_name(t->op->kind),
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
		mem_mapping_detach(m, (uint32_t)(o - m->object), false);
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
	for (uint32_t i = lower_bound(&o->pages, first);
	     len && i < o->pages.n && o->pages.at[i].index < end; i++) {
		struct mem_index e = o->pages.at[i];

		m->page[e.page].refs++;
		reserve_entries(&out->pages, out->pages.n + 1);
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

/* Returns how many pages of a range have no other reader, and where they are in the array. */
static uint64_t find_range(const struct mem_model *m, const struct mem_object *o, uint64_t offset,
			   uint64_t len, uint64_t *first, uint64_t *end)
{
	uint64_t sole = 0;

	*first = (o->base + offset) / m->cfg.page;
	*end = len ? (o->base + offset + len - 1) / m->cfg.page + 1 : *first;
	for (uint32_t i = lower_bound(&o->pages, *first);
	     i < o->pages.n && o->pages.at[i].index < *end; i++) {
		const struct mem_page *p = &m->page[o->pages.at[i].page];

		sole += p->refs == 1 && p->pins == 0;
	}
	return sole;
}

/* Returns the charge of an object once [first, end) has pages. */
static uint32_t charge_with(const struct mem_model *m, const struct mem_object *o, uint64_t first,
			    uint64_t end)
{
	uint32_t i = lower_bound(&o->pages, first), there = lower_bound(&o->pages, end) - i;

	return mem_charge_of(m, o->base, o->view.len, o->charge + (end - first) - there);
}

/* A write of a whole page makes a new one. Otherwise the damage remains, in a copy too. */
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
	uint32_t i = lower_bound(&o->pages, index);
	struct mem_index *e = &o->pages.at[i];
	bool rots;

	if (i == o->pages.n || e->index != index) {
		reserve_entries(&o->pages, o->pages.n + 1);
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
	uint64_t first, end, sole = find_range(m, o, offset, len, &first, &end);
	uint32_t charge = charge_with(m, o, first, end);
	bool placed = t->placed != 0;

	if (!placed && (end - first - sole > m->cfg.pages - m->page_used - m->placed ||
			(t->in->out->status == LEND_MEM_RESOURCE_EXHAUSTED &&
			 mem_model_quarantined(m, end - first))))
		return false;
	if (o->kind == MEM_SPACE) {
		if (charge > o->charge && !mem_charge_room(m, mem_payer(t), charge - o->charge, 0))
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

	find_range(m, o, offset, len, &first, &end);
	for (uint32_t i = lower_bound(&o->pages, first);
	     i < o->pages.n && o->pages.at[i].index < end; i++)
		rots |= m->page[o->pages.at[i].page].rot;
	return rots;
}

void mem_object_pin(struct mem_step *t, const struct mem_object *o, uint64_t offset, uint64_t len)
{
	struct mem_model *m = t->m;
	uint64_t first, end;

	find_range(m, o, offset, len, &first, &end);
	for (uint32_t i = lower_bound(&o->pages, first);
	     i < o->pages.n && o->pages.at[i].index < end; i++) {
		uint32_t page = o->pages.at[i].page;

		m->stats.pages_pinned += m->page[page].pins++ == 0;
		t->done->page[t->done->pages++] = page;
		mem_payer(t)->pinned++;
	}
	mem_view_slice(&t->done->bytes, &o->view, offset, len);
}
