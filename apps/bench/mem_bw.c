/* mem_bw - bytes per second into and out of a memory node, compared with plain calls of the same
 * size.
 * Layer: apps. Threads: one, and those of mem_bw.h. */
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/chart.h"
#include "apps/common/samples.h"
#include "apps/common/bench_server.h"
#include "apps/bench/mem_bw.h"
#include "util/bits.h"

enum sweep { NO_SWEEP, SIZES, WINDOWS, THREADS };
enum {
	THREADS_MAX = 64,
	ROWS_MAX = 20,
	COLUMNS = 7,
	SIZE_LEAST = 32,
	SIZE_MOST = 4 << 20,
	TURNS_MAX = 7
};
#define LONG_NS UINT64_C(1000000000) /* shortest time with TURNS_MAX turns */

struct bw {
	struct app_memory_args args;
	struct app_memory m;
	unsigned threads;
	enum sweep sweep;
	double cell[ROWS_MAX][COLUMNS];
	unsigned rows, turns;
	double over_call[BW_WAYS][TURNS_MAX];
};

static double gbit_rate(const struct app_load *load, uint64_t size)
{
	return 8e-9 * (double)size * app_load_rate(load);
}

static uint64_t add_row(struct bw *bw, const struct bw_shape *shape)
{
	double *row = bw->cell[bw->rows++];
	struct app_load sum[BW_WAYS];

	app_bw_measure(&bw->m, shape, sum);
	*row++ = (double)shape->size;
	*row++ = shape->window;
	*row++ = shape->threads;
	for (int way = 0; way < BW_WAYS; way++) {
		*row++ = gbit_rate(&sum[way], shape->size);
		*row++ = app_hist_us(&sum[way].hist, 0.5);
	}
	return sum[BW_READ].wrong_bytes + sum[BW_WRITE].wrong_bytes;
}

/* count_steps() returns the number of steps of a sweep. step_shape() returns the i-th step, or the
 * largest for its dimension. */
static unsigned count_steps(const struct bw *bw)
{
	unsigned n = 1;

	switch (bw->sweep) {
	case SIZES:
		return 18;
	case WINDOWS:
		return 8;
	case THREADS:
		while (1u << (n - 1) < bw->threads)
			n++;
		return n;
	case NO_SWEEP:
		break;
	}
	return 0;
}

static struct bw_shape step_shape(const struct bw *bw, unsigned i)
{
	struct bw_shape shape = {bw->args.load.size, bw->args.load.window, bw->threads,
				 bw->args.load.time};

	if (bw->sweep == SIZES)
		shape.size = (uint64_t)SIZE_LEAST << i;
	else if (bw->sweep == WINDOWS)
		shape.window = 1u << i;
	else if (bw->sweep == THREADS)
		shape.threads = lend_min_u32(1u << i, bw->threads);
	shape.time /= 2 * (1 + count_steps(bw));
	return shape;
}

/* Returns the bytes that the largest step has on the node at once, at least a page per object. */
static uint64_t most_bytes(const struct bw *bw)
{
	struct bw_shape s =
	    step_shape(bw, bw->sweep == THREADS || !bw->sweep ? 0 : count_steps(bw) - 1);

	return 3 *
	       lend_align_up(lend_max_u64(s.size, bw->args.load.size),
			     lend_max_u32(bw->args.page, APP_PAGE)) *
	       lend_max_u32(s.window, bw->args.load.window) * bw->threads;
}

static void plot_rows(const struct bw *bw)
{
	double x[ROWS_MAX], y[BW_WAYS][ROWS_MAX];
	unsigned column = bw->sweep == WINDOWS ? 1 : bw->sweep == THREADS ? 2 : 0;
	static const char *const by[] = {"bytes of an operation", "operations in flight",
					 "threads"};
	const struct chart chart = {"Bytes per second",
				    by[column],
				    .x = {column == 0 ? PAGE_SIZE : PAGE_COUNT, .log = true},
				    .y = {PAGE_RATE, .log = true},
				    .line = {{"read", x, y[BW_READ], bw->rows, CHART_REF},
					     {"write", x, y[BW_WRITE], bw->rows, CHART_VALUE}},
				    .lines = BW_WAYS};

	for (unsigned row = 0; row < bw->rows; row++) {
		x[row] = bw->cell[row][column];
		for (int way = 0; way < BW_WAYS; way++)
			y[way][row] = bw->cell[row][3 + 2 * way] / 8 * 1e9;
	}
	app_memory_plot(&bw->args, &chart);
}

/* Returns the rate of operations relative to plain calls. With one thread both rates use its CPU
 * time, since other processes may run on this machine. */
static double over_call(const struct bw *bw, const struct app_load *load,
			const struct app_load *call)
{
	if (!bw->args.load.one_thread)
		return app_load_rate(load) / app_load_rate(call);
	return call->cpu_seconds / (double)call->ended * (double)load->ended / load->cpu_seconds;
}

static void write_report(const struct bw *bw, const struct app_load sum[BW_WAYS],
			 const struct app_bench *plain, uint64_t wrong)
{
	static const char *const columns[] = {"size",        "window",      "threads",
					      "read_gbit_s", "read_p50_us", "write_gbit_s",
					      "write_p50_us"};
	static const char *const prefix[] = {"read_", "write_"};
	double call = app_load_rate(&plain->load);
	uint64_t size = bw->args.load.size;
	struct app_report r;

	app_report_begin(&r, bw->args.load.json, "mem-bw: bytes into and out of a memory node");
	for (int way = 0; way < BW_WAYS; way++) {
		r.prefix = prefix[way];
		app_report_num(&r, "gbit_per_s", gbit_rate(&sum[way], size), 3,
			       "10^9 bits of payload");
		app_report_num(&r, "over_call", app_median(bw->over_call[way], bw->turns), 3,
			       "rate relative to plain calls, median of the turns");
		app_load_report(&sum[way], &r);
	}
	r.prefix = "";
	app_report_num(&r, "call_per_s", call, 1,
		       "plain calls that echo as many bytes, by one thread");
	app_report_num(&r, "call_cpu_us_per_call",
		       plain->load.cpu_seconds * 1e6 / (double)plain->load.ended, 3,
		       "us of this thread's time");
	app_report_bool(&r, "one_thread", bw->args.load.one_thread, "the node is in it");
	app_report_int(&r, "wrong_bytes", wrong,
		       "of reads, of the final contents of spaces, and of calls");
	app_report_int(&r, "size", size, "bytes of each operation");
	app_report_int(&r, "page_bytes", bw->args.page ? bw->args.page : APP_PAGE, "a page");
	app_report_int(&r, "window", bw->args.load.window, "operations in flight per thread");
	app_report_int(&r, "threads", bw->threads, "threads, each with its endpoint");
	app_report_carrier(&r, bw->args.load.carrier);
	app_report_bool(&r, "pool", bw->args.pool, "the node shares its pages");
	if (bw->sweep)
		app_report_table(
		    &r, &(struct app_table){"rows", columns, COLUMNS, bw->rows, bw->cell[0]});
	app_report_end(&r);
}

/* Measures plain calls and operations in turns, so that machine conditions are the same for both.
 * Keeps the results of the last turn. */
static uint64_t take_turns(struct bw *bw, struct app_bench *plain, struct app_load sum[BW_WAYS])
{
	struct app_load_args part = bw->args.load;
	struct bw_shape shape = {part.size, part.window, bw->threads, 0};
	uint64_t wrong = 0;

	bw->turns = part.time < LONG_NS ? 1 : TURNS_MAX;
	part.time /= 3 * bw->turns;
	shape.time = part.time;
	for (unsigned i = 0; i < bw->turns; i++) {
		app_bench_open(plain, &part, APP_METHOD_ECHO);
		app_bench_run(plain);
		app_bench_close(plain);
		app_bw_measure(&bw->m, &shape, sum);
		wrong += plain->load.wrong_bytes;
		for (int way = 0; way < BW_WAYS; way++) {
			bw->over_call[way][i] = over_call(bw, &sum[way], &plain->load);
			wrong += sum[way].wrong_bytes;
		}
	}
	return wrong;
}

/* Measures the rows of the table, and the operations compared with plain calls. */
static uint64_t run_all(struct bw *bw)
{
	static struct app_bench plain;
	static struct app_load sum[BW_WAYS];
	struct app_memory_args args = bw->args;
	struct bw_shape shape = step_shape(bw, 0);
	uint64_t wrong = 0;

	args.load.size = 0;
	app_memory_open(&bw->m, &args, (64 << 20) + 2 * most_bytes(bw));
	if (bw->threads > 1)
		app_unpin();
	for (unsigned i = 0; i < count_steps(bw); i++) {
		shape = step_shape(bw, i);
		wrong += add_row(bw, &shape);
	}
	wrong += take_turns(bw, &plain, sum);
	app_memory_close(&bw->m);
	write_report(bw, sum, &plain, wrong);
	if (bw->args.plot)
		plot_rows(bw);
	return wrong;
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct bw, threads, "threads", 1, THREADS_MAX,
	       "Threads that read and write, each with its endpoint (1)"),
    OPT_CHOICE(struct bw, sweep, "sweep", "WHAT",
	       ((const char *const[]){"size", "window", "threads", NULL}),
	       "A table too: size (32 bytes to 4 MiB), window (1 to 128) or threads (1 to "
	       "--threads)",
	       .min = SIZES),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct bw *bw = input;
	const struct app_load_args *load = &bw->args.load;

	if (load->size < 1 || load->size > 64 << 20 || load->window > 256)
		app_bad("--size, --window: give 1 to 64M bytes and 1 to 256 operations");
	if (bw->threads > 1 && load->one_thread)
		app_bad("--one-thread --threads: give one of them");
	if (bw->threads > 1 && load->carrier != APP_SHM && load->carrier != APP_UDP)
		app_bad("--threads: an endpoint each needs shm or udp");
	if (bw->args.plot && !bw->sweep)
		app_bad("--plot draws a table: give --sweep size, window or threads");
}

static const char doc[] =
    "Bytes per second read from snapshots (get) and written to spaces with many operations in "
    "flight, compared with plain calls that echo as many bytes.\v"
    "Each operation in flight has an object, a space and buffers of its own. Every byte read is "
    "compared, and the final contents of each space.\n\n"
    "  lend bench mem-bw --carrier shm --size 4096 --window 32\n"
    "  lend bench mem-bw --sweep size --seconds 10 --plot bandwidth.svg --json\n"
    "  lend bench mem-bw --sweep threads --threads 4 --size 64K";

int app_mem_bw(int argc, char **argv)
{
	static struct bw bw = {.args = {.load = APP_LOAD_ARGS_INIT}, .threads = 1};
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_memory_syntax,
					   .child_at = offsetof(struct bw, args),
					   .some = APP_MEMORY_LOAD " window",
					   .check = check_args,
					   .doc = doc};

	bw.args.load.size = 4096;
	bw.args.load.window = 32;
	app_options_read(&syntax, argc, argv, &bw);
	return run_all(&bw) ? APP_EXIT_FAILED : APP_EXIT_OK;
}
