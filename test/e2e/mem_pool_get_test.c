/* Goal: a get from a pool copies the bytes from the node's pages, and an argument shows these
 * pages; what cannot be copied is sent by the node, what cannot be shown is copied, and both are
 * counted. Nothing stays pinned. Method: the counters of this process and of the node; children
 * that are killed or stopped in the middle of their gets or with an argument; a node that is
 * restarted. Covers: cn/pool/pool_get.c, src/sys/ref_counts.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "sys/ref_counts.h"
#include "wire/memop.h"

enum { PAGE = 4096, LEN = 1 << 20 };

static char in[LEN];

/* Gets of [offset, offset + len), in three pieces of memory. */
static void get_pieces(struct mem_node *node, const struct lend_ref *ref, const char *want,
		       uint64_t offset, size_t len)
{
	char *out = malloc(len);
	struct iovec iov[] = {
	    {out, len / 3}, {NULL, 0}, {out + len / 3, 1}, {out + len / 3 + 1, len - len / 3 - 1}};
	struct lend_op op = {.timeout = 10 * SECOND};

	cr_assert_eq(mem_end(node->mem, &op, lend_get(node->mem, ref, offset, iov, 4, &op)),
		     LEND_OK);
	cr_assert(!memcmp(out, want + offset, len), "%zu bytes at %llu", len,
		  (unsigned long long)offset);
	free(out);
}

static enum lend_status map_arg(struct lend_mem *mem, const struct lend_ref *ref,
				struct lend_arg_view *view)
{
	struct lend_arg arg = {.len = lend_ref_len(ref), .ref = *ref};
	struct lend_op op = {.timeout = 10 * SECOND};

	return mem_end(mem, &op, lend_arg_map(mem, &arg, view, &op));
}

/* An argument that is shown, or copied if copies is 1. */
static void map_bytes(struct mem_node *node, const struct lend_ref *ref, const char *want,
		      unsigned copies)
{
	struct lend_mem_cache_stat before, after;
	struct lend_arg_view view;

	uint64_t in_place = lend_ref_counts.in_place, copied = lend_ref_counts.copied;

	lend_mem_cache_stat_get(&before);
	cr_assert_eq(map_arg(node->mem, ref, &view), LEND_OK);
	lend_mem_cache_stat_get(&after);
	cr_assert_eq(lend_ref_counts.in_place - in_place, 1 - copies);
	cr_assert_eq(lend_ref_counts.copied > copied, copies == 1);
	cr_assert_eq(after.pool_args - before.pool_args, 1 - copies);
	cr_assert_eq(after.pool_args_copied - before.pool_args_copied, copies);
	cr_assert_eq(view.len, lend_ref_len(ref));
	cr_assert(!memcmp(view.bytes, want, view.len), "%llu bytes", (unsigned long long)view.len);
	lend_arg_unmap(node->mem, &view);
	cr_assert_null(view.bytes);
}

/* Gets are copied from the pages, of any length and at any offset, and nothing stays pinned. */
Test(mem_pool_get, gets_are_copied_from_the_pages)
{
	enum { LONG = 20 << 20 };
	static const size_t lens[] = {16 << 10, (16 << 10) + 1, LEN, (8 << 20) - 5, LONG - 12345};
	struct mem_node node;
	struct lend_mem_cache_stat before, after;
	char *bytes = malloc(LONG);
	struct lend_ref ref, slice;

	mem_fill(bytes, LONG, 8);
	mem_node_start(&node, "pool", "64M", "");
	ref = mem_put(node.mem, bytes, LONG, NULL);
	lend_mem_cache_stat_get(&before);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		get_pieces(&node, &ref, bytes, 0, lens[i]);
		get_pieces(&node, &ref, bytes, 12345, lens[i]);
	}
	cr_assert_eq(lend_ref_slice(&ref, 777, LEN, LEND_READ | LEND_MAP, &slice), 0);
	get_pieces(&node, &slice, bytes + 777, 100, LEN - 100);
	map_bytes(&node, &slice, bytes + 777, 0);
	map_bytes(&node, &ref, bytes, 0);
	lend_mem_cache_stat_get(&after);
	cr_assert_eq(after.pool_gets_sent, before.pool_gets_sent);
	cr_assert_geq(after.pool_gets, before.pool_gets + 11);
	get_pieces(&node, &ref, bytes, LONG - 100, 100);
	lend_mem_cache_stat_get(&before);
	cr_assert_eq(after.pool_gets, before.pool_gets, "short ones are messages");
	cr_assert_eq(mem_get(node.mem, &ref, LONG - LEN + 1, bytes, LEN), LEND_OUT_OF_RANGE);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	cr_assert_eq(mem_get(node.mem, &ref, 0, bytes, LEN), LEND_NOT_FOUND);
	free(bytes);
	mem_node_stop(&node);
}

/* Far more gets and views at once than a client has operation ids: each ends, is right, and nothing
 * stays pinned. */
Test(mem_pool_get, many_at_once__ids_run_out__all_end)
{
	enum { MANY = 3 * LEND_MEM_OPEN_MAX, SHORT = 64 << 10 };
	struct lend_op *op = calloc(MANY, sizeof(*op));
	struct lend_arg_view *view = calloc(MANY, sizeof(*view));
	char *out = malloc((size_t)SHORT * MANY / 2);
	struct lend_mem_stat stat = {.pages_used = 1};
	struct mem_node node;
	struct lend_arg arg = {.len = SHORT};

	mem_fill(in, SHORT, 3);
	mem_node_start(&node, "pool", "64M", "");
	arg.ref = mem_put(node.mem, in, SHORT, NULL);
	for (int i = 0; i < MANY; i++) {
		struct iovec iov = {out + (size_t)SHORT * (i / 2), SHORT};

		op[i].timeout = 30 * SECOND;
		cr_assert_eq(i % 2 ? lend_arg_map(node.mem, &arg, &view[i], &op[i])
				   : lend_get(node.mem, &arg.ref, 0, &iov, 1, &op[i]),
			     0);
	}
	for (int i = 0; i < MANY; i++) {
		const char *bytes = i % 2 ? NULL : out + (size_t)SHORT * (i / 2);

		cr_assert_eq(lend_op_wait(node.mem, &op[i]), 0);
		cr_assert_eq(op[i].status, LEND_OK, "%d", i);
		cr_assert(!memcmp(bytes ? bytes : view[i].bytes, in, SHORT), "%d", i);
		if (!bytes)
			lend_arg_unmap(node.mem, &view[i]);
	}
	cr_assert_eq(mem_release(node.mem, &arg.ref), LEND_OK);
	for (int i = 0; i < 1000 && stat.pages_used; i++)
		mem_stat(node.mem, &stat);
	cr_assert_eq(stat.pages_used, 0, "pinned, though the client is there");
	free(out);
	free(view);
	free(op);
	mem_node_stop(&node);
}

/* Each get here is sent by the node, and is counted; a hole reads as zeros. */
static void get_sent(struct mem_node *node, const struct lend_ref *ref, enum lend_status want)
{
	struct lend_mem_cache_stat before, after;
	char *out = malloc(LEN);

	lend_mem_cache_stat_get(&before);
	cr_assert_eq(mem_get(node->mem, ref, 0, out, LEN), want);
	lend_mem_cache_stat_get(&after);
	cr_assert_eq(after.pool_gets, before.pool_gets);
	cr_assert_eq(after.pool_gets_sent, before.pool_gets_sent + 1);
	for (size_t i = 0; want == LEND_OK && i < LEN; i++)
		cr_assert_eq(out[i], in[i], "byte %zu", i);
	free(out);
	if (want == LEND_OK)
		map_bytes(node, ref, in, 1);
}

static struct lend_ref seal_pieces(struct mem_node *node, size_t step)
{
	struct lend_op op = {.timeout = 5 * SECOND};
	lend_space space = mem_alloc(node->mem, LEN);

	memset(in, 0, LEN);
	for (size_t i = 0; i < LEN; i += step) {
		struct iovec iov = {in + i, PAGE};

		mem_fill(in + i, PAGE, i);
		cr_assert_eq(
		    mem_end(node->mem, &op, lend_space_write(node->mem, space, i, &iov, 1, &op)),
		    LEND_OK);
	}
	cr_assert_eq(mem_end(node->mem, &op, lend_space_seal(node->mem, space, 0, LEN, NULL, &op)),
		     LEND_OK);
	mem_free_space(node->mem, space);
	return op.ref;
}

Test(mem_pool_get, gets_that_the_node_sends)
{
	struct mem_node node;
	struct lend_ref ref, few, narrow;
	struct lend_mem_cache_stat before, after;
	struct lend_arg_view view;

	mem_node_start(&node, "pool", "16M", "--quota each:3M");
	ref = seal_pieces(&node, 2 * PAGE);
	get_sent(&node, &ref, LEND_OK);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	few = seal_pieces(&node, 8 * PAGE);
	lend_mem_cache_stat_get(&before);
	get_pieces(&node, &few, in, 0, LEN);
	lend_mem_cache_stat_get(&after);
	cr_assert_eq(after.pool_gets, before.pool_gets + 1, "with holes");
	map_bytes(&node, &few, in, 0);
	cr_assert_eq(lend_ref_slice(&few, 0, LEN, LEND_READ, &narrow), 0);
	get_sent(&node, &narrow, LEND_OK);
	cr_assert_eq(lend_ref_slice(&few, 0, LEN, LEND_MAP, &narrow), 0);
	get_sent(&node, &narrow, LEND_PERMISSION_DENIED);
	cr_assert_eq(map_arg(node.mem, &narrow, &view), LEND_PERMISSION_DENIED);
	cr_assert_eq(mem_release(node.mem, &few), LEND_OK);
	mem_fill(in, LEN, 9);
	ref = mem_put(node.mem, in, LEN, NULL);
	few = mem_put(node.mem, in, LEN, NULL);
	narrow = mem_put(node.mem, in, LEN - PAGE, NULL); /* the quota is used up */
	get_sent(&node, &ref, LEND_OK);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	cr_assert_eq(mem_release(node.mem, &few), LEND_OK);
	cr_assert_eq(mem_release(node.mem, &narrow), LEND_OK);
	mem_node_stop(&node);
}

/* With checksums each read is checked, which only the node can do. */
Test(mem_pool_get, gets_of_a_node_with_checksums)
{
	struct mem_node node;
	struct lend_ref ref;

	mem_fill(in, LEN, 10);
	mem_node_start(&node, "pool", "16M", "--checksum");
	ref = mem_put(node.mem, in, LEN, NULL);
	get_sent(&node, &ref, LEND_OK);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

/* Gets for ever, while an argument is shown; writes a byte to fd after the first. */
static void gets(const char *address, int fd)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char *out = malloc(LEN);
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct lend_arg_view view;
	struct lend_ref ref;

	if (lend_open(&config, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		_exit(1);
	ref = mem_put(mem, in, LEN, NULL);
	if (map_arg(mem, &ref, &view) != LEND_OK)
		_exit(1);
	for (unsigned n = 0;; n++) {
		if (memcmp(in, view.bytes, LEN) != 0 ||
		    mem_get(mem, &ref, 0, out, LEN) != LEND_OK || memcmp(in, out, LEN) != 0)
			_exit(1);
		if (n == 0)
			(void)!write(fd, "x", 1);
	}
}

Test(mem_pool_get, killed_in_the_middle_of_a_get)
{
	mem_fill(in, LEN, 10);
	for (int i = 0; i < 8; i++)
		mem_child_killed(gets, "pool", "", 2000);
}

/* A stopped process may be copying: its pages stay, also when its lease has ended. */
Test(mem_pool_get, a_get_goes_on_after_the_lease)
{
	struct lend_mem_stat stat;
	struct mem_node node;
	char *noise = malloc(LEN);
	int status;
	pid_t pid;

	mem_fill(in, LEN, 11);
	mem_fill(noise, LEN, 12);
	mem_node_start(&node, "pool", "4M", "--lease 300");
	for (int i = 0; i < 8; i++) {
		struct lend_ref other;

		pid = mem_child_start(&node, gets);
		kill(pid, SIGSTOP);
		do {
			cr_assert_geq(lend_wait(node.ep, lend_now(node.ep) + SECOND / 50), 0);
			mem_stat(node.mem, &stat);
		} while (stat.refs > 0);
		other = mem_put(node.mem, noise, LEN, NULL);
		kill(pid, SIGCONT); /* its reference is gone, but never are its bytes others' */
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(mem_release(node.mem, &other), LEND_OK);
	}
	free(noise);
	mem_node_stop(&node);
}

/* Another node has the name: its pages are another file's. */
Test(mem_pool_get, gets_after_a_restart)
{
	struct lend_mem_cache_stat before, after;
	struct mem_node node;
	struct lend_ref ref;
	struct lend_arg_view view;
	enum lend_status status;
	char *out = malloc(LEN);

	mem_node_start(&node, "pool", "16M", "");
	for (int i = 0; i < 3; i++) {
		mem_fill(in, LEN, 13 + (uint64_t)i);
		ref = mem_put(node.mem, in, LEN, NULL);
		lend_mem_cache_stat_get(&before);
		get_pieces(&node, &ref, in, 0, LEN);
		lend_mem_cache_stat_get(&after);
		cr_assert_eq(after.pool_gets, before.pool_gets + 1);
		cr_assert_eq(map_arg(node.mem, &ref, &view), LEND_OK);
		mem_node_restart(&node, "16M");
		do
			status = mem_get(node.mem, &ref, 0, out, LEN);
		while (status == LEND_UNAVAILABLE);
		cr_assert_eq(status, LEND_NOT_FOUND);
		cr_assert(!memcmp(view.bytes, in, LEN), "shown as long as the view");
		lend_arg_unmap(node.mem, &view);
	}
	free(out);
	mem_node_stop(&node);
}
