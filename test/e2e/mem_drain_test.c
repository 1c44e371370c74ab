/* Goal: a node that gets SIGTERM finishes the replies that it has begun, runs no new operation, and
 * ends soon; a second signal ends it at once. Method: long gets in progress over udp, SIGTERM when
 * the first of them has ended, every byte compared. Covers: mn/lend_mn.c, mn/node_server.c,
 * mn/node_worker.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "e2e/mem_node.h"

enum { GETS = 6, LEN = 8 << 20 };
static const struct lend_terms owned = {sizeof(owned), LEND_OWNED, 0, 0, 0};
static struct mem_node node;
static struct lend_ref ref;
static struct lend_op get[GETS];
static char *bytes, *into[GETS];
static int ended;

static void count_end(struct lend_op *op)
{
	(void)op;
	ended++;
}

/* Starts a node that drains for up to drain milliseconds, and sends it SIGTERM when the first of
 * its long replies has arrived. The object is of other's client, or of the node's own. */
static void start_draining(const char *drain, struct mem_node *other)
{
	static struct iovec iov[GETS];

	mem_node_start(&node, "udp", "64M", drain);
	if (other) {
		strcpy(other->address, node.address);
		mem_client_open(other, &other->ep, &other->mem);
	}
	bytes = malloc(LEN);
	mem_fill(bytes, LEN, 3);
	ref = mem_put(other ? other->mem : node.mem, bytes, LEN, &owned);
	for (int i = 0; i < GETS; i++) {
		into[i] = malloc(LEN);
		iov[i] = (struct iovec){into[i], LEN};
		get[i] = (struct lend_op){.timeout = 20 * SECOND, .done = count_end};
		cr_assert_eq(lend_get(node.mem, &ref, 0, &iov[i], 1, &get[i]), 0);
	}
	while (!ended)
		cr_assert_geq(lend_wait(node.ep, LEND_NEVER), 0);
	kill(node.pid, SIGTERM);
}

static int wait_exit(void)
{
	int status;

	cr_assert_eq(waitpid(node.pid, &status, 0), node.pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void close_client(void)
{
	mem_client_close(node.ep, node.mem);
	for (int i = 0; i < GETS; i++)
		free(into[i]);
	free(bytes);
}

Test(mem_drain, replies_in_progress_are_sent)
{
	struct lend_op late = {.timeout = 20 * SECOND};

	start_draining("--drain 20000", NULL);
	for (int i = 0; i < GETS; i++) {
		cr_assert_eq(lend_op_wait(node.mem, &get[i]), 0);
		cr_expect_eq(get[i].status, LEND_OK, "get %d ended %d", i, (int)get[i].status);
		cr_expect_eq(memcmp(into[i], bytes, LEN), 0);
	}
	cr_assert_eq(wait_exit(), 0);
	cr_expect_eq(mem_end(node.mem, &late, lend_get(node.mem, &ref, 0, NULL, 0, &late)),
		     LEND_UNAVAILABLE);
	close_client();
}

/* A client that is not polled does not take its replies, so the node drains for its maximum time.
 * Meanwhile another client's operations end UNAVAILABLE, not run. */
Test(mem_drain, draining__new_operation__unavailable)
{
	struct mem_node other = {.pid = 0};
	struct lend_op op = {.timeout = 5 * SECOND};
	struct iovec iov;
	lend_ns until;

	start_draining("--drain 3600000", &other);
	iov = (struct iovec){bytes, 100};
	for (until = lend_now(other.ep) + 5 * SECOND; lend_now(other.ep) < until;) {
		op = (struct lend_op){.timeout = 5 * SECOND};
		if (mem_end(other.mem, &op, lend_put(other.mem, &iov, 1, &owned, &op)) != LEND_OK)
			break;
	}
	cr_assert_eq(op.status, LEND_UNAVAILABLE, "%d", (int)op.status);
	cr_assert_eq(waitpid(node.pid, NULL, WNOHANG), 0, "it does not drain any more");
	for (int i = 0; i < 3; i++) {
		op = (struct lend_op){.timeout = SECOND};
		cr_assert_neq(mem_end(other.mem, &op, lend_release(other.mem, &ref, 1, &op)),
			      LEND_OK);
	}
	kill(node.pid, SIGINT);
	cr_assert_eq(wait_exit(), 0);
	mem_client_close(other.ep, other.mem);
	close_client();
}

/* The client is not polled and takes no reply: after one signal alone the node would wait. */
Test(mem_drain, a_second_signal_ends_it)
{
	lend_ns begun;

	start_draining("--drain 3600000", NULL);
	begun = lend_now(node.ep);
	kill(node.pid, SIGINT);
	cr_assert_eq(wait_exit(), 0);
	cr_assert_lt(lend_now(node.ep) - begun, 4 * SECOND, "it gave the client up first");
	close_client();
}
