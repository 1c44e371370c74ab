/* loan_pass - a loan is taken, marked, passed as an argument and given back, one at a time. The
 * server, another process, reads 8 bytes of it in place. Layer: apps. Threads: one per process. */
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/bench.h"
#include "apps/common/bench_server.h"
#include "apps/common/closed_loop.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/spawn.h"
#include "lend/mem.h"

enum { WARM_SHARE = 4 };

struct loan {
	struct app_load_args load;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session session;
	struct lend_hist hist;
	uint64_t n, wrong;
	bool kept;
};

/* The server's read of one argument. */
struct reading {
	struct lend_op op;
	struct lend_arg_view view;
	lend_request request;
	struct loan *loan;
};

static const struct lend_option options[] = {
    OPT_FLAG(struct loan, kept, "keep", "Pass the same loan each time instead of taking another"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct loan *loan = input;

	if (loan->load.size < sizeof(uint64_t))
		app_bad("--size: give at least 8 bytes");
}

static void view_done(struct lend_op *op)
{
	struct reading *reading = (struct reading *)(void *)op;
	enum lend_status status = op->status;
	uint64_t word = 0;

	if (status == LEND_OK) {
		memcpy(&word, (const char *)reading->view.bytes + reading->view.len - sizeof(word),
		       sizeof(word));
		if (lend_arg_intact(&reading->view) < 0)
			status = LEND_ABORTED;
		lend_arg_unmap(reading->loan->mem, &reading->view);
	}
	lend_reply_copy(reading->loan->ep, reading->request, status, &word, sizeof(word));
	free(reading);
}

static void on_loan(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct loan *loan = arg;
	struct reading *reading = malloc(sizeof(*reading));
	struct lend_arg seen;
	uint32_t cursor = 0;

	if (!reading || lend_arg_next(bytes, &cursor, &seen) != 1 || seen.len < sizeof(uint64_t)) {
		free(reading);
		lend_reply(loan->ep, request, LEND_INVALID_ARGUMENT, NULL);
		return;
	}
	reading->op = (struct lend_op){.done = view_done, .parent = request};
	reading->request = request;
	reading->loan = loan;
	if (lend_arg_map(loan->mem, &seen, &reading->view, &reading->op) == 0)
		return;
	free(reading);
	lend_reply(loan->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
}

static void close_mem(void *arg)
{
	lend_mem_close(((struct loan *)arg)->mem);
}

int app_loan_server(int argc, char **argv)
{
	struct app_server_args args = APP_SERVER_ARGS_INIT;
	struct loan self = {.ep = NULL}, *loan = &self;
	struct app_server server;

	app_options_read(&app_server_syntax, argc, argv, &args);
	app_server_open(&server, &args, NULL);
	loan->ep = server.ep;
	if (lend_mem_open(loan->ep, "", &loan->mem) < 0 ||
	    lend_serve(loan->ep, APP_METHOD_LOAN, on_loan, loan, LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	server.closing = close_mem;
	server.arg = loan;
	return app_server_run(&server);
}

/* Passes a loan that ends with n, and returns when the server has read n. */
static void pass_loan(struct loan *loan, struct lend_loan *at, uint64_t n)
{
	struct lend_call call = {.method = APP_METHOD_LOAN};
	struct iovec arg = {at->data, at->len};
	uint64_t word = 0;

	memcpy((char *)at->data + at->len - sizeof(n), &n, sizeof(n));
	if (lend_call_sync_args(loan->mem, loan->session, &call, &arg, 1) < 0)
		app_die("%s", lend_why());
	if (call.status != LEND_OK)
		app_die("a call ended %s", app_status_name(call.status));
	if (call.reply && call.reply->len == sizeof(word))
		memcpy(&word, call.reply->data, sizeof(word));
	loan->wrong += word != n;
	lend_buf_give(loan->ep, call.reply);
}

static void take_loan(struct loan *loan, struct lend_loan *at)
{
	if (lend_loan_take(loan->mem, loan->load.size, at) < 0)
		app_die("%s", lend_why());
}

static void run_calls(struct loan *loan)
{
	lend_ns warm = app_now() + loan->load.time / WARM_SHARE, end = warm + loan->load.time;
	struct lend_loan at = {.data = NULL};

	for (uint64_t i = 0; !loan->n || app_now() < end; i++) {
		lend_ns began = app_now();

		if (!at.data)
			take_loan(loan, &at);
		pass_loan(loan, &at, i);
		if (!loan->kept)
			lend_loan_give(loan->mem, &at);
		if (began < warm)
			continue;
		lend_hist_add(&loan->hist, app_now() - began);
		loan->n++;
	}
	lend_loan_give(loan->mem, &at);
}

static void report_loans(const struct loan *loan)
{
	struct lend_args_stat stat;
	struct app_report r;

	lend_args_stat_get(loan->mem, &stat);
	app_report_begin(&r, loan->load.json, "loan: taken, passed, one word read, given back");
	app_report_num(&r, "loan_p50_us", app_hist_us(&loan->hist, 0.5), 2,
		       "us, from take to give: half took no longer");
	app_report_num(&r, "loan_p5_us", app_hist_us(&loan->hist, 0.05), 2,
		       "us: 5 % took no longer, as on an idle machine");
	app_report_num(&r, "loan_p99_us", app_hist_us(&loan->hist, 0.99), 2, "us");
	app_report_int(&r, "calls", loan->n, "loans passed");
	app_report_int(&r, "lent", stat.lent, "arguments that were lent");
	app_report_int(&r, "size", loan->load.size, "bytes of a loan");
	app_report_int(&r, "wrong_words", loan->wrong, "words that are not the producer's");
	app_report_carrier(&r, loan->load.carrier);
	app_report_end(&r);
}

/* Starts the server, which polls all the time if it has a CPU of its own. */
static void open_both(struct loan *loan, struct app_net *net, struct app_child *child)
{
	bool apart = app_cpus() > 1;
	const char *const argv[] = {"loan-server", apart ? "--spin" : NULL, NULL};
	struct lend_config config = LEND_CONFIG_INIT;
	unsigned me, server;

	app_net_init(net, loan->load.carrier);
	me = app_net_add(net);
	server = app_net_add(net);
	app_net_link(net, me, server);
	app_net_link(net, server, me);
	app_net_plan(net);
	app_child_start(child, "the server", argv, net, server, apart ? app_cpu(1) : APP_ANY_CPU);
	app_pin(app_cpu(0));
	config.listen = app_net_listen(net, me);
	config.eal = app_net_eal(net, me);
	if (lend_open(&config, &loan->ep) < 0 || lend_mem_open(loan->ep, "", &loan->mem) < 0 ||
	    lend_connect(loan->ep, app_net_address(net, me, server), &loan->session) < 0 ||
	    lend_args_place(loan->mem, LEND_ARG_CALLER) < 0)
		app_die("%s", lend_why());
	lend_args_threshold_set(loan->mem, 0);
	while (lend_call_sync(loan->ep, loan->session, &(struct lend_call){.method = 1}) < 0)
		app_die("%s", lend_why()); /* the session is up after it */
}

static const char doc[] =
    "Takes memory for an argument, writes its last word, passes it to a server that maps it and "
    "returns that word, and gives the memory back; one at a time.\v"
    "Over shm no byte of the argument is copied or sent. Other carriers send it.\n\n"
    "  lend bench loan --size 16M";

int app_loan(int argc, char **argv)
{
	static struct loan loan = {.load = APP_LOAD_ARGS_INIT};
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_load_syntax,
						  .child_at = offsetof(struct loan, load),
						  .some = "carrier size seconds json",
						  .check = check_args,
						  .doc = doc};
	struct app_child child = {.pid = 0};
	struct app_net net;

	loan.load.size = 16 << 20;
	app_options_read(&syntax, argc, argv, &loan);
	open_both(&loan, &net, &child);
	lend_hist_init(&loan.hist);
	run_calls(&loan);
	report_loans(&loan);
	lend_mem_close(loan.mem);
	lend_close(loan.ep);
	app_child_stop(&child);
	return loan.wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
