/* storemodel - the naive model of a store: each object's bytes in an array of its own, shared pages
 * as plain numbers, holders as flags, grants as a list. Layer: test. */
#ifndef TEST_UNIT_STOREMODEL_H
#define TEST_UNIT_STOREMODEL_H

#include "unit/storekit.h"
#include "util/rng.h"

enum {
	OBJECTS = 24,
	PAGES = 90,
	BYTES = PAGES * LEND_MEM_PAGE,
	CLIENTS = 4,
	GRANTS = 8,
	FRAMES = 400,
	STEPS = 1500
};
#define S UINT64_C(1000000000)

struct mgrant {
	uint8_t kind; /* 0: none */
	uint32_t left;
	lend_ns expires;
};
struct mobject {
	int kind;     /* 0 none, 1 snapshot, 2 space, 3 unwritten snapshot */
	uint64_t put; /* kind 3: the operation id */
	uint64_t base, len;
	uint32_t page[PAGES + 1]; /* the page at each [base / page ...]; 0: zeros */
	uint8_t bytes[BYTES];
	bool held[CLIENTS];
	struct mgrant grant[GRANTS];
	int owner;
	struct lend_memref ref;
	struct lend_memspace space;
};
KIT struct mobject *obj;
KIT struct kit *k;
KIT struct client client[CLIENTS];
KIT struct lend_rng rng;
KIT uint64_t seed;
KIT uint32_t newest_page;
KIT uint32_t page_size = LEND_MEM_PAGE; /* one seed in four uses larger pages */
KIT uint8_t buf[BYTES], got[BYTES];

#define AT "seed %llu", (unsigned long long)seed

KIT uint64_t below(uint64_t n)
{
	return lend_rng_below(&rng, n);
}

KIT uint32_t page_refs(uint32_t page)
{
	uint32_t n = 0;

	for (int i = 0; i < OBJECTS; i++)
		for (int p = 0; obj[i].kind && p <= PAGES; p++)
			n += obj[i].page[p] == page;
	return n;
}

KIT uint32_t pages_used(void)
{
	static bool seen[1 << 20];
	uint32_t n = 0;

	memset(seen, 0, newest_page + 1);
	for (int i = 0; i < OBJECTS; i++)
		for (int p = 0; obj[i].kind && p <= PAGES; p++)
			if (obj[i].page[p] && !seen[obj[i].page[p]]) {
				seen[obj[i].page[p]] = true;
				n++;
			}
	return n;
}

KIT void settle(struct mobject *o)
{
	bool kept = o->kind == 2;

	for (int i = 0; i < CLIENTS; i++)
		kept |= o->held[i];
	for (int i = 0; i < GRANTS; i++)
		kept |= o->grant[i].kind;
	if (!kept)
		o->kind = 0;
}

KIT void expire(void)
{
	for (int i = 0; i < OBJECTS; i++) {
		if (obj[i].kind != 1)
			continue;
		for (int g = 0; g < GRANTS; g++)
			if (obj[i].grant[g].expires <= k->now)
				obj[i].grant[g].kind = 0;
		settle(&obj[i]);
	}
}

KIT struct mobject *pick(int kind)
{
	struct mobject *o = &obj[below(OBJECTS)];

	return o->kind == kind ? o : NULL;
}

KIT struct mobject *empty(int kind)
{
	for (int i = 0; i < OBJECTS; i++)
		if (!obj[i].kind) {
			memset(&obj[i], 0, sizeof(obj[i]));
			obj[i].kind = kind;
			return &obj[i];
		}
	return NULL;
}

KIT struct mgrant *next_grant(struct mobject *o)
{
	struct mgrant *best = NULL;

	for (int g = 0; g < GRANTS; g++)
		if (o->grant[g].kind && o->grant[g].left &&
		    (!best || o->grant[g].expires < best->expires))
			best = &o->grant[g];
	return best;
}

KIT bool has_grant_room(const struct mobject *o)
{
	for (int g = 0; g < GRANTS; g++)
		if (!o->grant[g].kind)
			return true;
	return false;
}

KIT void add_grant(struct mobject *o, struct lend_memterms t)
{
	for (int g = 0; g < GRANTS; g++)
		if (!o->grant[g].kind) {
			o->grant[g] = (struct mgrant){
			    t.kind, t.kind == LEND_TERMS_TRANSFER ? 1 : t.n, k->now + t.ttl};
			return;
		}
}

KIT struct lend_memterms terms(bool owned_too)
{
	struct lend_memterms t = {(uint8_t)(owned_too ? below(3) : 1 + below(2)), 0, 0};

	if (t.kind != LEND_TERMS_OWNED)
		t.ttl = 1 + below(8 * S);
	if (t.kind == LEND_TERMS_SHARED)
		t.n = (uint32_t)below(3);
	return t;
}

KIT void apply(struct mobject *o, int w, struct lend_memterms t)
{
	o->held[w] = t.kind != LEND_TERMS_TRANSFER;
	if (t.kind != LEND_TERMS_OWNED)
		add_grant(o, t);
}

/* Gives the object new pages where it writes to zero or shared ones. False: not enough pages,
 * nothing changed. */
KIT bool touch(struct mobject *o, uint64_t offset, uint64_t len)
{
	uint64_t first = (o->base + offset) / page_size;
	uint64_t end = len ? (o->base + offset + len - 1) / page_size + 1 : first;
	uint32_t need = 0;

	for (uint64_t p = first; p < end; p++)
		need += !o->page[p] || page_refs(o->page[p]) > 1;
	if (need > FRAMES - pages_used())
		return false;
	for (uint64_t p = first; p < end; p++)
		if (!o->page[p] || page_refs(o->page[p]) > 1)
			o->page[p] = ++newest_page;
	return true;
}

/* Makes o [offset, offset + len) of from, with shared pages. */
KIT void share(struct mobject *o, const struct mobject *from, uint64_t offset, uint64_t len)
{
	uint64_t start = from->base + offset;

	o->base = start % page_size;
	o->len = len;
	memcpy(o->bytes, from->bytes + offset, len);
	for (uint64_t p = 0; len && p * page_size < o->base + len; p++)
		o->page[p] = from->page[start / page_size + p];
}

#endif
