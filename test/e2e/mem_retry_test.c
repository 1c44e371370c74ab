/* Goal: an operation that a client retries after cancelling the first try takes effect, even if the
 * node also ran the first try. Method: an adopt ran at the node, but its caller never read the
 * reply, cancels, and adopts again at once, in done(); checked by the node's counters. Covers:
 * cn/op_order.c, cn/op_ids.c, cn/ref_ops.c, cn/forget.c, mn/store/ref_exec.c */

#include "e2e/mem_node.h"
#include "one_line_test.h"

static const struct lend_terms given = {sizeof(given), LEND_TRANSFER, 0, 60 * SECOND, 0};
static struct lend_mem *taker;
static struct lend_ref ref;
static struct lend_op again;
static int rc;

static void adopt_again(struct lend_op *op)
{
	cr_assert_eq(op->status, LEND_CANCELLED);
	cr_assert_eq(op->ran, LEND_RAN_MAYBE);
	again = (struct lend_op){.timeout = 5 * SECOND};
	rc = lend_adopt(taker, &ref, &again);
}

/* Waits until the node has run the adopt. */
static void wait_for_hold(struct mem_node *node)
{
	struct lend_mem_stat stat;

	for (int i = 0; i < 100000; i++) {
		mem_stat(node->mem, &stat);
		if (stat.holds == 1)
			return;
	}
	cr_assert_fail("it has no holder");
}

/* node.mem grants, taker adopts; a round ends with nothing held. */
static void rounds(const char *carrier, void (*round)(struct mem_node *node, struct lend_ep *ep))
{
	struct mem_node node;
	struct lend_ep *ep;

	mem_node_start(&node, carrier, "64M", "");
	mem_client_open(&node, &ep, &taker);
	for (int i = 0; i < 20; i++)
		round(&node, ep);
	mem_client_close(ep, taker);
	mem_node_stop(&node);
}

static void cancelled_and_anew(struct mem_node *node, struct lend_ep *ep)
{
	struct lend_op op = {.timeout = 5 * SECOND, .done = adopt_again};
	struct lend_mem_stat stat;

	mem_stat(taker, &stat); /* the client is connected after this */
	ref = mem_put(node->mem, "abc", 4, &given);
	cr_assert_eq(lend_adopt(taker, &ref, &op), 0);
	cr_assert_geq(lend_poll(ep), 0);
	wait_for_hold(node);
	lend_op_cancel(taker, &op);
	cr_assert_eq(lend_op_wait(taker, &op), 0);
	cr_assert_eq(mem_end(taker, &again, rc), LEND_OK);
	mem_stat(taker, &stat);
	cr_assert_eq(stat.holds, 1, "it holds nothing");
	cr_assert_eq(stat.grants, 0);
	cr_assert_eq(mem_release(taker, &ref), LEND_OK);
}

TestRuns(mem_retry, cancelled_and_retried_shm, rounds("shm", cancelled_and_anew));
TestRuns(mem_retry, cancelled_and_retried_udp, rounds("udp", cancelled_and_anew));

/* A reference that was given away and adopted is no longer held by its giver, even if the giver
 * never saw the answer. */
static void granted_and_cancelled(struct mem_node *node, struct lend_ep *ep)
{
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_mem_stat stat = {.grants = 0};

	(void)ep;
	ref = mem_put(node->mem, "abc", 4, NULL);
	cr_assert_eq(lend_grant(node->mem, &ref, &given, &op), 0);
	cr_assert_geq(lend_poll(node->ep), 0);
	for (int k = 0; k < 100000 && !stat.grants; k++)
		mem_stat(taker, &stat);
	cr_assert_eq(stat.grants, 1);
	cr_assert_eq(mem_adopt(taker, &ref), LEND_OK);
	lend_op_cancel(node->mem, &op);
	cr_assert_eq(lend_op_wait(node->mem, &op), 0);
	cr_assert_eq(op.status, LEND_CANCELLED);
	cr_assert_eq(op.ran, LEND_RAN_MAYBE);
	cr_assert_eq(mem_adopt(node->mem, &ref), LEND_FAILED_PRECONDITION);
	cr_assert_eq(mem_release(taker, &ref), LEND_OK);
	cr_assert_eq(mem_adopt(node->mem, &ref), LEND_NOT_FOUND);
}

TestRuns(mem_retry, granted_and_cancelled_shm, rounds("shm", granted_and_cancelled));
TestRuns(mem_retry, granted_and_cancelled_udp, rounds("udp", granted_and_cancelled));
