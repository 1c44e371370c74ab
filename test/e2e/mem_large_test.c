/* Goal: a worker of 100 GiB in pages of 4 KiB starts with few resident pages, however little memory
 * the host has, and a space with long holes is mapped by few operations. Method: the node's
 * resident memory from /proc at its start; a space of 96 GiB with three pages, and the node's count
 * of operations. Covers: mn/node_worker.c, mn/store/store.c, mn/store/layout.c,
 * mn/store/pinned_map.c, src/sys/mapped_memory.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "e2e/mem_node.h"

enum { PAGE = 4096, RESIDENT_MAX = 64 << 20, OPS_MAX = 4 };

/* Where the kernel reserves all memory that is mapped, such a node cannot start. */
static void need_overcommit(void)
{
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = file ? fgetc(file) : '0';

	if (file)
		fclose(file);
	if (mode == '2')
		cr_skip_test("vm.overcommit_memory is 2");
}

static unsigned long long resident_bytes(pid_t pid)
{
	unsigned long long kib = 0;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	cr_assert(file);
	while (fgets(line, sizeof(line), file) && sscanf(line, "VmRSS: %llu", &kib) != 1)
		;
	fclose(file);
	return kib << 10;
}

static void start_large(struct mem_node *node, const char *carrier)
{
	need_overcommit();
	mem_node_start(node, carrier, "100G", "--clients 1000 2>/dev/null");
	cr_expect_leq(resident_bytes(node->pid), RESIDENT_MAX, "%llu bytes",
		      resident_bytes(node->pid));
}

Test(mem_large, private_memory)
{
	char in[3 * PAGE], out[3 * PAGE];
	struct mem_node node;
	struct lend_ref ref;

	start_large(&node, "udp");
	mem_fill(in, sizeof(in), 1);
	ref = mem_put(node.mem, in, sizeof(in), NULL);
	cr_assert_eq(mem_get(node.mem, &ref, 0, out, sizeof(out)), LEND_OK);
	cr_assert_arr_eq(in, out, sizeof(in));
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

/* Holes are as long as the parts of the page table that are empty. */
Test(mem_large, a_sparse_map_of_a_pool)
{
	static const uint64_t len = UINT64_C(96) << 30;
	static const uint64_t at[] = {7 * PAGE, (UINT64_C(40) << 30) + 5 * PAGE, len - PAGE};
	struct mem_node node;
	struct lend_mem_stat before, after;
	struct lend_op op;
	struct lend_ref ref;
	lend_space space, view;
	char bytes[PAGE];
	const char *p;

	start_large(&node, "pool");
	space = mem_alloc(node.mem, len);
	for (size_t i = 0; i < 3; i++) {
		struct iovec iov = {bytes, sizeof(bytes)};

		op = (struct lend_op){.timeout = 5 * SECOND};
		mem_fill(bytes, sizeof(bytes), i);
		cr_assert_eq(
		    mem_end(node.mem, &op, lend_space_write(node.mem, space, at[i], &iov, 1, &op)),
		    LEND_OK);
	}
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(node.mem, &op, lend_space_seal(node.mem, space, 0, len, NULL, &op)),
		     LEND_OK);
	ref = op.ref;
	mem_stat(node.mem, &before);
	view = mem_map(node.mem, &ref);
	p = lend_space_pointer(node.mem, view);
	mem_stat(node.mem, &after);
	cr_assert(p, "%s", lend_why());
	cr_expect_leq(after.ops - before.ops, OPS_MAX, "%llu operations",
		      (unsigned long long)(after.ops - before.ops));
	for (size_t i = 0; i < 3; i++) {
		mem_fill(bytes, sizeof(bytes), i);
		cr_assert_arr_eq(p + at[i], bytes, sizeof(bytes));
		cr_assert_eq(p[at[i] - 1], 0);
	}
	mem_free_space(node.mem, view);
	mem_free_space(node.mem, space);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}
