/* load_command - lend load --target: runs a mix of requests at one rate, or ramps it up.
 * Layer: apps. Threads: one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/load/load.h"
#include "util/bits.h"

enum {
	RATE_MAX = 10000000,
	STEPS_MAX = 32,
	MEASURABLE = 10,
	FULL_PERCENT = 90, /* a ramp ends when less of the offered requests succeed */
	FULL_STEPS = 2,    /* in a row: other processes may stall one step */
	HOLDS_MAX = 8,
	HOLD_NS = 1500000000, /* least time of each */
	HELD_PERCENT = 95,    /* a load is held when this part of the requests ends in time */
};
static const double growth = 1.3;   /* a step's rate over that of the one before */
static const double descent = 1.15; /* a held load over the next */

struct args {
	const char *target;
	struct load_shape shape;
	uint64_t rate, seed;
	unsigned connections;
	lend_ns time, deadline;
	bool ramp, json;
};

static void take_mix(const struct lend_option *o, void *field, char *value)
{
	if (!load_mix_parse(value, field))
		app_bad("--%s %s: give HOME/USER/COMPOSE or HOME/USER/GET-MEDIA/COMPOSE", o->name,
			value);
}

static const struct lend_option options[] = {
    OPT_TEXT(struct args, target, "target", "URL",
	     "http://HOST:PORT of the service, or the folder of lend social's network"),
    {OPT_FIELD(struct args, shape.share), .name = "mix", .kind = OPT_IS_TAKEN, .take = take_mix,
     .value = "H/U/C",
     .help = "Shares of home timelines, user timelines, composed posts (60/30/10);"
	     " or of these with get-media before the last"},
    OPT_NUMBER(struct args, rate, "rate", 1, RATE_MAX, "Requests per second offered (1000)"),
    OPT_TIME(struct args, time, "seconds", "How long to measure, each step of --ramp (2)",
	     .key = 't'),
    OPT_FLAG(struct args, ramp, "ramp",
	     "Raise the rate by 1.3 from --rate on until less than 90 % succeed, twice in a row;"
	     " then hold the highest goodput, or less, for at least 1.5 s"),
    OPT_NUMBER(struct args, connections, "connections", 1, 4096,
	       "Requests in flight at most, each on its connection (128)"),
    OPT_TIME(struct args, deadline, "deadline", "Deadline of each request (5)"),
    OPT_NUMBER(struct args, shape.users, "users", 1, 1u << 30, "Users of the service (962)"),
    OPT_NUMBER(struct args, shape.posts, "posts", 1, 10000, "Posts of a read at most (10)"),
    OPT_NUMBER(struct args, shape.start, "start", 0, 1u << 30,
	       "Reads begin at 0 to N posts from the newest (100)"),
    OPT_SIZE(struct args, shape.text, "text", 1, 16 << 20, "Text of a composed post (256)"),
    OPT_SIZE(struct args, shape.media, "media", 16, 16 << 20,
	     "Over Lend: medium of a composed post (64K)"),
    OPT_FLAG(struct args, shape.by_ref, "by-ref", "Over Lend: put media on the memory node"),
    OPT_TEXT(struct args, shape.photo, "photo", "FILE", "JPEG of a composed post (media ids only)"),
    OPT_TEXT(struct args, shape.get_photo, "get-photo", "FILE",
	     "JPEG that is stored first, for get-media"),
    OPT_NUMBER(struct args, seed, "seed", 0, UINT32_MAX, "Seed of all that is random (1)"),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static const char doc[] =
    "Offers HTTP requests of DeathStarBench's social network at random times (Poisson), "
    "independent of the replies."
    "\vLatency counts from the time at which a request was due. A request that is due while "
    "--connections are in flight counts as exhausted. The first tenth of the time is not "
    "counted, except in the checks.\n\n"
    "  lend load --target http://127.0.0.1:8080 --mix 60/30/10 --rate 1000 --seconds 10\n"
    "  lend load --target http://127.0.0.1:8080 --mix 25/40/30/5 --photo a.jpg --get-photo b.jpg "
    "--ramp --json";

static void check_args(void *at)
{
	const struct args *args = at;
	const struct load_shape *shape = &args->shape;

	if ((double)args->rate * (double)args->time < MEASURABLE * 1e9)
		app_bad("--rate for --seconds is less than %d requests; raise one of them",
			MEASURABLE);
	if (shape->share[LOAD_GET_MEDIA] && args->target[0] != 'h')
		app_bad("--mix: get-media is for http:// only");
	if (shape->share[LOAD_GET_MEDIA] && !shape->get_photo)
		app_bad("--mix has get-media: give --get-photo FILE");
}

/* The report of one step of a ramp. */
static const char *const columns[] = {"rate",   "goodput_per_s", "mean_ms", "p50_ms",
				      "p99_ms", "p999_ms",       "errors",  "cpu_us_per_request"};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static double goodput_of(const struct load_run *run)
{
	return (double)run->arrivals.completed / run->arrivals.seconds;
}

/* Replies per second while requests start. Short of goodput_of() by what a queue still holds. */
static double served_of(const struct load_run *run)
{
	return (double)run->in_time / run->arrivals.seconds;
}

/* Counts requests that did not end well, in any way. */
static uint64_t count_failed(const struct load_run *run)
{
	const struct app_arrivals *a = &run->arrivals;

	return a->errors + a->expired + a->exhausted;
}

static double quantile_ms(const struct load_run *run, double q)
{
	return app_hist_us(&run->arrivals.hist, q) / 1e3;
}

static double cpu_us(const struct load_run *run)
{
	return run->ended ? run->cpu_seconds * 1e6 / (double)run->ended : 0;
}

static void fill_row(const struct load_run *run, double *cell)
{
	const double row[COLUMNS] = {run->arrivals.rate,
				     goodput_of(run),
				     lend_hist_mean(&run->arrivals.hist) / 1e6,
				     quantile_ms(run, 0.5),
				     quantile_ms(run, 0.99),
				     quantile_ms(run, 0.999),
				     (double)count_failed(run),
				     cpu_us(run)};

	memcpy(cell, row, sizeof(row));
}

/* Reports errors_by_status: {"503": 2, "lost": 1}. */
static void report_codes(const struct load_run *run, struct app_report *report)
{
	char *text = NULL, name[16];
	size_t len;
	FILE *out = open_memstream(&text, &len);
	unsigned n = 0;

	if (!out)
		app_die("no memory for the result");
	fputc('{', out);
	for (unsigned code = 0; code < LOAD_CODES; code++)
		if (run->by_code[code])
			fprintf(out, "%s\"%s\": %" PRIu64, n++ ? ", " : "",
				run->target->ops->code_name(code, name), run->by_code[code]);
	fputc('}', out);
	fclose(out);
	app_report_json(report, "errors_by_status", text, "of all requests, the first tenth too");
	free(text);
}

static double divide_counts(uint64_t sum, uint64_t n)
{
	return n ? (double)sum / (double)n : 0;
}

/* Checks that the mean number in flight equals rate times mean latency. They are counted
 * independently, and differ when requests start later than they are due. */
static bool counts_agree(const struct load_run *run)
{
	return fabs(run->in_flight - run->rate_x_mean) <= 0.05 * run->rate_x_mean + 0.05;
}

static void report_checks(const struct load_run *run, struct app_report *report)
{
	const struct app_arrivals *a = &run->arrivals;

	app_report_num(report, "in_flight", run->in_flight, 3, "requests in flight, mean");
	app_report_num(report, "rate_x_mean", run->rate_x_mean, 3,
		       "the same, from rate and latency");
	app_report_bool(report, "check_in_flight", counts_agree(run),
			"the two agree within 5 %: requests start when they are due");
	app_report_bool(report, "check_ends",
			a->offered == a->completed + a->expired + a->exhausted + a->errors,
			"each ended once");
	app_report_bool(report, "check_order", app_hist_is_ordered(&a->hist), "p50 <= p99 <= max");
}

static void report_run(const struct load_run *run, struct app_report *report)
{
	const struct app_arrivals *a = &run->arrivals;

	app_report_num(report, "rate", a->rate, 1, "requests per second, to be offered");
	app_report_num(report, "offered_per_s", (double)a->offered / a->seconds, 1, "were due");
	app_report_num(report, "goodput_per_s", goodput_of(run), 1, "ended well");
	app_report_num(report, "mean_ms", lend_hist_mean(&a->hist) / 1e6, 4,
		       "ms from the time it was due");
	app_report_num(report, "p50_ms", quantile_ms(run, 0.5), 4, "half took no longer");
	app_report_num(report, "p99_ms", quantile_ms(run, 0.99), 4, "99 % took no longer");
	app_report_num(report, "p999_ms", quantile_ms(run, 0.999), 4, "99.9 % took no longer");
	app_report_int(report, "errors", a->errors, "another status, or wrong bytes");
	app_report_int(report, "expired", a->expired, "no reply by the deadline");
	app_report_int(report, "exhausted", a->exhausted, "all connections were in use");
	report_codes(run, report);
	app_report_num(report, "posts_per_read", divide_counts(run->posts, run->reads), 3,
		       "of home and user timelines");
	app_report_int(report, "wrong_bytes", run->wrong_bytes, "of the media read");
	app_report_num(report, "bytes_per_request", divide_counts(run->bytes, a->completed), 1,
		       "sent and received, of those that ended well");
	app_report_num(report, "cpu_us_per_request", cpu_us(run), 2, "us of this thread's time");
	app_report_int(report, "in_flight_max", run->slots, "requests in flight, at most");
	report_checks(run, report);
}

static bool is_full(const struct load_run *run)
{
	const struct app_arrivals *a = &run->arrivals;

	return a->completed * 100 < a->offered * FULL_PERCENT;
}

static void run_at(const struct args *args, struct load_target *target, struct load_run *run,
		   double rate, lend_ns time, uint64_t seed)
{
	run->shape = &args->shape;
	run->slots = args->connections;
	run->target = target;
	load_run(run, rate, time, args->deadline, seed);
}

/* Runs steps into run[0..], and their rows into cell. Returns the step with the highest goodput. */
static unsigned run_steps(const struct args *args, struct load_target *target, struct load_run *run,
			  double *cell, unsigned *n)
{
	double rate = (double)args->rate;
	unsigned best = 0, i = 0, full = 0;

	for (;; rate *= growth) {
		run_at(args, target, &run[i], rate, args->time, args->seed + i);
		fill_row(&run[i], &cell[i * COLUMNS]);
		best = goodput_of(&run[i]) > goodput_of(&run[best]) ? i : best;
		full = is_full(&run[i]) ? full + 1 : 0;
		if (++i == STEPS_MAX || !args->ramp || full == FULL_STEPS)
			break;
	}
	*n = i;
	return best;
}

/* Holds a load, and less as long as it is too much: the queue of a short step hides that. Returns
 * the one of the runs that served most. */
static unsigned run_holds(const struct args *args, struct load_target *target, double rate,
			  struct load_run *run)
{
	unsigned best = 0;

	for (unsigned i = 0; i < HOLDS_MAX; i++, rate /= descent) {
		run_at(args, target, &run[i], rate, lend_max_u64(args->time, HOLD_NS),
		       args->seed + STEPS_MAX + i);
		best = served_of(&run[i]) > served_of(&run[best]) ? i : best;
		if (run[i].in_time * 100 >= run[i].arrivals.offered * HELD_PERCENT)
			break;
	}
	return best;
}

static void write_report(const struct args *args, const struct load_run *best, double *cell,
			 unsigned n)
{
	const struct app_table steps = {
	    .key = "steps", .column = columns, .columns = COLUMNS, .rows = n, .cell = cell};
	struct app_report to;

	app_report_begin(&to, args->json, "load: requests at random times");
	if (args->ramp)
		app_report_num(&to, "saturation_per_s", served_of(best), 1,
			       "the highest goodput that was held; what follows is of that run");
	report_run(best, &to);
	app_report_text(&to, "target", args->target, "");
	if (args->ramp)
		app_report_table(&to, &steps);
	app_report_end(&to);
}

/* Returns the exit code, with a line for what makes it a failure. */
static int judge_run(const struct load_run *run)
{
	if (run->wrong_bytes)
		app_note("%" PRIu64 " wrong bytes", run->wrong_bytes);
	if (run->arrivals.completed == 0)
		app_note("no request ended well");
	else if (run->reads && !run->posts)
		app_note("the reads had no posts: fill the timelines first");
	else if (!run->wrong_bytes)
		return APP_EXIT_OK;
	return APP_EXIT_FAILED;
}

static struct load_target *open_target(const struct args *args)
{
	bool folder = args->target[0] == '/' || args->target[0] == '.';

	if (folder && !load_native_open)
		app_bad("--target %s: not in this build; install libprotobuf-c-dev and build again",
			args->target);
	return (folder ? load_native_open : load_http_open)(
	    args->target, args->connections, args->deadline, &args->shape, args->seed);
}

int app_load_target(int argc, char **argv)
{
	static struct args args = {
	    .shape = {.share = {[LOAD_HOME] = 60, [LOAD_USER] = 30, [LOAD_COMPOSE] = 10},
		      .users = 962,
		      .posts = 10,
		      .start = 100,
		      .text = 256,
		      .media = 64 << 10},
	    .rate = 1000,
	    .seed = 1,
	    .connections = 128,
	    .time = 2000000000,
	    .deadline = 5000000000};
	const struct lend_syntax syntax = {.option = options, .check = check_args, .doc = doc};
	static struct load_run run[STEPS_MAX + HOLDS_MAX];
	static double cell[STEPS_MAX * COLUMNS];
	struct load_target *target;
	unsigned n, best;
	int code = APP_EXIT_OK;

	app_options_read(&syntax, argc, argv, &args);
	target = open_target(&args);
	best = run_steps(&args, target, run, cell, &n);
	if (args.ramp)
		best = n + run_holds(&args, target, goodput_of(&run[best]), &run[n]);
	write_report(&args, &run[best], cell, n);
	for (unsigned i = 0; i < n && code == APP_EXIT_OK; i++)
		code = judge_run(&run[i]);
	target->ops->close(target);
	return code;
}
