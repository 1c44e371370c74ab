/* Goal: a process with many sessions and many operations under way keeps another, which asks for
 * little at a time, neither from its share of a memory node nor waiting: over shm and udp, for long
 * and for short gets.
 * Method: the node is stopped until all that both have to ask lies before it; then its own count of
 * operations, asked for before and after those of the modest one, tells how many of the greedy
 * one's it ran meanwhile. So neither the machine's speed nor its load counts; medians, for a lost
 * time slice. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"

#define SECOND UINT64_C(1000000000)
enum { DEPTH = 64, ENDS = 8, LEN_MAX = 64 << 10, ROUNDS = 21, ASKS = 301, FEW = 120 };

/* What one process says to the other. */
struct told {
	_Atomic uint64_t ops, turns; /* of the greedy one */
	char text[512];
};
static struct told *told;

/* A get that is said again for ever. */
struct again {
	struct lend_op op;
	struct lend_mem *mem;
	struct lend_ref ref;
	struct iovec into;
};

static void got(struct lend_op *op)
{
	struct again *a = (struct again *)op;

	if (op->status == LEND_OK) {
		atomic_fetch_add(&told->ops, 1);
	} else if (op->status != LEND_RESOURCE_EXHAUSTED) {
		_exit(2);
	}
	a->op = (struct lend_op){.done = got, .timeout = 20 * SECOND};
	if (lend_get(a->mem, &a->ref, 0, &a->into, 1, &a->op) < 0)
		_exit(3);
}

/* One process, whatever its endpoints: they share what the process may have. */
static void be_greedy(int in, size_t len)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep[ENDS];
	char byte;

	config.calls = DEPTH;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(in, &byte, 1) != 1)
		_exit(1);
	for (int i = 0; i < ENDS; i++) {
		struct lend_mem *mem;
		struct lend_ref ref;

		if (lend_open(&config, &ep[i]) < 0 || lend_mem_open(ep[i], NULL, &mem) < 0 ||
		    lend_ref_parse(mem, told->text, &ref) < 0)
			_exit(1);
		for (int k = 0; k < DEPTH; k++) {
			struct again *a = calloc(1, sizeof(*a));

			*a = (struct again){.op.status = LEND_RESOURCE_EXHAUSTED, .mem = mem};
			a->ref = ref;
			a->into = (struct iovec){malloc(len), len};
			got(&a->op);
		}
	}
	for (;; atomic_fetch_add(&told->turns, 1))
		for (int i = 0; i < ENDS; i++)
			(void)lend_poll(ep[i]);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void turns(struct mem_node *node, uint64_t n)
{
	for (n += atomic_load(&told->turns); atomic_load(&told->turns) < n;)
		cr_assert_geq(lend_turn(node->ep, lend_now(node->ep) + SECOND / 1000), 0);
}

/* The node finds FEW gets of one process among all those of the other: how many of the other's it
 * runs from the first of these to the last. */
static uint64_t race(struct mem_node *node, const struct lend_ref *ref, size_t len)
{
	static char into[LEN_MAX];
	struct iovec iov = {into, len};
	struct lend_op op[FEW + 2] = {0};
	struct lend_mem_stat first, last;
	uint64_t before;

	kill(node->pid, SIGSTOP);
	do {
		before = atomic_load(&told->ops);
		turns(node, 4);
	} while (atomic_load(&told->ops) != before);
	cr_assert_eq(lend_mem_stat(node->mem, 0, &first, &op[FEW]), 0);
	for (int i = 0; i < FEW; i++) {
		op[i] = (struct lend_op){.timeout = 20 * SECOND};
		cr_assert_eq(lend_get(node->mem, ref, 0, &iov, 1, &op[i]), 0);
	}
	cr_assert_eq(lend_mem_stat(node->mem, 0, &last, &op[FEW + 1]), 0);
	turns(node, 4);
	kill(node->pid, SIGCONT);
	for (int i = 0; i < FEW + 2; i++)
		cr_assert_eq(mem_end(node->mem, &op[i], 0), LEND_OK);
	return last.ops > first.ops + FEW ? last.ops - first.ops - FEW - 1 : 0;
}

/* How many of the other's run while one small operation is under way here: the median. */
static uint64_t wait_of(struct mem_node *node)
{
	struct lend_mem_stat last, stat;
	uint64_t meanwhile[ASKS];

	mem_stat(node->mem, &last);
	for (int i = 0; i < ASKS; i++, last = stat) {
		mem_stat(node->mem, &stat);
		meanwhile[i] = stat.ops - last.ops;
	}
	qsort(meanwhile, ASKS, sizeof(meanwhile[0]), by_size);
	return meanwhile[ASKS / 2];
}

static void modest(const char *carrier, size_t len, uint64_t most)
{
	struct lend_terms shared = {sizeof(shared), LEND_SHARED, 0, 600 * SECOND};
	struct mem_node node;
	struct lend_ref ref;
	uint64_t meanwhile[ROUNDS], waited;
	char *bytes = calloc(1, len);
	int go[2];
	pid_t pid;

	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(told != MAP_FAILED && pipe(go) == 0);
	pid = fork();
	if (pid == 0)
		be_greedy(go[0], len);
	mem_node_start(&node, carrier, "64M", "");
	ref = mem_put(node.mem, bytes, len, &shared);
	cr_assert_eq(lend_ref_text(node.mem, &ref, told->text, sizeof(told->text)), 0);
	cr_assert_eq(write(go[1], "x", 1), 1);
	while (atomic_load(&told->ops) < 2 * ENDS * DEPTH)
		turns(&node, 1);
	for (int i = 0; i < ROUNDS; i++)
		meanwhile[i] = race(&node, &ref, len);
	qsort(meanwhile, ROUNDS, sizeof(meanwhile[0]), by_size);
	waited = wait_of(&node);
	cr_log_info("%s, %zu bytes: %llu operations of the greedy one while %d ran, %llu while one",
		    carrier, len, (unsigned long long)meanwhile[ROUNDS / 2], FEW,
		    (unsigned long long)waited);
	cr_assert_leq(meanwhile[ROUNDS / 2], most, "%llu",
		      (unsigned long long)meanwhile[ROUNDS / 2]);
	cr_assert_lt(waited, ENDS * DEPTH, "%llu: behind all", (unsigned long long)waited);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	mem_node_kill(&node);
	free(bytes);
}

Test(mem_fair, bytes_shm)
{
	modest("shm", LEN_MAX, FEW + FEW / 4);
}

Test(mem_fair, bytes_udp)
{
	modest("udp", LEN_MAX, FEW + FEW / 4);
}

Test(mem_fair, operations_shm)
{
	modest("shm", 64, 3 * FEW);
}

Test(mem_fair, operations_udp)
{
	modest("udp", 64, 3 * FEW);
}
