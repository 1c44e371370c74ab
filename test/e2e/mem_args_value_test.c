/* Goal: a call or reply with arguments does not fail because a memory node is full, stopped,
 * unknown or dead, as long as the bytes fit into a message. Bytes that no node took are sent by
 * value, and objects that a node took are freed. Method: the node gets into that state before a
 * call or after every number of turns of it; the bytes are compared at both ends, and the node's
 * counters show leftovers. Covers: cn/args/args.c, cn/args/args_start.c,
 * cn/args/inline_threshold.c */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/args_pair.h"
#include "one_line_test.h"

static struct lend_args_stat stat_of(struct lend_mem *mem)
{
	struct lend_args_stat stat;

	lend_args_stat_get(mem, &stat);
	return stat;
}

/* done may run before the start returns. */
static void run_call(struct lend_call *call)
{
	int before = ends;

	cr_assert_eq(lend_call_start_args(caller.mem, session, call, three, 3), 0, "%s",
		     lend_why());
	while (ends == before)
		turn();
}

/* Its arguments come back, by value or by reference. */
static void check_echo(lend_ns timeout)
{
	struct lend_call call = {.method = ECHO, .done = ended, .timeout = timeout};

	run_call(&call);
	cr_assert_eq(call.status, LEND_OK, "%d", call.status);
	compare(call.reply, three, 3);
	lend_buf_give(caller.ep, call.reply);
}

/* The arguments reach the callee, which reads none of them. */
static void check_arrival(lend_ns timeout)
{
	struct lend_call call = {.method = REFUSE, .done = ended, .timeout = timeout};

	run_call(&call);
	cr_assert_eq(call.status, LEND_FAILED_PRECONDITION, "%d", call.status);
}

/* Of two long arguments one fits on the node: that one is sent by reference, there and back. */
static void run_full_node(const char *carrier)
{
	struct lend_args_stat stat;

	open_all(carrier, "400K", 0);
	for (int i = 1; i <= 50; i++) {
		check_echo(10 * SECOND);
		settle("full", i);
		stat = stat_of(caller.mem);
		cr_assert_eq(stat.fallbacks, (uint64_t)i);
		cr_assert_leq(stat.by_ref, (uint64_t)i);
	}
	cr_assert(stat.by_ref > 0 && stat_of(callee.mem).fallbacks > 0);
	close_all();
}

OVER_EACH(mem_args_value, run_full_node)

/* Many at once: each arrives, and the node is empty at the end. */
Test(mem_args_value, full_of_calls)
{
	enum { N = 40 };
	static struct lend_call call[N];

	open_all("udp", "1M", 64);
	for (int i = 0; i < N; i++) {
		call[i] =
		    (struct lend_call){.method = REFUSE, .done = ended, .timeout = 20 * SECOND};
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call[i], three, 3), 0);
	}
	while (ends < N)
		turn();
	for (int i = 0; i < N; i++)
		cr_assert_eq(call[i].status, LEND_FAILED_PRECONDITION, "%d", call[i].status);
	settle("full of calls", 0);
	close_all();
}

/* Longer than the peer's message limit: it cannot be sent by value. */
Test(mem_args_value, too_long_for_a_message)
{
	struct lend_call call = {.method = ECHO, .done = ended, .timeout = 10 * SECOND};
	struct lend_call first = {.done = ended};

	callee_takes = BIG;
	open_all("shm", "400K", 0);
	WAIT_FOR(lend_call_start(caller.ep, session, &first));
	run_call(&call);
	cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED, "%d", call.status);
	cr_assert_eq(call.ran, LEND_RAN_NO);
	cr_assert_eq(stat_of(caller.mem).fallbacks, 0);
	settle("too long", 0);
	close_all();
}

/* The reply does not fit on the node. */
Test(mem_args_value, reply_does_not_fit)
{
	open_all("shm", "400K", 0);
	lend_args_threshold_set(caller.mem, 1 << 30);
	for (int i = 0; i < 50; i++) {
		check_echo(10 * SECOND);
		settle("full", i);
	}
	cr_assert_eq(stat_of(callee.mem).fallbacks, 50);
	close_all();
}

/* Of n calls; on a busy machine a put may be delayed now and then. */
static uint64_t took_by_value(int n)
{
	uint64_t before = stat_of(caller.mem).fallbacks;

	while (n--)
		check_arrival(10 * SECOND);
	return stat_of(caller.mem).fallbacks - before;
}

/* The node is stopped: the first call waits for a part of its time, the next ones hardly wait, and
 * once the node continues it is used again. */
static void run_stopped_node(const char *carrier)
{
	lend_ns begun;
	uint64_t before;

	open_all(carrier, "64M", 0);
	check_echo(10 * SECOND);
	settle("before", 0);
	before = stat_of(caller.mem).fallbacks;
	kill(node.pid, SIGSTOP);
	begun = lend_now(caller.ep);
	for (int i = 0; i < 100; i++)
		check_arrival(SECOND);
	cr_assert_lt(lend_now(caller.ep) - begun, 10 * SECOND);
	cr_assert_eq(stat_of(caller.mem).fallbacks - before, 100);
	check_echo(4 * SECOND);
	kill(node.pid, SIGCONT);
	for (before = stat_of(caller.mem).by_ref; stat_of(caller.mem).by_ref == before;)
		check_arrival(10 * SECOND);
	for (int tries = 0; took_by_value(20); tries++)
		cr_assert_lt(tries, 20, "its answer has not cleared it");
	settle("after", 0);
	close_all();
}

TestRuns(mem_args_value, stopped_shm, run_stopped_node("shm"));
TestRuns(mem_args_value, stopped_udp, run_stopped_node("udp"));

/* The put gets half of the call's time, so that the other half is left for the bytes. */
Test(mem_args_value, stopped_with_a_short_deadline)
{
	open_all("shm", "64M", 0);
	check_arrival(10 * SECOND);
	kill(node.pid, SIGSTOP);
	check_arrival(3 * SECOND / 10);
	kill(node.pid, SIGCONT);
	settle("short deadline", 0);
	close_all();
}

/* A client without a node, and one with the address of a node that does not run. */
static void run_without_node(const char *name)
{
	struct lend_config config = LEND_CONFIG_INIT;

	mem_node_start(&node, "shm", "64M", "");
	cr_assert_eq(lend_open(&config, &caller.ep), 0);
	cr_assert_eq(lend_mem_open(caller.ep, name, &caller.mem), 0);
	lend_args_threshold_set(caller.mem, 8192);
	open_callee("shm");
	lend_args_threshold_set(callee.mem, LEND_NEVER - 1);
	for (int i = 0; i < 20; i++)
		check_echo(5 * SECOND);
	cr_assert_eq(stat_of(caller.mem).fallbacks, name ? 20 : 0);
	close_all();
}

TestRuns(mem_args_value, no_node_is_named, run_without_node(NULL));

Test(mem_args_value, no_node_answers_on_shm)
{
	char name[64];

	snprintf(name, sizeof(name), "shm:no-node-%d", (int)getpid());
	run_without_node(name);
}

/* A socket that no process reads. */
Test(mem_args_value, no_node_answers_on_udp)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char name[104];
	struct lend_ep *silent;

	config.listen = "udp:127.0.0.1:0";
	cr_assert_eq(lend_open(&config, &silent), 0);
	cr_assert_eq(lend_address(silent, name, sizeof(name)), 0);
	run_without_node(name);
	lend_close(silent);
}

/* Killed in the middle of a put, or after it: each call arrives, whatever the node did. */
static void run_killed_node(const char *carrier, int step)
{
	for (int turns = 0; turns < 40; turns += step + turns / 2) {
		struct lend_call call = {.method = REFUSE, .done = ended, .timeout = 5 * SECOND};

		open_all(carrier, "64M", 0);
		ends = 0;
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns; i++)
			turn();
		kill(node.pid, SIGKILL);
		waitpid(node.pid, NULL, 0);
		while (!ends)
			turn();
		cr_assert_eq(call.status, LEND_FAILED_PRECONDITION, "%d turns: %d", turns,
			     call.status);
		check_echo(5 * SECOND);
		close_side(&callee);
		close_side(&caller);
		mem_client_close(node.ep, node.mem);
		cr_assert_eq(jobs, 0);
	}
}

TestRuns(mem_args_value, dies_shm, run_killed_node("shm", 1));
TestRuns(mem_args_value, dies_udp, run_killed_node("udp", 9));

/* The caller cancels: bytes that were not put are not sent by value either. */
Test(mem_args_value, cancelled_is_not_sent)
{
	struct lend_call call = {.method = KEEP, .done = ended, .timeout = 10 * SECOND};
	uint64_t before;

	open_all("shm", "64M", 0);
	check_arrival(10 * SECOND);
	before = stat_of(caller.mem).fallbacks;
	kill(node.pid, SIGSTOP);
	ends = 0;
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
	turn();
	lend_call_cancel_args(caller.mem, &call);
	while (!ends)
		turn();
	cr_assert_eq(call.status, LEND_CANCELLED);
	cr_assert_eq(call.ran, LEND_RAN_NO);
	cr_assert_eq(stat_of(caller.mem).fallbacks, before);
	kill(node.pid, SIGCONT);
	settle("cancelled", 0);
	close_all();
}
