/* tools/mem_counters - the counters of a memory node. Its speed is measured by apps/bench/mem_lat.c
 * and apps/bench/mem_fault.c. Layer: apps. Threads: one. */
#include <string.h>

#include "apps/commands.h"
#include "apps/common/memnode.h"
#include "apps/common/report.h"
#include "apps/tools/mem_admin.h"

struct args {
	const char *what, *node;
	bool json;
};

enum { KEY_NODE = 0x7401, KEY_JSON };

static const struct argp_option options[] = {
    {"node", KEY_NODE, "ADDR", 0, "The memory node: shm:mn0, udp:10.0.0.7:7000", 0},
    {"json", KEY_JSON, NULL, 0, "One JSON object on one line", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct args *args = state->input;

	switch (key) {
	case KEY_NODE:
		args->node = arg;
		return 0;
	case KEY_JSON:
		return app_arg_flag(&args->json);
	case ARGP_KEY_ARG:
		return app_arg_word(&args->what, arg);
	case ARGP_KEY_END:
		if (!args->what || strcmp(args->what, "stat"))
			app_bad("%s: say what to do: lend mem stat --node ADDR; or ls, top or "
				"evict --admin PATH",
				args->what ? args->what : "nothing asked");
		if (!args->node)
			app_bad("which memory node? give --node ADDR as lend-mn printed it");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void report(const struct args *args, const struct lend_mem_stat *stat)
{
	struct app_report report;

	app_report_begin(&report, args->json, "memory node");
	app_report_int(&report, "pages_total", stat->pages_total, "pages that can be used");
	app_report_int(&report, "page_bytes", stat->page_bytes, "bytes of a page");
	app_report_int(&report, "pages_used", stat->pages_used, "with data, or under way");
	app_report_int(&report, "pages_quarantined", stat->pages_quarantined,
		       "freed, not yet to be used");
	app_report_int(&report, "refs", stat->refs, "snapshots");
	app_report_int(&report, "spaces", stat->spaces, "private views");
	app_report_int(&report, "clients", stat->clients, "that said hello");
	app_report_int(&report, "grants_expired", stat->grants_expired,
		       "offers that nobody took in time");
	app_report_int(&report, "tx_bytes", stat->tx_bytes,
		       "bytes handed to its carriers since it started");
	app_report_int(&report, "damaged", stat->damaged,
		       "times that memory no longer had what was written");
	app_report_text(&report, "node", args->node, "");
	app_report_end(&report);
}

int app_mem(int argc, char **argv)
{
	static const struct argp argp = {
	    .options = options,
	    .parser = parse,
	    .args_doc = "stat\nls|top|evict --admin PATH\nlat|fault [OPTION...]",
	    .doc = "Tells what a memory node holds.\v"
		   "  lend mem stat --node shm:mn0 --json\n"
		   "  lend mem ls --admin PATH (ls, top and evict have their own --help)\n"
		   "  lend mem lat --carrier shm --size 4096 (its own --help)\n"
		   "  lend mem fault --carrier udp --size 64M (its own --help)"};
	struct args args = {.what = NULL};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem_stat stat;
	struct lend_mem *mem;
	struct lend_ep *ep;

	if (argc > 1 && !strcmp(argv[1], "lat")) {
		app_name_set("lend ", "mem-lat");
		return app_mem_lat(argc - 1, argv + 1);
	}
	if (argc > 1 &&
	    (!strcmp(argv[1], "ls") || !strcmp(argv[1], "top") || !strcmp(argv[1], "evict"))) {
		app_name_set("lend ", "mem");
		return app_mem_admin(argc - 1, argv + 1);
	}
	if (argc > 1 && !strcmp(argv[1], "fault")) {
		app_name_set("lend ", "mem-fault");
		return app_mem_fault(argc - 1, argv + 1);
	}
	app_parse(&argp, argc, argv, &args);
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	mem = app_node_open(ep, args.node);
	app_node_stat(mem, &stat);
	lend_mem_close(mem);
	lend_close(ep);
	report(&args, &stat);
	return APP_EXIT_OK;
}
