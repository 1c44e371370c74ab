/* mem_snapshot - how long seal, map, the first write and release take, by size.
 * Layer: apps. Threads: one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/mem_snapshot_load.h"
#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/memnode_bench.h"
#include "apps/common/chart.h"
#include "apps/store/release.h"
#include "util/bits.h"

enum { SEAL, MAP, WRITE, FREE, RELEASE, TIMES };
static const char *const names[] = {"seal", "map", "write", "free", "release"};
enum { SIZE_MIN = 4096, STEP = 16, SIZES_MAX = 8, CHUNK = 16 << 20, DROPS_MAX = 32, SEED = 11 };

/* The results for one size. Sizes take turns, so that machine conditions are equal for all. */
struct row {
	uint64_t size;
	char label[24]; /* "4k" */
	lend_space space;
	struct lend_hist hist[TIMES];
	double drain_us; /* from the release until the node uses no page of it */
};

struct snap {
	struct app_memory_args args;
	unsigned threads; /* with --threads or --window: of a load of snapshots */
	struct app_memory m;
	struct row row[SIZES_MAX];
	unsigned rows;
	uint64_t rounds, wrong_bytes;
	char *into;    /* CHUNK bytes */
	uint64_t idle; /* pages that other clients use on the node */
	struct app_release release;
};

static bool is_load(const struct snap *s)
{
	return s->threads || s->args.load.window > 1;
}

static void check_args(void *input)
{
	struct snap *s = input;
	const struct app_load_args *load = &s->args.load;

	if (!load->size)
		s->args.load.size = is_load(s) ? 1 << 20 : 1 << 30;
	if (load->size < 2 * SIZE_MIN)
		app_bad("--size: give the largest one, 8K to 1G");
	if (!is_load(s))
		return;
	s->args.load.size = lend_align_up(load->size, SIZE_MIN);
	if (load->one_thread || s->args.plot)
		app_bad("--threads and --window measure one size of several clients: leave out "
			"--one-thread and --plot");
	if (s->threads > 1 && load->carrier != APP_SHM && load->carrier != APP_UDP)
		app_bad("--threads: an endpoint each needs shm or udp");
}

static struct iovec chunk_of(const struct row *row, uint64_t at)
{
	uint64_t len = lend_min_u64(CHUNK, row->size - at);

	return (struct iovec){(void *)(uintptr_t)app_pattern(at / CHUNK, len), len};
}

static void alloc_space(struct snap *s, struct row *row)
{
	struct app_timed t;

	(void)app_timed_end(&s->m, &t,
			    lend_space_alloc(s->m.mem, row->size, &row->space, app_timed_begin(&t)),
			    "alloc");
	for (uint64_t at = 0; at < row->size; at += CHUNK) {
		struct iovec bytes = chunk_of(row, at);
		int rc = lend_space_write(s->m.mem, row->space, at, &bytes, 1, app_timed_begin(&t));

		(void)app_timed_end(&s->m, &t, rc, "write");
	}
}

static struct lend_ref seal_space(struct snap *s, struct row *row)
{
	struct app_timed t;

	app_timed_add(
	    &s->m, &t,
	    lend_space_seal(s->m.mem, row->space, 0, row->size, NULL, app_timed_begin(&t)), "seal",
	    &row->hist[SEAL]);
	return t.op.ref;
}

static lend_space map_snapshot(struct snap *s, struct row *row, const struct lend_ref *ref)
{
	struct app_timed t;
	lend_space copy;

	app_timed_add(&s->m, &t, lend_space_map(s->m.mem, ref, &copy, app_timed_begin(&t)), "map",
		      &row->hist[MAP]);
	return copy;
}

static void free_space(struct snap *s, struct row *row, lend_space space)
{
	struct app_timed t;

	app_timed_add(&s->m, &t, lend_space_free(s->m.mem, space, app_timed_begin(&t)), "free",
		      &row->hist[FREE]);
}

static uint64_t release_ref(struct snap *s, const struct lend_ref *ref)
{
	struct app_timed t;

	return app_timed_end(&s->m, &t, lend_release(s->m.mem, ref, 1, app_timed_begin(&t)),
			     "release");
}

/* Writes 8 bytes of a page: the present bytes XOR change (0: the same bytes). */
static void write_page(struct snap *s, struct row *row, lend_space space, uint64_t at,
		       uint64_t change)
{
	const char *bytes = chunk_of(row, at - at % CHUNK).iov_base;
	uint64_t word = lend_load_u64(bytes + at % CHUNK) ^ change;
	struct iovec data = {&word, sizeof(word)};
	struct app_timed t;

	app_timed_add(&s->m, &t,
		      lend_space_write(s->m.mem, space, at, &data, 1, app_timed_begin(&t)), "write",
		      &row->hist[WRITE]);
}

static uint64_t some_page(const struct snap *s, const struct row *row)
{
	return s->rounds * 7919 % (row->size / SIZE_MIN) * SIZE_MIN;
}

/* Seals, maps and writes. The map shares the snapshot's pages, so the first write to it copies a
 * page and its path in the page table. */
static void one_round(struct snap *s, struct row *row)
{
	struct lend_ref ref = seal_space(s, row);
	lend_space copy = map_snapshot(s, row, &ref);

	write_page(s, row, copy, some_page(s, row), 0);
	free_space(s, row, copy);
	(void)release_ref(s, &ref);
}

static void count_wrong(struct snap *s, const void *want, uint64_t len)
{
	if (!memcmp(s->into, want, len))
		return;
	for (uint64_t i = 0; i < len; i++)
		s->wrong_bytes += s->into[i] != ((const char *)want)[i];
}

static void compare_space(struct snap *s, const struct row *row, const struct lend_ref *ref)
{
	for (uint64_t at = 0; at < row->size; at += CHUNK) {
		struct iovec want = chunk_of(row, at), got = {s->into, want.iov_len};
		struct app_timed t;

		memset(s->into, 0, want.iov_len);
		(void)app_timed_end(
		    &s->m, &t, lend_get(s->m.mem, ref, at, &got, 1, app_timed_begin(&t)), "get");
		count_wrong(s, want.iov_base, want.iov_len);
	}
}

static void compare_word(struct snap *s, const struct row *row, lend_space space, uint64_t at,
			 uint64_t change)
{
	const char *bytes = chunk_of(row, at - at % CHUNK).iov_base;
	uint64_t want = lend_load_u64(bytes + at % CHUNK) ^ change;
	struct iovec got = {s->into, sizeof(want)};
	struct app_timed t;

	(void)app_timed_end(
	    &s->m, &t, lend_space_read(s->m.mem, space, at, &got, 1, app_timed_begin(&t)), "read");
	count_wrong(s, &want, sizeof(want));
}

/* Verifies that a snapshot does not change when its space and a map of it change. */
static void verify_snapshot(struct snap *s, struct row *row)
{
	struct lend_ref ref = seal_space(s, row);
	lend_space copy = map_snapshot(s, row, &ref);
	uint64_t last = row->size - SIZE_MIN;

	write_page(s, row, row->space, 0, 1);
	write_page(s, row, copy, last, 2);
	compare_space(s, row, &ref);
	compare_word(s, row, row->space, 0, 1);
	compare_word(s, row, row->space, last, last ? 0 : 1);
	compare_word(s, row, copy, last, 2);
	compare_word(s, row, copy, 0, last ? 0 : 2);
	free_space(s, row, copy);
	(void)release_ref(s, &ref);
	write_page(s, row, row->space, 0, 0);
}

static double us_since(uint64_t ticks)
{
	return (double)(app_ticks() - ticks) / app_ticks_per_ns() / 1e3;
}

/* Measures the release of the last reference to a filled space, and how long the node then takes to
 * free the pages. Small spaces are measured many times. */
static void drop_snapshot(struct snap *s, struct row *row)
{
	struct lend_ref ref = seal_space(s, row);
	struct lend_mem_stat stat;
	uint64_t began, ticks;

	free_space(s, row, row->space);
	began = app_ticks();
	ticks = release_ref(s, &ref);
	lend_hist_add(&row->hist[RELEASE], (uint64_t)((double)ticks / app_ticks_per_ns()));
	do
		app_memory_stat(&s->m, &stat);
	while (stat.pages_used > s->idle && us_since(began) < 1e7);
	row->drain_us = us_since(began);
}

static void measure_drops(struct snap *s)
{
	for (unsigned i = 0; i < s->rows; i++)
		free_space(s, &s->row[i], s->row[i].space);
	for (unsigned i = 0; i < s->rows; i++) {
		uint64_t n = lend_max_u64(1, lend_min_u64(DROPS_MAX, CHUNK / s->row[i].size));

		while (n--) {
			alloc_space(s, &s->row[i]);
			drop_snapshot(s, &s->row[i]);
		}
	}
}

static void measure_size(struct snap *s)
{
	struct lend_mem_stat stat;
	lend_ns began = app_now(), time = s->args.load.time;

	app_memory_stat(&s->m, &stat);
	s->idle = stat.pages_used;
	for (unsigned i = 0; i < s->rows; i++) {
		alloc_space(s, &s->row[i]);
		verify_snapshot(s, &s->row[i]);
		for (int k = 0; k < TIMES; k++)
			lend_hist_init(&s->row[i].hist[k]);
	}
	for (lend_ns from = app_now(); app_now() < from + time; s->rounds++) {
		for (unsigned i = 0; i < s->rows; i++)
			one_round(s, &s->row[i]);
		app_progress(began, (double)(app_now() - from), (double)time);
	}
	for (unsigned i = 0; i < s->rows; i++)
		verify_snapshot(s, &s->row[i]);
	measure_drops(s);
}

static void size_label(struct row *row)
{
	static const char units[] = "kmg";
	unsigned unit = 0;
	uint64_t n = row->size >> 10;

	for (; n >= 1024 && n % 1024 == 0 && units[unit + 1]; unit++)
		n >>= 10;
	snprintf(row->label, sizeof(row->label), "%llu%c", (unsigned long long)n, units[unit]);
}

static void choose_sizes(struct snap *s)
{
	uint64_t most = lend_align_up(s->args.load.size, SIZE_MIN);

	for (uint64_t size = SIZE_MIN; size < most; size *= STEP)
		s->row[s->rows++].size = size;
	s->row[s->rows++].size = most;
	for (unsigned i = 0; i < s->rows; i++)
		size_label(&s->row[i]);
}

static double p50_of(const struct row *row, int what)
{
	return app_hist_us(&row->hist[what], 0.5);
}

/* Reports "seal_us_4k" and so on, for the smallest and the largest size. */
static void report_ends(const struct snap *s, struct app_report *r)
{
	const struct row *small = &s->row[0], *large = &s->row[s->rows - 1];
	char key[64];

	for (int k = 0; k < TIMES; k++) {
		for (unsigned i = 0; i < s->rows; i += s->rows - 1) {
			snprintf(key, sizeof(key), "%s_us_%s", names[k], s->row[i].label);
			app_report_num(r, key, p50_of(&s->row[i], k), 3, "us, median round trip");
		}
		if (k > MAP)
			continue;
		snprintf(key, sizeof(key), "%s_%s_over_%s", names[k], large->label, small->label);
		app_report_num(r, key, p50_of(large, k) / p50_of(small, k), 2, "");
	}
	snprintf(key, sizeof(key), "drain_us_%s", large->label);
	app_report_num(r, key, large->drain_us, 1, "us from the release until no page was in use");
}

static void report_release(const struct snap *s, struct app_report *r)
{
	const struct app_release *of = &s->release;

	app_report_int(r, "release_frames_per_turn", of->frames_per_turn,
		       "freed and zeroed at most, in a store of this process");
	app_report_num(r, "release_turn_us", of->turn_us, 2, "us of thread CPU time, such a turn");
	app_report_num(r, "release_ns_per_frame", of->ns_per_frame, 1, "ns of thread CPU time");
	app_report_num(r, "release_first_us", of->first_us, 2, "us, the release itself");
	app_report_int(r, "release_turns", of->turns, "until all was freed");
}

static void report_sizes(const struct snap *s, struct app_report *r)
{
	static const char *const columns[] = {"size",    "seal_us",    "map_us",  "write_us",
					      "free_us", "release_us", "drain_us"};
	double cell[SIZES_MAX][2 + TIMES];
	bool ordered = true;

	for (unsigned i = 0; i < s->rows; i++) {
		cell[i][0] = (double)s->row[i].size;
		for (int k = 0; k < TIMES; k++) {
			cell[i][1 + k] = p50_of(&s->row[i], k);
			ordered = ordered && app_hist_is_ordered(&s->row[i].hist[k]);
		}
		cell[i][1 + TIMES] = s->row[i].drain_us;
	}
	app_report_bool(r, "check_order", ordered, "p50 <= p99 <= max, of each");
	app_report_table(r, &(struct app_table){"sizes", columns, 2 + TIMES, s->rows, cell[0]});
}

static void write_report(const struct snap *s)
{
	struct app_report r;

	app_report_begin(&r, s->args.load.json, "snapshot-speed: one operation at a time");
	report_ends(s, &r);
	report_release(s, &r);
	app_report_int(&r, "page_bytes", s->args.page ? s->args.page : APP_PAGE, "a page");
	app_report_int(&r, "rounds", s->rounds, "of seal, map, write, free, release for each size");
	app_report_int(&r, "wrong_bytes", s->wrong_bytes,
		       "of snapshots whose spaces and maps went on changing");
	app_report_carrier(&r, s->args.load.carrier);
	app_report_bool(&r, "pool", s->args.pool, "the node shares its pages");
	report_sizes(s, &r);
	app_report_end(&r);
}

static void plot_rows(const struct snap *s)
{
	static const uint8_t color[] = {CHART_REF, CHART_AUTO, CHART_VALUE};
	double x[SIZES_MAX], y[3][SIZES_MAX];
	struct chart chart = {.title = "Median time of a snapshot's steps",
			      .by = "bytes of the object",
			      .x = {PAGE_SIZE, .log = true},
			      .y = {PAGE_US, .log = true},
			      .lines = 3};

	for (int k = SEAL; k <= WRITE; k++) {
		for (unsigned i = 0; i < s->rows; i++) {
			x[i] = (double)s->row[i].size;
			y[k][i] = p50_of(&s->row[i], k);
		}
		chart.line[k] = (struct chart_line){names[k], x, y[k], s->rows, color[k]};
	}
	app_memory_plot(&s->args, &chart);
}

/* Measures snapshots per second. */
static int run_snapshots(struct snap *s)
{
	static struct app_load sum;
	const struct app_load_args *load = &s->args.load;
	struct app_memory_args open = s->args;
	unsigned threads = s->threads ? s->threads : 1;
	struct app_report r;

	app_pattern_init(SEED, CHUNK);
	open.load.size = CHUNK;
	app_memory_open(&s->m, &open, app_snapshot_load_bytes(load, threads));
	s->m.args = s->args;
	s->m.args.load.sleep |= threads + 1 > app_cpus();
	if (threads > 1)
		app_unpin();
	app_snapshot_load(&s->m, threads, &sum);
	app_memory_close(&s->m);
	app_report_begin(&r, load->json, "snapshot-speed: snapshots of several clients");
	app_report_num(&r, "snapshots_per_s", app_load_rate(&sum), 1,
		       "sealed, mapped, written, read and released");
	app_load_report(&sum, &r);
	app_report_int(&r, "size", load->size, "bytes of a snapshot");
	app_report_int(&r, "threads", threads, "each with its endpoint");
	app_report_int(&r, "window", load->window, "snapshots in flight per thread");
	app_report_carrier(&r, load->carrier);
	app_report_bool(&r, "pool", s->args.pool, "the node shares its pages");
	app_report_end(&r);
	return sum.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct snap, threads, "threads", 1, APP_SNAPSHOT_THREADS_MAX,
	       "Measure snapshots per second of N threads, of --size (1M)"),
    {.name = NULL}};

static const char doc[] =
    "The time of a seal, a map, the first write after it, and of letting go, from 4 KiB to --size "
    "(1G), one round trip each.\v"
    "All sizes are measured by turns. A snapshot is compared whole after its space and a map of it "
    "were written to. release is that of the last holder; what it frees in each turn is measured "
    "in a store of this process, in CPU time of its thread. With "
    "--threads or --window many snapshots are taken at once, each with a first write that copies a "
    "page.\n\n"
    "  lend bench snapshot-speed --carrier shm\n"
    "  lend bench snapshot-speed --size 64M --seconds 1 --plot snapshot.svg --json\n"
    "  lend bench snapshot-speed --threads 2 --window 16 --size 64K";

int app_snapshot(int argc, char **argv)
{
	static struct snap s = {.args = {.load = APP_LOAD_ARGS_INIT}};
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_memory_syntax,
						  .child_at = offsetof(struct snap, args),
						  .some = APP_MEMORY_LOAD " window",
						  .check = check_args,
						  .doc = doc};
	struct app_memory_args open;
	uint64_t all = 0;

	s.args.load.size = 0; /* not given */
	app_options_read(&syntax, argc, argv, &s);
	if (is_load(&s))
		return run_snapshots(&s);
	choose_sizes(&s);
	for (unsigned i = 0; i < s.rows; i++)
		all += s.row[i].size;
	s.into = malloc(CHUNK);
	if (!s.into)
		app_die("no memory for %d bytes; end some processes", CHUNK);
	app_pattern_init(SEED, CHUNK);
	open = s.args;
	open.load.size = CHUNK;
	app_memory_open(&s.m, &open, all + all / 8 + (64 << 20));
	app_pattern_register(s.m.ep);
	measure_size(&s);
	app_memory_close(&s.m);
	app_release_run(s.args.load.size, s.args.page, &s.release);
	write_report(&s);
	if (s.args.plot)
		plot_rows(&s);
	free(s.into);
	return s.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
