/* Goal: a client that is stopped or killed with its maximum of calls in flight does not delay the
 * calls of others. Method: a server in a thread, over udp, which does not report a death. A client
 * process makes 16 sessions x 128 calls, which the server answers once that process is stopped or
 * killed. Another client calls within the 5 s until its sessions end. A client that has begun long
 * requests and stops leaves memory for the long request of another. Covers: src/core/table_share.c,
 * src/rpc/server.c */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_server.h"
#include "one_line_test.h"

enum { SESSIONS = 16, EACH = 128, ALL = SESSIONS * EACH, CALLS = 500, KEEP = 30 };

/* Memory shared by both processes. */
static struct shared {
	atomic_uint refused, odd; /* calls that ended without a handler; in another way */
} * shared;

static lend_request kept[ALL];
static atomic_uint n_kept;
static struct ask many[ALL];

static void serve_keep(lend_request request, const struct lend_buf *in, void *arg)
{
	uint32_t n = atomic_load(&n_kept);

	(void)in, (void)arg;
	if (n < ALL)
		kept[n] = request;
	atomic_store(&n_kept, n + 1);
}

static void call_ended(struct lend_call *call)
{
	bool refused = call->status == LEND_RESOURCE_EXHAUSTED && call->ran == LEND_RAN_NO;

	atomic_fetch_add(refused ? &shared->refused : &shared->odd, 1);
}

/* Never returns. */
static void run_hoarder(const char *address)
{
	struct lend_config config = LEND_CONFIG_INIT;
	lend_session session[SESSIONS];
	struct lend_ep *ep;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (lend_open(&config, &ep) < 0)
		_exit(1);
	for (int i = 0; i < SESSIONS; i++)
		if (lend_connect(ep, address, &session[i]) < 0)
			_exit(2);
	for (int i = 0; i < ALL; i++) {
		many[i].call = (struct lend_call){.method = KEEP, .done = call_ended};
		if (lend_call_start(ep, session[i / EACH], &many[i].call) < 0)
			_exit(3);
	}
	for (;;)
		(void)lend_wait(ep, LEND_NEVER);
}

static void run_silence(int signal)
{
	struct server server;
	lend_session to;
	struct lend_ep *other;
	uint32_t n;
	lend_ns worst;
	int status;
	pid_t pid;

	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
	server_start(&server, "udp");
	cr_assert_eq(lend_serve(server.ep, KEEP, serve_keep, NULL, 0), 0);
	other = client_of(server.address, &to);
	sync_echo(other, to, ECHO, 10);
	pid = fork();
	if (pid == 0)
		run_hoarder(server.address);
	while (atomic_load(&n_kept) + atomic_load(&shared->refused) < ALL)
		cr_assert_geq(lend_wait(other, lend_now(other) + MS), 0);
	kill(pid, signal);
	waitpid(pid, &status, WUNTRACED);
	n = atomic_load(&n_kept);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(lend_reply(server.ep, kept[i], LEND_OK, NULL), 0);
	worst = slowest_echo(other, to, CALLS, 1, 100);
	cr_log_info("%u calls accepted, %u refused; then the slowest call took %llu us", n,
		    atomic_load(&shared->refused), (unsigned long long)worst / 1000);
	cr_assert_lt(worst, 1000ull * MS, "signal %d: a call took %llu ms", signal,
		     (unsigned long long)worst / MS);
	cr_assert_eq(atomic_load(&shared->odd), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	lend_close(other);
	server_stop(&server);
}

TestRuns(rpc_hoard, client_stopped__others_not_delayed, run_silence(SIGSTOP), .timeout = 30);
TestRuns(rpc_hoard, client_killed__others_not_delayed, run_silence(SIGKILL), .timeout = 30);

enum { LONG = 8 << 20, BEGUN = 12 };

/* The first client has most of the memory when the last eighth begins; all of its requests together
 * would take that, too. */
Test(rpc_hoard, stalled_long_requests__leave_memory_for_others, .timeout = 60)
{
	struct lend_config serves = LEND_CONFIG_INIT, config = serves;
	struct ask begun[BEGUN], own = {.call = {.method = SINK, .done = ask_done}};
	uint32_t refused = 0;
	lend_session session;
	struct lend_ep *other;
	struct pair pair;

	serves.memory_max = 8 * LONG;
	serves.message_max = LONG;
	pair_open_with(&pair, "udp", &serves, &config);
	pair_turns(&pair, 20);
	for (int i = 0; i < BEGUN; i++) {
		cr_assert_eq(lend_connect(pair.client, pair.address, &session), 0);
		begun[i] = (struct ask){.call = {.method = SINK, .done = ask_done}};
		begun[i].call.request = ask_bytes(pair.client, LONG, 1);
		cr_assert_eq(lend_call_start(pair.client, session, &begun[i].call), 0);
	}
	for (int i = 0; i < 20000 && !refused; i++) {
		pair_turns(&pair, 1);
		for (int k = 0; k < BEGUN; k++)
			refused += begun[k].done && begun[k].call.status == LEND_RESOURCE_EXHAUSTED;
	}
	cr_assert(refused > 0 && refused < BEGUN, "%u refused", refused);
	cr_assert_eq(lend_open(&config, &other), 0);
	cr_assert_eq(lend_connect(other, pair.address, &session), 0);
	own.call.request = ask_bytes(other, LONG, 2);
	cr_assert_eq(lend_call_start(other, session, &own.call), 0);
	while (!own.done)
		cr_assert(lend_poll(other) >= 0 && lend_poll(pair.server) >= 0);
	cr_assert_eq(own.call.status, LEND_OK, "%d", own.call.status);
	lend_close(other);
	for (int i = 0; i < BEGUN; i++) {
		lend_call_cancel(pair.client, &begun[i].call);
		cr_assert(pair_until(&pair, &begun[i].done));
		ask_give(pair.client, &begun[i]);
	}
	pair_close(&pair);
}
