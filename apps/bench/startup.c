/* startup - how long it takes from the start of a program to its first reply.
 * Layer: apps. Threads: one; a process per measurement. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/memnode_bench.h"
#include "apps/common/bench_server.h"

enum { COUNT = 200, WARM = 5, LEN = 64 };

/* Timestamps that a child writes to its pipe: CLOCK_MONOTONIC, ns. */
enum { MAIN, OPENED, CONNECTED, REPLIED, MOMENTS };

struct args {
	struct app_load_args load;
	const char *child; /* NULL, or this is a child and calls that address */
};

struct starts {
	struct lend_hist span[MOMENTS]; /* since the previous moment */
	struct lend_hist all;           /* from before the exec to the reply */
	uint64_t n, wrong_bytes;
};

/* Makes the call of a child, with a timestamp at each moment. At the first one, exec is over, and
 * lend and its libraries are loaded. */
static void call_once(const char *address, lend_ns at[MOMENTS])
{
	struct lend_call call = {.method = APP_METHOD_ECHO};
	char bytes[LEN];
	lend_session session;
	struct lend_ep *ep;

	at[MAIN] = app_now();
	memset(bytes, 0x5a, sizeof(bytes));
	if (lend_open(NULL, &ep) < 0)
		app_die("%s", lend_why());
	at[OPENED] = app_now();
	if (lend_connect(ep, address, &session) < 0)
		app_die("%s", lend_why());
	at[CONNECTED] = app_now();
	call.request = lend_buf_take(ep, LEN);
	if (!call.request)
		app_die("no memory for a request; end some processes");
	memcpy(call.request->data, bytes, LEN);
	call.request->len = LEN;
	if (lend_call_sync(ep, session, &call) < 0 || call.status != LEND_OK)
		app_die("%s does not answer: %s", address, lend_why());
	at[REPLIED] = app_now();
	if (call.reply->len != LEN || memcmp(call.reply->data, bytes, LEN) != 0)
		app_die("%s returned wrong bytes", address);
	if (call.request)
		lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
	lend_close(ep);
}

static int run_child(const char *address)
{
	lend_ns at[MOMENTS];

	call_once(address, at);
	return write(STDOUT_FILENO, at, sizeof(at)) == sizeof(at) ? APP_EXIT_OK : APP_EXIT_FAILED;
}

static void add_moments(struct starts *s, lend_ns began, const lend_ns at[MOMENTS])
{
	lend_ns last = began;

	for (int i = 0; i < MOMENTS; i++) {
		lend_hist_add(&s->span[i], at[i] - last);
		last = at[i];
	}
	lend_hist_add(&s->all, last - began);
	s->n++;
}

static void start_one(struct starts *s, const char *address, bool counts)
{
	const char *const argv[] = {"lend", "start", "--child", address, NULL};
	lend_ns at[MOMENTS], began = app_now();
	struct app_child child;
	int status = 0;

	app_child_exec(&child, "a child", argv);
	app_child_read(&child, at, sizeof(at));
	while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		app_die("a child that called %s failed; its line is above", address);
	close(child.fd);
	if (counts)
		add_moments(s, began, at);
}

static void measure_starts(struct starts *s, const struct app_load_args *load, const char *address)
{
	uint64_t count = load->count ? load->count : COUNT;
	lend_ns began = app_now();

	lend_hist_init(&s->all);
	for (int i = 0; i < MOMENTS; i++)
		lend_hist_init(&s->span[i]);
	for (uint64_t i = 0; i < count + WARM; i++) {
		start_one(s, address, i >= WARM);
		app_progress(began, (double)i, (double)(count + WARM));
	}
	app_progress_clear();
}

static void write_report(const struct app_load_args *load, const struct starts *s,
			 const char *address)
{
	static const char *const names[] = {"exec_us", "open_us", "connect_us", "call_us"};
	static const char *const texts[] = {"us, exec and libraries, p50", "us, lend_open()",
					    "us, lend_connect()",
					    "us, the first call: the session's handshake, too"};
	struct app_report r;

	app_report_begin(&r, load->json, "start: from the start of a program to its first reply");
	app_report_num(&r, "start_p50_us", app_hist_us(&s->all, 0.5), 1,
		       "us, exec to first reply: half took no longer");
	app_report_num(&r, "start_p5_us", app_hist_us(&s->all, 0.05), 1,
		       "us: 5 % took no longer, as on an idle machine");
	app_report_num(&r, "start_p99_us", app_hist_us(&s->all, 0.99), 1, "us");
	for (int i = 0; i < MOMENTS; i++)
		app_report_num(&r, names[i], app_hist_us(&s->span[i], 0.5), 1, texts[i]);
	app_report_num(&r, "attach_us",
		       app_hist_us(&s->span[OPENED], 0.5) + app_hist_us(&s->span[CONNECTED], 0.5) +
			   app_hist_us(&s->span[REPLIED], 0.5),
		       1, "us, the three together");
	app_report_int(&r, "starts", s->n, "processes, each with one checked call");
	app_report_text(&r, "address", address, "");
	app_report_end(&r);
}

static const struct lend_option options[] = {OPT_ALIAS(struct args, child, "child"),
					     {.name = NULL}};

static const char doc[] =
    "How long a program takes from its start to its first reply.\v"
    "Programs are started one after the other; each opens an endpoint, connects, makes one call "
    "of 64 bytes and ends. --count says how many, 200 unless given.\n\n"
    "  lend bench start\n"
    "  lend bench start --carrier udp --count 50 --json\n"
    "  lend bench start --connect shm:shop";

int app_start(int argc, char **argv)
{
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_load_syntax,
					   .child_at = offsetof(struct args, load),
					   .some = "carrier connect count json",
					   .doc = doc};
	struct args args = {.load = APP_LOAD_ARGS_INIT};
	static struct app_bench bench;
	static struct starts s;
	const char *address;

	app_options_read(&syntax, argc, argv, &args);
	if (args.child)
		return run_child(args.child);
	if (args.load.carrier == APP_DPDK_RING)
		app_bad("--carrier dpdk:ring: rings stay within one process; give dpdk:memif");
	args.load.window = args.load.sessions = 1;
	args.load.size = LEN;
	app_bench_open(&bench, &args.load, APP_METHOD_ECHO);
	address = app_pair_address(&bench.pair);
	measure_starts(&s, &args.load, address);
	write_report(&args.load, &s, address);
	app_bench_close(&bench);
	return APP_EXIT_OK;
}
