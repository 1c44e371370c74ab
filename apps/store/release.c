/* release - see release.h. */
#include "apps/store/release.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "mn/store/exec.h"
#include "util/bits.h"
#include "util/check.h"

/* One client of one store. */
struct owner {
	struct lend_store *store;
	struct lend_store_config config;
	void *pages;
	struct lend_store_peer peer;
	uint64_t id;
	struct lend_store_out out;
};

static void *map_pages(uint64_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		app_die("%llu bytes for a store: %s; give a smaller --size",
			(unsigned long long)len, strerror(errno));
	(void)madvise(at, len, MADV_HUGEPAGE);
	return at;
}

static const uint8_t *send_op(struct owner *o, struct lend_memop *op, const void *payload,
			      uint64_t len)
{
	uint8_t head[LEND_MEMOP_FIXED_MAX];
	struct lend_store_seg seg[] = {{head, 0}, {(void *)(uintptr_t)payload, len}};
	struct lend_store_in in = {.peer = &o->peer, .seg = seg, .n = len ? 2 : 1};

	op->client = 1;
	op->life = o->peer.life;
	op->client = 1;
	op->low = o->id;
	op->id = lend_memop_recorded(op->kind) ? o->id++ : 0;
	seg[0].len = lend_memop_encode(op, head);
	LEND_CHECK(lend_store_exec(o->store, 0, &in, &o->out) == LEND_MEM_OK);
	return o->out.head;
}

static void open_store(struct owner *o, uint64_t bytes, uint32_t page)
{
	struct lend_memop op = {.kind = LEND_MEMOP_HELLO};

	page = page ? page : LEND_MEM_PAGE;
	lend_store_config_default(&o->config, bytes + (1 << 20) + page, page);
	o->config.node = o->config.epoch = 1;
	o->config.clients = o->config.incarnations = 1;
	LEND_CHECK(lend_store_size(&o->config) > 0);
	o->pages = map_pages(lend_store_pages_size(&o->config));
	o->store = lend_store_init(map_pages(lend_store_size(&o->config)), &o->config, o->pages, 0);
	o->id = 1;
	(void)send_op(o, &op, NULL, 0);
}

static void close_store(struct owner *o)
{
	munmap(o->store, lend_store_size(&o->config));
	munmap(o->pages, lend_store_pages_size(&o->config));
}

/* Makes a reference to a snapshot of a new space; sealing consumes the space. */
static void put_snapshot(struct owner *o, uint64_t bytes, uint8_t ref[LEND_MEMREF_LEN])
{
	static uint8_t some[1 << 20];
	struct lend_memop alloc = {.kind = LEND_MEMOP_ALLOC, .len = bytes};
	struct lend_memop write = {.kind = LEND_MEMOP_WRITE};
	struct lend_memop seal = {
	    .kind = LEND_MEMOP_SEAL, .flags = LEND_MEMOP_CONSUME, .len = bytes};

	memset(some, 1, sizeof(some));
	LEND_CHECK(lend_memspace_decode(send_op(o, &alloc, NULL, 0), 16, &write.space));
	seal.space = write.space;
	for (; write.offset < bytes; write.offset += write.len) {
		write.len = lend_min_u64(sizeof(some), bytes - write.offset);
		(void)send_op(o, &write, some, write.len);
	}
	memcpy(ref, send_op(o, &seal, NULL, 0), LEND_MEMREF_LEN);
}

static uint64_t used_pages(const struct owner *o)
{
	struct lend_memstats stats;

	lend_store_stats(o->store, &stats);
	return stats.pages_used;
}

static double us_since(lend_ns began)
{
	return (double)(app_cpu_now() - began) / 1e3;
}

void app_release_run(uint64_t bytes, uint32_t page, struct app_release *out)
{
	static struct owner o;
	struct lend_memop release = {.kind = LEND_MEMOP_RELEASE, .n = 1};
	uint8_t ref[LEND_MEMREF_LEN];
	uint64_t before, now;
	lend_ns began;
	double all;

	*out = (struct app_release){.turns = 1};
	open_store(&o, bytes, page);
	put_snapshot(&o, bytes, ref);
	before = out->frames = used_pages(&o);
	began = app_cpu_now();
	(void)send_op(&o, &release, ref, sizeof(ref));
	out->first_us = all = us_since(began);
	now = used_pages(&o);
	out->frames_per_turn = before - now;
	for (; now && out->turns <= out->frames; out->turns++) {
		before = now;
		began = app_cpu_now();
		lend_store_tick(o.store, 0);
		all += us_since(began);
		now = used_pages(&o);
		out->frames_per_turn = lend_max_u64(out->frames_per_turn, before - now);
	}
	out->ns_per_frame = all * 1e3 / (double)out->frames;
	out->turn_us = all / (double)out->turns;
	close_store(&o);
}
