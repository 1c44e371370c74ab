/* Goal: an invalid config has size 0, whichever field is wrong; the nearest valid one has a size.
 * Method: a valid config of each kind; one field at a time at its limit and one past it. Covers:
 * src/core/core.c, mn/store/store.c, mn/store/layout.c */
#include <criterion/criterion.h>
#include <string.h>

#include "core/cc.h"
#include "core/core.h"
#include "mn/store/exec.h"

/* A field's limit and one past it; the field by offset and width. */
struct limit {
	const char *name;
	size_t at, width;
	uint64_t bad, good;
};
#define LIMIT(type, field, bad, good)                                                              \
	{                                                                                          \
#field, offsetof(struct type, field), sizeof(((struct type *)0)->field), bad, good \
	}

static void set_field(void *config, const struct limit *l, uint64_t value)
{
	memcpy((char *)config + l->at, &value, l->width);
}

static struct lend_core_config good_core(void)
{
	struct lend_core_config c = {.sessions = 2,
				     .calls = 2,
				     .inflight = 2,
				     .reassemblies = 2,
				     .message_max = 1000,
				     .unscheduled = 65536,
				     .probe = 5,
				     .dead = 10};

	return c;
}

Test(config, core_fields_have_limits)
{
	static const struct limit limit[] = {
	    LIMIT(lend_core_config, sessions, 0, 1),
	    LIMIT(lend_core_config, sessions, (1u << 20) + 1, 1u << 20),
	    LIMIT(lend_core_config, calls, 0, 1),
	    LIMIT(lend_core_config, calls, 1025, 1024),
	    LIMIT(lend_core_config, inflight, 0, 1),
	    LIMIT(lend_core_config, inflight, (1u << 20) + 1, 1u << 20),
	    LIMIT(lend_core_config, reassemblies, 0, 1),
	    LIMIT(lend_core_config, reassemblies, (1u << 20) + 1, 1u << 20),
	    LIMIT(lend_core_config, message_max, 0, 1),
	    LIMIT(lend_core_config, message_max, (1u << 30) + 1, 1u << 30),
	    LIMIT(lend_core_config, unscheduled, 4095, 4096),
	    LIMIT(lend_core_config, unscheduled, (1u << 20) + 1, 1u << 20),
	    LIMIT(lend_core_config, probe, 0, 1),
	    LIMIT(lend_core_config, dead, 4, 5),
	    LIMIT(lend_core_config, congestion, LEND_CC_KINDS, LEND_CC_KINDS - 1),
	    LIMIT(lend_core_config, order, LEND_ORDER_FAIR + 1, LEND_ORDER_FAIR),
	};

	for (size_t i = 0; i < sizeof(limit) / sizeof(limit[0]); i++) {
		struct lend_core_config c = good_core();

		set_field(&c, &limit[i], limit[i].bad);
		cr_expect_eq(lend_core_size(&c), 0, "%s past its limit", limit[i].name);
		set_field(&c, &limit[i], limit[i].good);
		cr_expect_neq(lend_core_size(&c), 0, "%s at its limit", limit[i].name);
	}
}

static struct lend_store_config good_store(void)
{
	struct lend_store_config c;

	lend_store_config_default(&c, 1 << 20, LEND_MEM_PAGE);
	c.objects = c.holds = c.grants = c.clients = c.incarnations = c.placements = 8;
	c.open = 8;
	c.workers = 64;
	return c;
}

Test(config, store_fields_have_limits)
{
	static const struct limit limit[] = {
	    LIMIT(lend_store_config, pages, 0, 1),
	    LIMIT(lend_store_config, pages, LEND_STORE_PAGES_MAX + 1, LEND_STORE_PAGES_MAX),
	    LIMIT(lend_store_config, page, 2048, 4096),
	    LIMIT(lend_store_config, page, 12288, 16384),
	    LIMIT(lend_store_config, page, 4 << 20, 2 << 20),
	    LIMIT(lend_store_config, objects, 0, 1),
	    LIMIT(lend_store_config, objects, 1u << 24, (1u << 24) - 1),
	    LIMIT(lend_store_config, holds, 0, 1),
	    LIMIT(lend_store_config, grants, 0, 1),
	    LIMIT(lend_store_config, clients, 0, 1),
	    LIMIT(lend_store_config, clients, 1u << 16, (1u << 16) - 1),
	    LIMIT(lend_store_config, incarnations, 0, 1),
	    LIMIT(lend_store_config, placements, 4097, 4096),
	    LIMIT(lend_store_config, open, 0, 1),
	    LIMIT(lend_store_config, open, LEND_MEM_OPEN_MAX * 2, LEND_MEM_OPEN_MAX),
	    LIMIT(lend_store_config, open, 12, 16),
	    LIMIT(lend_store_config, reap, 0, 1),
	    LIMIT(lend_store_config, worker, 64, 63),
	    LIMIT(lend_store_config, workers, 65, 64),
	    LIMIT(lend_store_config, workers, 0, 1),
	    LIMIT(lend_store_config, lease, 0, 1),
	    LIMIT(lend_store_config, lease, LEND_MEM_TTL_MAX, LEND_MEM_TTL_MAX - 1),
	    LIMIT(lend_store_config, revive, LEND_MEM_TTL_MAX, LEND_MEM_TTL_MAX - 1),
	};

	for (size_t i = 0; i < sizeof(limit) / sizeof(limit[0]); i++) {
		struct lend_store_config c = good_store();

		set_field(&c, &limit[i], limit[i].bad);
		cr_expect_eq(lend_store_size(&c), 0, "%s past its limit", limit[i].name);
		set_field(&c, &limit[i], limit[i].good);
		cr_expect_neq(lend_store_size(&c), 0, "%s at its limit", limit[i].name);
	}
}

Test(config, store_addresses_have_a_limit)
{
	struct lend_store_config c = good_store();
	char text[LEND_MEMOP_TEXT_MAX + 2];

	memset(text, 'a', sizeof(text));
	text[LEND_MEMOP_TEXT_MAX + 1] = '\0';
	c.addresses = text;
	cr_expect_eq(lend_store_size(&c), 0);
	text[LEND_MEMOP_TEXT_MAX] = '\0';
	cr_expect_neq(lend_store_size(&c), 0);
}
