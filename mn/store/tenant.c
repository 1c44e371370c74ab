#include "mn/store/tenant.h"

#include "util/bits.h"
#include "util/check.h"

static bool within_max(uint64_t used, uint64_t more, uint64_t max)
{
	return more == 0 || (used <= max && more <= max - used);
}

bool lend_tenant_room(struct lend_store *s, uint32_t tenant, uint64_t pages, uint32_t refs)
{
	const struct lend_tenant *t = lend_tenant_at(s, tenant);

	if (within_max(t->use.pages, pages, t->quota.pages) &&
	    within_max(t->use.refs, refs, t->quota.refs))
		return true;
	s->counts.over_quota++;
	return false;
}

uint64_t lend_tenant_limit(const struct lend_store *s, uint32_t tenant, uint64_t charge)
{
	const struct lend_tenant *t = lend_tenant_at(s, tenant);
	uint64_t room = t->use.pages < t->quota.pages ? t->quota.pages - t->use.pages : 0;

	return room > UINT64_MAX - charge ? UINT64_MAX : charge + room;
}

bool lend_tenant_pin_room(struct lend_store *s, uint32_t tenant, uint64_t pages)
{
	const struct lend_tenant *t = lend_tenant_at(s, tenant);

	if (t->use.pinned == 0 || within_max(t->use.pinned, pages, t->quota.pages))
		return true;
	s->counts.over_quota++;
	return false;
}

uint64_t lend_charge_of(const struct lend_store *s, const struct lend_view *view, uint64_t pages)
{
	uint64_t from = lend_page_rest(s, view->base);
	uint64_t span = view->len ? lend_pages_of(s, from + view->len) : 0;

	return lend_min_u64(lend_min_u64(pages, span), s->config.pages);
}

static bool is_payer(const struct lend_object *o, uint32_t tenant)
{
	return o->stakes > 0 && o->payer == tenant;
}

uint64_t lend_stake_cost(const struct lend_store *s, uint32_t object, uint32_t tenant)
{
	const struct lend_object *o = lend_object_at(s, object);

	return is_payer(o, tenant) ? 0 : o->charge;
}

void lend_stake_add(struct lend_store *s, uint32_t object, uint32_t tenant)
{
	struct lend_object *o = lend_object_at(s, object);
	struct lend_tenant *t = lend_tenant_at(s, tenant);

	t->use.refs++;
	t->use.pages += lend_stake_cost(s, object, tenant);
	if (o->stakes == 0)
		o->payer = tenant & LEND_TENANT_MASK;
	o->stakes += o->payer == tenant;
}

/* When a tenant has stakes that it pays as payer and others, the former are dropped first. The
 * stakes of one tenant are interchangeable. */
void lend_stake_drop(struct lend_store *s, uint32_t object, uint32_t tenant)
{
	struct lend_object *o = lend_object_at(s, object);
	struct lend_tenant *t = lend_tenant_at(s, tenant);

	o->stakes -= is_payer(o, tenant);
	LEND_CHECK(t->use.refs > 0);
	t->use.refs--;
	if (is_payer(o, tenant))
		return;
	LEND_CHECK(t->use.pages >= o->charge);
	t->use.pages -= o->charge;
}

uint32_t lend_store_tenant(struct lend_store *store, uint64_t id,
			   const struct lend_store_quota *quota)
{
	for (uint32_t i = 1; i < store->config.tenants; i++) {
		struct lend_tenant *t = lend_tenant_at(store, i);

		if (t->id && t->id != id)
			continue;
		t->id = id;
		t->quota = *quota;
		return i;
	}
	return 0;
}

void lend_store_set_quota(struct lend_store *store, uint32_t tenant,
			  const struct lend_store_quota *quota)
{
	LEND_CHECK(tenant < store->config.tenants);
	lend_tenant_at(store, tenant)->quota = *quota;
}

void lend_store_usage(const struct lend_store *store, uint32_t tenant,
		      struct lend_store_usage *usage)
{
	LEND_CHECK(tenant < store->config.tenants);
	*usage = lend_tenant_at(store, tenant)->use;
}
