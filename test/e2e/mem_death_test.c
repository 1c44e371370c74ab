/* Goal: when a client dies, cancels or closes, no page is kept for ever and no operation hangs,
 * whatever still arrives at the node. Method: SIGKILL of clients and SIGSTOP of nodes at moments
 * that a pipe or a counter signals; then the node's own count of pages. Covers: mn/peers.c,
 * mn/store/lease.c, mn/store/store.c, cn/op_call.c, cn/forget.c */
#include <signal.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "one_line_test.h"

static int done_runs;
static void count_done(struct lend_op *op)
{
	(void)op;
	done_runs++;
}

/* Puts for ever, short and long; writes one byte to fd after the first round. */
static void put_for_ever(const char *address, int fd)
{
	static char bytes[9 << 20];
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem *mem;
	struct lend_ep *ep;

	if (lend_open(&config, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		_exit(1);
	for (int i = 0;; i++) {
		struct iovec iov = {bytes, i % 4 == 3 ? sizeof(bytes) : 5000};
		struct lend_op op = {.timeout = SECOND};

		if (lend_put_sync(mem, &iov, 1, NULL, &op) < 0)
			_exit(2);
		if (fd >= 0 && (op.status == LEND_RESOURCE_EXHAUSTED || i == 8)) {
			(void)!write(fd, "x", 1);
			fd = -1;
		}
	}
}

TestRuns(mem_death, client_killed_shm, mem_child_killed(put_for_ever, "shm", "", 1000),
	 .timeout = 60);
TestRuns(mem_death, client_killed_pool, mem_child_killed(put_for_ever, "pool", "", 1000),
	 .timeout = 60);
TestRuns(mem_death, client_killed_udp, mem_child_killed(put_for_ever, "udp", "--lease 50", 8000),
	 .timeout = 60);

/* A put that the node runs long after its caller cancelled must leave nothing. */
static void run_forgotten(const char *carrier, size_t len)
{
	static char bytes[9 << 20];
	struct iovec iov = {bytes, len};
	struct mem_node node;

	mem_node_start(&node, carrier, "64M", "");
	for (int i = 0; i < 2; i++) {
		struct lend_ref ref = mem_put(node.mem, "abc", 4, NULL);
		struct lend_op put = {.timeout = SECOND / 20}, map = put, rel = put;
		struct lend_mem_stat stat;
		lend_space space;

		kill(node.pid, SIGSTOP);
		cr_assert_eq(mem_end(node.mem, &put, lend_put(node.mem, &iov, 1, NULL, &put)),
			     LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(put.ran, LEND_RAN_MAYBE);
		cr_assert_eq(mem_end(node.mem, &map, lend_space_map(node.mem, &ref, &space, &map)),
			     LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(mem_end(node.mem, &rel, lend_release(node.mem, &ref, 1, &rel)),
			     LEND_DEADLINE_EXCEEDED);
		kill(node.pid, SIGCONT);
		cr_assert(mem_pages_become(node.ep, node.mem, 0, 8000), "%zu bytes on %s", len,
			  carrier);
		mem_stat(node.mem, &stat);
		cr_assert_eq(stat.spaces, 0);
	}
	mem_node_stop(&node);
}

TestRuns(mem_death, forgotten_short_shm, run_forgotten("shm", 5000));
TestRuns(mem_death, forgotten_long_shm, run_forgotten("shm", 9 << 20));
TestRuns(mem_death, forgotten_short_udp, run_forgotten("udp", 5000));
TestRuns(mem_death, forgotten_long_udp, run_forgotten("udp", 1 << 20));

/* Maps with short deadlines that wait behind others for an operation id end in time, and the
 * others when the node goes on. */
static void run_waiting(const char *carrier)
{
	enum { LONG = 1500, SHORT = 50, ALL = LONG + SHORT };
	static struct lend_op op[ALL];
	static lend_space space[ALL];
	struct mem_node node;
	struct lend_ref ref;

	mem_node_start(&node, carrier, "64M", "");
	ref = mem_put(node.mem, "a snapshot", 11, NULL);
	kill(node.pid, SIGSTOP);
	for (int i = 0; i < ALL; i++) {
		op[i] = (struct lend_op){.timeout = i < LONG ? 30 * SECOND : SECOND / 10};
		cr_assert_eq(lend_space_map(node.mem, &ref, &space[i], &op[i]), 0);
	}
	for (int i = ALL; i-- > LONG;) {
		cr_assert_eq(lend_op_wait(node.mem, &op[i]), 0);
		cr_assert_eq(op[i].status, LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(op[i].ran, LEND_RAN_NO, "%d was sent", i);
	}
	kill(node.pid, SIGCONT);
	for (int i = 0; i < LONG; i++) {
		cr_assert_eq(lend_op_wait(node.mem, &op[i]), 0);
		cr_assert_eq(op[i].status, LEND_OK, "%d: %d", i, op[i].status);
		mem_free_space(node.mem, space[i]);
	}
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

TestRuns(mem_death, waiting_shm, run_waiting("shm"));
TestRuns(mem_death, waiting_udp, run_waiting("udp"));

static void run_cancelled(const char *carrier)
{
	static char bytes[9 << 20];
	const size_t len[] = {0, 4096, 1 << 20, sizeof(bytes)};
	struct mem_node node;

	mem_node_start(&node, carrier, "64M", "");
	for (int i = 0; i < 40; i++) {
		struct iovec iov = {bytes, len[i % 4]};
		struct lend_op op = {.timeout = 5 * SECOND, .done = count_done};

		done_runs = 0;
		cr_assert_eq(lend_put(node.mem, &iov, 1, NULL, &op), 0);
		for (int turns = i % 4 == 3 ? i * 40 : i / 4; turns > 0; turns--)
			lend_poll(node.ep);
		lend_op_cancel(node.mem, &op);
		cr_assert_eq(lend_op_wait(node.mem, &op), 0);
		cr_assert_eq(done_runs, 1);
		if (op.status == LEND_OK)
			cr_assert_eq(mem_release(node.mem, &op.ref), LEND_OK);
		else
			cr_assert_eq(op.status, LEND_CANCELLED);
	}
	cr_assert(mem_pages_become(node.ep, node.mem, 0, 5000));
	mem_node_stop(&node);
}

TestRuns(mem_death, cancelled_shm, run_cancelled("shm"));
TestRuns(mem_death, cancelled_pool, run_cancelled("pool"));
TestRuns(mem_death, cancelled_udp, run_cancelled("udp"));

/* Includes long operations, which are between two calls at times. */
Test(mem_death, closed_with_operations_in_progress)
{
	static char bytes[17 << 20];
	struct iovec iov = {bytes, 0};
	struct lend_op op[20];
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;

	mem_node_start(&node, "shm", "64M", "");
	mem_client_open(&node, &ep, &mem);
	done_runs = 0;
	for (int i = 0; i < 20; i++) {
		op[i] = (struct lend_op){.timeout = SECOND, .done = count_done};
		iov.iov_len = i % 5 ? 1 << 20 : sizeof(bytes);
		cr_assert_eq(lend_put(mem, &iov, 1, NULL, &op[i]), 0);
		lend_poll(ep);
	}
	mem_client_close(ep, mem);
	cr_assert_eq(done_runs, 20);
	mem_node_stop(&node);
}
