/* mem_lat - how long a put, a get and a release take, beside a plain call of the same size.
 * Layer: apps. Threads: one. */
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/line.h"
#include "apps/common/node.h"
#include "apps/common/server.h"
#include "util/check.h"

enum { OP_PUT, OP_GET, OP_RELEASE, OPS };

struct ops {
	struct app_load_args args;
	const char *node_address;
	struct app_net net;
	unsigned me, node;
	struct app_child mn;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct lend_hist hist[OPS];
	uint64_t rounds, wrong_bytes;
};

struct timed {
	struct lend_op op;
	bool ended;
};

enum { KEY_NODE = 0x7801 };

static const struct argp_option options[] = {
    {"node", KEY_NODE, "ADDR", 0, "Use the memory node at ADDR instead of starting one", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ops *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->args;
		return 0;
	case KEY_NODE:
		o->node_address = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->args.carrier == APP_DPDK_RING)
			app_bad(
			    "--carrier dpdk-ring: rings stay within one process; give dpdk-memif");
		if (o->args.one_thread || o->args.connect || o->args.window != 1 ||
		    o->args.sessions != 1)
			app_bad("one operation at a time, each end a process: leave out "
				"--one-thread, --connect, "
				"--window and --sessions");
		if (o->args.size < 1 || o->args.size > APP_PATTERN_MAX)
			app_bad("--size: give 1 to %d bytes", APP_PATTERN_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void ended(struct lend_op *op)
{
	((struct timed *)(void *)op)->ended = true;
}

static struct timed begin(void)
{
	return (struct timed){.op = {.done = ended}};
}

/* Polls until the operation that was started with rc has ended; adds its time to kind's histogram.
 */
static void finish(struct ops *o, int kind, struct timed *t, int rc, uint64_t since)
{
	static const char *const name[] = {"put", "get", "release"};

	while (rc >= 0 && !t->ended)
		rc = lend_poll(o->ep);
	if (rc < 0)
		app_die("%s: %s", name[kind], lend_why());
	if (t->op.status != LEND_OK)
		app_die("%s ended %s: look at lend mem stat --node ADDR", name[kind],
			app_status_name(t->op.status));
	lend_hist_add(&o->hist[kind],
		      (uint64_t)((double)(app_ticks() - since) / app_ticks_per_ns()));
}

static void one_round(struct ops *o, char *into)
{
	const char *bytes = app_pattern(o->rounds, o->args.size);
	struct iovec data = {(void *)(uintptr_t)bytes, o->args.size}, back = {into, o->args.size};
	struct timed t = begin();
	struct lend_ref ref;
	uint64_t since = app_ticks();

	finish(o, OP_PUT, &t, lend_put(o->mem, &data, 1, NULL, &t.op), since);
	ref = t.op.ref;
	t = begin();
	since = app_ticks();
	finish(o, OP_GET, &t, lend_get(o->mem, &ref, 0, &back, 1, &t.op), since);
	if (memcmp(into, bytes, o->args.size) != 0)
		o->wrong_bytes += o->args.size;
	t = begin();
	since = app_ticks();
	finish(o, OP_RELEASE, &t, lend_release(o->mem, &ref, 1, &t.op), since);
	o->rounds++;
}

static void rounds(struct ops *o, lend_ns time, char *into)
{
	lend_ns began = app_now();

	o->rounds = 0;
	for (int i = 0; i < OPS; i++)
		lend_hist_init(&o->hist[i]);
	while (app_now() < began + time) {
		one_round(o, into);
		app_progress(began, (double)(app_now() - began), (double)time);
	}
	app_progress_clear();
}

static void measure(struct ops *o)
{
	char *into = malloc(o->args.size);
	struct lend_config config = LEND_CONFIG_INIT;

	if (!into)
		app_die("no memory for --size %llu; give a smaller one",
			(unsigned long long)o->args.size);
	app_net_init(&o->net, o->args.carrier);
	o->me = app_net_add(&o->net);
	o->node = app_net_add(&o->net);
	app_net_link(&o->net, o->me, o->node);
	app_net_plan(&o->net);
	if (o->node_address)
		app_net_ready(&o->net, o->node, o->node_address);
	else
		app_child_start_mn(&o->mn, &o->net, o->node, (64 << 20) + 4 * o->args.size,
				   app_cpu(1));
	config.listen = app_net_listen(&o->net, o->me);
	config.eal = app_net_eal(&o->net, o->me);
	if (lend_open(&config, &o->ep) < 0)
		app_die("%s", lend_why());
	app_pin(app_cpu(0));
	o->mem = app_node_open(o->ep, app_net_address(&o->net, o->me, o->node));
	rounds(o, o->args.time / 10 + 1000000, into);
	rounds(o, o->args.time, into);
	free(into);
}

static double p50(const struct lend_hist *h)
{
	return (double)lend_hist_quantile(h, 0.5) / 1e3;
}

static void report(struct ops *o, const struct app_bench *plain, double line)
{
	double call = p50(&plain->load.hist), put = p50(&o->hist[OP_PUT]),
	       get = p50(&o->hist[OP_GET]);
	struct lend_mem_stat stat;
	struct app_report r;

	app_node_stat_idle(o->mem, &stat);
	app_report_begin(&r, o->args.json, "mem lat: one operation at a time");
	app_report_num(&r, "call_p50_us", call, 3, "us, a plain call that echoes as many bytes");
	app_report_num(&r, "put_p50_us", put, 3, "us, put");
	app_report_num(&r, "get_p50_us", get, 3, "us, get of the whole");
	app_report_num(&r, "release_p50_us", p50(&o->hist[OP_RELEASE]), 3, "us, release");
	app_report_num(&r, "put_over_call", call > 0 ? put / call : 0, 2,
		       "put beside the plain call");
	app_report_num(&r, "get_over_call", call > 0 ? get / call : 0, 2,
		       "get beside the plain call");
	app_report_num(&r, "put_p99_us", (double)lend_hist_quantile(&o->hist[OP_PUT], 0.99) / 1e3,
		       3, "us");
	app_report_num(&r, "get_p99_us", (double)lend_hist_quantile(&o->hist[OP_GET], 0.99) / 1e3,
		       3, "us");
	app_report_int(&r, "rounds", o->rounds, "of put, get and release");
	app_report_int(&r, "wrong_bytes", o->wrong_bytes, "that came back other than put (memcmp)");
	app_report_int(&r, "pages_used_after", stat.pages_used, "on the node");
	app_report_int(&r, "size", o->args.size, "bytes");
	app_report_text(&r, "carrier", app_carrier_name(o->args.carrier), "");
	app_report_num(&r, "line_ns_before", line, 1, "ns, a cache line there and back");
	app_report_text(&r, "distance_before", app_line_name(line), "of the two CPUs");
	app_report_end(&r);
}

int app_mem_lat(int argc, char **argv)
{
	static struct ops ops = {.args = APP_LOAD_ARGS_INIT};
	static struct app_bench plain;
	static const struct argp_child children[] = {{&app_load_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {.options = options,
					 .parser = parse,
					 .children = children,
					 .doc = "The time of a put, a get and a release, beside a "
						"plain call that echoes as many bytes.\v"
						"  lend mem lat --carrier shm --size 4096 --json"};
	struct app_load_args half;
	double line;

	ops.args.size = 4096;
	app_parse(&argp, argc, argv, &ops);
	if (ops.args.count)
		app_bad("it runs for a time: give --seconds instead of --count");
	line = app_line_ns(app_cpu(0), app_cpu(1));
	half = ops.args;
	half.time /= 2;
	app_bench_open(&plain, &half, APP_METHOD_ECHO);
	app_bench_run(&plain);
	app_bench_close(&plain);
	ops.args.time /= 2;
	measure(&ops);
	report(&ops, &plain, line);
	lend_mem_close(ops.mem);
	lend_close(ops.ep);
	app_child_stop(&ops.mn);
	return ops.wrong_bytes || plain.load.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
