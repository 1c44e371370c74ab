/* Goal: a synchronous operation on a memory node returns 0, the status with which it ended, or the
 * error for which it did not start; inside a turn it is refused and starts nothing. Method: each
 * function once on a space and a snapshot; each status that a node, a stopped node, a cancel and a
 * node that is gone give; a call from a handler, from done and from an alarm. Covers: cn/sync.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"

#define SUITE mem_sync

ALL(every_function)
{
	char in[6] = "abcde", out[6] = "", byte = 'x';
	struct iovec data = {in, 6}, into = {out, 6}, one = {&byte, 1};
	struct lend_op put = {.timeout = 5 * SECOND}, seal = put;
	struct lend_mem *mem = node->mem;
	lend_space space, empty;

	cr_assert_eq(lend_put_sync(mem, &data, 1, NULL, &put), 0);
	cr_assert_eq(lend_get_sync(mem, &put.ref, 0, &into, 1, NULL), 0);
	cr_assert_str_eq(out, "abcde");
	cr_assert_eq(lend_space_map_sync(mem, &put.ref, &space, NULL), 0);
	cr_assert_eq(lend_space_write_sync(mem, space, 1, &one, 1, NULL), 0);
	cr_assert_eq(lend_space_read_sync(mem, space, 0, &into, 1, NULL), 0);
	cr_assert_str_eq(out, "axcde");
	cr_assert_eq(lend_space_seal_sync(mem, space, 0, 6, NULL, &seal), 0);
	cr_assert_eq(lend_get_sync(mem, &seal.ref, 1, &one, 1, NULL), 0);
	cr_assert_eq(byte, 'x');
	cr_assert_eq(lend_space_free_sync(mem, space, NULL), 0);
	cr_assert_eq(lend_space_free_sync(mem, space, NULL), -ESTALE);
	cr_assert_eq(lend_space_alloc_sync(mem, 100, &empty, NULL), 0);
	cr_assert_eq(lend_space_free_sync(mem, empty, NULL), 0);
	cr_assert_eq(lend_release_sync(mem, (struct lend_ref[]){put.ref, seal.ref}, 2, NULL), 0);
}

/* Cancels the operation that the endpoint's thread waits for. */
struct late {
	struct lend_alarm alarm; /* first */
	struct lend_mem *mem;
	struct lend_op op;
};

static void cancel_late(struct lend_alarm *alarm)
{
	struct late *late = (struct late *)(void *)alarm;

	lend_op_cancel(late->mem, &late->op);
}

Test(mem_sync, statuses_and_errors)
{
	static char bytes[1 << 20];
	struct iovec all = {bytes, sizeof(bytes)}, none[] = {{NULL, 1}, {NULL, UINT64_MAX}};
	struct late late = {.alarm = {.ring = cancel_late}, .op = {.timeout = 20 * SECOND}};
	struct lend_op op = {.timeout = 5 * SECOND}, soon = {.timeout = SECOND / 50};
	struct lend_ref gone, nothing = {{0}}, map_only;
	struct mem_node node;

	mem_node_start(&node, "shm", "64M", "");
	late.mem = node.mem;
	gone = mem_put(node.mem, bytes, 10, NULL);
	cr_assert_eq(mem_release(node.mem, &gone), LEND_OK);
	cr_assert_eq(lend_get_sync(node.mem, &gone, 0, &(struct iovec){bytes, 1}, 1, &op),
		     LEND_NOT_FOUND);
	cr_assert_eq(op.status, LEND_NOT_FOUND);
	gone = mem_put(node.mem, bytes, 10, NULL);
	cr_assert_eq(lend_ref_slice(&gone, 0, 10, LEND_MAP, &map_only), 0);
	cr_assert_eq(lend_get_sync(node.mem, &gone, 0, &all, 1, NULL), LEND_OUT_OF_RANGE);
	cr_assert_eq(lend_get_sync(node.mem, &map_only, 0, &(struct iovec){bytes, 1}, 1, NULL),
		     LEND_PERMISSION_DENIED);
	cr_assert_eq(lend_get_sync(node.mem, &nothing, 0, &all, 1, NULL), -EINVAL);
	cr_assert_eq(lend_put_sync(node.mem, none, 2, NULL, &op), -EINVAL);
	cr_assert_eq(lend_space_alloc_sync(node.mem, 1 << 20, &(lend_space){0}, NULL), 0);
	while (lend_put_sync(node.mem, &all, 1, NULL, &(struct lend_op){.timeout = SECOND}) == 0)
		;
	cr_assert_eq(lend_put_sync(node.mem, &all, 1, NULL, &(struct lend_op){.timeout = SECOND}),
		     LEND_RESOURCE_EXHAUSTED);
	kill(node.pid, SIGSTOP);
	cr_assert_eq(lend_get_sync(node.mem, &gone, 0, &(struct iovec){bytes, 1}, 1, &soon),
		     LEND_DEADLINE_EXCEEDED);
	lend_alarm_set(node.ep, &late.alarm, lend_now(node.ep) + 1000000);
	cr_assert_eq(lend_get_sync(node.mem, &gone, 0, &(struct iovec){bytes, 1}, 1, &late.op),
		     LEND_CANCELLED);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	cr_assert_eq(lend_get_sync(node.mem, &gone, 0, &(struct iovec){bytes, 1}, 1, NULL),
		     LEND_UNAVAILABLE);
	mem_client_close(node.ep, node.mem);
}

/* A server whose handlers use a memory node, and what their calls returned. */
struct server {
	struct lend_alarm alarm; /* first */
	struct lend_op op, other;
	struct lend_ep *ep;
	struct lend_mem *mem;
	const char *node;
	int rc, runs;
};

static void put_inside(struct server *s)
{
	char byte = 'x';

	s->rc = lend_put_sync(s->mem, &(struct iovec){&byte, 1}, 1, NULL, &s->other);
	s->runs++;
}

static void put_in_alarm(struct lend_alarm *alarm)
{
	put_inside((struct server *)(void *)alarm);
}

static void put_in_done(struct lend_op *op)
{
	put_inside((struct server *)(void *)((char *)op - offsetof(struct server, op)));
}

static void put_in_handler(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct server *s = arg;

	(void)bytes;
	put_inside(s);
	lend_reply(s->ep, request, s->rc == -EDEADLK ? LEND_OK : LEND_INTERNAL, NULL);
}

static void put_in_slow_handler(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct server *s = arg;
	struct lend_op op = {.parent = request};
	struct lend_mem *mem;
	char byte = 'x';
	int rc = lend_mem_open(lend_request_ep(s->ep, request), s->node, &mem);

	(void)bytes;
	if (rc == 0)
		rc = lend_put_sync(mem, &(struct iovec){&byte, 1}, 1, NULL, &op);
	if (rc == 0)
		rc = lend_release_sync(mem, &op.ref, 1, NULL);
	lend_mem_close(mem);
	lend_reply(s->ep, request, rc ? LEND_INTERNAL : LEND_OK, NULL);
}

static void count_end(struct lend_call *call)
{
	(void)call;
}

/* Calls a method of the server, whose turns this thread runs, too. */
static void call_server(const struct mem_node *node, struct server *s, uint32_t method)
{
	struct lend_call call = {.method = method, .done = count_end, .timeout = 10 * SECOND};
	lend_session session;
	char address[104];

	cr_assert_eq(lend_address(s->ep, address, sizeof(address)), 0);
	cr_assert_eq(lend_connect(node->ep, address, &session), 0, "%s", lend_why());
	cr_assert_eq(lend_call_start(node->ep, session, &call), 0);
	while (call.status == LEND_UNKNOWN) {
		cr_assert_geq(lend_poll(s->ep), 0);
		cr_assert_geq(lend_poll(node->ep), 0);
	}
	cr_assert_eq(call.status, LEND_OK, "method %u: %d", method, call.status);
	lend_buf_give(node->ep, call.reply);
	lend_disconnect(node->ep, session);
}

/* Nothing of a refused put was started. */
ALL(handlers_that_wait)
{
	struct server s = {
	    .alarm = {.ring = put_in_alarm}, .op = {.done = put_in_done}, .node = node->address};
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem_stat stat;
	char listen[64];

	snprintf(listen, sizeof(listen), "shm:sync-%d", (int)getpid());
	config.listen = listen;
	cr_assert_eq(lend_open(&config, &s.ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(s.ep, node->address, &s.mem), 0);
	cr_assert_eq(lend_mem_stat_get(s.mem, 0, &stat, &s.op), 0);
	cr_assert_eq(lend_op_wait(s.mem, &s.op), 0);
	cr_assert_eq(s.rc, -EDEADLK, "in done");
	s.rc = 0;
	lend_alarm_set(s.ep, &s.alarm, lend_now(s.ep));
	while (s.runs < 2)
		cr_assert_geq(lend_wait(s.ep, lend_now(s.ep) + SECOND), 0);
	cr_assert_eq(s.rc, -EDEADLK, "in an alarm");
	cr_assert_eq(lend_serve(s.ep, 1, put_in_handler, &s, 0), 0);
	cr_assert_eq(lend_serve(s.ep, 2, put_in_slow_handler, &s, LEND_SLOW), 0);
	call_server(node, &s, 1);
	call_server(node, &s, 2);
	mem_stat(node->mem, &stat);
	cr_assert_eq(stat.refs, 0);
	mem_client_close(s.ep, s.mem);
}
