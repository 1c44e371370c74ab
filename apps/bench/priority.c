/* priority - how long a small urgent call takes behind a bulk transfer of the same session.
 *
 * A round consists of short slices, so that a change of the machine's speed affects all phases: the
 * small call alone and behind the transfer in turns, and the transfer alone, from 12 ms after the
 * last small call on; then the latter two again between endpoints with FIFO scheduling. The result
 * of a phase is the median over its slices, since other processes on the machine distort some
 * slices. Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/echo.h"
#include "apps/common/samples.h"
#include "apps/common/bench_server.h"
#include "lend/stats.h"

enum { SMALL = 64, PHASES = 5, SEED = 9 };
enum { SLICES = 4, ROUNDS_MAX = APP_SERIES_MAX / SLICES }; /* slices of a phase in a round */
/* For up to 10 ms after an urgent call, transfers go in short datagrams. */
enum { AFTER_NS = 12000000 };
enum phase { UNLOADED, LOADED, ALONE, FIFO_LOADED, FIFO_ALONE };

struct args {
	struct app_load_args load;
	uint64_t bulk;
	lend_ns every; /* interval between small calls */
	unsigned rounds;
};

/* The results of a phase. */
struct tally {
	struct lend_hist hist; /* latencies of small calls in this slice, ns */
	uint64_t bytes;        /* bytes of transfers that ended in this slice */
	double seconds;        /* duration of these transfers */
	uint64_t calls;        /* small ones in all slices */
	uint64_t meanwhile;    /* bytes that this end sent during them, in all slices */
	struct app_series p50, p99, rate;
};

/* A pair of endpoints, and its two calls. */
struct bench {
	const struct args *args;
	struct app_pair pair;
	lend_session session;
	struct tally *tally;
	struct {
		struct lend_call call;
		uint64_t number, began, sent; /* sent: bytes that this end had sent before */
		bool busy;
	} small, bulk;
	uint64_t errors, wrong_bytes;
	enum lend_status last;
};

static void call_done(struct bench *d, struct lend_call *call)
{
	d->errors += call->status != LEND_OK;
	if (call->status != LEND_OK)
		d->last = call->status;
	if (call->reply)
		lend_buf_give(d->pair.ep, call->reply);
	if (call->request)
		lend_buf_give(d->pair.ep, call->request);
	call->reply = call->request = NULL;
}

static uint64_t sent_bytes(const struct bench *d)
{
	struct lend_stats stats;

	lend_stats_get(d->pair.ep, &stats);
	return stats.tx_bytes;
}

static void small_done(struct lend_call *call)
{
	struct bench *d = APP_OF(call, struct bench, small.call);
	double ns = (double)(app_ticks() - d->small.began) / app_ticks_per_ns();

	d->small.busy = false;
	if (call->status == LEND_OK) {
		lend_hist_add(&d->tally->hist, (uint64_t)ns);
		d->tally->meanwhile += sent_bytes(d) - d->small.sent;
		d->wrong_bytes += app_pattern_wrong(call->reply, d->small.number, SMALL);
	}
	call_done(d, call);
}

static void bulk_done(struct lend_call *call)
{
	struct bench *d = APP_OF(call, struct bench, bulk.call);
	double ns = (double)(app_ticks() - d->bulk.began) / app_ticks_per_ns();
	uint64_t len = d->args->bulk;

	d->bulk.busy = false;
	if (call->status == LEND_OK) {
		d->tally->bytes += len;
		d->tally->seconds += ns / 1e9;
		d->wrong_bytes += app_sum_wrong(
		    call->reply, app_ends_crc(app_pattern(d->bulk.number, len), len), len);
	}
	call_done(d, call);
}

/* Starts a call. Returns false when there is no buffer or call slot for it now. */
static bool start_call(struct bench *d, struct lend_call *call, uint64_t number, uint64_t len)
{
	int rc;

	call->request = app_pattern_wrap(d->pair.ep, app_pattern(number, len), len);
	if (!call->request)
		return false;
	call->timeout = APP_CALL_NS + len * APP_BYTE_NS;
	rc = lend_call_start(d->pair.ep, d->session, call);
	if (rc == 0)
		return true;
	lend_buf_give(d->pair.ep, call->request);
	call->request = NULL;
	if (rc != -EAGAIN)
		app_die("%s", lend_why());
	return false;
}

static void start_small(struct bench *d)
{
	d->small.call = (struct lend_call){
	    .method = APP_METHOD_ECHO, .priority = LEND_URGENT, .done = small_done};
	d->small.number++;
	d->small.sent = sent_bytes(d);
	d->small.began = app_ticks();
	d->small.busy = start_call(d, &d->small.call, d->small.number, SMALL);
}

static void start_bulk(struct bench *d)
{
	d->bulk.call =
	    (struct lend_call){.method = APP_METHOD_ENDS, .priority = LEND_BULK, .done = bulk_done};
	d->bulk.number++;
	d->bulk.began = app_ticks();
	d->bulk.busy = start_call(d, &d->bulk.call, d->bulk.number, d->args->bulk);
}

/* Runs small calls, the transfer or both for time, then waits until all that were started have
 * ended. */
static void run_calls(struct bench *d, struct tally *tally, bool small, bool bulk, lend_ns time)
{
	uint64_t now = app_ticks(), every = (uint64_t)((double)d->args->every * app_ticks_per_ns());
	uint64_t end = now + (uint64_t)((double)time * app_ticks_per_ns()), next = now;

	d->tally = tally;
	for (; now < end || d->small.busy || d->bulk.busy; now = app_ticks()) {
		if (bulk && now < end && !d->bulk.busy)
			start_bulk(d);
		if (small && now < end && now >= next && !d->small.busy) {
			start_small(d);
			next = now + every;
		}
		app_pair_poll(&d->pair);
	}
	if (!d->errors)
		return;
	app_bench_serves(app_pair_address(&d->pair), d->last);
	app_die("%s: %llu calls ended %s: give a smaller --bulk, or more --seconds",
		app_pair_address(&d->pair), (unsigned long long)d->errors,
		app_status_name(d->last));
}

static void fill_config(const struct args *args, bool fifo, struct lend_config *config)
{
	config->schedule = fifo ? LEND_AS_THEY_COME : LEND_SHORTEST_FIRST;
	config->message_max = args->bulk > (16 << 20) ? args->bulk : 0;
	config->receive_budget = 2 * args->bulk > (64 << 20) ? 2 * args->bulk : 0;
}

static void open_bench(struct bench *d, const struct args *args, bool fifo)
{
	struct lend_config config = LEND_CONFIG_INIT;
	static struct tally warm;

	memset(d, 0, sizeof(*d));
	d->args = args;
	fill_config(args, fifo, &config);
	app_pair_open(&d->pair, &args->load, &config);
	/* In memory that its peer may read, the transfer would not go through the ring. */
	if (app_load_carrier(&args->load) != APP_SHM)
		app_pattern_register(d->pair.ep);
	if (lend_connect(d->pair.ep, app_pair_address(&d->pair), &d->session) < 0)
		app_die("%s", lend_why());
	lend_hist_init(&warm.hist);
	run_calls(d, &warm, true, true, args->load.time / 20);
}

static void close_bench(struct bench *d, uint64_t *wrong_bytes)
{
	*wrong_bytes += d->wrong_bytes;
	app_pair_close(&d->pair);
}

static void run_slice(struct bench *d, struct tally *tally, bool small, bool bulk)
{
	const struct args *args = d->args;

	lend_hist_init(&tally->hist);
	tally->bytes = 0;
	tally->seconds = 0;
	run_calls(d, tally, small, bulk, args->load.time / args->rounds / (PHASES * SLICES));
	tally->calls += tally->hist.count;
	app_series_add(&tally->p50, app_hist_us(&tally->hist, 0.5));
	app_series_add(&tally->p99, app_hist_us(&tally->hist, 0.99));
	app_series_add(&tally->rate,
		       tally->seconds > 0 ? (double)tally->bytes * 8e-9 / tally->seconds : 0);
}

/* Runs the transfer until the small calls of the phase before do not affect it any more. */
static void run_slice_alone(struct bench *d, struct tally *tally)
{
	static struct tally warm;

	run_calls(d, &warm, false, true, AFTER_NS);
	run_slice(d, tally, false, true);
}

static void run_rounds(const struct args *args, struct tally tally[PHASES], uint64_t *wrong_bytes)
{
	struct bench d;

	for (unsigned i = 0; i < args->rounds; i++) {
		open_bench(&d, args, false);
		for (int k = 0; k < SLICES; k++) {
			run_slice(&d, &tally[UNLOADED], true, false);
			run_slice(&d, &tally[LOADED], true, true);
			run_slice_alone(&d, &tally[ALONE]);
		}
		close_bench(&d, wrong_bytes);
		open_bench(&d, args, true);
		for (int k = 0; k < SLICES; k++) {
			run_slice(&d, &tally[FIFO_LOADED], true, true);
			run_slice_alone(&d, &tally[FIFO_ALONE]);
		}
		close_bench(&d, wrong_bytes);
	}
}

/* Reports p50_us_<phase>, p99_us_<phase>, calls_<phase> and kb_meanwhile_<phase>. */
static void report_calls(struct app_report *r, const char *phase, const struct tally *tally,
			 const char *meaning)
{
	char key[32], text[64];

	snprintf(key, sizeof(key), "p50_us_%s", phase);
	snprintf(text, sizeof(text), "us, median, %s", meaning);
	app_report_num(r, key, app_series_median(&tally->p50), 2, text);
	snprintf(key, sizeof(key), "p99_us_%s", phase);
	snprintf(text, sizeof(text), "us, %s", meaning);
	app_report_num(r, key, app_series_median(&tally->p99), 2, text);
	snprintf(key, sizeof(key), "calls_%s", phase);
	app_report_int(r, key, tally->calls, "small calls measured");
	snprintf(key, sizeof(key), "kb_meanwhile_%s", phase);
	app_report_num(r, key, (double)tally->meanwhile / 1024 / (double)tally->calls, 1,
		       "KiB sent during a small call, mean");
}

static void write_report(const struct args *args, const struct tally *tally, uint64_t wrong_bytes)
{
	struct app_report r;

	app_report_begin(&r, args->load.json, "priority: an urgent call of 64 B behind a transfer");
	report_calls(&r, "unloaded", &tally[UNLOADED], "alone");
	report_calls(&r, "loaded", &tally[LOADED], "behind the transfer");
	report_calls(&r, "fifo", &tally[FIFO_LOADED], "behind it, no scheduler");
	app_report_num(&r, "p50_ratio", app_series_ratio(&tally[LOADED].p50, &tally[UNLOADED].p50),
		       2, "loaded of unloaded, medians");
	app_report_num(&r, "p99_ratio", app_series_ratio(&tally[LOADED].p99, &tally[UNLOADED].p99),
		       2, "loaded of unloaded, p99");
	app_report_num(&r, "bulk_gbit_per_s", app_series_median(&tally[ALONE].rate), 2,
		       "the transfer alone");
	app_report_num(&r, "bulk_gbit_per_s_loaded", app_series_median(&tally[LOADED].rate), 2,
		       "with small calls");
	app_report_num(&r, "bulk_gbit_per_s_off", app_series_median(&tally[FIFO_ALONE].rate), 2,
		       "alone, no scheduler");
	app_report_num(&r, "bulk_percent_of_off",
		       100 * app_series_ratio(&tally[ALONE].rate, &tally[FIFO_ALONE].rate), 1,
		       "rate with the scheduler, relative to without");
	app_report_int(&r, "slices", tally[LOADED].p50.n, "of each phase: medians over them");
	app_report_int(&r, "bulk", args->bulk, "bytes of a transfer");
	app_report_num(&r, "every_us", (double)args->every / 1e3, 1, "from one call to the next");
	app_report_carrier(&r, app_load_carrier(&args->load));
	app_report_text(&r, "verified", "small calls: memcmp, transfers: length and ends", "");
	app_report_int(&r, "wrong_bytes", wrong_bytes, "");
	app_report_end(&r);
}

static const struct lend_option options[] = {
    OPT_SIZE(struct args, bulk, "bulk", 1 << 16, 1 << 30, "Length of the transfer (64M)"),
    OPT_TIME(struct args, every, "every", "Time between small calls (100us)"),
    OPT_NUMBER(struct args, rounds, "rounds", 1, ROUNDS_MAX, "Number of slices of the time (4)"),
    {.name = NULL}};

static const char doc[] =
    "Latency of an urgent call of 64 bytes behind a bulk transfer of the same session.\v"
    "Measured alone, behind a continuous transfer of priority 8, and the same between endpoints "
    "that send in order of arrival (config.schedule). Figures are medians over slices of the time, "
    "in which these take turns.\n\n"
    "  lend bench priority --carrier shm --bulk 64M --json\n"
    "  lend bench priority --carrier dpdk:memif --seconds 10";

int app_priority(int argc, char **argv)
{
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_load_syntax,
					   .child_at = offsetof(struct args, load),
					   .some = "carrier connect seconds one-thread sleep json",
					   .doc = doc};
	static struct tally tally[PHASES];
	struct args args = {
	    .load = APP_LOAD_ARGS_INIT, .bulk = 64 << 20, .every = 100000, .rounds = 4};
	uint64_t wrong_bytes = 0;

	args.load.time = UINT64_C(5000000000);
	app_options_read(&syntax, argc, argv, &args);
	app_pattern_init(SEED, args.bulk);
	run_rounds(&args, tally, &wrong_bytes);
	write_report(&args, tally, wrong_bytes);
	return wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
