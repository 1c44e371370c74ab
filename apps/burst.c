/* burst - see burst.h. Each client is a process with one endpoint; all begin when the last one is
 * ready. Layer: apps. Threads: one per process. */
#include "apps/burst.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/common/net.h"
#include "apps/common/report.h"
#include "apps/common/server.h"
#include "apps/common/spawn.h"
#include "lend/rpc.h"

enum { SPARE = 64 };
#define LIMIT UINT64_C(30000000000)

struct result {
	uint64_t up, failed;
	lend_ns first, last; /* when it began, and when its last call ended */
};

struct client {
	struct lend_ep *ep;
	unsigned n, left;
	struct result result;
};

static struct client client; /* of this process */

static void watch(lend_session session, const uint8_t incarnation[16], bool up, void *arg)
{
	(void)session, (void)incarnation, (void)arg;
	client.result.up += up;
}

static void done(struct lend_call *call)
{
	client.left--;
	client.result.failed += call->status != LEND_OK;
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
	if (lend_open(&config, &client.ep) < 0 || lend_watch_sessions(client.ep, watch, NULL) < 0)
		app_die("%s", lend_why());
	client.n = n;
}

/* A session of which nothing else is wanted, and its call. */
static void begin(const char *address, struct lend_call *call)
{
	lend_session session;

	*call = (struct lend_call){.method = APP_METHOD_ECHO, .done = done};
	if (lend_connect(client.ep, address, &session) < 0 ||
	    lend_call_start(client.ep, session, call) < 0)
		client.result.failed++;
	else
		client.left++;
}

static struct result run(const char *address)
{
	struct lend_call *call = calloc(client.n, sizeof(*call));
	lend_ns end;

	if (!call)
		app_die("no memory for %u calls", client.n);
	client.result.first = client.result.last = lend_now(client.ep);
	end = client.result.first + LIMIT;
	for (unsigned i = 0; i < client.n; i++)
		begin(address, &call[i]);
	while (client.left && lend_now(client.ep) < end)
		if (lend_turn(client.ep, end) < 0)
			app_die("%s", lend_why());
	client.result.failed += client.left;
	return client.result;
}

/* In a child: says that it is ready, waits, runs, hands over its result, and keeps its sessions
 * until all clients are done. */
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
	r = run(app_net_address(net, me, server));
	if (write(out[1], &r, sizeof(r)) != sizeof(r) || read(hold[0], &c, 1) < 0)
		_exit(APP_EXIT_FAILED);
	lend_close(client.ep);
	_exit(APP_EXIT_OK);
}

static void add(struct result *all, const struct result *one)
{
	all->up += one->up;
	all->failed += one->failed;
	if (one->first < all->first)
		all->first = one->first;
	if (one->last > all->last)
		all->last = one->last;
}

/* Starts one client; its results come through the pipe that is returned. */
static int start_client(const struct app_net *net, unsigned me, unsigned server, unsigned n,
			const int go[2], const int hold[2])
{
	int out[2];
	pid_t pid;
	char c;

	if (pipe(out) < 0 || (pid = fork()) < 0)
		app_die("no process left: lower --processes");
	if (pid == 0)
		be_client(net, me, server, n, out, go, hold);
	close(out[1]);
	if (read(out[0], &c, 1) != 1)
		app_die("a client does not start");
	return out[0];
}

static struct result run_clients(const struct app_net *net, unsigned server, unsigned sessions,
				 unsigned processes)
{
	struct result all = {.first = LEND_NEVER}, one;
	int go[2], hold[2], from[APP_PROCS_MAX];

	if (pipe(go) < 0 || pipe(hold) < 0)
		app_die("no file descriptor left: raise ulimit -n");
	for (unsigned i = 0; i < processes; i++)
		from[i] = start_client(net, i, server, sessions, go, hold);
	close(go[0]);
	close(go[1]);
	for (unsigned i = 0; i < processes; i++) {
		if (read(from[i], &one, sizeof(one)) != sizeof(one))
			app_die("client %u of %u died", i + 1, processes);
		add(&all, &one);
		close(from[i]);
	}
	close(hold[0]);
	close(hold[1]);
	while (wait(NULL) > 0 && --processes > 0)
		continue;
	return all;
}

static void report(const struct app_load_args *args, unsigned processes, const struct result *all)
{
	struct app_report r;

	app_report_begin(&r, args->json, "connect: a burst of sessions, each with one call");
	app_report_text(&r, "carrier", app_carrier_name(app_load_carrier(args)), "");
	app_report_int(&r, "processes", processes, "");
	app_report_int(&r, "up", all->up, "sessions that came up");
	app_report_int(&r, "failed", all->failed, "calls that did not end OK");
	app_report_num(&r, "seconds", (double)(all->last - all->first) / 1e9, 3,
		       "from the first lend_connect() to the end of the last call");
	app_report_end(&r);
}

int app_burst(const struct app_load_args *args, unsigned sessions, unsigned processes)
{
	static struct app_net net;
	struct app_child child = {.pid = 0};
	struct result all;
	unsigned server;
	char limit[16];
	const char *argv[] = {"serve", "--sessions", limit, NULL};

	app_net_init(&net, app_load_carrier(args));
	for (unsigned i = 0; i < processes; i++)
		(void)app_net_add(&net);
	server = app_net_add(&net);
	for (unsigned i = 0; i < processes; i++)
		app_net_link(&net, i, server);
	app_net_plan(&net);
	snprintf(limit, sizeof(limit), "%u", sessions * processes + SPARE);
	if (args->connect)
		app_net_ready(&net, server, args->connect);
	else
		app_child_start(&child, "the server", argv, &net, server, APP_ANY_CPU);
	all = run_clients(&net, server, sessions, processes);
	report(args, processes, &all);
	if (!args->connect)
		app_child_stop(&child);
	return all.failed ? APP_EXIT_FAILED : APP_EXIT_OK;
}
