/* chain - a chain of services, one process each, that passes data by value or by reference.
 * Layer: apps. Threads: one. */
#include "apps/bench/chain.h"

#include <stdio.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/bench_server.h"
#include "apps/common/memnode.h"

enum { WARM_SHARE = 10 };

const char *const app_by_names[] = {"value", "ref", "auto", "node", NULL};

static void set_default_hops(struct app_chain *chain)
{
	static const unsigned some[] = {1, 2, 3, 5, 10};

	if (chain->lengths)
		return;
	if (chain->sweep) {
		memcpy(chain->length, some, sizeof(some));
		chain->lengths = sizeof(some) / sizeof(*some);
		return;
	}
	chain->length[0] = 5;
	chain->lengths = 1;
}

/* Reads the hosts file, which determines the number of hops. */
static void read_hosts(struct app_chain *chain)
{
	char role[16];
	unsigned n = 0;

	if (chain->lengths || chain->sweep || chain->pool || chain->node_address ||
	    chain->load_args.connect)
		app_bad("--hosts names hops and node: leave out --hops, --sweep, --pool, --node "
			"and --connect");
	app_hosts_read(&chain->hosts);
	do
		(void)snprintf(role, sizeof(role), "hop%u", ++n);
	while (app_hosts_find(&chain->hosts, role));
	if (n == 1)
		app_bad("%s: no line for hop1; add: hop1 MACHINE udp:IP:PORT", chain->hosts.path);
	chain->length[chain->lengths++] = n - 1;
	app_hosts_carrier(&chain->hosts, &chain->load_args.carrier);
	if (chain->by == APP_BY_NODE && !app_hosts_find(&chain->hosts, "node"))
		app_bad("%s: no line for node; add one, or leave out --by node", chain->hosts.path);
}

static void check_args(void *input)
{
	struct app_chain *chain = input;

	if (chain->hosts.path)
		read_hosts(chain);
	else if (chain->hosts.here)
		app_bad("--here is for --hosts: add it");
	if (chain->load_args.connect && (chain->sweep || chain->pool || chain->workers ||
					 (chain->by == APP_BY_NODE && !chain->node_address)))
		app_bad("--connect calls a chain that runs already: leave out --sweep, --pool and "
			"--workers, and give --node with --by node");
	if (chain->load_args.connect)
		chain->load_args.carrier = app_load_carrier(&chain->load_args);
	set_default_hops(chain);
	if (chain->by == APP_BYS)
		chain->by = chain->pool ? APP_BY_NODE : APP_BY_REF;
	if (chain->load_args.carrier == APP_DPDK_RING)
		app_bad("--carrier dpdk:ring: rings stay within one process; give dpdk:memif for a "
			"chain of processes");
	if (chain->pool && chain->node_address)
		app_bad("--pool starts a node on this host: leave out --node");
	if (chain->workers && (chain->node_address || !app_chain_has_node(chain)))
		app_bad("--workers is for a memory node that this command starts: add --pool or "
			"--by node, and leave out --node");
	if (chain->lengths > 1 && !chain->sweep)
		app_bad("--hops: a list of numbers is for --sweep");
	if (chain->load_args.size > APP_PATTERN_MAX)
		app_bad("--size: give at most %d bytes", APP_PATTERN_MAX);
}

static void take_hops(const struct lend_option *option, void *input, char *text)
{
	struct app_chain *chain = input;
	unsigned last = 0;

	chain->lengths = 0;
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		unsigned n = (unsigned)lend_cli_u64(option->name, word, 1, APP_CHAIN_HOPS_MAX);

		if (n <= last || chain->lengths == APP_CHAIN_LENGTHS_MAX)
			app_bad("--hops: give at most %d increasing numbers",
				APP_CHAIN_LENGTHS_MAX);
		chain->length[chain->lengths++] = last = n;
	}
	if (!chain->lengths)
		app_bad("--hops: give a number");
}

static const struct lend_option options[] = {
    OPT_TAKEN("hops", "N", take_hops,
	      "Services in the chain (5); with --sweep a list of increasing numbers (1,2,3,5,10)",
	      .key = 'h'),
    OPT_CHOICE(struct app_chain, by, "by", "HOW", app_by_names,
	       "value; ref: the last hop reads the caller's memory (default); node: through a "
	       "memory node (default with --pool); auto: as costs and hops that were measured say"),
    OPT_TEXT(struct app_chain, node_address, "node", "ADDR",
	     "Use the memory node at ADDR instead of starting one"),
    OPT_FLAG(struct app_chain, pool, "pool",
	     "The memory node shares its pages with the caller and the last hop (pool:)"),
    APP_WORKERS(struct app_chain, workers),
    APP_HOSTS_OPTIONS(struct app_chain, hosts),
    OPT_FLAG(struct app_chain, fresh, "fresh", "Write each payload anew before it is sent"),
    OPT_FLAG(struct app_chain, sweep, "sweep",
	     "Measure all ways at sizes from 4 KiB to --size, for each number of hops"),
    {.name = NULL}};

/* Returns the way that most payloads of the last run went. */
static const char *way_name(const struct lend_args_stat *before, const struct lend_args_stat *now,
			    uint64_t calls)
{
	if (2 * (now->lent - before->lent) > calls)
		return "ref";
	return 2 * (now->by_ref - before->by_ref) > calls ? "node" : "value";
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

double app_chain_measure(struct app_chain *chain, uint64_t size, enum app_by by, lend_ns time)
{
	static const enum lend_arg_way ways[] = {LEND_ARG_VALUE, LEND_ARG_CALLER, LEND_ARG_AUTO,
						 LEND_ARG_NODE};
	uint64_t before;

	chain->size = size;
	chain->way = ways[by];
	app_pattern_crc(0, size);
	run_load(chain, time / WARM_SHARE + 10000000);
	before = app_chain_moved(chain);
	run_load(chain, time);
	return (double)(app_chain_moved(chain) - before) / (double)chain->load.ended;
}

static void report_one(struct app_chain *chain)
{
	struct app_report report;
	struct lend_mem_stat node = {.pages_used = 0};
	struct lend_args_stat args, args_before;
	double bytes;

	chain->size = chain->load_args.size;
	if (chain->by == APP_BY_AUTO && lend_args_measure(chain->mem, chain->session) < 0)
		app_die("%s", lend_why());
	(void)app_chain_measure(chain, chain->size, chain->by, 20000000);
	lend_args_stat_get(chain->mem, &args_before);
	bytes = app_chain_measure(chain, chain->size, chain->by, chain->load_args.time);
	lend_args_stat_get(chain->mem, &args);
	if (chain->with_node)
		app_node_stat_idle(chain->mem, &node);
	app_report_begin(&report, chain->load_args.json,
			 "chain: every hop is a process of its own");
	app_load_report(&chain->load, &report);
	app_report_num(&report, "gbit_per_s",
		       8e-9 * (double)chain->size *
			   (double)(chain->load.ended - chain->load.errors) / chain->load.seconds,
		       3, "10^9 bits of payload through the chain");
	if (chain->far)
		app_report_null(&report, "bytes_moved_per_call", "not known of other machines");
	else
		app_report_num(&report, "bytes_moved_per_call", bytes, 1, "sent by all processes");
	app_report_int(&report, "size", chain->size, "bytes of payload");
	if (chain->load_args.connect)
		app_report_null(&report, "hops", "not known of the chain at --connect");
	else
		app_report_int(&report, "hops", chain->hops, "services");
	app_report_text(&report, "by", way_name(&args_before, &args, chain->load.ended),
			"how most payloads were passed");
	if (chain->by == APP_BY_AUTO)
		app_report_int(&report, "inline_max",
			       lend_args_threshold(chain->mem, chain->session, APP_METHOD_CHAIN),
			       "longest payload that is passed by value, measured");
	app_report_text(&report, "verified", "crc32c", "of every byte, at the last hop");
	app_report_int(&report, "fallbacks", args.fallbacks,
		       "requests passed by value because the memory node refused them");
	app_report_int(&report, "lent", args.lent, "requests whose payload the caller lent");
	app_report_int(&report, "pages_used_after", node.pages_used,
		       "on the memory node at the end; 0: all released");
	app_report_int(&report, "node_clients", node.clients,
		       "of the memory node, counted once for each worker that they use");
	app_report_bool(&report, "pool", chain->pool, "the memory node shares its pages");
	app_report_bool(&report, "fresh", chain->fresh,
			"each payload was written before it was sent");
	app_report_carrier(&report, chain->load_args.carrier);
	if (!chain->load_args.connect)
		app_report_int(&report, "processes",
			       chain->hops + 1 + (chain->with_node && !chain->node_address), "");
	app_report_end(&report);
}

static const char doc[] =
    "A request goes through a chain of services; the last one reads the payload and replies with "
    "its CRC32C.\v"
    "By value the payload travels every hop (forwarded without a copy). By reference about 100 "
    "bytes travel, and the last hop reads the payload: from the caller (ref), or from a memory "
    "node, "
    "where the caller put it (node). bytes_moved_per_call counts all processes, the memory node "
    "too. --sweep prints calls per second by way, the rate of auto over that of the fastest "
    "way, and how many of these ratios are at least 0.9.\n\n"
    "  lend bench chain --hops 5 --size 1M --by ref --carrier udp --fresh\n"
    "  lend bench chain --sweep --size 16M --seconds 60\n"
    "  lend bench chain --hosts chain.hosts --here b      on each machine; the client's "
    "measures\n\n"
    "Over DPDK, processes of one machine that call each other need a device that sends frames "
    "back to it. A line of the hosts file is ROLE MACHINE ADDRESS [EAL]. Roles are client, hop1, "
    "hop2 ..., and "
    "node for a memory node:\n\n"
    "  client a udp:10.0.0.1:0\n"
    "  hop1   b udp:10.0.0.2:31850\n"
    "  hop2   c udp:10.0.0.3:31850";

int app_chain(int argc, char **argv)
{
	static struct app_chain chain = {.load_args = APP_LOAD_ARGS_INIT, .by = APP_BYS};
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_load_syntax,
						  .child_at = offsetof(struct app_chain, load_args),
						  .some =
						      "carrier connect size seconds window json",
						  .check = check_args,
						  .doc = doc};
	uint64_t wrong;

	chain.load_args.size = 1 << 20;
	chain.load_args.window = 4;
	app_options_read(&syntax, argc, argv, &chain);
	if (!app_chain_open(&chain)) {
		app_hosts_wait(&chain.hosts);
		wrong = 0;
	} else if (chain.sweep) {
		wrong = app_chain_sweep(&chain);
	} else {
		report_one(&chain);
		wrong = chain.load.wrong_bytes;
	}
	app_chain_close(&chain);
	return wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
