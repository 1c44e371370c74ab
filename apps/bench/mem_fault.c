/* mem_fault - spaces as memory: how long a touch waits, compared with a get of the same page, and
 * how fast a scan is, compared with a get of the whole object.
 * Layer: apps. Threads: one, and those of the client of the memory node. */
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/memnode_bench.h"
#include "apps/common/memnode.h"

enum { GET, TOUCH, HIT, STORE, TIMES };
static const char *const times[] = {"get", "touch", "hit", "store"};
/* A scan touches each cache line once, in order. */
enum { SCAN, SCAN_HIT, PREFETCH, GET_ALL, SEAL, SPEEDS };
static const char *const speeds[] = {"scan", "scan_hit", "prefetch", "get_all", "seal"};

enum { PAGE = 4096, TOUCHES = 1024, LINE = 64, STEP = 769 };
#define LEAST UINT64_C(65536)
#define MOST  (UINT64_C(1) << 30)

struct bench {
	struct app_memory_args args;
	struct app_memory m;
	uint64_t size, pages, touches;
	char *bytes, *into; /* content of the snapshot; result of gets */
	struct lend_ref ref;
	lend_space space;
	volatile char *at; /* memory of the space */
	struct lend_hist hist[TIMES];
	uint64_t moved[SPEEDS], ticks[SPEEDS];
	uint64_t rounds, wrong_bytes, sum;
};

static void check_args(void *input)
{
	const struct bench *b = input;

	if (b->args.load.size < LEAST || b->args.load.size > MOST)
		app_bad("--size: the snapshot's, give 64K to 1G");
	if (b->args.plot)
		app_bad("there is no table to draw: leave out --plot");
}

static void note_time(struct bench *b, int kind, uint64_t began)
{
	lend_hist_add(&b->hist[kind],
		      (uint64_t)((double)(app_ticks() - began) / app_ticks_per_ns()));
}

static void add_bytes(struct bench *b, int kind, uint64_t bytes, uint64_t ticks)
{
	b->moved[kind] += bytes;
	b->ticks[kind] += ticks;
}

/* Returns the i-th offset of a round: each in another page, far from the previous one. */
static uint64_t touch_offset(const struct bench *b, uint64_t i)
{
	return i * STEP % b->pages * PAGE + i % (PAGE / 8) * 8;
}

static void map_space(struct bench *b)
{
	struct app_timed t;

	(void)app_timed_end(
	    &b->m, &t, lend_space_map(b->m.mem, &b->ref, &b->space, app_timed_begin(&t)), "map");
	b->at = lend_space_pointer(b->m.mem, b->space);
	if (!b->at)
		app_die("%s", lend_why());
}

/* Maps the snapshot, with an empty cache of cache bytes. */
static void map_new(struct bench *b, uint64_t cache)
{
	if (lend_mem_cache_limit(cache) < 0)
		app_die("%s", lend_why());
	map_space(b);
}

/* Compares every byte, then unmaps the space. */
static void unmap_space(struct bench *b)
{
	struct app_timed t;

	if (memcmp((char *)(uintptr_t)b->at, b->bytes, b->size) != 0 ||
	    lend_space_intact(b->m.mem, b->space) < 0)
		b->wrong_bytes += b->size;
	(void)app_timed_end(&b->m, &t, lend_space_free(b->m.mem, b->space, app_timed_begin(&t)),
			    "free");
}

static void touch_pages(struct bench *b, int kind)
{
	for (uint64_t i = 0; i < b->touches; i++) {
		uint64_t began = app_ticks();

		b->sum += (unsigned char)b->at[touch_offset(b, i)];
		note_time(b, kind, began);
	}
}

static void store_pages(struct bench *b)
{
	struct app_timed t;
	uint64_t ticks;

	for (uint64_t i = 0; i < b->touches; i++) {
		uint64_t at = touch_offset(b, i), began = app_ticks();

		b->at[at] = (char)~b->bytes[at];
		note_time(b, STORE, began);
	}
	ticks = app_timed_end(
	    &b->m, &t, lend_space_seal(b->m.mem, b->space, 0, b->size, NULL, app_timed_begin(&t)),
	    "seal");
	add_bytes(b, SEAL, b->touches * PAGE, ticks);
	for (uint64_t i = 0; i < b->touches; i++)
		b->at[touch_offset(b, i)] = b->bytes[touch_offset(b, i)];
	b->ref = t.op.ref;
}

static void scan_space(struct bench *b, int kind)
{
	uint64_t began = app_ticks();

	for (uint64_t i = 0; i < b->size; i += LINE)
		b->sum += (unsigned char)b->at[i];
	add_bytes(b, kind, b->size, app_ticks() - began);
}

static void get_pages(struct bench *b)
{
	for (uint64_t i = 0; i < b->touches; i++) {
		struct iovec into = {b->into, PAGE};
		uint64_t at = touch_offset(b, i) / PAGE * PAGE;
		struct app_timed t;

		app_timed_add(&b->m, &t,
			      lend_get(b->m.mem, &b->ref, at, &into, 1, app_timed_begin(&t)), "get",
			      &b->hist[GET]);
		if (memcmp(b->into, b->bytes + at, PAGE) != 0)
			b->wrong_bytes += PAGE;
	}
}

static void get_all(struct bench *b)
{
	struct iovec into = {b->into, b->size};
	struct app_timed t;

	add_bytes(b, GET_ALL, b->size,
		  app_timed_end(&b->m, &t,
				lend_get(b->m.mem, &b->ref, 0, &into, 1, app_timed_begin(&t)),
				"get"));
	if (memcmp(b->into, b->bytes, b->size) != 0)
		b->wrong_bytes += b->size;
}

static void prefetch_space(struct bench *b)
{
	struct app_timed t;

	add_bytes(
	    b, PREFETCH, b->size,
	    app_timed_end(&b->m, &t,
			  lend_space_prefetch(b->m.mem, b->space, 0, b->size, app_timed_begin(&t)),
			  "prefetch"));
}

static void release_ref(struct bench *b, const struct lend_ref *ref)
{
	struct app_timed t;

	(void)app_timed_end(&b->m, &t, lend_release(b->m.mem, ref, 1, app_timed_begin(&t)),
			    "release");
}

static void one_round(struct bench *b)
{
	struct lend_ref whole = b->ref;

	get_pages(b);
	get_all(b);
	map_new(b, 0);
	touch_pages(b, TOUCH);
	unmap_space(b);
	map_new(b, b->size + PAGE);
	scan_space(b, SCAN);
	unmap_space(b);
	map_space(b);
	scan_space(b, SCAN_HIT);
	unmap_space(b);
	map_space(b);
	touch_pages(b, HIT);
	store_pages(b);
	release_ref(b, &b->ref);
	b->ref = whole;
	unmap_space(b);
	map_new(b, 0);
	prefetch_space(b);
	unmap_space(b);
	b->rounds++;
}

static double scan_speed(const struct bench *b, int kind)
{
	return b->ticks[kind]
		   ? (double)b->moved[kind] / ((double)b->ticks[kind] / app_ticks_per_ns())
		   : 0;
}

static void report_times(const struct bench *b, struct app_report *r)
{
	static const char *const meaning[] = {
	    "us, a get of 4 KiB into a buffer", "us, a touch of a page that must be fetched",
	    "us, a touch of a page in the cache", "us, a first store to a page that is present"};
	bool ordered = true;

	for (int i = 0; i < TIMES; i++) {
		double p50 = app_hist_us(&b->hist[i], 0.5), p99 = app_hist_us(&b->hist[i], 0.99);

		r->prefix = times[i];
		app_report_num(r, "_p50_us", p50, 3, meaning[i]);
		app_report_num(r, "_p99_us", p99, 3, "us, 99 % took no longer");
		ordered = ordered && p50 <= p99 && p99 <= app_hist_us(&b->hist[i], 1);
	}
	r->prefix = "";
	app_report_bool(r, "check_order", ordered, "p50 <= p99 <= max, of each");
}

static void report_speeds(const struct bench *b, struct app_report *r)
{
	static const char *const meaning[] = {
	    "GB/s, a scan of the snapshot, no page cached", "GB/s, the same, all pages cached",
	    "GB/s, a prefetch of all of it", "GB/s, a get of all of it",
	    "GB/s, of a seal's stored pages, far from each other"};

	for (int i = 0; i < SPEEDS; i++) {
		r->prefix = speeds[i];
		app_report_num(r, "_gb_per_s", scan_speed(b, i), 3, meaning[i]);
	}
	r->prefix = "";
}

static void report_cache(struct app_report *r)
{
	struct lend_mem_cache_stat c;

	lend_mem_cache_stat_get(&c);
	app_report_int(r, "cache_hits", c.hits, "pages of the cache");
	app_report_int(r, "cache_misses", c.misses, "pages fetched");
	app_report_int(r, "cache_ahead", c.ahead, "of these, before a touch");
	app_report_int(r, "cache_evictions", c.evictions, "pages evicted");
	app_report_int(r, "prefetched", c.prefetched, "pages by lend_space_prefetch()");
	app_report_int(r, "faults", c.faults, "touches that waited");
	app_report_int(r, "stores", c.stores, "first stores");
	app_report_int(r, "zeros", c.zeros, "pages that could not be fetched");
}

static void write_report(struct bench *b, double line)
{
	struct lend_mem_stat stat;
	struct app_report r;

	app_node_stat_idle(b->m.mem, &stat);
	app_report_begin(&r, b->args.load.json, "mem-fault: spaces as memory");
	report_times(b, &r);
	report_speeds(b, &r);
	report_cache(&r);
	app_report_int(&r, "rounds", b->rounds, "");
	app_report_int(&r, "wrong_bytes", b->wrong_bytes, "of every way to read them (memcmp)");
	app_report_int(&r, "pages_used_after", stat.pages_used, "on the node");
	app_report_int(&r, "size", b->size, "bytes of the snapshot");
	app_report_int(&r, "touches", b->touches, "of each kind and round");
	app_report_carrier(&r, b->args.load.carrier);
	app_report_bool(&r, "pool", b->args.pool, "the node shares its pages");
	app_report_num(&r, "line_ns_before", line, 1, "ns, round trip of a cache line");
	app_report_text(&r, "distance_before", app_cacheline_name(line),
			"distance of the two CPUs");
	app_report_end(&r);
}

static void run_rounds(struct bench *b)
{
	double line = app_cacheline_ns(app_cpu(0), app_cpu(1));
	struct iovec data;
	struct app_timed t;
	lend_ns began;

	b->size = b->args.load.size;
	b->pages = b->size / PAGE;
	b->touches = b->pages < TOUCHES ? b->pages : TOUCHES;
	b->bytes = malloc(b->size);
	b->into = malloc(b->size);
	if (!b->bytes || !b->into)
		app_die("no memory for --size %llu; give a smaller one",
			(unsigned long long)b->size);
	for (uint64_t i = 0; i + 8 <= b->size; i += 8)
		memcpy(b->bytes + i, &(uint64_t){(i + 1) * 0x9e3779b97f4a7c15u}, 8);
	memset(b->bytes + b->size / 8 * 8, 1, b->size % 8);
	app_memory_open(&b->m, &b->args, (64 << 20) + 4 * b->size);
	for (int i = 0; i < TIMES; i++)
		lend_hist_init(&b->hist[i]);
	data = (struct iovec){b->bytes, b->size};
	(void)app_timed_end(&b->m, &t, lend_put(b->m.mem, &data, 1, NULL, app_timed_begin(&t)),
			    "put");
	b->ref = t.op.ref;
	began = app_now();
	do {
		one_round(b);
		app_progress(began, (double)(app_now() - began), (double)b->args.load.time);
	} while (app_now() < began + b->args.load.time);
	app_progress_clear();
	release_ref(b, &b->ref);
	write_report(b, line);
	app_memory_close(&b->m);
	free(b->bytes);
	free(b->into);
}

static const char doc[] = "How long a touch of a page waits when it must be fetched or is cached, "
			  "compared with a get; how fast a scan fetches, compared with a prefetch "
			  "and a get of everything; the cost of a first store.\v"
			  "Every byte is compared after each use.\n\n"
			  "  lend bench mem-fault --carrier udp --size 64M\n"
			  "  lend bench mem-fault --size 256M --json";

int app_mem_fault(int argc, char **argv)
{
	static struct bench b = {.args = {.load = APP_LOAD_ARGS_INIT}};
	static const struct lend_syntax syntax = {.child = &app_memory_syntax,
						  .child_at = offsetof(struct bench, args),
						  .some = APP_MEMORY_LOAD,
						  .check = check_args,
						  .doc = doc};

	b.args.load.size = 64 << 20;
	app_options_read(&syntax, argc, argv, &b);
	run_rounds(&b);
	return b.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
