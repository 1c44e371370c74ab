/* Goal: new objects are placed by the client's policy: round robin, to the emptiest node, or to a
 * named one; full and dead nodes are skipped, as long as one can take them. Method: several
 * lend-mn; a client of its own queries each for what it holds. Covers: cn/node_select.c */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "e2e/mem_node.h"
#include "one_line_test.h"

enum { NODES = 3, LEN = 64 << 10, PAGES = LEN / 4096 };

static struct mem_node node[NODES];
static char bytes[LEN];
static struct lend_ep *ep;
static struct lend_mem *mem;

static void open_all(const char *const size[NODES])
{
	char nodes[400];

	for (int i = 0; i < NODES; i++)
		mem_node_start(&node[i], i == 1 ? "udp" : "shm", size[i], "");
	snprintf(nodes, sizeof(nodes), "%s,%s,%s", node[0].address, node[1].address,
		 node[2].address);
	cr_assert_eq(lend_open(NULL, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, nodes, &mem), 0);
}

static void close_all(void)
{
	mem_client_close(ep, mem);
	for (int i = 0; i < NODES; i++)
		mem_node_stop(&node[i]);
}

static struct lend_ref last;

static enum lend_status put(uint16_t where)
{
	struct iovec iov = {bytes, LEN};
	struct lend_op op = {.timeout = 5 * SECOND, .node = where};

	(void)mem_end(mem, &op, lend_put(mem, &iov, 1, NULL, &op));
	last = op.ref;
	return op.status;
}

static uint64_t refs_at(int i)
{
	struct lend_mem_stat stat;

	mem_stat(node[i].mem, &stat);
	return stat.refs;
}

static const char *const roomy[] = {"16M", "16M", "16M"};

Test(mem_node_select, in_turn)
{
	open_all(roomy);
	for (int i = 0; i < 3 * 20; i++)
		cr_assert_eq(put(0), LEND_OK);
	for (int i = 0; i < NODES; i++)
		cr_assert_eq(refs_at(i), 20, "node %d", i);
	close_all();
}

Test(mem_node_select, named)
{
	struct lend_op op = {.node = NODES + 1};
	lend_space space;

	open_all(roomy);
	for (int i = 0; i < 20; i++)
		cr_assert_eq(put(2), LEND_OK);
	cr_assert_eq(refs_at(1), 20);
	cr_assert_eq(lend_put(mem, NULL, 0, NULL, &op), -EINVAL);
	op = (struct lend_op){.timeout = 5 * SECOND, .node = 3};
	cr_assert_eq(mem_end(mem, &op, lend_space_alloc(mem, 4096, &space, &op)), LEND_OK);
	cr_assert_eq(mem_end(mem, &op, lend_space_free(mem, space, &op)), LEND_OK);
	cr_assert_eq(refs_at(0) + refs_at(2), 0);
	close_all();
}

/* A third of node 0 is used by other clients: the other two get all objects until they are as
 * full. */
Test(mem_node_select, least_used)
{
	static char third[6 << 20];
	struct lend_ref ref;

	open_all(roomy);
	cr_assert_eq(lend_mem_spread(mem, (enum lend_spread)7), -EINVAL);
	cr_assert_eq(lend_mem_spread(mem, LEND_LEAST_USED), 0);
	ref = mem_put(node[0].mem, third, sizeof(third), NULL);
	for (int i = 0; i < 6; i++) { /* each client learns of the nodes */
		cr_assert_eq(put(0), LEND_OK);
		(void)refs_at(0);
	}
	for (int i = 0; i < 100; i++)
		cr_assert_eq(put(0), LEND_OK);
	cr_assert_leq(refs_at(0), 4, "%d", (int)refs_at(0));
	cr_assert_geq(refs_at(1), 45, "%d", (int)refs_at(1));
	cr_assert_geq(refs_at(2), 45, "%d", (int)refs_at(2));
	cr_assert_eq(mem_release(node[0].mem, &ref), LEND_OK);
	close_all();
}

/* Two small nodes fill up; the rest goes to the third until that is full as well. */
static void full(enum lend_spread spread)
{
	static const char *const size[] = {"1M", "8M", "1M"};
	struct lend_mem_stat stat;
	unsigned fine = 0;

	open_all(size);
	cr_assert_eq(lend_mem_spread(mem, spread), 0);
	while (put(0) == LEND_OK)
		fine++;
	cr_assert_geq(fine, (10u << 20) / LEN - 9, "%u", fine);
	cr_assert_eq(put(0), LEND_RESOURCE_EXHAUSTED);
	for (int i = 0; i < NODES; i++) {
		mem_stat(node[i].mem, &stat);
		cr_assert_lt(stat.pages_total - stat.pages_used, 4 * PAGES, "node %d", i);
	}
	close_all();
}

TestRuns(mem_node_select, full_in_turn, full(LEND_ROUND_ROBIN));
TestRuns(mem_node_select, full_least_used, full(LEND_LEAST_USED));

/* One node is killed: objects go to the others; a named node is still the only choice. After its
 * restart it gets its share again. */
static void dead(enum lend_spread spread)
{
	uint64_t refs = 0;

	open_all(roomy);
	cr_assert_eq(lend_mem_spread(mem, spread), 0);
	for (int i = 0; i < 6; i++)
		cr_assert_eq(put(0), LEND_OK);
	kill(node[2].pid, SIGKILL);
	waitpid(node[2].pid, NULL, 0);
	for (int i = 0; i < 40; i++)
		cr_assert_eq(put(0), LEND_OK, "%d", i);
	cr_assert_eq(refs_at(0) + refs_at(1), 40 + 4);
	/* objects that were meant for the dead node and then moved on would all be at node 0 */
	cr_assert_leq(refs_at(0), refs_at(1) + 4, "%d", (int)refs_at(0));
	cr_assert_eq(put(3), LEND_UNAVAILABLE);
	mem_node_restart(&node[2], "16M");
	for (lend_ns until = lend_now(ep) + 5 * SECOND; !refs && lend_now(ep) < until;) {
		cr_assert_eq(put(0), LEND_OK);
		refs = refs_at(2);
		cr_assert_eq(mem_release(mem, &last), LEND_OK);
	}
	cr_assert_gt(refs, 0, "no object goes to the new one");
	close_all();
}

TestRuns(mem_node_select, dead_in_turn, dead(LEND_ROUND_ROBIN));
TestRuns(mem_node_select, dead_least_used, dead(LEND_LEAST_USED));
