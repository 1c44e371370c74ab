#include "e2e/args_pair.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mem_node node;
struct side caller, callee;
lend_session session;
lend_request kept;
int jobs, ends;
const char *node_more = "";
uint64_t callee_takes;

/* A request while its arguments are being read. */
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

static void fetch_done(struct lend_op *op)
{
	for (size_t i = 0; i < sizeof(op_of) / sizeof(op_of[0]); i++)
		if (op_of[i] == op) {
			op_of[i] = NULL;
			job_of[i]->failed |= op->status != LEND_OK;
			job_step(job_of[i]);
			return;
		}
}

static void fetch_arg(struct job *job, uint32_t k, const struct lend_ref *ref)
{
	size_t i = 0;

	while (op_of[i])
		i++;
	op_of[i] = &job->op[k];
	job_of[i] = job;
	job->op[k] = (struct lend_op){.done = fetch_done, .parent = job->request};
	job->due++;
	if (lend_get(callee.mem, ref, 0, &job->iov[k], 1, &job->op[k]) == 0)
		return;
	op_of[i] = NULL;
	job->due--;
	job->failed = true;
}

static void serve_echo(lend_request request, const struct lend_buf *bytes, void *arg)
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
			fetch_arg(job, job->n - 1, &a.ref);
	}
	cr_assert_eq(rc, 0, "%s", lend_why());
	job->due--;
	job_step(job);
}

static void serve_refusal(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	(void)lend_reply(callee.ep, request, LEND_FAILED_PRECONDITION, NULL);
}

static void serve_keep(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	kept = request;
}

lend_request late[64];
int lates;

static void serve_later(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	(void)arg;
	late[lates++] = request;
}

void open_callee(const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char name[104] = "udp:127.0.0.1:0";

	if (!strcmp(carrier, "dpdk"))
		strcpy(name, "dpdk:memif@127.0.0.1:0");
	else if (strcmp(carrier, "udp") != 0) /* a pool's node is on shm, too */
		snprintf(name, sizeof(name), "shm:args%d", (int)getpid());
	config.listen = name;
	config.message_max = callee_takes;
	cr_assert_eq(lend_open(&config, &callee.ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(callee.ep, node.address, &callee.mem), 0);
	cr_assert_eq(lend_serve(callee.ep, ECHO, serve_echo, NULL, 0), 0);
	cr_assert_eq(lend_serve(callee.ep, REFUSE, serve_refusal, NULL, 0), 0);
	cr_assert_eq(lend_serve(callee.ep, KEEP, serve_keep, NULL, 0), 0);
	cr_assert_eq(lend_serve(callee.ep, LATER, serve_later, NULL, 0), 0);
	cr_assert_eq(lend_address(callee.ep, name, sizeof(name)), 0);
	cr_assert_eq(lend_connect(caller.ep, name, &session), 0);
}

void open_caller(uint32_t calls)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.calls = calls;
	config.probe = SECOND / 50;
	/* A carrier that is given may be in a guest where time is emulated. */
	config.dead = getenv("LEND_TEST_LISTEN") ? 5 * SECOND : SECOND / 2;
	cr_assert_eq(lend_open(&config, &caller.ep), 0);
	cr_assert_eq(lend_mem_open(caller.ep, node.address, &caller.mem), 0);
	lend_args_threshold_set(caller.mem, 8192);
}

void open_all(const char *carrier, const char *size, uint32_t calls)
{
	mem_node_start(&node, carrier, size, node_more);
	open_caller(calls);
	open_callee(carrier);
	lend_args_threshold_set(callee.mem, 8192);
}

void turn(void)
{
	int here = caller.ep ? lend_poll(caller.ep) : 0;
	int there = callee.ep ? lend_poll(callee.ep) : 0;

	cr_assert(here >= 0 && there >= 0);
	if (!here && !there)
		sched_yield(); /* lets the node run */
}

void close_side(struct side *side)
{
	if (side->ep)
		mem_client_close(side->ep, side->mem);
	side->ep = NULL;
}

void close_all(void)
{
	close_side(&callee);
	close_side(&caller);
	mem_node_stop(&node);
	cr_assert_eq(jobs, 0, "replies with bytes that did not come back");
}

void ended(struct lend_call *call)
{
	struct lend_ep *ep = caller.ep;

	if (call->request)
		lend_buf_give(ep, call->request);
	call->request = NULL;
	ends++;
}

void settle(const char *what, int turns)
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

void finish(struct lend_op *op, int rc)
{
	cr_assert_eq(rc, 0, "%s", lend_why());
	while (lend_op_wait(caller.mem, op) < 0)
		turn();
}

void compare(const struct lend_buf *reply, const struct iovec *want, int n)
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

static char big[BIG];
const struct iovec three[3] = {{big, BIG}, {big, 5000}, {big + 1, BIG - 1}};

void drop_reply(struct lend_call *call)
{
	struct lend_arg a;

	for (uint32_t cursor = 0; lend_arg_next(call->reply, &cursor, &a) > 0;) {
		struct lend_op op = {.timeout = 5 * SECOND};

		if (!a.bytes)
			finish(&op, lend_release(caller.mem, &a.ref, 1, &op));
	}
	lend_buf_give(caller.ep, call->reply);
}
