/* Goal: a read of several references ends once, with each part's own status and bytes, whatever the
 * number, the lengths and the nodes; and it keeps program order with releases. Method: parts of all
 * lengths over each carrier, references that are gone, unknown or of two nodes, cancelled and timed
 * out reads; checked by the bytes and the nodes' counters. Covers: cn/op_many.c, cn/ref_ops.c,
 * cn/op_split.c, cn/op_order.c, mn/node_server.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"

#define SUITE mem_get_many
enum { LEN = 9 << 20, PARTS = 100 };

static char *in, *out;

static void fill_bytes(void)
{
	in = malloc(LEN);
	out = calloc(1, LEN);
	mem_fill(in, LEN, 5);
}

TestSuite(mem_get_many, .init = fill_bytes);

static struct lend_get_part part_of(const struct lend_ref *ref, uint64_t offset, uint64_t len,
				    char *into)
{
	return (struct lend_get_part){.ref = *ref, .offset = offset, .len = len, .into = into};
}

/* More parts than one call may have, of 0 to some pages, next to each other in memory. */
ALL(many_parts__of_odd_lengths__have_their_bytes)
{
	struct lend_ref ref = mem_put(node->mem, in, 1 << 20, NULL);
	struct lend_get_part part[PARTS];
	uint64_t at = 0;

	for (int i = 0; i < PARTS; i++) {
		uint64_t len = (uint64_t)(i * i * 3);

		part[i] = part_of(&ref, (uint64_t)i * 7001, len, out + at);
		part[i].status = LEND_INTERNAL;
		at += len;
	}
	cr_assert_eq(lend_get_many_sync(node->mem, part, PARTS, NULL), 0, "%s", lend_why());
	for (int i = 0; i < PARTS; i++) {
		cr_expect_eq(part[i].status, LEND_OK);
		cr_expect(!memcmp(part[i].into, in + part[i].offset, part[i].len), "part %d", i);
	}
	cr_expect_eq(out[at], 0, "a byte behind the last part");
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

/* One is longer than a call may be; the whole is longer than two. */
ALL(long_parts__have_their_bytes)
{
	struct lend_ref whole = mem_put(node->mem, in, LEN, NULL);
	struct lend_ref half = mem_put(node->mem, in, LEN / 2, NULL);
	char *more = malloc(LEN);
	struct lend_get_part part[] = {part_of(&half, 1, LEN / 2 - 1, more),
				       part_of(&half, 3, LEN / 2 - 3, more + LEN / 2),
				       part_of(&whole, 0, LEN, out)};

	cr_assert_eq(lend_get_many_sync(node->mem, part, 3, NULL), 0);
	cr_expect(!memcmp(more, in + 1, part[0].len));
	cr_expect(!memcmp(more + LEN / 2, in + 3, part[1].len));
	cr_expect(!memcmp(out, in, LEN));
	free(more);
	cr_assert_eq(mem_release(node->mem, &half), LEND_OK);
	cr_assert_eq(mem_release(node->mem, &whole), LEND_OK);
}

ALL(some_parts_fail__each_has_its_status)
{
	struct lend_ref ref = mem_put(node->mem, in, 100000, NULL), gone, slice;
	struct lend_op op = {.timeout = 20 * SECOND};
	struct lend_get_part part[6];

	gone = mem_put(node->mem, in, 70000, NULL);
	cr_assert_eq(mem_release(node->mem, &gone), LEND_OK);
	cr_assert_eq(lend_ref_slice(&ref, 0, 50, LEND_GRANT, &slice), 0);
	part[0] = part_of(&ref, 5, 65536, out);
	part[1] = part_of(&gone, 0, 70000, out + 100000);
	part[2] = part_of(&ref, 99999, 1, out + 200000);
	part[3] = part_of(&ref, 99999, 2, out + 200001);
	part[4] = part_of(&slice, 0, 50, out + 200010);
	part[5] = part_of(&ref, 0, 30000, out + 300000);
	cr_assert_eq(mem_end(node->mem, &op, lend_get_many(node->mem, part, 6, &op)),
		     LEND_NOT_FOUND, "the first failure: %d", op.status);
	cr_expect_eq(part[1].status, LEND_NOT_FOUND);
	cr_expect_eq(part[3].status, LEND_OUT_OF_RANGE);
	cr_expect_eq(part[4].status, LEND_PERMISSION_DENIED);
	for (int i = 0; i < 6; i++)
		if (i != 1 && i != 3 && i != 4) {
			cr_expect_eq(part[i].status, LEND_OK);
			cr_expect(!memcmp(part[i].into, in + part[i].offset, part[i].len));
		}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

/* A release that is started after the read does not overtake it; one before it is not overtaken. */
ALL(releases__keep_their_order)
{
	for (int round = 0; round < 20; round++) {
		struct lend_ref ref[3];
		struct lend_op first = {.timeout = 20 * SECOND}, read = first, then = first,
			       both = first;
		struct lend_get_part part[3];

		for (int i = 0; i < 3; i++) {
			ref[i] = mem_put(node->mem, in + i, 20000, NULL);
			part[i] = part_of(&ref[i], 0, 20000, out + i * 20000);
		}
		cr_assert_eq(lend_release(node->mem, &ref[0], 1, &first), 0);
		cr_assert_eq(lend_get_many(node->mem, part, 3, &read), 0);
		cr_assert_eq(lend_release(node->mem, &ref[1], 1, &then), 0);
		cr_assert_eq(lend_release(node->mem, &ref[1], 2, &both), 0);
		cr_expect_neq(mem_end(node->mem, &both, 0), LEND_DEADLINE_EXCEEDED);
		cr_expect_eq(mem_end(node->mem, &read, 0), LEND_NOT_FOUND);
		cr_expect_eq(part[0].status, LEND_NOT_FOUND);
		cr_expect_eq(part[1].status, LEND_OK);
		cr_expect_eq(part[2].status, LEND_OK);
		cr_expect(!memcmp(out + 20000, in + 1, 20000));
		cr_expect(!memcmp(out + 40000, in + 2, 20000));
		cr_assert_eq(mem_end(node->mem, &then, 0), LEND_OK);
	}
}

static int ends;

static void count_end(struct lend_op *op)
{
	(void)op;
	ends++;
}

/* Cancelled after some turns: it ends once, and each part has a status. */
ALL(cancelled__ends_once)
{
	struct lend_ref ref = mem_put(node->mem, in, 300000, NULL);

	for (int turns = 0; turns < 40; turns += 1 + turns / 4) {
		struct lend_op op = {.timeout = 20 * SECOND, .done = count_end};
		struct lend_get_part part[PARTS];

		for (int i = 0; i < PARTS; i++) {
			part[i] = part_of(&ref, (uint64_t)i, 80000, out + (size_t)i * 80000);
			part[i].status = LEND_UNKNOWN;
		}
		ends = 0;
		cr_assert_eq(lend_get_many(node->mem, part, PARTS, &op), 0);
		for (int i = 0; i < turns; i++)
			(void)lend_poll(node->ep);
		lend_op_cancel(node->mem, &op);
		(void)lend_op_wait(node->mem, &op);
		cr_expect_eq(ends, 1);
		cr_expect(op.status == LEND_OK || op.status == LEND_CANCELLED, "%d", op.status);
		for (int i = 0; i < PARTS; i++)
			cr_expect(part[i].status == LEND_OK || part[i].status == LEND_CANCELLED);
	}
	cr_assert_eq(mem_release(node->mem, &ref), LEND_OK);
}

Test(mem_get_many, two_nodes_and_an_unknown_one__parts_of_known_nodes_are_read)
{
	struct mem_node one, two, lost;
	struct lend_get_part part[5];
	struct lend_ref a, b, c;

	mem_node_start(&one, "udp", "16M", "--id 7");
	mem_node_start(&two, "shm", "16M", "--id 8");
	mem_node_start(&lost, "shm", "16M", "--id 9");
	a = mem_put(one.mem, in, 5000, NULL);
	b = mem_put(two.mem, in + 1, 5000, NULL);
	c = mem_put(lost.mem, in + 2, 5000, NULL);
	cr_assert_eq(lend_mem_add(one.mem, two.address), 0);
	for (int i = 0; i < 5; i++)
		part[i] = part_of(i == 2 ? &c : i % 2 ? &a : &b, 0, 5000, out + i * 5000);
	cr_expect_eq(lend_get_many_sync(one.mem, part, 5, NULL), LEND_UNAVAILABLE);
	for (int i = 0; i < 5; i++) {
		cr_expect_eq(part[i].status, i == 2 ? LEND_UNAVAILABLE : LEND_OK, "part %d", i);
		cr_expect(i == 2 || !memcmp(part[i].into, in + (i % 2 == 0), 5000), "part %d", i);
	}
	mem_release(one.mem, &a);
	mem_release(two.mem, &b);
	mem_release(lost.mem, &c);
	mem_node_stop(&one);
	mem_node_stop(&two);
	mem_node_stop(&lost);
}

Test(mem_get_many, silent_node__each_part_times_out)
{
	struct mem_node node;
	struct lend_get_part part[2];
	struct lend_op op = {.timeout = SECOND / 4};
	struct lend_ref ref;

	mem_node_start(&node, "udp", "16M", "");
	ref = mem_put(node.mem, in, 5000, NULL);
	part[0] = part[1] = part_of(&ref, 0, 5000, out);
	kill(node.pid, SIGSTOP);
	cr_expect_eq(mem_end(node.mem, &op, lend_get_many(node.mem, part, 2, &op)),
		     LEND_DEADLINE_EXCEEDED);
	kill(node.pid, SIGCONT);
	cr_expect_eq(part[0].status, LEND_DEADLINE_EXCEEDED);
	cr_expect_eq(part[1].status, LEND_DEADLINE_EXCEEDED);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

Test(mem_get_many, bad_arguments__are_refused_at_once)
{
	struct mem_node node;
	struct lend_get_part part[2] = {{.len = 1, .into = out}};
	struct lend_op op = {.done = count_end};
	struct lend_ref ref;

	mem_node_start(&node, "shm", "16M", "");
	ref = mem_put(node.mem, in, 5000, NULL);
	ends = 0;
	cr_expect_eq(lend_get_many(node.mem, part, 0, &op), -EINVAL);
	cr_expect_eq(lend_get_many(node.mem, NULL, 1, &op), -EINVAL);
	cr_expect_eq(lend_get_many(node.mem, part, 1, &op), -EINVAL, "zeros are no reference");
	part[0] = part_of(&ref, 0, 100, NULL);
	cr_expect_eq(lend_get_many(node.mem, part, 1, &op), -EINVAL);
	part[0] = part_of(&ref, 0, UINT64_MAX, out);
	cr_expect_eq(lend_get_many(node.mem, part, 1, &op), -EINVAL);
	cr_expect_eq(ends, 0);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}
