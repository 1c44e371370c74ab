/* Goal: an operation of several calls behaves as one: it moves every byte, ends once, leaves
 * nothing when it is cut, and a release of references of several nodes reaches each of them.
 * Method: long puts and gets of odd lengths, offsets and pieces; cancelled after some turns, timed
 * out, node killed or client closed in between; checked by the nodes' counters. Covers:
 * cn/op_split.c, cn/op_call.c, cn/forget.c */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "e2e/mem_node.h"
#include "lend/stats.h"
#include "one_line_test.h"

enum { LEN = 21 * (1 << 20) + 4321 };

static char *in, *out;

static void fill_bytes(void)
{
	in = malloc(LEN);
	out = calloc(1, LEN);
	mem_fill(in, LEN, 11);
}

static void run_each(void (*round)(struct mem_node *node))
{
	static const char *const carrier[] = {"shm", "udp", "pool"};

	fill_bytes();
	for (int i = 0; i < 3; i++) {
		struct mem_node node;

		mem_node_start(&node, carrier[i], "256M", "");
		round(&node);
		mem_node_stop(&node);
	}
	free(in);
	free(out);
}

/* Pieces with ends that match no part and no page. */
static int cut_pieces(char *bytes, size_t len, struct iovec *iov)
{
	static const size_t piece[] = {1, 4095, 3 << 20, 0, (2 << 20) + 7};
	size_t at = 0;
	int n = 0;

	for (; n < 5; at += piece[n], n++)
		iov[n] = (struct iovec){bytes + at, piece[n]};
	iov[n] = (struct iovec){bytes + at, len - at};
	return n + 1;
}

static void pieces_round(struct mem_node *node)
{
	struct lend_op op = {.timeout = 20 * SECOND};
	struct iovec iov[6];
	struct lend_ref ref;
	lend_space space;
	int n = cut_pieces(in, LEN, iov);

	cr_assert_eq(mem_end(node->mem, &op, lend_put(node->mem, iov, n, NULL, &op)), LEND_OK);
	ref = op.ref;
	cr_assert_eq(lend_ref_len(&ref), LEN);
	n = cut_pieces(out, LEN - 12345, iov);
	op = (struct lend_op){.timeout = 20 * SECOND};
	cr_assert_eq(mem_end(node->mem, &op, lend_get(node->mem, &ref, 12345, iov, n, &op)),
		     LEND_OK);
	cr_assert(!memcmp(in + 12345, out, LEN - 12345));
	op = (struct lend_op){.timeout = 20 * SECOND};
	cr_assert_eq(mem_end(node->mem, &op, lend_space_map(node->mem, &ref, &space, &op)),
		     LEND_OK);
	op = (struct lend_op){.timeout = 20 * SECOND};
	n = cut_pieces(in, LEN - 777, iov); /* the put bytes, shifted */
	cr_assert_eq(mem_end(node->mem, &op, lend_space_write(node->mem, space, 777, iov, n, &op)),
		     LEND_OK);
	op = (struct lend_op){.timeout = 20 * SECOND};
	n = cut_pieces(out, LEN, iov);
	cr_assert_eq(mem_end(node->mem, &op, lend_space_read(node->mem, space, 0, iov, n, &op)),
		     LEND_OK);
	cr_assert(!memcmp(in, out, 777) && !memcmp(in, out + 777, LEN - 777));
	cr_assert_eq(mem_get(node->mem, &ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(in, out, LEN), "the snapshot changed");
	op = (struct lend_op){.timeout = 20 * SECOND};
	cr_assert_eq(mem_end(node->mem, &op, lend_space_free(node->mem, space, &op)), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

TestRuns(mem_parts, pieces, run_each(pieces_round));

static int ends;

static void count_end(struct lend_op *op)
{
	(void)op;
	ends++;
}

/* Cancelled after 0, 1, 2 ... turns: whatever is in flight then, nothing stays. */
static void cancel_round(struct mem_node *node)
{
	struct iovec iov = {in, LEN}, into = {out, LEN};
	struct lend_ref ref = mem_put(node->mem, in, LEN, NULL);

	for (int turns = 0; turns < 120; turns += 1 + turns / 8) {
		struct lend_op put = {.timeout = 20 * SECOND, .done = count_end};
		struct lend_op get = {.timeout = 20 * SECOND, .done = count_end};

		ends = 0;
		cr_assert_eq(lend_put(node->mem, &iov, 1, NULL, &put), 0);
		cr_assert_eq(lend_get(node->mem, &ref, 0, &into, 1, &get), 0);
		for (int i = 0; i < turns; i++)
			cr_assert_geq(lend_poll(node->ep), 0);
		lend_op_cancel(node->mem, &put);
		lend_op_cancel(node->mem, &get);
		cr_assert_eq(lend_op_wait(node->mem, &put), 0);
		cr_assert_eq(lend_op_wait(node->mem, &get), 0);
		cr_assert_eq(ends, 2, "%d turns: %d ends", turns, ends);
		if (put.status == LEND_OK)
			cr_assert_eq(mem_release(node->mem, &put.ref), LEND_OK);
		else
			cr_assert_eq(put.status, LEND_CANCELLED, "%d", put.status);
		cr_assert(mem_pages_become(node->ep, node->mem, (LEN + 4095) / 4096, 2000),
			  "after %d turns", turns);
	}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

TestRuns(mem_parts, cancelled, run_each(cancel_round));

static void timeout_round(struct mem_node *node)
{
	struct iovec iov = {in, LEN};
	struct lend_mem_stat stat;

	mem_stat(node->mem, &stat); /* the client is connected after this */
	for (lend_ns ns = 1000; ns < SECOND / 5; ns *= 2) {
		struct lend_op op = {.timeout = ns};

		if (mem_end(node->mem, &op, lend_put(node->mem, &iov, 1, NULL, &op)) == LEND_OK)
			cr_assert_eq(mem_release(node->mem, &op.ref), LEND_OK);
		else
			cr_assert_eq(op.status, LEND_DEADLINE_EXCEEDED, "%d", op.status);
	}
}

TestRuns(mem_parts, timed_out, run_each(timeout_round));

/* Puts a put and a get in flight. */
static void start_both(struct lend_ep *ep, struct lend_mem *mem, struct lend_op op[2])
{
	static struct iovec from, into;
	struct lend_ref ref = mem_put(mem, in, LEN, NULL);

	from = (struct iovec){in, LEN};
	into = (struct iovec){out, LEN};
	ends = 0;
	for (int i = 0; i < 2; i++)
		op[i] = (struct lend_op){.timeout = 20 * SECOND, .done = count_end};
	cr_assert_eq(lend_put(mem, &from, 1, NULL, &op[0]), 0);
	cr_assert_eq(lend_get(mem, &ref, 0, &into, 1, &op[1]), 0);
	for (int i = 0; i < 2; i++) /* more of them could move all bytes */
		cr_assert_geq(lend_poll(ep), 0);
}

/* The client is closed with a put and a get in flight. */
static void close_round(struct mem_node *node)
{
	struct lend_mem *mem;
	struct lend_op op[2];
	struct lend_ep *ep;

	mem_client_open(node, &ep, &mem);
	start_both(ep, mem, op);
	mem_client_close(ep, mem);
	cr_assert_eq(ends, 2);
}

TestRuns(mem_parts, closed, run_each(close_round));

static void node_dies(const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_op op[2];
	struct lend_ep *ep;

	fill_bytes();
	config.probe = SECOND / 50;
	config.dead = SECOND / 2;
	mem_node_start(&node, carrier, "256M", "");
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, node.address, &mem), 0);
	start_both(ep, mem, op);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(lend_op_wait(mem, &op[i]), 0);
		cr_assert_eq(op[i].status, LEND_UNAVAILABLE, "%d", op[i].status);
	}
	cr_assert_eq(ends, 2);
	mem_client_close(ep, mem);
	mem_client_close(node.ep, node.mem);
	free(in);
	free(out);
}

TestRuns(mem_parts, node_dies_shm, node_dies("shm"));
TestRuns(mem_parts, node_dies_udp, node_dies("udp"));

/* References of three nodes, in turn, some of them held twice: one operation releases all. A node
 * that is gone does not keep the others from their part. */
Test(mem_parts, released_over_several_nodes)
{
	enum { NODES = 3, EACH = 50, N = NODES * EACH };
	static struct lend_ref ref[N + 1];
	struct mem_node node[NODES];
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_stats before, after;
	struct lend_mem *mem;
	struct lend_ep *ep;
	char nodes[400];

	for (int i = 0; i < NODES; i++)
		mem_node_start(&node[i], i == 1 ? "udp" : "shm", "16M", "");
	snprintf(nodes, sizeof(nodes), "%s,%s,%s", node[0].address, node[1].address,
		 node[2].address);
	cr_assert_eq(lend_open(NULL, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, nodes, &mem), 0);
	for (int i = 0; i < N; i++)
		ref[i] = mem_put(mem, "abc", 4, NULL);
	ref[N] = ref[7];
	cr_assert_eq(mem_adopt(mem, &ref[7]), LEND_OK);
	lend_stats_get(ep, &before);
	cr_assert_eq(mem_end(mem, &op, lend_release(mem, ref, N + 1, &op)), LEND_OK, "%d",
		     op.status);
	lend_stats_get(ep, &after);
	cr_assert_leq(after.tx_datagrams - before.tx_datagrams, EACH,
		      "one call per node, not more");
	for (int i = 0; i < NODES; i++)
		cr_assert(mem_pages_become(node[i].ep, node[i].mem, 0, 2000), "node %d", i);
	for (int i = 0; i < N; i++)
		ref[i] = mem_put(mem, "abc", 4, NULL);
	kill(node[2].pid, SIGKILL);
	waitpid(node[2].pid, NULL, 0);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(mem, &op, lend_release(mem, ref, N, &op)), LEND_UNAVAILABLE);
	mem_node_stop(&node[0]);
	mem_node_stop(&node[1]);
	mem_client_close(ep, mem);
	mem_client_close(node[2].ep, node[2].mem);
}

/* The numbers that lend chain and lend images report as bytes moved. */
Test(mem_parts, sent_bytes_are_counted)
{
	static char bytes[1 << 20];
	struct lend_mem_stat before, after;
	struct mem_node node;
	struct lend_ref ref;

	mem_node_start(&node, "udp", "16M", "");
	ref = mem_put(node.mem, bytes, sizeof(bytes), NULL);
	mem_stat(node.mem, &before);
	cr_assert_eq(mem_get(node.mem, &ref, 0, bytes, sizeof(bytes)), LEND_OK);
	mem_stat(node.mem, &after);
	cr_assert_geq(after.tx_bytes - before.tx_bytes, sizeof(bytes));
	cr_assert_lt(after.tx_bytes - before.tx_bytes, 2 * sizeof(bytes));
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

/* A release of several references waits for a get of one of them, which still has parts to send. */
static void release_round(struct mem_node *node)
{
	struct lend_op get = {.timeout = 20 * SECOND}, release = get;
	struct lend_ref ref[2] = {mem_put(node->mem, in, LEN, NULL),
				  mem_put(node->mem, in, 1, NULL)};
	struct iovec into = {out, LEN};

	memset(out, 0, LEN);
	cr_assert_eq(lend_get(node->mem, &ref[0], 0, &into, 1, &get), 0);
	cr_assert_eq(lend_release(node->mem, ref, 2, &release), 0);
	cr_assert_eq(lend_op_wait(node->mem, &get), 0);
	cr_assert_eq(lend_op_wait(node->mem, &release), 0);
	cr_expect_eq(get.status, LEND_OK, "the release came first: %d", (int)get.status);
	cr_expect_eq(memcmp(in, out, LEN), 0);
	cr_expect_eq(release.status, LEND_OK);
}

TestRuns(mem_parts, release_of_several__waits_for_an_earlier_get, run_each(release_round));

/* 64 MiB to a node of 8 MiB: the parts after the first that fails are not sent. */
Test(mem_parts, long_put__first_part_fails__the_rest_is_not_sent)
{
	struct lend_op op = {.timeout = 20 * SECOND};
	struct lend_mem_stat before, after;
	struct iovec iov = {calloc(1, 64 << 20), 64 << 20};
	struct mem_node node;

	mem_node_start(&node, "udp", "8M", "");
	mem_stat(node.mem, &before);
	cr_assert_eq(mem_end(node.mem, &op, lend_put(node.mem, &iov, 1, NULL, &op)),
		     LEND_RESOURCE_EXHAUSTED);
	mem_stat(node.mem, &after);
	cr_expect_lt(after.ops - before.ops, 20, "%u", (unsigned)(after.ops - before.ops));
	mem_node_stop(&node);
	free(iov.iov_base);
}
