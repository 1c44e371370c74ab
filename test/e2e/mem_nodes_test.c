/* Goal: a client notices that a node died, finds its replacement, does not mistake it for the old
 * one, and distinguishes two nodes. Method: SIGKILL of real nodes, new ones behind the same name;
 * references to both. Covers: cn/node.c, cn/life.c, cn/client.c */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "e2e/mem_node.h"
#include "lend/stats.h"
#include "one_line_test.h"

static void node_killed(const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_op op = {.timeout = 5 * SECOND};
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;
	struct lend_ref ref;
	char out[4];
	lend_ns start;

	config.probe = SECOND / 50;
	config.dead = SECOND / 5;
	mem_node_start(&node, carrier, "16M", "");
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, node.address, &mem), 0);
	ref = mem_put(mem, "abc", 4, NULL);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	start = lend_now(ep);
	cr_assert_eq(mem_get(mem, &ref, 0, out, 4), LEND_UNAVAILABLE);
	cr_assert_lt(lend_now(ep) - start, 4 * SECOND);
	cr_assert_eq(mem_end(mem, &op, lend_put(mem, &(struct iovec){out, 4}, 1, NULL, &op)),
		     LEND_UNAVAILABLE);
	mem_client_close(ep, mem);
	mem_client_close(node.ep, node.mem);
}

TestRuns(mem_nodes, node_killed_shm, node_killed("shm"));
TestRuns(mem_nodes, node_killed_pool, node_killed("pool"));
TestRuns(mem_nodes, node_killed_udp, node_killed("udp"));

/* The session ends while no operation is in flight: the next one has to notice it and succeed. */
Test(mem_nodes, node_restarted_behind_an_idle_client)
{
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_stats stats;
	struct mem_node node;

	mem_node_start(&node, "shm", "16M", "");
	(void)mem_put(node.mem, "abc", 4, NULL);
	mem_node_restart(&node, "16M");
	do {
		cr_assert_geq(lend_poll(node.ep), 0);
		lend_stats_get(node.ep, &stats);
	} while (stats.sessions);
	cr_assert_eq(mem_end(node.mem, &op, lend_put(node.mem, NULL, 0, NULL, &op)), LEND_OK,
		     "status %d", op.status);
	cr_assert_eq(mem_release(node.mem, &op.ref), LEND_OK);
	mem_node_stop(&node);
}

/* A client that only reads has to find the new node behind the known address, too. */
Test(mem_nodes, a_reader_outlives_its_node)
{
	struct lend_stats here, there;
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;
	struct lend_ref ref;
	char out[4];

	mem_node_start(&node, "shm", "16M", "");
	mem_client_open(&node, &ep, &mem);
	ref = mem_put(node.mem, "abc", 4, NULL);
	cr_assert_eq(mem_get(mem, &ref, 0, out, 4), LEND_OK);
	mem_node_restart(&node, "16M");
	do {
		cr_assert_geq(lend_poll(ep), 0);
		cr_assert_geq(lend_poll(node.ep), 0);
		lend_stats_get(ep, &here);
		lend_stats_get(node.ep, &there);
	} while (here.sessions || there.sessions);
	ref = mem_put(node.mem, "xyz", 4, NULL);
	cr_assert_eq(mem_get(mem, &ref, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "xyz");
	mem_client_close(ep, mem);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

Test(mem_nodes, node_restarted)
{
	struct mem_node node;
	struct lend_ref ref, fresh;
	enum lend_status status;
	char out[4];

	mem_node_start(&node, "shm", "16M", "");
	ref = mem_put(node.mem, "abc", 4, NULL);
	mem_node_restart(&node, "16M");
	do /* the session has to notice it first */
		status = mem_get(node.mem, &ref, 0, out, 4);
	while (status == LEND_UNAVAILABLE);
	cr_assert_eq(status, LEND_NOT_FOUND);
	fresh = mem_put(node.mem, "xyz", 4, NULL);
	cr_assert_eq(mem_get(node.mem, &ref, 0, out, 4), LEND_NOT_FOUND);
	cr_assert_eq(mem_get(node.mem, &fresh, 0, out, 4), LEND_OK);
	cr_assert_eq(mem_release(node.mem, &fresh), LEND_OK);
	mem_node_stop(&node);
}

/* While a node has not reported its id, a reference may belong to it and is not unknown yet. */
Test(mem_nodes, node_unknown_at_first)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_op map = {.timeout = 5 * SECOND}, release = map;
	struct mem_node node;
	struct lend_ref ref[2];
	struct lend_mem *mem;
	struct lend_ep *ep;
	lend_space space;

	config.probe = SECOND / 50;
	config.dead = SECOND / 5;
	mem_node_start(&node, "shm", "16M", "");
	for (int i = 0; i < 2; i++)
		ref[i] = mem_put(node.mem, "abc", 4, NULL);
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, node.address, &mem), 0);
	kill(node.pid, SIGSTOP);
	cr_expect_eq(mem_end(mem, &map, lend_space_map(mem, ref, &space, &map)), LEND_UNAVAILABLE);
	cr_expect_eq(mem_end(mem, &release, lend_release(mem, ref, 2, &release)), LEND_UNAVAILABLE);
	kill(node.pid, SIGCONT);
	do
		map = (struct lend_op){.timeout = 5 * SECOND};
	while (mem_end(mem, &map, lend_space_map(mem, ref, &space, &map)) == LEND_UNAVAILABLE);
	cr_assert_eq(map.status, LEND_OK);
	mem_client_close(ep, mem);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(mem_release(node.mem, &ref[i]), LEND_OK);
	mem_node_stop(&node);
}

Test(mem_nodes, two_nodes)
{
	struct mem_node one, two, same;
	struct lend_ref a, b;
	char out[4];

	mem_node_start(&one, "shm", "16M", "--id 7");
	mem_node_start(&two, "udp", "16M", "--id 8");
	mem_node_start(&same, "shm", "16M", "--id 7");
	a = mem_put(one.mem, "abc", 4, NULL);
	b = mem_put(two.mem, "xyz", 4, NULL);
	cr_assert_eq(lend_get(one.mem, &b, 0, NULL, 0, &(struct lend_op){.timeout = SECOND}),
		     -EHOSTUNREACH);
	cr_assert_eq(lend_mem_add(one.mem, two.address), 0, "%s", lend_why());
	cr_assert_eq(mem_get(one.mem, &b, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "xyz");
	cr_assert_eq(mem_get(one.mem, &a, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "abc");
	cr_assert_eq(lend_mem_add(one.mem, same.address), -EEXIST);
	cr_assert(strstr(lend_why(), "--id"), "%s", lend_why());
	cr_assert_eq(lend_mem_add(one.mem, "shm:nobody-is-here"), -EHOSTUNREACH);
	cr_assert_eq(mem_release(two.mem, &b), LEND_OK);
	cr_assert_eq(mem_release(one.mem, &a), LEND_OK);
	mem_node_stop(&one); /* first: its replies pin pages until this client closes */
	mem_node_stop(&same);
	mem_node_stop(&two);
}
