/* Goal: a process that dies leaves nothing at any worker of a node; at each worker its end is that
 * of its last session there. Method: lend-mn with 2 and 3 workers over shm and udp; a client that
 * is killed, and one that hangs up at one worker after the other; the node's own count, summed over
 * workers. Covers: mn/node_worker.c, mn/notify.c, mn/peers.c */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "wire/memop.h"
#include "wire/worker_address.h"
#include "one_line_test.h"

enum { OBJECTS = 12, LEN = 5000 };

static void put_and_wait(const char *address, int fd)
{
	static char bytes[LEN];
	struct lend_mem *mem;
	struct lend_ep *ep;

	if (lend_open(NULL, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		_exit(1);
	for (unsigned i = 0; i < OBJECTS; i++) {
		struct lend_op op = {.timeout = 5 * SECOND};

		if (lend_put_sync(mem, &(struct iovec){bytes, LEN}, 1, NULL, &op))
			_exit(2);
	}
	(void)!write(fd, "x", 1);
	(void)lend_run(ep, LEND_NEVER);
	_exit(2);
}

TestRuns(mem_workers_gone, client_killed_shm,
	 mem_child_killed(put_and_wait, "shm", "--workers 3", 1000), .timeout = 60);
TestRuns(mem_workers_gone, client_killed_udp,
	 mem_child_killed(put_and_wait, "udp", "--workers 3 --lease 1000", 8000), .timeout = 60);

/* Encodes and sends one operation on a session of the test's own. */
static size_t send_op(struct lend_ep *ep, lend_session session, struct lend_memop *op,
		      const void *payload, uint8_t reply[LEND_MEMOP_REPLY_MAX])
{
	struct lend_call call = {.method = LEND_MEM_METHOD, .timeout = 5 * SECOND};
	size_t len = 0;

	call.request = lend_buf_take(ep, LEND_MEMOP_FIXED_MAX + (uint32_t)lend_memop_payload(op));
	call.request->len = lend_memop_encode(op, call.request->data);
	memcpy((char *)call.request->data + call.request->len, payload, lend_memop_payload(op));
	call.request->len += (uint32_t)lend_memop_payload(op);
	if (lend_call_sync(ep, session, &call) < 0 || call.status != LEND_OK)
		return 0;
	if (call.reply) {
		len = call.reply->len;
		memcpy(reply, call.reply->data, len);
		lend_buf_give(ep, call.reply);
	}
	lend_buf_give(ep, call.request);
	return len;
}

/* Holds a page at worker 1 through one endpoint, has a session at worker 0 through another; closes
 * one for each byte it reads. */
static void hold_and_leave(const char *address, int in, int out)
{
	struct lend_memop hello = {.kind = LEND_MEMOP_HELLO, .client = 77}, put = hello;
	uint8_t reply[LEND_MEMOP_REPLY_MAX];
	struct lend_memhello h;
	lend_session session[2];
	struct lend_ep *ep[2];
	char other[104], c;

	if (!lend_worker_address(address, 0, 1, other, sizeof(other)) ||
	    lend_open(NULL, &ep[0]) < 0 || lend_open(NULL, &ep[1]) < 0 ||
	    lend_connect_as(ep[0], address, address, &session[0]) < 0 ||
	    lend_connect_as(ep[1], other, address, &session[1]) < 0 ||
	    !send_op(ep[0], session[0], &hello, "", reply) ||
	    !lend_memhello_decode(reply, send_op(ep[1], session[1], &hello, "", reply), &h) ||
	    h.worker != 1 || h.workers != 2)
		_exit(1);
	put.kind = LEND_MEMOP_PUT;
	put.len = 3;
	put.id = put.low = 1;
	put.life = h.life;
	if (send_op(ep[1], session[1], &put, "abc", reply) != LEND_MEMREF_LEN)
		_exit(2);
	for (int i = 1; i >= 0; i--) {
		(void)!write(out, "x", 1);
		(void)!read(in, &c, 1);
		lend_close(ep[i]);
	}
	(void)!write(out, "x", 1);
	(void)!read(in, &c, 1);
	_exit(0);
}

/* A process has a life at each worker: it ends there when its last session on shm ends. */
Test(mem_workers_gone, a_process_is_gone_where_its_sessions_are)
{
	int there[2], back[2], status;
	struct mem_node node;
	pid_t pid;
	char c;

	mem_node_start(&node, "shm", "4M", "--workers 2");
	cr_assert_eq(pipe(there) | pipe(back), 0);
	pid = mem_fork();
	if (pid == 0) {
		hold_and_leave(node.address, there[0], back[1]);
	}
	close(back[1]);
	cr_assert_eq(read(back[0], &c, 1), 1);
	cr_expect(mem_pages_become(node.ep, node.mem, 1, 1000));
	cr_assert_eq(write(there[1], "x", 1), 1);
	cr_assert_eq(read(back[0], &c, 1), 1); /* its session at worker 1 is closed */
	cr_expect(mem_pages_become(node.ep, node.mem, 0, 1000));
	cr_assert_eq(write(there[1], "x", 1), 1);
	cr_assert_eq(read(back[0], &c, 1), 1);
	cr_expect(mem_pages_become(node.ep, node.mem, 0, 1000));
	cr_assert_eq(write(there[1], "x", 1), 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	mem_node_stop(&node);
}
