#include "mn/store/layout.h"

#include "mn/store/frame_alloc.h"
#include "mn/store/undo_log.h"
#include "util/bits.h"

/* Increase it when a field changes its meaning and no size changes with it. */
enum { LAYOUT_VERSION = 3 };

static uint32_t bucket_count(uint32_t n)
{
	uint32_t b = 16;

	while (b < n)
		b *= 2;
	return b;
}

static uint64_t add_array(uint64_t *size, uint64_t n, uint64_t width)
{
	uint64_t at = *size;

	*size = lend_align_up(at + n * width, 64);
	return at;
}

static void add_table(uint64_t *size, struct lend_table *t, uint32_t cap, uint64_t width)
{
	t->cap = cap;
	t->at = add_array(size, (uint64_t)cap + 1, width);
}

void lend_store_lay_out(struct lend_store *s, const struct lend_store_config *c)
{
	/* One node covers 64 pages. Small and sparse objects waste some: the edges of a range can
	 * take two nodes per level. */
	uint32_t nodes = c->pages / 16 + lend_min_u32(c->objects, c->pages) / 4 + 256;
	uint64_t size = lend_align_up(sizeof(*s), 64);

	s->page_bits = (uint32_t)__builtin_ctz(c->page);
	s->hold_mask = bucket_count(c->holds) - 1;
	s->client_mask = bucket_count(c->clients) - 1;
	add_table(&size, &s->frame, c->pages, sizeof(struct lend_frame));
	add_table(&size, &s->node, nodes, sizeof(struct lend_node));
	add_table(&size, &s->object, c->objects, sizeof(struct lend_object));
	add_table(&size, &s->hold, c->holds, sizeof(struct lend_hold));
	add_table(&size, &s->grant, c->grants, sizeof(struct lend_grant));
	add_table(&size, &s->client, c->clients, sizeof(struct lend_client));
	add_table(&size, &s->incarnation, c->incarnations, sizeof(struct lend_incarnation));
	add_table(&size, &s->placement, c->placements, sizeof(struct lend_placement));
	add_table(&size, &s->mapper, c->clients, sizeof(struct lend_mapper));
	size = lend_align_up(lend_free_lay_out(&s->free, c->pages, size), 64);
	s->sums = add_array(&size, c->checksum ? (uint64_t)c->pages + 1 : 0, sizeof(uint32_t));
	s->node_refs = add_array(&size, (uint64_t)nodes + 1, sizeof(uint32_t));
	s->hold_buckets = add_array(&size, (uint64_t)s->hold_mask + 1, sizeof(uint32_t));
	s->client_buckets = add_array(&size, (uint64_t)s->client_mask + 1, sizeof(uint32_t));
	s->heap = add_array(&size, c->grants, sizeof(uint32_t));
	s->records = add_array(&size, (uint64_t)c->clients * c->open, sizeof(struct lend_record));
	s->tenants = add_array(&size, lend_max_u32(c->tenants, 1), sizeof(struct lend_tenant));
	s->undo_cap = lend_min_u32(LEND_MEM_BATCH_MAX, c->holds + c->grants) * 4 + LEND_UNDO_SPARE;
	s->undo = add_array(&size, s->undo_cap, sizeof(struct lend_undo));
	s->size = size;
}

uint64_t lend_store_layout(void)
{
	const uint64_t facts[] = {
	    LAYOUT_VERSION,
	    LEND_FAN,
	    sizeof(struct lend_store),
	    sizeof(struct lend_memstats),
	    sizeof(struct lend_store_config),
	    offsetof(struct lend_store, frame),
	    sizeof(struct lend_free),
	    sizeof(struct lend_frame),
	    sizeof(struct lend_node),
	    sizeof(struct lend_object),
	    sizeof(struct lend_hold),
	    sizeof(struct lend_grant),
	    sizeof(struct lend_record),
	    sizeof(struct lend_client),
	    sizeof(struct lend_incarnation),
	    sizeof(struct lend_placement),
	    sizeof(struct lend_mapper),
	    sizeof(struct lend_tenant),
	};
	uint64_t h = UINT64_C(0x4c656e6453746f72);

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		h = (h ^ facts[i]) * UINT64_C(0x9e3779b97f4a7c15) + (h >> 29);
	return h;
}
