/* deadline - the share of calls that miss their deadline, in deadline order and in FIFO order.
 *
 * One worker serves calls of equal duration, half of them with a short deadline. They arrive at
 * random times, at a share of the rate that was just measured as its capacity. Two such servers,
 * which differ only in their order, get the same calls in turns of about a second, since the
 * capacity of a machine changes. Layer: apps. Threads: one. */
#include <math.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/bench_server.h"
#include "util/bits.h"
#include "util/rng.h"

enum { CALLS = 1000, AHEAD = 8, SOON = 6, LATER = 200, SEED = 5 };
#define SLICE UINT64_C(1000000000) /* length of one server's turn, at most and about */

struct args {
	struct app_load_args load;
	lend_ns work;
	unsigned percent; /* offered load in percent of the worker's capacity */
};

struct one {
	struct lend_call call;
	struct run *run;
	bool busy;
};

/* The results of one server. */
struct side {
	unsigned server;
	struct app_child child;
	lend_session session;
	uint64_t missed[2]; /* short deadline; long deadline */
};

struct run {
	const struct args *args;
	struct app_net net;
	unsigned me;
	struct lend_ep *ep;
	struct side side[2]; /* FIFO; by deadline */
	struct side *now;    /* the server that is measured now */
	struct one one[CALLS];
	uint64_t ended, asked;
	unsigned busy;
	double gap; /* ns between calls, in the last turn */
};

static void call_done(struct lend_call *call)
{
	struct one *one = (struct one *)(void *)call;
	struct run *r = one->run;

	r->now->missed[call->timeout != SOON * r->args->work] +=
	    call->status == LEND_DEADLINE_EXCEEDED;
	if (call->status != LEND_OK && call->status != LEND_DEADLINE_EXCEEDED)
		app_die("a call ended %s: is the server still running?",
			app_status_name(call->status));
	if (call->reply)
		lend_buf_give(r->ep, call->reply);
	if (call->request)
		lend_buf_give(r->ep, call->request);
	one->busy = false;
	r->busy--;
	r->ended++;
}

static void start_calls(struct run *r, lend_ns timeout)
{
	struct one *one = r->one;
	struct lend_buf *buf = lend_buf_take(r->ep, 8);

	while (one < r->one + CALLS && one->busy)
		one++;
	if (one == r->one + CALLS || !buf)
		app_die("%d calls wait: give a smaller --load", CALLS);
	lend_store_u64(buf->data, r->args->work);
	buf->len = 8;
	*one = (struct one){.run = r, .busy = true};
	one->call = (struct lend_call){
	    .method = APP_METHOD_WORK, .timeout = timeout, .request = buf, .done = call_done};
	if (lend_call_start(r->ep, r->now->session, &one->call) < 0)
		app_die("%s", lend_why());
	r->busy++;
}

static void run_turn(struct run *r, lend_ns until)
{
	if (lend_wait(r->ep, until) < 0)
		app_die("%s", lend_why());
}

/* Returns the nanoseconds per call of both servers when their queues are never empty. */
static double measure_capacity(struct run *r, lend_ns time)
{
	uint64_t before = r->ended;
	lend_ns began = app_now();

	for (int i = 0; i < 2; i++) {
		lend_ns end = app_now() + time / 2;

		r->now = &r->side[i];
		while (app_now() < end) {
			while (r->busy < AHEAD)
				start_calls(r, APP_CALL_NS);
			run_turn(r, lend_now(r->ep) + time);
		}
		while (r->busy)
			run_turn(r, lend_now(r->ep) + time);
	}
	return (double)(app_now() - began) / (double)(r->ended - before);
}

static void open_side(struct run *r, bool by_deadline)
{
	struct side *s = &r->side[by_deadline];
	const char *argv[] = {"serve",
			      "--workers",
			      "1",
			      "--calls",
			      "1024",
			      "--schedule",
			      by_deadline ? "deadline" : "fifo",
			      NULL};

	app_child_start(&s->child, "the server", argv, &r->net, s->server, APP_ANY_CPU);
	if (lend_connect(r->ep, app_net_address(&r->net, r->me, s->server), &s->session) < 0)
		app_die("%s", lend_why());
}

/* Opens the client and both servers. Calls of eight bytes never wait at the client, so only the
 * server's order matters. */
static void open_run(struct run *r, const struct args *args)
{
	struct lend_config config = LEND_CONFIG_INIT;

	r->args = args;
	app_net_init(&r->net, args->load.carrier);
	r->me = app_net_add(&r->net);
	for (int i = 0; i < 2; i++) {
		r->side[i].server = app_net_add(&r->net);
		app_net_link(&r->net, r->me, r->side[i].server);
	}
	app_net_plan(&r->net);
	config.calls = 1024;
	config.listen = app_net_listen(&r->net, r->me);
	config.eal = app_net_eal(&r->net, r->me);
	if (lend_open(&config, &r->ep) < 0)
		app_die("%s", lend_why());
	open_side(r, false);
	open_side(r, true);
}

static void close_run(struct run *r)
{
	lend_close(r->ep);
	for (int i = 0; i < 2; i++)
		app_child_stop(&r->side[i].child);
}

/* Starts calls with exponential gaps, like many independent callers. Returns how many calls it
 * started. */
static uint64_t offer_calls(struct run *r, lend_ns time, uint64_t seed)
{
	lend_ns began = lend_now(r->ep);
	double next = (double)began;
	struct lend_rng rng;
	uint64_t n = 0;

	lend_rng_seed(&rng, seed);
	while (next < (double)(began + time)) {
		bool later = lend_rng_below(&rng, 2);

		next -= r->gap * log((double)(lend_rng_below(&rng, 1 << 24) + 1) / (1 << 24));
		while ((double)lend_now(r->ep) < next)
			run_turn(r, (lend_ns)next);
		start_calls(r, (later ? LATER : SOON) * r->args->work);
		n++;
	}
	while (r->busy)
		run_turn(r, lend_now(r->ep) + time);
	return n;
}

/* Runs the same calls on both servers, one server after the other. */
static void run_both(struct run *r, lend_ns time, uint64_t seed)
{
	r->gap = measure_capacity(r, time / 5) / r->args->percent *
		 100; /* measured each time: the machine's speed changes */
	for (int i = 0; i < 2; i++) {
		r->now = &r->side[i];
		r->asked += offer_calls(r, time * 2 / 5, seed);
	}
}

static void write_report(const struct args *args, const struct run *run)
{
	const struct side *came = &run->side[0], *due = &run->side[1];
	double calls = (double)run->asked / 2;
	double fifo = 100 * (double)(came->missed[0] + came->missed[1]) / calls;
	double edf = 100 * (double)(due->missed[0] + due->missed[1]) / calls;
	struct app_report r;

	app_report_begin(&r, args->load.json, "deadlines: calls that miss their deadline");
	app_report_num(&r, "missed_percent_fifo", fifo, 3, "started in order of arrival");
	app_report_num(&r, "missed_percent_deadline", edf, 3, "started by deadline");
	app_report_num(&r, "missed_of_fifo", fifo > 0 ? edf / fifo : 0, 3, "by deadline : fifo");
	app_report_int(&r, "missed_soon_fifo", came->missed[0],
		       "of the calls with short deadlines");
	app_report_int(&r, "missed_later_fifo", came->missed[1], "of the others");
	app_report_int(&r, "missed_soon_deadline", due->missed[0], "");
	app_report_int(&r, "missed_later_deadline", due->missed[1], "");
	app_report_int(&r, "calls", run->asked / 2, "each way, the same");
	app_report_num(&r, "load", args->percent / 100.0, 2, "of the worker's capacity");
	app_report_num(&r, "gap_us", run->gap / 1e3, 1, "us, mean time between calls, at the end");
	app_report_num(&r, "work_us", (double)args->work / 1e3, 1, "us, of a call in the worker");
	app_report_num(&r, "soon_us", SOON * (double)args->work / 1e3, 1,
		       "us, deadline of one half of the calls");
	app_report_num(&r, "later_us", LATER * (double)args->work / 1e3, 1,
		       "us, deadline of the other half");
	app_report_carrier(&r, args->load.carrier);
	app_report_end(&r);
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct args, percent, "load", 1, 99, "Percent of the worker's capacity: 90"),
    OPT_TIME(struct args, work, "work", "Time of a call in the worker (1ms)"),
    {.name = NULL}};

static const char doc[] =
    "Which share of calls comes too late: started by deadline, and as they come.\v"
    "One worker gets calls at random times at 0.9 of its capacity. The deadline of one half is six "
    "times the work, that of the other half two hundred times. A call that is late already is not "
    "started. The work is a wait, as for a disk, so that its time does not depend on the machine's "
    "load. Two servers get the same calls in turns.\n\n"
    "  lend bench deadlines --seconds 20\n"
    "  lend bench deadlines --carrier udp --load 80 --json";

int app_deadlines(int argc, char **argv)
{
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_load_syntax,
					   .child_at = offsetof(struct args, load),
					   .some = "carrier seconds json",
					   .doc = doc};
	static struct run run;
	struct args args = {.load = APP_LOAD_ARGS_INIT, .work = 1000000, .percent = 90};
	uint64_t turns;

	args.load.time = 10 * SLICE;
	app_options_read(&syntax, argc, argv, &args);
	if (args.load.carrier == APP_DPDK_RING)
		app_bad("--carrier dpdk:ring: rings stay within one process; give dpdk:memif");
	open_run(&run, &args);
	turns = lend_max_u64(args.load.time / (2 * SLICE), 1);
	for (uint64_t i = 0; i < turns; i++)
		run_both(&run, args.load.time / turns, SEED + i);
	close_run(&run);
	write_report(&args, &run);
	return APP_EXIT_OK;
}
