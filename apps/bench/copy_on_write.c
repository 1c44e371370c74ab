/* copy_on_write - the cost of changing a few pages of an object: by copy-on-write, and by copying
 * the whole object. Layer: apps. Threads: one. */
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/memnode_bench.h"
#include "apps/common/chart.h"
#include "util/bits.h"

enum { PAGE = 4096, WRITES_MAX = 8, CHANGED = 64, SIZE_MAX_HERE = 1 << 20, SEED = 13 };
enum { COW, EAGER, WAYS };

/* The results for one number of written pages. All rows are measured in turns, so that machine
 * conditions are the same for all. */
struct row {
	unsigned writes;
	struct lend_hist hist[WAYS];
	uint64_t copied; /* pages that the node copied for these writes */
};

struct cow {
	struct app_memory_args args;
	struct app_memory m;
	struct row row[WRITES_MAX];
	unsigned rows;
	struct lend_ref object;
	uint64_t rounds, wrong;
	char *original, *want, *got; /* --size bytes each */
};

static void check_args(void *input)
{
	uint64_t size = ((const struct cow *)input)->args.load.size;

	if (size < PAGE || size > SIZE_MAX_HERE || size % PAGE)
		app_bad("--size: give whole pages, 4K to 1M");
}

/* Returns the offset of the k-th write: each is in a page of its own, CHANGED bytes at varying
 * offsets. */
static uint64_t write_offset(const struct cow *c, unsigned k)
{
	uint64_t pages = c->args.load.size / PAGE;

	return (c->rounds + k) % pages * PAGE + (c->rounds * 192 + k * 64) % (PAGE - CHANGED + 1);
}

/* Applies the writes of this round to a local copy, the expected content of the object. */
static void apply_writes(const struct cow *c, char *bytes, unsigned writes)
{
	for (unsigned k = 0; k < writes; k++)
		memset(bytes + write_offset(c, k), (int)(1 + (c->rounds + k) % 255), CHANGED);
}

static void add_time(struct row *row, int way, uint64_t began)
{
	lend_hist_add(&row->hist[way],
		      (uint64_t)((double)(app_ticks() - began) / app_ticks_per_ns()));
}

static void release_ref(struct cow *c, const struct lend_ref *ref)
{
	struct app_timed t;

	(void)app_timed_end(&c->m, &t, lend_release(c->m.mem, ref, 1, app_timed_begin(&t)),
			    "release");
}

/* Compares every byte of an object with the expected content. */
static void check_object(struct cow *c, const struct lend_ref *ref, const char *want)
{
	struct iovec got = {c->got, c->args.load.size};
	struct app_timed t;

	memset(c->got, 0xff, c->args.load.size);
	(void)app_timed_end(&c->m, &t, lend_get(c->m.mem, ref, 0, &got, 1, app_timed_begin(&t)),
			    "get");
	for (uint64_t i = 0; i < c->args.load.size; i++)
		c->wrong += c->got[i] != want[i];
}

/* Makes a new object by map, concurrent writes and seal. It shares the pages that were not written.
 */
static struct lend_ref by_cow(struct cow *c, struct row *row)
{
	struct app_timed map, write[WRITES_MAX], seal, end;
	struct iovec data[WRITES_MAX];
	uint64_t began = app_ticks();
	lend_space copy;

	(void)app_timed_end(
	    &c->m, &map, lend_space_map(c->m.mem, &c->object, &copy, app_timed_begin(&map)), "map");
	for (unsigned k = 0; k < row->writes; k++) {
		data[k] = (struct iovec){c->want + write_offset(c, k), CHANGED};
		if (lend_space_write(c->m.mem, copy, write_offset(c, k), &data[k], 1,
				     app_timed_begin(&write[k])) < 0)
			app_die("write: %s", lend_why());
	}
	(void)app_timed_end(
	    &c->m, &seal,
	    lend_space_seal(c->m.mem, copy, 0, c->args.load.size, NULL, app_timed_begin(&seal)),
	    "seal");
	for (unsigned k = 0; k < row->writes; k++)
		(void)app_timed_end(&c->m, &write[k], 0, "write");
	(void)app_timed_end(&c->m, &end, lend_space_free(c->m.mem, copy, app_timed_begin(&end)),
			    "free");
	add_time(row, COW, began);
	return seal.op.ref;
}

/* Makes a new object by get, local writes and put. It shares no pages. */
static struct lend_ref by_copy(struct cow *c, struct row *row)
{
	struct iovec all = {c->got, c->args.load.size};
	struct app_timed t;
	uint64_t began = app_ticks();

	(void)app_timed_end(&c->m, &t,
			    lend_get(c->m.mem, &c->object, 0, &all, 1, app_timed_begin(&t)), "get");
	apply_writes(c, c->got, row->writes);
	(void)app_timed_end(&c->m, &t, lend_put(c->m.mem, &all, 1, NULL, app_timed_begin(&t)),
			    "put");
	add_time(row, EAGER, began);
	return t.op.ref;
}

static uint64_t copied_pages(struct cow *c)
{
	struct lend_mem_stat stat;

	app_memory_stat(&c->m, &stat);
	return stat.cow_copies;
}

static void one_round(struct cow *c, struct row *row)
{
	uint64_t before = copied_pages(c);
	struct lend_ref ref;

	memcpy(c->want, c->original, c->args.load.size);
	apply_writes(c, c->want, row->writes);
	ref = by_cow(c, row);
	row->copied += copied_pages(c) - before;
	check_object(c, &ref, c->want);
	release_ref(c, &ref);
	ref = by_copy(c, row);
	check_object(c, &ref, c->want);
	release_ref(c, &ref);
}

static void measure_size(struct cow *c)
{
	struct iovec all = {c->original, c->args.load.size};
	lend_ns began = app_now();
	struct app_timed t;

	memcpy(c->original, app_pattern(1, c->args.load.size), c->args.load.size);
	(void)app_timed_end(&c->m, &t, lend_put(c->m.mem, &all, 1, NULL, app_timed_begin(&t)),
			    "put");
	c->object = t.op.ref;
	do {
		for (unsigned i = 0; i < c->rows; i++)
			one_round(c, &c->row[i]);
		check_object(c, &c->object, c->original);
		c->rounds++;
		app_progress(began, (double)(app_now() - began), (double)c->args.load.time);
	} while (app_now() < began + c->args.load.time);
	release_ref(c, &c->object);
	app_progress_clear();
}

static bool is_ordered(const struct cow *c)
{
	bool ordered = true;

	for (unsigned i = 0; i < c->rows; i++)
		for (int k = 0; k < WAYS; k++)
			ordered = ordered && app_hist_is_ordered(&c->row[i].hist[k]);
	return ordered;
}

static void write_report(struct cow *c)
{
	static const char *const columns[] = {"pages_written", "cow_us",       "cow_p99_us",
					      "eager_us",      "eager_p99_us", "pages_copied"};
	double cell[WRITES_MAX][6] = {{0}};
	struct lend_mem_stat stat;
	struct app_report r;

	for (unsigned i = 0; i < c->rows; i++) {
		const struct row *row = &c->row[i];

		cell[i][0] = row->writes;
		for (int k = 0; k < WAYS; k++) {
			cell[i][1 + 2 * k] = app_hist_us(&row->hist[k], 0.5);
			cell[i][2 + 2 * k] = app_hist_us(&row->hist[k], 0.99);
		}
		cell[i][5] = (double)row->copied / (double)c->rounds;
	}
	app_memory_stat_idle(&c->m, &stat);
	app_report_begin(&r, c->args.load.json, "cow: a new object with some pages changed");
	app_report_int(&r, "bytes_wrong", c->wrong,
		       "of all objects, new and old, compared completely");
	app_report_num(&r, "cow_us", cell[0][1], 3, "us, map, write of one page, seal, free");
	app_report_num(&r, "eager_us", cell[0][3], 3, "us, get, write of one page, put");
	app_report_num(&r, "eager_over_cow", cell[0][3] / cell[0][1], 2, "");
	app_report_num(&r, "pages_copied", cell[0][5], 2, "by the node, for that one");
	app_report_int(&r, "rounds", c->rounds, "of each");
	app_report_bool(&r, "check_order", is_ordered(c), "p50 <= p99 <= max, of each");
	app_report_int(&r, "pages_used_after", stat.pages_used, "on the node");
	app_report_int(&r, "size", c->args.load.size, "bytes of the object");
	app_report_carrier(&r, c->args.load.carrier);
	app_report_bool(&r, "pool", c->args.pool, "the node shares its pages");
	app_report_table(&r, &(struct app_table){"writes", columns, 6, c->rows, cell[0]});
	app_report_end(&r);
}

static void plot_rows(const struct cow *c)
{
	double x[WRITES_MAX], y[WAYS][WRITES_MAX];
	const struct chart chart = {"Median time of a new object with some pages changed",
				    "bytes of the pages written",
				    .x = {PAGE_SIZE, .log = true},
				    .y = {PAGE_US, .log = true},
				    .line = {{"copy on write", x, y[COW], c->rows, CHART_REF},
					     {"full copy", x, y[EAGER], c->rows, CHART_VALUE}},
				    .lines = WAYS};

	for (unsigned i = 0; i < c->rows; i++) {
		x[i] = (double)c->row[i].writes * PAGE;
		for (int k = 0; k < WAYS; k++)
			y[k][i] = app_hist_us(&c->row[i].hist[k], 0.5);
	}
	app_memory_plot(&c->args, &chart);
}

static char *take_bytes(uint64_t size)
{
	char *bytes = malloc(size);

	if (!bytes)
		app_die("no memory for --size %llu; give a smaller one", (unsigned long long)size);
	return bytes;
}

static const char doc[] =
    "Cost of a new object that differs from another one in 1 to 8 pages: by copy on write (map, "
    "writes, seal) and by a full copy (get, writes, put).\v"
    "Each write changes 64 bytes somewhere in a page. Every byte of the new objects and of the old "
    "one is compared in every round.\n\n"
    "  lend bench cow --carrier shm --size 32K\n"
    "  lend bench cow --carrier udp --plot cow.svg --json";

int app_cow(int argc, char **argv)
{
	static struct cow c = {.args = {.load = APP_LOAD_ARGS_INIT}};
	static const struct lend_syntax syntax = {.child = &app_memory_syntax,
						  .child_at = offsetof(struct cow, args),
						  .some = APP_MEMORY_LOAD,
						  .check = check_args,
						  .doc = doc};

	c.args.load.size = 32 << 10;
	app_options_read(&syntax, argc, argv, &c);
	c.rows = (unsigned)lend_min_u64(WRITES_MAX, c.args.load.size / PAGE);
	for (unsigned i = 0; i < c.rows; i++) {
		c.row[i].writes = i + 1;
		for (int k = 0; k < WAYS; k++)
			lend_hist_init(&c.row[i].hist[k]);
	}
	app_pattern_init(SEED, c.args.load.size);
	c.original = take_bytes(c.args.load.size);
	c.want = take_bytes(c.args.load.size);
	c.got = take_bytes(c.args.load.size);
	app_memory_open(&c.m, &c.args, 64 << 20);
	measure_size(&c);
	write_report(&c);
	app_memory_close(&c.m);
	if (c.args.plot)
		plot_rows(&c);
	free(c.original);
	free(c.want);
	free(c.got);
	return c.wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
