/* bench_sweep - see bench_sweep.h. */
#include "apps/common/bench_sweep.h"

#include <errno.h>
#include <string.h>

#include "apps/common/bench.h"
#include "apps/common/chart.h"
#include "util/bits.h"

enum { SIZE_MIN = 2, SIZES_MAX = 32 };
#define SIZE_UNSET UINT64_MAX
#define TIME_MIN   UINT64_C(20000000) /* ns of one size */

enum { SIZE, CALLS, P50, P99, RATE, GBIT, COLUMNS };
static const char *const columns[] = {"size",   "calls",       "p50_us",
				      "p99_us", "calls_per_s", "gbit_per_s"};

struct sweep {
	uint64_t size[SIZES_MAX], errors, wrong_bytes;
	unsigned sizes;
	double cell[SIZES_MAX][COLUMNS];
};

static const struct lend_option options[] = {
    OPT_FLAG(struct app_sweep_args, sweep, "sweep",
	     "Measure each power of two from 2 bytes to --size"),
    OPT_TEXT(struct app_sweep_args, plot, "plot", "FILE", "Draw the sweep into FILE, as SVG"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct app_sweep_args *args = input;

	if (args->plot && !args->sweep)
		app_bad("--plot draws a sweep: add --sweep");
	if (args->sweep && args->load.size < 2 * SIZE_MIN)
		app_bad("--sweep begins at %d bytes: give a larger --size", SIZE_MIN);
}

const struct lend_syntax app_sweep_syntax = {.option = options,
					     .child = &app_load_syntax,
					     .child_at = offsetof(struct app_sweep_args, load),
					     .check = check_args};

void app_sweep_read(const struct lend_syntax *syntax, int argc, char **argv, void *all,
		    struct app_sweep_args *args)
{
	uint64_t size = args->load.size;

	args->load.size = SIZE_UNSET;
	app_options_read(syntax, argc, argv, all);
	if (args->load.size == SIZE_UNSET)
		args->load.size = args->sweep ? args->most : size;
}

void app_sweep_args_read(struct app_sweep_args *args, int argc, char **argv, const char *names,
			 const char *doc)
{
	struct lend_syntax syntax = app_sweep_syntax;

	syntax.some = names;
	syntax.doc = doc;
	app_sweep_read(&syntax, argc, argv, args, args);
}

static void choose_sizes(struct sweep *s, uint64_t most)
{
	for (uint64_t size = SIZE_MIN; size < most; size *= 2)
		s->size[s->sizes++] = size;
	s->size[s->sizes++] = most;
}

static void measure_size(struct sweep *s, struct app_bench *bench, unsigned i)
{
	const struct app_load *load = &bench->load;
	double *cell = s->cell[i];

	bench->args.size = s->size[i];
	app_pattern_crc(0, s->size[i]);
	app_bench_run(bench);
	s->errors += load->errors;
	s->wrong_bytes += load->wrong_bytes;
	cell[SIZE] = (double)s->size[i];
	cell[CALLS] = (double)load->ended;
	cell[P50] = app_hist_us(&load->hist, 0.5);
	cell[P99] = app_hist_us(&load->hist, 0.99);
	cell[RATE] = app_load_rate(load);
	cell[GBIT] = 8e-9 * cell[SIZE] * cell[RATE];
}

static void write_report(const struct sweep *s, const struct app_bench *bench, const char *title)
{
	struct app_report r;

	app_report_begin(&r, bench->args.json, title);
	app_report_carrier(&r, bench->pair.net.carrier);
	app_report_int(&r, "window", bench->args.window, "calls in flight per session");
	app_report_int(&r, "sessions", bench->args.sessions, "to the server");
	app_report_bool(&r, "one_thread", bench->pair.other, "both ends in one thread");
	app_report_int(&r, "errors", s->errors, "calls that failed");
	app_report_int(&r, "wrong_bytes", s->wrong_bytes, "of all replies");
	app_report_table(&r, &(struct app_table){"sizes", columns, COLUMNS, s->sizes, s->cell[0]});
	app_report_end(&r);
}

/* Adds a line of the column's values times scale. */
static void add_line(struct chart *chart, const struct sweep *s, int column, double scale,
		     uint8_t color)
{
	static double x[SIZES_MAX], y[2][SIZES_MAX];
	double *values = y[chart->lines];

	for (unsigned i = 0; i < s->sizes; i++) {
		x[i] = (double)s->size[i];
		values[i] = scale * s->cell[i][column];
	}
	chart->line[chart->lines++] =
	    (struct chart_line){columns[column], x, values, s->sizes, color};
}

static void plot_sizes(const struct sweep *s, const char *path, const char *title,
		       enum app_sweep_figure figure)
{
	struct chart chart = {.title = title,
			      .by = "bytes of a request",
			      .x = {PAGE_SIZE, .log = true},
			      .y = {PAGE_US, .log = true}};

	switch (figure) {
	case APP_SWEEP_LATENCY:
		add_line(&chart, s, P50, 1, CHART_REF);
		add_line(&chart, s, P99, 1, CHART_VALUE);
		break;
	case APP_SWEEP_RATE:
		chart.y.unit = PAGE_COUNT;
		add_line(&chart, s, RATE, 1, CHART_REF);
		break;
	case APP_SWEEP_BANDWIDTH:
		chart.y.unit = PAGE_RATE;
		add_line(&chart, s, GBIT, 1e9 / 8, CHART_REF);
		break;
	}
	if (!chart_write(path, &chart, 1))
		app_die("%s: %s; name a file that can be written", path, strerror(errno));
}

int app_bench_sweep(const struct app_sweep_args *args, uint32_t method, const char *title,
		    enum app_sweep_figure figure)
{
	static struct app_bench bench;
	static struct sweep s;
	lend_ns began = app_now();

	choose_sizes(&s, args->load.size);
	app_bench_open(&bench, &args->load, method);
	bench.args.time = lend_max_u64(args->load.time / s.sizes, TIME_MIN);
	bench.load.quiet = true;
	for (unsigned i = 0; i < s.sizes; i++) {
		measure_size(&s, &bench, i);
		app_progress(began, i + 1, s.sizes);
	}
	app_bench_close(&bench);
	write_report(&s, &bench, title);
	if (args->plot)
		plot_sizes(&s, args->plot, title, figure);
	return s.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
