/* Goal: a node that is told to leave finishes the replies that it has begun, runs nothing new, and
 * is gone soon; a second signal ends it at once. Method: long gets under way over udp, SIGTERM when
 * the first of them has ended, every byte compared. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "e2e/mem_node.h"

enum { GETS = 6, LEN = 8 << 20 };
static const struct lend_terms owned = {sizeof(owned), LEND_OWNED, 0, 0};
static struct lend_op get[GETS];
static int ended;

static void count(struct lend_op *op)
{
	(void)op;
	ended++;
}

static void start_gets(struct mem_node *node, const struct lend_ref *ref, char *into[GETS])
{
	static struct iovec iov[GETS];

	for (int i = 0; i < GETS; i++) {
		into[i] = malloc(LEN);
		iov[i] = (struct iovec){into[i], LEN};
		get[i] = (struct lend_op){.timeout = 20 * SECOND, .done = count};
		cr_assert_eq(lend_get(node->mem, ref, 0, &iov[i], 1, &get[i]), 0);
	}
}

static int leave(struct mem_node *node)
{
	int status;

	cr_assert_eq(waitpid(node->pid, &status, 0), node->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(mem_drain, replies_under_way_go_out)
{
	char *bytes = malloc(LEN), *into[GETS];
	struct mem_node node;
	struct lend_ref ref;
	struct lend_op late = {.timeout = 20 * SECOND};

	mem_node_start(&node, "udp", "64M", "--drain 20000");
	mem_fill(bytes, LEN, 3);
	ref = mem_put(node.mem, bytes, LEN, &owned);
	start_gets(&node, &ref, into);
	while (!ended)
		cr_assert_geq(lend_turn(node.ep, LEND_NEVER), 0);
	kill(node.pid, SIGTERM);
	for (int i = 0; i < GETS; i++) {
		cr_assert_eq(lend_op_wait(node.mem, &get[i]), 0);
		cr_expect_eq(get[i].status, LEND_OK, "get %d ended %d", i, (int)get[i].status);
		cr_expect_eq(memcmp(into[i], bytes, LEN), 0);
		free(into[i]);
	}
	cr_assert_eq(leave(&node), 0);
	cr_expect_eq(mem_end(node.mem, &late, lend_get(node.mem, &ref, 0, NULL, 0, &late)),
		     LEND_UNAVAILABLE);
	mem_client_close(node.ep, node.mem);
	free(bytes);
}

/* Nobody takes the replies, for the client is not polled: the first signal alone would wait. */
Test(mem_drain, a_second_signal_ends_it)
{
	char *bytes = malloc(LEN), *into[GETS];
	struct mem_node node;
	struct lend_ref ref;

	mem_node_start(&node, "udp", "64M", "--drain 3600000");
	mem_fill(bytes, LEN, 4);
	ref = mem_put(node.mem, bytes, LEN, &owned);
	start_gets(&node, &ref, into);
	while (!ended)
		cr_assert_geq(lend_turn(node.ep, LEND_NEVER), 0);
	kill(node.pid, SIGTERM);
	kill(node.pid, SIGINT);
	cr_assert_eq(leave(&node), 0);
	mem_client_close(node.ep, node.mem);
	for (int i = 0; i < GETS; i++)
		free(into[i]);
	free(bytes);
}
