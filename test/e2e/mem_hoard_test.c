/* Goal: a process that registers as many clients as a memory node has room for does not lock other
 * processes out. Method: a node with the default table of 256 clients. A child process sends 256
 * HELLOs in one session, then 16 in each of 32 more, and keeps its sessions alive. Then a new
 * client of another process puts, gets and releases. Covers: mn/store/lease.c, mn/store/exec.c */
#include <string.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "e2e/thief.h"
#include "one_line_test.h"

enum { CLIENTS = 256, SESSIONS = 33, EACH = 16, ROUNDS = 50, LEN = 3 };

static uint32_t register_clients(struct thief *t, uint32_t first, uint32_t n)
{
	struct lend_memop hello = {.kind = LEND_MEMOP_HELLO};
	uint32_t ok = 0;

	for (uint32_t i = 0; i < n; i++) {
		hello.client = first + i;
		ok += thief_say(t, &hello) == LEND_OK;
	}
	return ok;
}

static void run_hoard(const char *address, int fd)
{
	struct thief t;
	uint32_t n;

	thief_open(&t, address);
	n = register_clients(&t, 1, CLIENTS);
	for (uint32_t i = 1; i < SESSIONS; i++) {
		if (lend_connect(t.ep, address, &t.session) < 0)
			_exit(1);
		n += register_clients(&t, 1000 * i, EACH);
	}
	if (n < CLIENTS / 2 || write(fd, "r", 1) != 1)
		_exit(2);
	(void)lend_run(t.ep, LEND_NEVER);
}

static void run_hellos(const char *carrier)
{
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;
	pid_t pid;

	mem_node_start(&node, carrier, "4M", "");
	pid = mem_child_start(&node, run_hoard);
	mem_client_open(&node, &ep, &mem);
	for (int i = 0; i < ROUNDS; i++) {
		lend_ns began = lend_now(ep);
		struct lend_ref ref = mem_put(mem, "abc", LEN, NULL);
		char got[LEN];

		cr_assert_eq(mem_get(mem, &ref, 0, got, LEN), LEND_OK);
		cr_assert_eq(memcmp(got, "abc", LEN), 0);
		cr_assert_eq(mem_release(mem, &ref), LEND_OK);
		cr_assert_lt(lend_now(ep) - began, 2 * SECOND, "round %d", i);
	}
	mem_client_close(ep, mem);
	mem_child_kill(pid);
	mem_node_kill(&node);
}

TestRuns(mem_hoard, hellos_of_one_process__udp, run_hellos("udp"));
TestRuns(mem_hoard, hellos_of_one_process__shm, run_hellos("shm"));
