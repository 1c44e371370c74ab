#include "kill/model.h"

#include <stdio.h>
#include <string.h>

enum { ALL_PAGES = 2 * THING_PAGES };

struct thing *model_add(struct model *model, enum thing_kind kind, uint32_t len)
{
	for (int i = 0; i < THINGS; i++) {
		struct thing *t = &model->thing[i];

		if (t->kind != THING_NONE)
			continue;
		memset(t, 0, sizeof(*t));
		t->kind = kind;
		t->len = len;
		t->held = kind == THING_SNAPSHOT;
		return t;
	}
	return NULL;
}

struct thing *model_pick(struct model *model, struct lend_rng *rng, enum thing_kind kind)
{
	for (int tries = 0; tries < 2 * THINGS; tries++) {
		struct thing *t = &model->thing[kill_below(rng, THINGS)];

		if (t->kind == kind)
			return t;
	}
	return NULL;
}

void model_put(struct model *model, struct thing *thing, const void *bytes)
{
	memcpy(thing->bytes, bytes, thing->len);
	for (uint32_t i = 0; i * 4096 < thing->len; i++)
		thing->page[i] = ++model->pages;
}

void model_copy(struct thing *to, const struct thing *from, uint32_t first_page, uint32_t len)
{
	to->len = len;
	memcpy(to->bytes, from->bytes + (size_t)first_page * 4096, len);
	for (uint32_t i = 0; i * 4096 < len; i++)
		to->page[i] = from->page[first_page + i];
}

static uint32_t sum_times(const struct model *model, uint32_t page)
{
	uint32_t n = 0;

	for (int i = 0; i < THINGS; i++)
		for (int k = 0; k < ALL_PAGES && model->thing[i].kind != THING_NONE; k++)
			n += model->thing[i].page[k] == page;
	return n;
}

void model_write(struct model *model, struct thing *space, uint32_t at, const void *bytes,
		 uint32_t len)
{
	memcpy(space->bytes + at, bytes, len);
	for (uint32_t p = at / 4096; len && p <= (at + len - 1) / 4096; p++)
		if (!space->page[p] || sum_times(model, space->page[p]) > 1)
			space->page[p] = ++model->pages;
}

void model_pinned_map(struct thing *space)
{
	space->pinned_map = true;
	memcpy(space->page + THING_PAGES, space->page, THING_PAGES * sizeof(space->page[0]));
}

void model_send(struct model *model, struct thing *space, uint32_t at, uint32_t len)
{
	for (uint32_t p = at / 4096; len && p <= (at + len - 1) / 4096; p++)
		if (space->stored[p]) {
			model_write(model, space, p * 4096, space->bytes + p * 4096, 1);
			space->stored[p] = !space->marked;
		}
}

void model_release(struct thing *thing)
{
	thing->held--;
	if (!thing->held && !thing->granted)
		thing->kind = THING_NONE;
}

void model_fence(struct model *model, uint32_t worker)
{
	for (int i = 0; i < THINGS; i++) {
		struct thing *t = &model->thing[i];

		if (t->worker != worker)
			continue;
		t->held = 0;
		if (!t->granted)
			t->kind = THING_NONE;
	}
}

uint32_t model_holds(const struct model *model)
{
	uint32_t n = 0;

	for (int i = 0; i < THINGS; i++)
		n += model->thing[i].kind == THING_SNAPSHOT && model->thing[i].held;
	return n;
}

uint32_t model_spaces(const struct model *model)
{
	uint32_t n = 0;

	for (int i = 0; i < THINGS; i++)
		n += model->thing[i].kind == THING_SPACE;
	return n;
}

uint32_t model_pinned_maps(const struct model *model)
{
	uint32_t n = 0;

	for (int i = 0; i < THINGS; i++)
		n += model->thing[i].kind == THING_SPACE && model->thing[i].pinned_map;
	return n;
}

static uint32_t pages(const struct model *model)
{
	uint32_t n = 0;

	for (int i = 0; i < THINGS; i++)
		for (int k = 0; k < ALL_PAGES && model->thing[i].kind != THING_NONE; k++) {
			uint32_t page = model->thing[i].page[k];
			bool first = page != 0;

			for (int j = 0; first && j <= i; j++)
				for (int l = 0; l < (j < i ? ALL_PAGES : k); l++)
					first &= model->thing[j].kind == THING_NONE ||
						 model->thing[j].page[l] != page;
			n += first;
		}
	return n;
}

const char *model_compare(const struct model *model, const struct node_counts *counts)
{
	static char text[256];
	uint64_t refs = 0, grants = 0;
	char *at = text;
	size_t room = sizeof(text);

	for (int i = 0; i < THINGS; i++) {
		refs += model->thing[i].kind == THING_SNAPSHOT;
		grants += model->thing[i].kind == THING_SNAPSHOT && model->thing[i].granted;
	}
	text[0] = 0;
#define SAME(name, want)                                                                           \
	if (counts->name != (want)) {                                                              \
		int n_ = snprintf(at, room, " %s %llu, not %llu;", #name,                          \
				  (unsigned long long)counts->name, (unsigned long long)(want));   \
		at += n_;                                                                          \
		room -= (size_t)n_;                                                                \
	}
	SAME(pages, pages(model))
	SAME(refs, refs)
	SAME(grants, grants)
	SAME(holds, model_holds(model))
	SAME(spaces, model_spaces(model))
	SAME(placements, 0)
	SAME(pinned, 0)
#undef SAME
	return text[0] ? text : counts->bad[0] ? counts->bad : NULL;
}
