/* crash_consistency_sum - see crash_consistency_sum.h. */
#include "kill/crash_consistency_sum.h"

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 31;
}

static uint64_t tuple(uint64_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	const uint64_t t[] = {kind, a, b, c, d};

	return mix(UINT64_C(0xcbf29ce484222325), t, sizeof(t));
}

static uint32_t frame_of(const struct lend_store *s, const struct lend_view *v, uint64_t page)
{
	uint32_t id = v->root;

	for (uint32_t level = v->height; level && id; level--)
		id = lend_node_at(s, id)->child[page >> (LEND_FAN_BITS * (level - 1)) & 63];
	return id;
}

static uint64_t bytes_of(const struct lend_store *s, uint32_t object,
			 const struct torn_known *known)
{
	static uint8_t all[TORN_LEN_MAX + LEND_MEM_PAGE];
	struct lend_view v = lend_object_view(s, object);
	uint64_t end = v.base + v.len;

	for (uint64_t at = 0; at < end; at += LEND_MEM_PAGE)
		memcpy(all + at, lend_page(s, frame_of(s, &v, at / LEND_MEM_PAGE)), LEND_MEM_PAGE);
	if (lend_object_at(s, object)->serial == known->serial)
		memset(all + v.base + known->from, 0, known->to - known->from);
	return mix(1, all + v.base, v.len);
}

static uint64_t name_of(const struct lend_store *s, uint32_t client)
{
	const struct lend_client *c = lend_client_at(s, client);

	return mix(c->number, lend_incarnation_at(s, c->incarnation)->id, 16);
}

static uint64_t records_of(const struct lend_store *s, uint32_t client,
			   const struct torn_known *known)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->config.open; i++) {
		const struct lend_record *r = (const struct lend_record *)lend_at(s, s->records) +
					      (size_t)(client - 1) * s->config.open + i;

		for (uint32_t p = 0; p < known->n && r->id; p++)
			if (known->client[p].number == lend_client_at(s, client)->number &&
			    r->id >= known->client[p].low)
				sum += mix(name_of(s, client), r, sizeof(*r));
	}
	return sum;
}

uint64_t torn_sum(const struct lend_store *s, const struct torn_known *known)
{
	uint64_t sum = 0;

	for (uint32_t i = 1; i <= s->client.top; i++)
		if (lend_client_at(s, i)->live)
			sum += tuple(1, name_of(s, i), 0, 0, 0) + records_of(s, i, known);
	for (uint32_t i = 1; i <= s->object.top; i++) {
		const struct lend_object *o = lend_object_at(s, i);

		if (o->serial)
			sum += tuple(2, o->serial, o->kind, bytes_of(s, i, known),
				     o->kind == LEND_OBJECT_SPACE ? name_of(s, o->client) : 0);
	}
	for (uint32_t i = 1; i <= s->hold.top; i++) {
		const struct lend_hold *h = lend_hold_at(s, i);

		if (h->object)
			sum += tuple(3, lend_object_at(s, h->object)->serial, name_of(s, h->client),
				     0, 0);
	}
	for (uint32_t i = 1; i <= s->grant.top; i++) {
		const struct lend_grant *g = lend_grant_at(s, i);

		if (g->serial)
			sum += tuple(4, g->serial, lend_object_at(s, g->object)->serial, g->left,
				     g->expires);
	}
	return sum;
}
