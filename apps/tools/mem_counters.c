/* tools/mem_counters - the counters of a memory node. Its speed is measured by apps/bench/mem_lat.c
 * and apps/bench/mem_fault.c. Layer: apps. Threads: one. */
#include <string.h>

#include "apps/commands.h"
#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/tools/mem_admin.h"

struct args {
	const char *what, *node;
	bool json;
};

static const struct lend_option options[] = {OPT_WORD(struct args, what),
					     OPT_WORD(struct args, node),
					     OPT_ALIAS(struct args, node, "node"),
					     OPT_JSON(struct args, json),
					     {.name = NULL}};

static void check(const struct args *args)
{
	if (!args->what || strcmp(args->what, "stat"))
		app_bad("%s: say what to do: lend mem stat NODE; or ls, top or evict ADMIN-SOCKET",
			args->what ? args->what : "nothing asked");
	if (!args->node)
		app_bad("which memory node? give its address as lend-mn printed it, or the path of "
			"its admin socket");
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
	static const struct lend_syntax syntax = {
	    .option = options,
	    .words =
		"stat NODE|ADMIN-SOCKET\nls|top ADMIN-SOCKET\nevict ADMIN-SOCKET OBJECT|PROCESS",
	    .doc = "Tells what a memory node holds.\v"
		   "NODE is the address that lend-mn printed, ADMIN-SOCKET the path that its "
		   "--admin was given. ls, top and evict have their own --help.\n\n"
		   "  lend mem stat shm:mn0 --json\n"
		   "  lend mem ls /run/lend/mn0.admin"};
	struct args args = {.what = NULL};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem_stat stat;
	struct lend_mem *mem;
	struct lend_ep *ep;

	if (argc > 1 && !strcmp(argv[1], "lat")) {
		lend_cli_name_set("lend ", "mem-lat");
		return app_mem_lat(argc - 1, argv + 1);
	}
	if (argc > 1 &&
	    (!strcmp(argv[1], "ls") || !strcmp(argv[1], "top") || !strcmp(argv[1], "evict"))) {
		lend_cli_name_set("lend ", "mem");
		return app_mem_admin(argc - 1, argv + 1);
	}
	if (argc > 1 && !strcmp(argv[1], "fault")) {
		lend_cli_name_set("lend ", "mem-fault");
		return app_mem_fault(argc - 1, argv + 1);
	}
	app_options_read(&syntax, argc, argv, &args);
	check(&args);
	if (args.node[0] == '/')
		return app_mem_admin_stat(args.node, args.json);
	if (lend_open(&config, &ep) < 0)
		app_die("%s", lend_why());
	mem = app_node_open(ep, args.node);
	app_node_stat(mem, &stat);
	lend_mem_close(mem);
	lend_close(ep);
	report(&args, &stat);
	return APP_EXIT_OK;
}
