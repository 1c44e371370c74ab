/* Goal: arguments and results arrive whole whether they lie in the message or on a node, a call
 * with arguments ends once, and whatever its end was the node then holds nothing of them. Method:
 * caller and callee are two endpoints of one thread, turned by turns; a call is cut after every
 * number of turns: cancelled, out of time, callee, client or node gone. Counters of the node are
 * the witnesses. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "util/rng.h"

#define SECOND UINT64_C(1000000000)

enum { ECHO = 1, REFUSE, KEEP, LATER, MANY = 6, BIG = 300000 };

struct side {
	struct lend_ep *ep;
	struct lend_mem *mem;
};

static struct mem_node node;
static struct side caller, callee;
static lend_session session;
static lend_request kept;
static int jobs, ends;

/* A request whose arguments are being read. */
struct job {
	lend_request request;
	uint32_t n, due;
	bool failed;
	struct iovec iov[MANY];
	struct lend_op op[MANY];
};

static void job_gone(const struct iovec *iov)
{
	struct job *job = (struct job *)((char *)(uintptr_t)iov - offsetof(struct job, iov));

	for (uint32_t i = 0; i < job->n; i++)
		free(job->iov[i].iov_base);
	free(job);
	jobs--;
}

static void job_step(struct job *job)
{
	if (job->due--)
		return;
	if (!job->failed && lend_reply_args(callee.mem, job->request, LEND_OK, job->iov,
					    (int)job->n, job_gone) == 0)
		return;
	(void)lend_reply(callee.ep, job->request, LEND_INTERNAL, NULL);
	job_gone(job->iov);
}

static struct job *job_of[MANY * 64];
static struct lend_op *op_of[MANY * 64];

static void fetched(struct lend_op *op)
{
	for (size_t i = 0; i < sizeof(op_of) / sizeof(op_of[0]); i++)
		if (op_of[i] == op) {
			op_of[i] = NULL;
			job_of[i]->failed |= op->status != LEND_OK;
			job_step(job_of[i]);
			return;
		}
}

static void fetch(struct job *job, uint32_t k, const struct lend_ref *ref)
{
	size_t i = 0;

	while (op_of[i])
		i++;
	op_of[i] = &job->op[k];
	job_of[i] = job;
	job->op[k] = (struct lend_op){.done = fetched, .parent = job->request};
	job->due++;
	if (lend_get(callee.mem, ref, 0, &job->iov[k], 1, &job->op[k]) == 0)
		return;
	op_of[i] = NULL;
	job->due--;
	job->failed = true;
}

static void echo(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct job *job = calloc(1, sizeof(*job));
	uint32_t cursor = 0;
	struct lend_arg a;
	int rc;

	(void)arg;
	jobs++;
	job->request = request;
	job->due = 1;
	while ((rc = lend_arg_next(bytes, &cursor, &a)) > 0) {
		struct iovec *iov = &job->iov[job->n++];

		iov->iov_len = a.len;
		iov->iov_base = malloc(a.len + 1);
		if (a.bytes)
			memcpy(iov->iov_base, a.bytes, a.len);
		else
			fetch(job, job->n - 1, &a.ref);
	}
	cr_assert_eq(rc, 0, "%s", lend_why());
	job->due--;
	job_step(job);
}

static void refuse(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	(void)lend_reply(callee.ep, request, LEND_FAILED_PRECONDITION, NULL);
}

static void keep(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	kept = request;
}

static lend_request late[64];
static int lates;

static void later(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	late[lates++] = request;
}

static void open_callee(const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char name[104];

	snprintf(name, sizeof(name), strcmp(carrier, "shm") ? "udp:127.0.0.1:0" : "shm:args%d",
		 (int)getpid());
	config.listen = name;
	cr_assert_eq(lend_open(&config, &callee.ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(callee.ep, node.address, &callee.mem), 0);
	cr_assert_eq(lend_serve(callee.ep, ECHO, echo, NULL, 0), 0);
	cr_assert_eq(lend_serve(callee.ep, REFUSE, refuse, NULL, 0), 0);
	cr_assert_eq(lend_serve(callee.ep, KEEP, keep, NULL, 0), 0);
	cr_assert_eq(lend_serve(callee.ep, LATER, later, NULL, 0), 0);
	cr_assert_eq(lend_address(callee.ep, name, sizeof(name)), 0);
	cr_assert_eq(lend_connect(caller.ep, name, &session), 0);
}

static void open_caller(uint32_t calls)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.calls = calls;
	config.probe = SECOND / 50;
	config.dead = SECOND / 2;
	cr_assert_eq(lend_open(&config, &caller.ep), 0);
	cr_assert_eq(lend_mem_open(caller.ep, node.address, &caller.mem), 0);
	lend_args_threshold_set(caller.mem, 8192);
}

static void open_all(const char *carrier, const char *size, uint32_t calls)
{
	mem_node_start(&node, carrier, size, "");
	open_caller(calls);
	open_callee(carrier);
	lend_args_threshold_set(callee.mem, 8192);
}

static void turn(void)
{
	int here = caller.ep ? lend_poll(caller.ep) : 0;
	int there = callee.ep ? lend_poll(callee.ep) : 0;

	cr_assert(here >= 0 && there >= 0);
	if (!here && !there)
		sched_yield(); /* to the node */
}

static void close_side(struct side *side)
{
	if (side->ep)
		mem_client_close(side->ep, side->mem);
	side->ep = NULL;
}

static void close_all(void)
{
	close_side(&callee);
	close_side(&caller);
	mem_node_stop(&node);
	cr_assert_eq(jobs, 0, "replies whose bytes did not come back");
}

static void ended(struct lend_call *call)
{
	struct lend_ep *ep = caller.ep;

	if (call->request)
		lend_buf_give(ep, call->request);
	call->request = NULL;
	ends++;
}

/* Everything that moves between caller and callee is over, and the node holds nothing. */
static void settle(const char *what, int turns)
{
	struct lend_mem_stat stat;
	lend_ns until = lend_now(node.ep) + 3 * SECOND;

	do {
		for (int i = 0; i < 20; i++)
			turn();
		mem_stat(node.mem, &stat);
		if (!stat.pages_used && !stat.refs && !stat.spaces && !stat.grants)
			return;
	} while (lend_now(node.ep) < until);
	cr_assert_fail("%s, after %d turns: %llu pages, %llu references, %llu grants are left",
		       what, turns, (unsigned long long)stat.pages_used,
		       (unsigned long long)stat.refs, (unsigned long long)stat.grants);
}

static void wait_for(struct lend_call *call, int rc)
{
	int before = ends;

	cr_assert_eq(rc, 0, "%s", lend_why());
	(void)call;
	while (ends == before)
		turn();
}

static void finish(struct lend_op *op, int rc)
{
	cr_assert_eq(rc, 0, "%s", lend_why());
	while (lend_op_wait(caller.mem, op) < 0)
		turn();
}

/* Reads and gives up what came back; as it was sent. */
static void compare(const struct lend_buf *reply, const struct iovec *want, int n)
{
	uint32_t cursor = 0;
	struct lend_arg a;

	for (int i = 0; i < n; i++) {
		struct iovec into = {malloc(want[i].iov_len + 1), want[i].iov_len};
		struct lend_op op = {.timeout = 5 * SECOND}, out = op;

		cr_assert_eq(lend_arg_next(reply, &cursor, &a), 1, "%d of %d: %s", i, n,
			     lend_why());
		cr_assert_eq(a.len, want[i].iov_len);
		if (a.bytes) {
			cr_assert(!memcmp(a.bytes, want[i].iov_base, a.len));
			free(into.iov_base);
			continue;
		}
		finish(&op, lend_get(caller.mem, &a.ref, 0, &into, 1, &op));
		cr_assert_eq(op.status, LEND_OK);
		cr_assert(!memcmp(into.iov_base, want[i].iov_base, a.len), "%d others", i);
		finish(&out, lend_release(caller.mem, &a.ref, 1, &out));
		cr_assert_eq(out.status, LEND_OK);
		free(into.iov_base);
	}
	cr_assert_eq(lend_arg_next(reply, &cursor, &a), 0);
}

static void all_lengths(const char *carrier)
{
	static const size_t len[] = {0, 1, 7, 8, 4096, 4097, 8192, 8193, 60000, BIG};
	static const uint64_t limit[] = {0, 8192, 1 << 30};
	char *bytes = malloc(MANY * BIG);
	struct iovec iov[MANY];
	struct lend_rng rng;

	lend_rng_seed(&rng, 5);
	mem_fill(bytes, MANY * BIG, 9);
	open_all(carrier, "64M", 0);
	for (int round = 0; round < 60; round++) {
		struct lend_call call = {.method = ECHO, .done = ended, .timeout = 10 * SECOND};
		int n = (int)lend_rng_below(&rng, MANY + 1);

		lend_args_threshold_set(caller.mem, limit[lend_rng_below(&rng, 3)]);
		lend_args_threshold_set(callee.mem, limit[lend_rng_below(&rng, 3)]);
		for (int i = 0; i < n; i++)
			iov[i] = (struct iovec){bytes + i * BIG, len[lend_rng_below(&rng, 10)]};
		wait_for(&call, lend_call_start_args(caller.mem, session, &call, iov, n));
		cr_assert_eq(call.status, LEND_OK, "%d", call.status);
		compare(call.reply, iov, n);
		lend_buf_give(caller.ep, call.reply);
		settle("echo", round);
	}
	close_all();
	free(bytes);
}

Test(mem_args, all_lengths_shm)
{
	all_lengths("shm");
}

Test(mem_args, all_lengths_udp)
{
	all_lengths("udp");
}

static char big[BIG];
static struct iovec three[3] = {{big, BIG}, {big, 5000}, {big + 1, BIG - 1}};

static void drop_reply(struct lend_call *call)
{
	struct lend_arg a;

	for (uint32_t cursor = 0; lend_arg_next(call->reply, &cursor, &a) > 0;) {
		struct lend_op op = {.timeout = 5 * SECOND};

		if (!a.bytes)
			finish(&op, lend_release(caller.mem, &a.ref, 1, &op));
	}
	lend_buf_give(caller.ep, call->reply);
}

static void refused(const char *carrier)
{
	open_all(carrier, "64M", 0);
	for (int i = 0; i < 20; i++) {
		struct lend_call call = {.method = REFUSE, .done = ended};

		wait_for(&call, lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, LEND_FAILED_PRECONDITION);
		cr_assert_eq(call.ran, LEND_RAN_YES);
		call = (struct lend_call){.method = 77, .done = ended};
		wait_for(&call, lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, LEND_UNIMPLEMENTED);
	}
	settle("refused", 0);
	close_all();
}

Test(mem_args, refused_shm)
{
	refused("shm");
}

Test(mem_args, refused_udp)
{
	refused("udp");
}

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

Test(mem_args, cancelled_shm)
{
	cancelled("shm");
}

Test(mem_args, cancelled_udp)
{
	cancelled("udp");
}

static void timed_out(const char *carrier)
{
	struct lend_mem_stat stat;

	open_all(carrier, "64M", 0);
	mem_stat(node.mem, &stat);
	for (lend_ns ns = 1000; ns < SECOND / 20; ns += ns / 2) {
		struct lend_call call = {.method = KEEP, .done = ended, .timeout = ns};

		wait_for(&call, lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert(call.status == LEND_DEADLINE_EXCEEDED ||
			      (call.status == LEND_UNAVAILABLE && call.ran == LEND_RAN_NO),
			  "%d", call.status);
		(void)lend_reply(callee.ep, kept, LEND_OK, NULL);
		settle("timed out", (int)ns);
	}
	close_all();
}

Test(mem_args, timed_out_shm)
{
	timed_out("shm");
}

Test(mem_args, timed_out_udp)
{
	timed_out("udp");
}

/* The callee goes while the call is under way, or the caller's client is closed. */
static void somebody_goes(const char *carrier, struct side *who)
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
		close_side(who);
		while (caller.ep && !ends)
			turn();
		cr_assert_eq(ends, 1, "%d ends after %d turns", ends, turns);
		cr_assert_neq(call.status, LEND_OK);
		settle(who == &caller ? "client closed" : "callee closed", turns);
		close_side(&callee);
	}
	close_all();
}

Test(mem_args, callee_goes_shm)
{
	somebody_goes("shm", &callee);
}

Test(mem_args, callee_goes_udp)
{
	somebody_goes("udp", &callee);
}

Test(mem_args, client_is_closed_shm)
{
	somebody_goes("shm", &caller);
}

Test(mem_args, client_is_closed_udp)
{
	somebody_goes("udp", &caller);
}

/* The callee's client is closed while its answer is put: the part that is there already goes again.
 * The answer that did leave is the caller's. */
Test(mem_args, callee_goes_while_it_answers)
{
	struct iovec two[] = {{big, 9000}, {big, BIG}};

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

/* The callee has it and loses its session: nothing is left either. */
Test(mem_args, session_ends)
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

static void node_dies(const char *carrier)
{
	for (int turns = 0; turns < 40; turns += 1 + turns / 2) {
		struct lend_call call = {.method = ECHO, .done = ended, .timeout = 3 * SECOND};

		open_all(carrier, "64M", 0);
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns; i++)
			turn();
		kill(node.pid, SIGKILL);
		waitpid(node.pid, NULL, 0);
		for (ends = 0; !ends;)
			turn();
		cr_assert_neq(call.status, LEND_OK);
		close_side(&callee);
		close_side(&caller);
		mem_client_close(node.ep, node.mem);
		cr_assert_eq(jobs, 0);
	}
}

Test(mem_args, node_dies)
{
	node_dies("shm");
}

/* One of three fits: the call ends before it ran, and what was put is gone again. */
Test(mem_args, node_is_full)
{
	struct lend_call call = {.method = ECHO, .done = ended};

	open_all("shm", "400K", 0);
	for (int i = 0; i < 50; i++) {
		wait_for(&call, lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED, "%d", call.status);
		cr_assert_eq(call.ran, LEND_RAN_NO);
		settle("full", i);
		call = (struct lend_call){.method = ECHO, .done = ended};
	}
	close_all();
}

/* The answer does not fit: its caller hears that, and no part of it stays. */
Test(mem_args, reply_does_not_fit)
{
	open_all("shm", "400K", 0);
	lend_args_threshold_set(caller.mem, 1 << 30);
	for (int i = 0; i < 50; i++) {
		struct lend_call call = {.method = ECHO, .done = ended};

		wait_for(&call, lend_call_start_args(caller.mem, session, &call, three, 3));
		cr_assert_eq(call.status, LEND_RESOURCE_EXHAUSTED, "%d", call.status);
		cr_assert_eq(call.ran, LEND_RAN_YES);
		settle("full", i);
	}
	close_all();
}

/* The caller gives up while the answer is on its way: what nobody takes stays for its 30 s as
 * grants without holds, and everything else is gone. */
Test(mem_args, reply_that_nobody_takes)
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
	for (int i = 0; i < 200; i++)
		turn();
	mem_stat(node.mem, &stat);
	cr_assert_eq(stat.holds, 0);
	cr_assert_eq(stat.refs, stat.grants);
	cr_assert_eq(stat.spaces, 0);
	close_side(&callee);
	close_side(&caller);
	mem_node_kill(&node);
}

/* More calls than slots: two are answered when nothing moves any more, then the next get their
 * turn.
 */
Test(mem_args, more_calls_than_slots)
{
	enum { N = 20 };
	static struct lend_call call[N];
	int idle = 0;

	open_all("shm", "64M", 2);
	for (int i = 0; i < N; i++) {
		call[i] = (struct lend_call){.method = LATER, .done = ended};
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call[i], three, 3), 0);
	}
	while (ends < N) {
		turn();
		if (lates < 2 || ++idle < 1000)
			continue;
		cr_assert_eq(lates, 2);
		while (lates)
			(void)lend_reply(callee.ep, late[--lates], LEND_OK, NULL);
		idle = 0;
	}
	for (int i = 0; i < N; i++) {
		cr_assert_eq(call[i].status, LEND_OK, "%d: %d", i, call[i].status);
		lend_buf_give(caller.ep, call[i].reply);
	}
	settle("many", 0);
	close_all();
}

Test(mem_args, threshold)
{
	struct lend_call call = {.method = REFUSE, .done = ended};
	lend_ns until;
	uint64_t is;

	open_all("shm", "64M", 0);
	cr_assert_eq(lend_args_threshold(caller.mem, session, 0), 8192);
	lend_args_threshold_set(caller.mem, LEND_NEVER);
	cr_assert_eq(lend_args_threshold(caller.mem, session, 9), LEND_NEVER, "no such node");
	cr_assert_eq(lend_args_threshold(caller.mem, session, 1), 32 << 10, "not yet known");
	wait_for(&call, lend_call_start_args(caller.mem, session, &call, three, 3));
	for (until = lend_now(caller.ep) + 5 * SECOND; lend_now(caller.ep) < until; turn())
		if ((is = lend_args_threshold(caller.mem, session, 1)) != 32 << 10)
			break;
	cr_assert(is >= 1024 && is <= 1 << 20 && is != 32 << 10, "%d", (int)is);
	settle("measured", 0);
	close_all();
}

/* Closed in the middle of measuring. */
Test(mem_args, closed_while_it_measures)
{
	for (int turns = 0; turns < 60; turns += 3) {
		struct lend_call call = {.method = KEEP, .done = ended};

		open_all("shm", "64M", 0);
		lend_args_threshold_set(caller.mem, LEND_NEVER);
		cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), 0);
		for (int i = 0; i < turns; i++)
			turn();
		close_side(&caller);
		close_all();
	}
}

Test(mem_args, bad_arguments)
{
	struct lend_buf request = {.len = 0};
	struct lend_call call = {.method = ECHO, .request = &request};
	struct lend_arg a;
	uint32_t cursor = 0;

	open_all("shm", "16M", 0);
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, 3), -EINVAL);
	call.request = NULL;
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, three, -1), -EINVAL);
	cr_assert_eq(lend_call_start_args(caller.mem, session, &call, NULL, 1), -EINVAL);
	cr_assert_eq(lend_call_start_args(caller.mem, (lend_session){12345}, &call, three, 3),
		     -ESTALE);
	cr_assert_eq(lend_reply_args(caller.mem, (lend_request){12345}, LEND_OK, three, 3, NULL),
		     -ESTALE);
	cr_assert_eq(lend_arg_next(NULL, &cursor, &a), 0);
	close_all();
}

/* Whatever the bytes are: an answer, inside of the message, that gets on. */
Test(mem_args, hostile_messages)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, 77);
	for (int round = 0; round < 200000; round++) {
		uint8_t bytes[300];
		uint32_t len = (uint32_t)lend_rng_below(&rng, sizeof(bytes) + 1), at, cursor = 0;
		struct lend_buf tail = {0}, head = {0};
		struct lend_arg a;
		int rc;

		for (uint32_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)(lend_rng_below(&rng, 4) ? 0 : lend_rng_next(&rng));
		at = (uint32_t)lend_rng_below(&rng, len + 1);
		tail = (struct lend_buf){.data = bytes + at, .len = len - at};
		head = (struct lend_buf){.data = bytes, .len = at, .next = &tail};
		for (uint32_t before = 0; (rc = lend_arg_next(&head, &cursor, &a)) > 0;
		     before = cursor) {
			cr_assert_gt(cursor, before, "round %d", round);
			cr_assert_leq(cursor, len, "round %d", round);
			if (!a.bytes)
				cr_assert_eq(lend_ref_len(&a.ref), a.len);
			else if (a.len)
				cr_assert((const uint8_t *)a.bytes >= bytes &&
					      (const uint8_t *)a.bytes + a.len <= bytes + len,
					  "round %d", round);
		}
		cr_assert(rc == 0 || rc == -EINVAL || rc == -EMSGSIZE, "round %d: %d", round, rc);
		cr_assert(rc || cursor == len);
	}
}
