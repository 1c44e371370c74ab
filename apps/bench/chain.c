/* chain - a chain of services, one process each, that passes data by value or by reference.
 * Layer: apps. Threads: one. */
#include "apps/bench/chain.h"

#include <stdio.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/memnode.h"
#include "lend/stats.h"

enum { KEY_BY = 0x7701, KEY_NODE, KEY_POOL, KEY_SWEEP, SEED = 3, WARM_SHARE = 10 };

static const struct argp_option options[] = {
    {"hops", 'h', "N", 0, "Services in the chain (5)", 0},
    {"by", KEY_BY, "HOW", 0,
     "value; ref: the last hop reads the caller's memory (default); node: through a memory node; "
     "auto: node above a length measured at start",
     0},
    {"node", KEY_NODE, "ADDR", 0, "Use the memory node at ADDR instead of starting one", 0},
    {"pool", KEY_POOL, NULL, 0,
     "The memory node shares its pages with the caller and the last hop (pool:)", 0},
    {"sweep", KEY_SWEEP, NULL, 0, "Measure both ways at sizes from 1 KiB to --size", 0},
    {0}};

static void parse_by(struct app_chain *chain, const char *text)
{
	static const char *const names[] = {"value", "ref", "auto", "node"};

	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(text, names[i]))
			continue;
		chain->by = (enum app_by)i;
		return;
	}
	app_bad("--by %s: give value, ref, node or auto", text);
}

static void check_args(const struct app_chain *chain)
{
	if (chain->load_args.carrier == APP_DPDK_RING)
		app_bad("--carrier dpdk:ring: rings stay within one process; give dpdk:memif for a "
			"chain of processes");
	if (chain->pool && chain->node_address)
		app_bad("--pool starts a node on this host: leave out --node");
	if (chain->load_args.size > APP_PATTERN_MAX)
		app_bad("--size: give at most %d bytes", APP_PATTERN_MAX);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct app_chain *chain = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &chain->load_args;
		return 0;
	case 'h':
		chain->hops = (unsigned)app_arg_u64("--hops", arg, 1, APP_CHAIN_HOPS_MAX);
		return 0;
	case KEY_BY:
		parse_by(chain, arg);
		return 0;
	case KEY_NODE:
		chain->node_address = arg;
		return 0;
	case KEY_POOL:
		return app_arg_flag(&chain->pool);
	case KEY_SWEEP:
		return app_arg_flag(&chain->sweep);
	case ARGP_KEY_END:
		check_args(chain);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char *way_name(const struct app_chain *chain)
{
	if (chain->by == APP_BY_REF)
		return "ref";
	return chain->size > lend_args_threshold(chain->mem, chain->session, 0) ? "node" : "value";
}

/* The message_max that --size needs; 0 if the endpoint's default is enough. */
static uint64_t message_max(const struct app_chain *chain)
{
	uint64_t bytes = chain->load_args.size + APP_HEADS;

	return bytes > 16 << 20 ? bytes : 0;
}

/* The receive budget: twice the bytes in flight. */
static uint64_t budget_bytes(const struct app_chain *chain)
{
	uint64_t all = 2 * chain->load_args.size * chain->load_args.window;

	return all > 64 << 20 ? all : 64 << 20;
}

static void plan_net(struct app_chain *chain, bool with_node)
{
	struct app_net *net = &chain->net;

	app_net_init(net, chain->load_args.carrier);
	chain->me = app_net_add(net);
	for (unsigned i = 0; i < chain->hops; i++) {
		chain->hop[i] = app_net_add(net);
		app_net_link(net, i ? chain->hop[i - 1] : chain->me, chain->hop[i]);
	}
	chain->node = app_net_add(net);
	if (chain->by == APP_BY_REF) /* the last hop connects to the caller */
		app_net_link(net, chain->hop[chain->hops - 1], chain->me);
	if (with_node) {
		app_net_link(net, chain->me, chain->node);
		app_net_link(net, chain->hop[chain->hops - 1], chain->node);
	}
	app_net_plan(net);
	if (chain->pool)
		app_net_pool(net, chain->node);
}

static void start_hop(struct app_chain *chain, unsigned i, bool with_node)
{
	static char names[APP_CHAIN_HOPS_MAX][16];
	char longest[24], bytes[24];
	const char *argv[12] = {"hop", "--message-max", longest, "--receive-budget", bytes};
	unsigned n = 5;

	snprintf(names[i], sizeof(names[i]), "hop %u", i + 1);
	snprintf(longest, sizeof(longest), "%llu", (unsigned long long)message_max(chain));
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)budget_bytes(chain));
	if (i + 1 < chain->hops) {
		argv[n++] = "--next";
		argv[n++] = app_net_address(&chain->net, chain->hop[i], chain->hop[i + 1]);
	} else if (with_node) {
		argv[n++] = "--node";
		argv[n++] = app_net_address(&chain->net, chain->hop[i], chain->node);
	}
	app_child_start(&chain->child[i], names[i], argv, &chain->net, chain->hop[i], APP_ANY_CPU);
}

static void open_chain(struct app_chain *chain)
{
	bool with_node = chain->by == APP_BY_NODE || chain->by == APP_BY_AUTO || chain->sweep ||
			 chain->node_address;
	struct lend_config config = LEND_CONFIG_INIT;

	chain->with_node = with_node;
	plan_net(chain, with_node);
	if (with_node && chain->node_address)
		app_net_ready(&chain->net, chain->node, chain->node_address);
	else if (with_node)
		app_child_start_mn(&chain->mn, &chain->net, chain->node, 2 * budget_bytes(chain),
				   APP_ANY_CPU);
	for (unsigned i = chain->hops; i-- > 0;)
		start_hop(chain, i, with_node);
	config.listen = app_net_listen(&chain->net, chain->me);
	config.eal = app_net_eal(&chain->net, chain->me);
	config.receive_budget = budget_bytes(chain);
	config.message_max = message_max(chain);
	if (lend_open(&config, &chain->ep) < 0 ||
	    lend_connect(chain->ep, app_net_address(&chain->net, chain->me, chain->hop[0]),
			 &chain->session) < 0)
		app_die("%s", lend_why());
	if (with_node)
		chain->mem =
		    app_node_open(chain->ep, app_net_address(&chain->net, chain->me, chain->node));
	else if (lend_mem_open(chain->ep, "", &chain->mem) < 0)
		app_die("%s", lend_why());
	app_pattern_init(SEED, chain->load_args.size);
	app_pattern_register(chain->ep);
	app_chain_lanes_make(chain);
}

static void close_chain(struct app_chain *chain)
{
	lend_mem_close(chain->mem);
	lend_close(chain->ep);
	for (unsigned i = 0; i < chain->hops; i++)
		app_child_stop(&chain->child[i]);
	app_child_stop(&chain->mn);
	app_chain_lanes_free(chain);
}

/* Returns the bytes that all processes have sent through their carriers so far. */
static uint64_t moved_bytes(struct app_chain *chain)
{
	struct lend_mem_stat node = {.tx_bytes = 0};
	struct lend_stats mine;
	uint64_t sum, tx, rx;

	if (chain->with_node)
		app_node_stat(chain->mem, &node);
	lend_stats_get(chain->ep, &mine);
	sum = mine.tx_bytes + node.tx_bytes;
	for (unsigned i = 0; i < chain->hops; i++) {
		app_child_bytes(&chain->child[i], &tx, &rx);
		sum += tx;
	}
	return sum;
}

static void run_load(struct app_chain *chain, lend_ns time)
{
	int rc;

	chain->load.time = time;
	rc = app_load_run(&chain->load, chain->order, chain->load_args.window);
	if (rc < 0)
		app_die("the chain stopped: %s", lend_why());
	if (chain->load.errors == chain->load.ended)
		app_die("all requests ended %s: %s", app_status_name(chain->load.last),
			chain->load.last == LEND_RESOURCE_EXHAUSTED
			    ? "give a smaller --size or --window"
			: *lend_why() ? lend_why()
				      : "see the lines above");
}

/* Warms up, then measures; returns the bytes moved per call. */
static double measure_step(struct app_chain *chain, uint64_t size, enum app_by by, lend_ns time)
{
	static const uint64_t above[] = {LEND_NEVER - 1, 0, LEND_NEVER, 0};
	uint64_t before;

	chain->size = size;
	lend_args_threshold_set(chain->mem, above[by]);
	if (lend_args_place(chain->mem,
			    by == APP_BY_REF ? LEND_ARGS_AT_CALLER : LEND_ARGS_AT_NODE) < 0)
		app_die("%s", lend_why());
	app_pattern_crc(0, size);
	run_load(chain, time / WARM_SHARE + 10000000);
	before = moved_bytes(chain);
	run_load(chain, time);
	return (double)(moved_bytes(chain) - before) / (double)chain->load.ended;
}

static void report_one(struct app_chain *chain)
{
	struct app_report report;
	struct lend_mem_stat node = {.pages_used = 0};
	struct lend_args_stat args;
	double bytes;

	chain->size = chain->load_args.size;
	if (chain->by == APP_BY_AUTO && lend_args_measure(chain->mem, chain->session) < 0)
		app_die("%s", lend_why());
	bytes = measure_step(chain, chain->size, chain->by, chain->load_args.time);
	if (chain->with_node)
		app_node_stat_idle(chain->mem, &node);
	app_report_begin(&report, chain->load_args.json,
			 "chain: every hop is a process of its own");
	app_load_report(&chain->load, &report);
	app_report_num(&report, "gbit_per_s",
		       8e-9 * (double)chain->size *
			   (double)(chain->load.ended - chain->load.errors) / chain->load.seconds,
		       3, "10^9 bits of payload through the chain");
	app_report_num(&report, "bytes_moved_per_call", bytes, 1, "sent by all processes");
	app_report_int(&report, "size", chain->size, "bytes of payload");
	app_report_int(&report, "hops", chain->hops, "services");
	app_report_text(&report, "by", way_name(chain), "how the payload is passed");
	if (chain->by == APP_BY_AUTO)
		app_report_int(&report, "inline_max",
			       lend_args_threshold(chain->mem, chain->session, 0),
			       "longest payload that is passed by value, measured");
	app_report_text(&report, "verified", "crc32c", "of every byte, at the last hop");
	lend_args_stat_get(chain->mem, &args);
	app_report_int(&report, "fallbacks", args.fallbacks,
		       "requests passed by value because the memory node refused them");
	app_report_int(&report, "lent", args.lent, "requests whose payload the caller lent");
	app_report_int(&report, "pages_used_after", node.pages_used,
		       "on the memory node at the end; 0: all released");
	app_report_bool(&report, "pool", chain->pool, "the memory node shares its pages");
	app_report_text(&report, "carrier", app_carrier_name(chain->load_args.carrier), "");
	app_report_int(&report, "processes", chain->hops + 1 + (chain->mn.pid != 0), "");
	app_report_end(&report);
}

/* Measures by value and through the node at doubling sizes, which share the time equally. Prints
 * the size up to which by value wins. */
static uint64_t report_sweep(struct app_chain *chain)
{
	uint64_t wrong = 0, wins = 0, steps = 0;
	bool json = chain->load_args.json, lost = false;

	for (uint64_t size = 1024; size <= chain->load_args.size; size *= 2)
		steps++;
	printf(json ? "{\"sweep\": [" : "%12s %16s %16s %16s %16s\n", "size", "value calls/s",
	       "ref calls/s", "value bytes", "ref bytes");
	for (uint64_t i = 0, size = 1024; i < steps; i++, size *= 2) {
		lend_ns time = chain->load_args.time / (2 * steps) + 20000000;
		double value_bytes = measure_step(chain, size, APP_BY_VALUE, time),
		       value = app_load_rate(&chain->load), ref_bytes, ref;

		wrong += chain->load.wrong_bytes;
		ref_bytes = measure_step(chain, size, APP_BY_NODE, time);
		ref = app_load_rate(&chain->load);
		wrong += chain->load.wrong_bytes;
		lost = lost || value < ref;
		wins = lost ? wins : size;
		if (json)
			printf("%s{\"size\": %llu, \"value_calls_per_s\": %.1f, "
			       "\"ref_calls_per_s\": %.1f, "
			       "\"value_bytes_per_call\": %.1f, \"ref_bytes_per_call\": %.1f}",
			       i ? ", " : "", (unsigned long long)size, value, ref, value_bytes,
			       ref_bytes);
		else
			printf("%12llu %16.1f %16.1f %16.1f %16.1f\n", (unsigned long long)size,
			       value, ref, value_bytes, ref_bytes);
		fflush(stdout);
	}
	printf(json ? "], \"value_wins_to\": %llu, \"wrong_bytes\": %llu}\n"
		    : "by value wins up to %llu bytes; wrong bytes: %llu\n",
	       (unsigned long long)wins, (unsigned long long)wrong);
	return wrong;
}

static const char doc[] =
    "A request goes through a chain of services; the last one reads the payload and replies with "
    "its CRC32C.\v"
    "By value the payload travels every hop (forwarded without a copy). By reference about 100 "
    "bytes travel, and the last hop reads the payload: from the caller (ref), or from a memory "
    "node, "
    "where the caller put it (node). bytes_moved_per_call counts all processes, the memory node "
    "too. With --sweep, by reference is node.\n\n"
    "  lend bench chain --hops 5 --size 1M --by ref --carrier udp\n"
    "  lend bench chain --sweep --size 4M --seconds 10";

int app_chain(int argc, char **argv)
{
	static struct app_chain chain = {
	    .load_args = APP_LOAD_ARGS_INIT, .hops = 5, .by = APP_BY_REF};
	const struct argp_child children[] = {
	    {app_load_some("carrier size seconds window json"), 0, NULL, 0}, {0}};
	const struct argp argp = {
	    .options = options, .parser = parse_option, .children = children, .doc = doc};
	uint64_t wrong;

	chain.load_args.size = 1 << 20;
	chain.load_args.window = 4;
	app_parse(&argp, argc, argv, &chain);
	open_chain(&chain);
	if (chain.sweep) {
		wrong = report_sweep(&chain);
	} else {
		report_one(&chain);
		wrong = chain.load.wrong_bytes;
	}
	close_chain(&chain);
	return wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
