/* burst - see burst.h. Each client is a process with one endpoint; all clients start when the last
 * one is ready. Layer: apps. Threads: one per process. */
#include "apps/bench/burst.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/topology.h"
#include "apps/common/report.h"
#include "apps/common/bench_server.h"
#include "apps/common/spawn.h"
#include "lend/rpc.h"
#include "util/bits.h"

enum { SPARE = 64, WHY_MAX = 256, SESSIONS_MAX = (1 << 20) - SPARE };
#define LIMIT UINT64_C(30000000000)

struct result {
	uint64_t up, failed;
	lend_ns first, last; /* first lend_connect(); end of the last call */
	char why[WHY_MAX];   /* text of the first failure; "": no failure */
};

struct client {
	struct lend_ep *ep;
	unsigned n, left;
	enum lend_status failed; /* status of the first call that failed */
	struct result result;
};

static struct client client; /* the client of this process */

static void watch_session(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	(void)session, (void)incarnation, (void)arg;
	client.result.up += up;
}

static void count_end(enum lend_status status)
{
	client.left--;
	if (status != LEND_OK && client.result.failed++ == 0)
		client.failed = status;
}

static void call_done(struct lend_call *call)
{
	count_end(call->status);
	client.result.last = lend_now(client.ep);
	lend_buf_give(client.ep, call->reply);
}

static void open_client(const struct app_net *net, unsigned me, unsigned n)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.sessions = n + SPARE;
	config.calls = 16;
	config.listen = app_net_listen(net, me);
	config.eal = app_net_eal(net, me);
	if (lend_open(&config, &client.ep) < 0 ||
	    lend_watch_sessions(client.ep, watch_session, NULL) < 0)
		app_die("%s", lend_why());
	client.n = n;
}

/* Opens a session with one call in it. */
static void begin_session(const char *address, struct lend_call *call)
{
	lend_session session;

	*call = (struct lend_call){.method = APP_METHOD_ECHO, .done = call_done};
	if (lend_connect(client.ep, address, &session) < 0 ||
	    lend_call_start(client.ep, session, call) < 0) {
		if (client.result.failed++ == 0)
			(void)snprintf(client.result.why, WHY_MAX, "%s", lend_why());
	} else {
		client.left++;
	}
}

/* Explains the first failure; lend_why() has the reason of a lost session once its calls ended. */
static void explain_failure(struct result *r)
{
	const char *why = app_status_name(client.failed);

	if (!r->failed || *r->why)
		return;
	if (client.failed == LEND_UNAVAILABLE && *lend_why())
		why = lend_why();
	else if (client.failed == LEND_UNIMPLEMENTED)
		why = "no benchmark server; start one with lend serve --listen ADDR";
	else if (client.failed == LEND_RESOURCE_EXHAUSTED)
		why = "RESOURCE_EXHAUSTED; give the server a larger --sessions";
	(void)snprintf(r->why, WHY_MAX, "%s", why);
}

static struct result run_child(const char *address)
{
	struct lend_call *call = calloc(client.n, sizeof(*call));
	lend_ns end;

	if (!call)
		app_die("no memory for %u calls; give a smaller --burst", client.n);
	client.result.first = client.result.last = lend_now(client.ep);
	end = client.result.first + LIMIT;
	for (unsigned i = 0; i < client.n; i++)
		begin_session(address, &call[i]);
	while (client.left && lend_now(client.ep) < end)
		if (lend_wait(client.ep, end) < 0)
			app_die("%s", lend_why());
	while (client.left)
		count_end(LEND_DEADLINE_EXCEEDED);
	explain_failure(&client.result);
	return client.result;
}

/* In a child: reports that it is ready, waits for go, runs, writes its result, and keeps its
 * sessions until hold ends. */
static _Noreturn void be_client(const struct app_net *net, unsigned me, unsigned server, unsigned n,
				const int out[2], const int go[2], const int hold[2])
{
	struct result r;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(go[1]);
	close(hold[1]);
	open_client(net, me, n);
	if (write(out[1], "r", 1) != 1 || read(go[0], &c, 1) < 0)
		_exit(APP_EXIT_FAILED);
	r = run_child(app_net_address(net, me, server));
	if (write(out[1], &r, sizeof(r)) != sizeof(r) || read(hold[0], &c, 1) < 0)
		_exit(APP_EXIT_FAILED);
	lend_close(client.ep);
	_exit(APP_EXIT_OK);
}

static void add_result(struct result *all, const struct result *one)
{
	if (one->failed && !all->failed)
		memcpy(all->why, one->why, WHY_MAX);
	all->up += one->up;
	all->failed += one->failed;
	all->first = lend_min_u64(all->first, one->first);
	all->last = lend_max_u64(all->last, one->last);
}

/* Starts one client and waits until it is ready. */
static void start_client(struct app_child *child, const struct app_net *net, unsigned me,
			 unsigned server, unsigned n, const int go[2], const int hold[2])
{
	int out[2];
	char ready;

	app_pipe(out);
	child->what = "a client";
	child->pid = fork();
	if (child->pid < 0)
		app_die("cannot start client %u: %s; lower --processes", me + 1, strerror(errno));
	if (child->pid == 0)
		be_client(net, me, server, n, out, go, hold);
	close(out[1]);
	child->fd = out[0];
	app_child_read(child, &ready, 1);
}

static struct result run_clients(const struct app_net *net, unsigned server, unsigned sessions,
				 unsigned processes)
{
	struct app_child from[APP_PROCS_MAX];
	struct result all = {.first = LEND_NEVER}, one;
	int go[2], hold[2];

	app_pipe(go);
	app_pipe(hold);
	for (unsigned i = 0; i < processes; i++)
		start_client(&from[i], net, i, server, sessions, go, hold);
	close(go[0]);
	close(go[1]);
	for (unsigned i = 0; i < processes; i++) {
		app_child_read(&from[i], &one, sizeof(one));
		add_result(&all, &one);
	}
	close(hold[0]);
	close(hold[1]);
	for (unsigned i = 0; i < processes; i++) {
		(void)waitpid(from[i].pid, NULL, 0);
		close(from[i].fd);
	}
	return all;
}

static void write_report(const struct app_load_args *args, unsigned processes,
			 const struct result *all)
{
	struct app_report r;

	app_report_begin(&r, args->json, "connect: a burst of sessions, each with one call");
	app_report_carrier(&r, app_load_carrier(args));
	app_report_int(&r, "processes", processes, "");
	app_report_int(&r, "up", all->up, "sessions that came up");
	app_report_int(&r, "failed", all->failed, "calls that did not end OK");
	app_report_num(&r, "seconds", (double)(all->last - all->first) / 1e9, 3,
		       "from the first lend_connect() to the end of the last call");
	app_report_end(&r);
}

static void plan_net(struct app_net *net, enum app_carrier carrier, unsigned processes)
{
	app_net_init(net, carrier);
	for (unsigned i = 0; i <= processes; i++)
		(void)app_net_add(net);
	for (unsigned i = 0; i < processes; i++)
		app_net_link(net, i, processes);
	app_net_plan(net);
}

int app_burst(const struct app_load_args *args, unsigned sessions, unsigned processes)
{
	static struct app_net net;
	struct app_child child = {.pid = 0};
	struct result all;
	char limit[16];
	const char *argv[] = {"serve", "--sessions", limit, NULL};
	unsigned server = processes;

	if ((uint64_t)sessions * processes > SESSIONS_MAX)
		app_bad("--burst %u --processes %u: a server has %d sessions at most; give less",
			sessions, processes, SESSIONS_MAX);
	plan_net(&net, app_load_carrier(args), processes);
	/* One process alone gets eight ninths of a server's sessions. */
	snprintf(limit, sizeof(limit), "%u", sessions * processes / 8 * 9 + SPARE);
	if (args->connect)
		app_net_ready(&net, server, args->connect);
	else
		app_child_start(&child, "the server", argv, &net, server, APP_ANY_CPU);
	all = run_clients(&net, server, sessions, processes);
	if (!all.up)
		app_die("no session came up: %s", all.why);
	write_report(args, processes, &all);
	if (all.failed)
		app_note("%llu calls failed, the first one: %s", (unsigned long long)all.failed,
			 all.why);
	(void)app_child_stop(&child);
	return all.failed ? APP_EXIT_FAILED : APP_EXIT_OK;
}
