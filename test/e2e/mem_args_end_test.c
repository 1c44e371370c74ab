/* Goal: a call with arguments ends once, and after any end the node holds none of them. Method: a
 * call is cut after every number of turns: refused, cancelled, timed out, callee, session or client
 * closed. Checked by counters of the node. Covers: cn/args/args.c, cn/args/args_start.c,
 * cn/args/args_message.c, cn/deferred_release.c, mn/unwritten_reads.c */
#include <errno.h>
#include <signal.h>

#include "e2e/args_pair.h"
#include "one_line_test.h"

static void run_refused(const char *carrier)
{
	open_all(carrier, "64M", 0);
	for (int i = 0; i < 20; i++) {
		struct lend_call call = {.method = REFUSE, .done = ended};

		WAIT_FOR(lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, LEND_FAILED_PRECONDITION);
		cr_assert_eq(call.ran, LEND_RAN_YES);
		call = (struct lend_call){.method = 77, .done = ended};
		WAIT_FOR(lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, LEND_UNIMPLEMENTED);
	}
	settle("refused", 0);
	close_all();
}

OVER_EACH(mem_args_end, run_refused)

/* A handler that does not answer: the caller cancels after some turns. */
static void cancelled(const char *carrier)
{
	open_all(carrier, "64M", 0);
	for (int turns = 0; turns < 200; turns += 1 + turns / 16) {
		struct lend_call call = {.method = KEEP, .done = ended};

		ends = 0;
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), -EALREADY);
		for (int i = 0; i < turns; i++)
			turn();
		lend_call_cancel_args(caller.mem, &call);
		while (!ends)
			turn();
		cr_assert_eq(call.status, LEND_CANCELLED);
		(void)lend_reply(callee.ep, kept, LEND_OK, NULL);
		settle("cancelled", turns);
		cr_assert_eq(ends, 1);
	}
	close_all();
}

OVER_EACH(mem_args_end, cancelled)

static void timed_out(const char *carrier)
{
	struct lend_mem_stat stat;

	open_all(carrier, "64M", 0);
	mem_stat(node.mem, &stat);
	for (lend_ns ns = 1000; ns < SECOND / 20; ns += ns / 2) {
		struct lend_call call = {.method = KEEP, .done = ended, .timeout = ns};

		WAIT_FOR(lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert(call.status == LEND_DEADLINE_EXCEEDED ||
			      (call.status == LEND_UNAVAILABLE && call.ran == LEND_RAN_NO),
			  "%d", call.status);
		(void)lend_reply(callee.ep, kept, LEND_OK, NULL);
		settle("timed out", (int)ns);
	}
	close_all();
}

OVER_EACH(mem_args_end, timed_out)

/* The callee, or the caller's client, is closed during the call. */
static void one_side_ends(const char *carrier, struct side *dying)
{
	mem_node_start(&node, carrier, "64M", "");
	open_caller(0);
	for (int turns = 0; turns < 100; turns += 1 + turns / 4) {
		struct lend_call call = {.method = KEEP, .done = ended};

		if (!caller.ep)
			open_caller(0);
		open_callee(carrier);
		ends = 0;
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns; i++)
			turn();
		close_side(dying);
		while (caller.ep && !ends)
			turn();
		cr_assert_eq(ends, 1, "%d ends after %d turns", ends, turns);
		cr_assert_neq(call.status, LEND_OK);
		settle(dying == &caller ? "client closed" : "callee closed", turns);
		close_side(&callee);
	}
	close_all();
}

static void callee_closes(const char *carrier)
{
	one_side_ends(carrier, &callee);
}

static void client_is_closed(const char *carrier)
{
	one_side_ends(carrier, &caller);
}

OVER_EACH(mem_args_end, callee_closes)
OVER_EACH(mem_args_end, client_is_closed)

static void compare_args(lend_request request, const struct lend_arg *args, int n, void *arg)
{
	(void)arg;
	cr_assert_eq(n, 3);
	for (int i = 0; i < n; i++)
		cr_assert_eq(memcmp(args[i].bytes, three[i].iov_base, three[i].iov_len), 0);
	(void)lend_reply(callee.ep, request, LEND_OK, NULL);
}

/* The caller ends before, while or after its bytes arrive at the node. The callee reads all of
 * them, or none. */
static void writer_ends(const char *carrier)
{
	mem_node_start(&node, carrier, "64M", "");
	for (int turns = 0; turns < 120; turns += 1 + turns / 16) {
		struct lend_call call = {.method = 9, .done = ended};

		open_caller(0);
		open_callee(carrier);
		cr_assert_eq(lend_serve_args(callee.mem, 9, compare_args, NULL, 0), 0);
		ends = 0;
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns && !ends; i++)
			turn();
		close_side(&caller);
		settle("writer closed", turns);
		close_side(&callee);
	}
	close_all();
}

OVER_EACH(mem_args_end, writer_ends)

/* The callee's client is closed while it puts its reply: the parts already put are released. A
 * reply that was sent belongs to the caller. */
Test(mem_args_end, callee_closes_while_it_answers)
{
	struct iovec two[] = {{three[0].iov_base, 9000}, three[0]};

	mem_node_start(&node, "shm", "64M", "");
	open_caller(0);
	for (int turns = 0; turns < 150; turns += 2) {
		struct lend_call call = {.method = ECHO, .done = ended};

		open_callee("shm");
		lend_args_threshold_set(callee.mem, 8192);
		ends = 0;
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, two, 2), 0);
		for (int i = 0; i < turns; i++)
			turn();
		lend_mem_close(callee.mem);
		lend_close(callee.ep);
		callee.ep = NULL;
		while (!ends)
			turn();
		if (call.status == LEND_OK)
			drop_reply(&call);
		settle("callee closed", turns);
		cr_assert_eq(jobs, 0);
	}
	close_all();
}

/* The callee has the request and loses its session: nothing is left either. */
Test(mem_args_end, session_ends)
{
	struct lend_call call = {.method = KEEP, .done = ended};

	open_all("shm", "64M", 0);
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
	for (kept.id = 0; !kept.id;)
		turn();
	lend_disconnect(caller.ep, session);
	while (!ends)
		turn();
	cr_assert_eq(call.status, LEND_CANCELLED);
	settle("disconnected", 0);
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), -ESTALE);
	close_all();
}

/* The caller cancels while the reply is in flight: its objects stay for their 30 s as grants
 * without holds; all else is released. */
Test(mem_args_end, reply__caller_cancelled__freed_after_ttl)
{
	struct lend_mem_stat stat;

	open_all("shm", "64M", 0);
	for (int turns = 0; turns < 60; turns++) {
		struct lend_call call = {.method = ECHO, .done = ended};

		ends = 0;
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns; i++)
			turn();
		lend_call_cancel_args(caller.mem, &call);
		while (!ends || jobs)
			turn();
		if (call.status == LEND_OK)
			drop_reply(&call);
	}
	for (lend_ns until = lend_now(node.ep) + 3 * SECOND; lend_now(node.ep) < until;) {
		turn();
		mem_stat(node.mem, &stat);
		if (!stat.holds && !stat.spaces && stat.refs == stat.grants)
			break;
	}
	cr_assert_eq(stat.holds, 0);
	cr_assert_eq(stat.refs, stat.grants);
	cr_assert_eq(stat.spaces, 0);
	close_side(&callee);
	close_side(&caller);
	mem_node_kill(&node);
}

static int came_back;

static void count_back(const struct iovec *arg)
{
	(void)arg;
	came_back++;
}

/* The caller's session ends while its answer is put: the object is freed at once, not when its TTL
 * of 30 s ends. */
Test(mem_args_end, reply__session_ended__freed_at_once)
{
	open_all("shm", "64M", 0);
	for (int i = 0; i < 5; i++) {
		struct lend_call call = {.method = KEEP, .done = ended};
		char name[104];

		kept.id = 0;
		cr_assert_eq(lend_call_start(caller.ep, session, &call), 0);
		while (!kept.id)
			turn();
		kill(node.pid, SIGSTOP); /* the put ends after the session */
		came_back = 0;
		cr_assert_eq(lend_reply_args(callee.mem, kept, LEND_OK, three, 3, count_back), 0);
		lend_disconnect(caller.ep, session);
		while (lend_request_session(callee.ep, kept).id)
			turn();
		kill(node.pid, SIGCONT);
		while (!came_back)
			turn();
		settle("caller gone", i);
		cr_assert_eq(lend_address(callee.ep, name, sizeof(name)), 0);
		cr_assert_eq(lend_connect(caller.ep, name, &session), 0);
	}
	close_all();
}

static struct lend_ref shown;

static void show_arg(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_arg a;
	uint32_t cursor = 0;

	(void)arg;
	cr_assert_eq(lend_arg_next(bytes, &cursor, &a), 1);
	shown = a.ref;
	kept = request;
}

/* A client that also adopted its argument keeps it when the call ends. */
Test(mem_args_end, an_argument_that_its_caller_adopts_stays)
{
	struct lend_call call = {.method = LATER, .done = ended};
	struct lend_op op = {.timeout = 5 * SECOND};
	char byte;

	open_all("shm", "64M", 0);
	cr_assert_eq(lend_serve(callee.ep, LATER, show_arg, NULL, 0), 0);
	kept.id = 0;
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
	while (!kept.id)
		turn();
	finish(&op, lend_adopt(caller.mem, &shown, &op));
	cr_assert_eq(op.status, LEND_OK);
	(void)lend_reply(callee.ep, kept, LEND_OK, NULL);
	while (!ends)
		turn();
	for (int i = 0; i < 100; i++)
		turn();
	op = (struct lend_op){.timeout = 5 * SECOND};
	finish(&op, lend_get(caller.mem, &shown, 0, &(struct iovec){&byte, 1}, 1, &op));
	cr_assert_eq(op.status, LEND_OK, "%d", op.status);
	op = (struct lend_op){.timeout = 5 * SECOND};
	finish(&op, lend_release(caller.mem, &shown, 1, &op));
	lend_buf_give(caller.ep, call.reply);
	settle("adopted", 0);
	close_all();
}
