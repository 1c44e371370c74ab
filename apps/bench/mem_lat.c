/* mem_lat - how long each operation on a memory node takes, compared with a plain call of the same
 * size.
 * Layer: apps. Threads: one, and one more while the distance of the CPUs is measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/chart.h"
#include "apps/common/bench_server.h"
#include "apps/bench/mem_scale.h"
#include "apps/bench/mem_pointer.h"
#include "util/bits.h"

enum { PUT, GET, RELEASE, WRITE, READ, OPS };
static const char *const names[] = {"put", "get", "release", "write", "read"};

enum { SIZE_MIN = 32, SIZE_MAX_SWEPT = 4 << 20, ROWS_MAX = 20, SEED = 5 };

struct lat {
	struct app_memory_args args;
	struct app_memory m;
	uint64_t size; /* bytes of the current operations */
	char *into[2]; /* results of get and read; hold other bytes before */
	char *copy[2]; /* of two memcpy, the least that a put and a get need */
	struct lend_hist copies;
	lend_space space;
	struct lend_hist hist[OPS];
	uint64_t rounds, wrong_bytes, op_ticks, check_ticks, all_ticks;
	double cell[ROWS_MAX][1 + OPS];
	unsigned rows;
	bool sweep;
	struct app_pointer pointer;
	struct app_scale among;
};

static const struct lend_option options[] = {
    OPT_FLAG(struct lat, sweep, "sweep", "Also print a table of sizes from 32 bytes to 4 MiB"),
    OPT_NUMBER(struct lat, among.n, "among", APP_SCALE_FEW + 1, APP_SCALE_MAX,
	       "Also measure among 1,000 and among N references"),
    {.name = NULL}};

/* Waits for an operation and records its time. */
static void end_op(struct lat *lat, int op, struct app_timed *t, int rc)
{
	uint64_t ticks = app_timed_end(&lat->m, t, rc, names[op]);

	lat->op_ticks += ticks;
	lend_hist_add(&lat->hist[op], (uint64_t)((double)ticks / app_ticks_per_ns()));
}

/* Compares the received bytes with the expected ones. The next round expects other bytes, so stale
 * bytes are detected. */
static void check_bytes(struct lat *lat, int which, const void *bytes)
{
	uint64_t began = app_ticks();

	if (memcmp(lat->into[which], bytes, lat->size) != 0)
		lat->wrong_bytes += lat->size;
	lat->check_ticks += app_ticks() - began;
}

static void time_copies(struct lat *lat, const void *bytes)
{
	uint64_t began = app_ticks(), ticks;

	memcpy(lat->copy[0], bytes, lat->size);
	__asm__ volatile("" : : "r"(lat->copy[0]) : "memory");
	memcpy(lat->copy[1], lat->copy[0], lat->size);
	__asm__ volatile("" : : "r"(lat->copy[1]) : "memory");
	ticks = app_ticks() - began;
	lat->check_ticks += ticks;
	lend_hist_add(&lat->copies, (uint64_t)((double)ticks / app_ticks_per_ns()));
}

static void one_round(struct lat *lat)
{
	struct lend_mem *mem = lat->m.mem;
	const void *bytes = app_pattern(lat->rounds, lat->size);
	struct iovec data = {(void *)(uintptr_t)bytes, lat->size};
	struct iovec got = {lat->into[0], lat->size}, read = {lat->into[1], lat->size};
	struct app_timed t;
	struct lend_ref ref;

	end_op(lat, PUT, &t, lend_put(mem, &data, 1, NULL, app_timed_begin(&t)));
	ref = t.op.ref;
	end_op(lat, GET, &t, lend_get(mem, &ref, 0, &got, 1, app_timed_begin(&t)));
	check_bytes(lat, 0, bytes);
	end_op(lat, RELEASE, &t, lend_release(mem, &ref, 1, app_timed_begin(&t)));
	end_op(lat, WRITE, &t, lend_space_write(mem, lat->space, 0, &data, 1, app_timed_begin(&t)));
	end_op(lat, READ, &t, lend_space_read(mem, lat->space, 0, &read, 1, app_timed_begin(&t)));
	check_bytes(lat, 1, bytes);
	time_copies(lat, bytes);
	lat->rounds++;
}

static void run_rounds(struct lat *lat, lend_ns time)
{
	lend_ns began = app_now();
	uint64_t first = app_ticks();
	uint64_t until = first + (uint64_t)((double)time * app_ticks_per_ns());

	lat->rounds = lat->op_ticks = lat->check_ticks = 0;
	for (int i = 0; i < OPS; i++)
		lend_hist_init(&lat->hist[i]);
	lend_hist_init(&lat->copies);
	do {
		one_round(lat);
		if (lat->rounds % 64 == 0)
			app_progress(began, (double)(app_now() - began), (double)time);
	} while (app_ticks() < until);
	lat->all_ticks = app_ticks() - first;
	app_progress_clear();
}

static void measure_size(struct lat *lat, uint64_t size, lend_ns time)
{
	struct app_timed t;

	lat->size = size;
	(void)app_timed_end(&lat->m, &t,
			    lend_space_alloc(lat->m.mem, size, &lat->space, app_timed_begin(&t)),
			    "alloc");
	run_rounds(lat, time / 10 + 1000000);
	run_rounds(lat, time);
	(void)app_timed_end(&lat->m, &t,
			    lend_space_free(lat->m.mem, lat->space, app_timed_begin(&t)), "free");
}

static void sweep_sizes(struct lat *lat)
{
	lend_ns time = lat->args.load.time / 2 / 18;

	for (uint64_t size = SIZE_MIN; size <= SIZE_MAX_SWEPT; size *= 2) {
		double *row = lat->cell[lat->rows++];

		measure_size(lat, size, time);
		row[0] = (double)size;
		for (int i = 0; i < OPS; i++)
			row[1 + i] = app_hist_us(&lat->hist[i], 0.5);
	}
}

static void plot_rows(const struct lat *lat)
{
	static const struct {
		int op;
		uint8_t color;
	} drawn[] = {{PUT, CHART_VALUE}, {GET, CHART_REF}, {WRITE, CHART_AUTO}};
	struct chart chart = {.title = "Median time of an operation",
			      .by = "bytes of the object",
			      .x = {PAGE_SIZE, .log = true},
			      .y = {PAGE_US, .log = true},
			      .lines = 3};
	double x[ROWS_MAX], y[3][ROWS_MAX];

	for (unsigned row = 0; row < lat->rows; row++)
		x[row] = lat->cell[row][0];
	for (unsigned i = 0; i < chart.lines; i++) {
		for (unsigned row = 0; row < lat->rows; row++)
			y[i][row] = lat->cell[row][1 + drawn[i].op];
		chart.line[i] =
		    (struct chart_line){names[drawn[i].op], x, y[i], lat->rows, drawn[i].color};
	}
	app_memory_plot(&lat->args, &chart);
}

/* Returns whether operations and checks account for the total time, within 3 % for the loop itself.
 */
static bool is_all_counted(const struct lat *lat)
{
	double counted = (double)(lat->op_ticks + lat->check_ticks);

	return fabs(counted / (double)lat->all_ticks - 1) <= 0.03;
}

static void report_ops(const struct lat *lat, struct app_report *r, double call)
{
	double copies = app_hist_us(&lat->copies, 0.5), sum = 0;
	bool ordered = true;

	for (int i = 0; i < OPS; i++) {
		const struct lend_hist *h = &lat->hist[i];
		double p50 = app_hist_us(h, 0.5), p99 = app_hist_us(h, 0.99);

		r->prefix = names[i];
		app_report_num(r, "_p50_us", p50, 3, "us, half took no longer");
		app_report_num(r, "_p99_us", p99, 3, "us, 99 % took no longer");
		app_report_num(r, "_over_call", call > 0 ? p50 / call : 0, 2,
			       "relative to the plain call");
		ordered = ordered && app_hist_is_ordered(h);
		sum += i <= RELEASE ? p50 : 0;
	}
	r->prefix = "";
	app_report_num(r, "two_copies_p50_us", copies, 3, "us, two memcpy of as many bytes");
	app_report_num(r, "put_get_release_over_copies", copies > 0 ? sum / copies : 0, 2,
		       "relative to two memcpy");
	app_report_bool(r, "check_order", ordered, "p50 <= p99 <= max, of each");
	app_report_bool(r, "check_in_flight", is_all_counted(lat),
			"latencies and checks fill the run within 3 %");
}

static void write_report(struct lat *lat, const struct app_bench *plain, double line)
{
	static const char *const columns[] = {"size",       "put_us",   "get_us",
					      "release_us", "write_us", "read_us"};
	double call = app_hist_us(&plain->load.hist, 0.5);
	struct lend_mem_stat stat;
	struct app_report r;

	app_memory_stat_idle(&lat->m, &stat);
	app_report_begin(&r, lat->args.load.json, "mem-lat: one operation at a time");
	app_report_num(&r, "call_p50_us", call, 3, "us, a plain call that echoes as many bytes");
	report_ops(lat, &r, call);
	app_report_int(&r, "rounds", lat->rounds, "of each operation");
	app_report_int(&r, "wrong_bytes", lat->wrong_bytes, "that came back different (memcmp)");
	app_report_int(&r, "pages_used_after", stat.pages_used, "on the node");
	app_report_int(&r, "size", lat->args.load.size, "bytes");
	app_report_carrier(&r, lat->args.load.carrier);
	app_report_bool(&r, "pool", lat->args.pool, "the node shares its pages");
	app_pointer_report(&lat->pointer, &r);
	app_scale_report(&lat->among, &r);
	app_report_num(&r, "line_ns_before", line, 1, "ns, round trip of a cache line");
	app_report_text(&r, "distance_before", app_cacheline_name(line),
			"distance of the two CPUs");
	if (lat->sweep)
		app_report_table(
		    &r, &(struct app_table){"sizes", columns, 1 + OPS, lat->rows, lat->cell[0]});
	app_report_end(&r);
}

/* Measures the plain call, then the operations, for half of the time each. */
static void run_halves(struct lat *lat)
{
	static struct app_bench plain;
	struct app_load_args half = lat->args.load;
	uint64_t most = lat->sweep ? SIZE_MAX_SWEPT : half.size;
	double line = app_cacheline_ns(app_cpu(0), app_cpu(1));

	half.time /= 2;
	app_bench_open(&plain, &half, APP_METHOD_ECHO);
	app_bench_run(&plain);
	app_bench_close(&plain);
	most = lend_max_u64(most, lend_max_u64(half.size, APP_POINTER_SIZE));
	app_pattern_init(SEED, most);
	for (int i = 0; i < 2; i++) {
		lat->into[i] = calloc(1, most);
		lat->copy[i] = calloc(1, most);
		if (!lat->into[i] || !lat->copy[i])
			app_die("no memory for --size %llu; give a smaller one",
				(unsigned long long)half.size);
	}
	app_memory_open(&lat->m, &lat->args, (64 << 20) + 4 * most + app_scale_bytes(lat->among.n));
	app_pattern_register(lat->m.ep);
	if (lat->sweep)
		sweep_sizes(lat);
	measure_size(lat, half.size, half.time / (lat->sweep ? 4 : 1));
	app_pointer_measure(&lat->m, half.time / 2, &lat->pointer);
	if (lat->among.n)
		app_scale_measure(&lat->m, &lat->among);
	write_report(lat, &plain, line);
	app_memory_close(&lat->m);
	if (lat->args.plot)
		plot_rows(lat);
	for (int i = 0; i < 2; i++) {
		free(lat->into[i]);
		free(lat->copy[i]);
	}
	lat->wrong_bytes += plain.load.wrong_bytes + lat->pointer.wrong_bytes;
}

static const char doc[] =
    "Time of a put, a get, a release, and of a write and a read of a private space, compared with "
    "a plain call that echoes as many bytes; and of 1 MiB as mapped memory, compared with a get.\v"
    "One operation at a time; every byte that comes back is compared.\n\n"
    "  lend bench mem-lat --carrier shm --size 4096\n"
    "  lend bench mem-lat --pool\n"
    "  lend bench mem-lat --among 1000000\n"
    "  lend bench mem-lat --sweep --seconds 4 --plot latency.svg --json";

int app_mem_lat(int argc, char **argv)
{
	static struct lat lat = {.args = {.load = APP_LOAD_ARGS_INIT}};
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_memory_syntax,
					   .child_at = offsetof(struct lat, args),
					   .some = APP_MEMORY_LOAD,
					   .doc = doc};

	lat.args.load.size = 4096;
	app_options_read(&syntax, argc, argv, &lat);
	if (lat.args.load.size < 1 || lat.args.load.size > APP_PATTERN_MAX)
		app_bad("--size: give 1 to %d bytes", APP_PATTERN_MAX);
	lat.sweep = lat.sweep || lat.args.plot;
	run_halves(&lat);
	return lat.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
