/* Goal: a process with many sessions and many queued operations does not take another, modest
 * process's share of a memory node or make it wait: over shm and udp, for long and for short gets.
 * Method: the node is stopped until the operations of both have arrived. Each STAT of the modest
 * process returns the node's count of operations at the moment when it ran, so the counts show the
 * order in which the node ran what it found, whatever the machine's load. While the modest process
 * has no operation queued, the node runs only the other's; a few such gaps do not move a median. A
 * quarter of the rounds may fail, because a process may not be scheduled for long: a wrong queue
 * fails in all rounds. Covers: mn/fair_queue.c, mn/node_server.c */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "one_line_test.h"

#define SECOND UINT64_C(1000000000)
enum { DEPTH = 64, ENDS = 8, LEN_MAX = 64 << 10, ROUNDS = 11, FEW = 60, WINDOW = 8 };

/* Messages from one process to the other. */
struct progress {
	_Atomic uint64_t ops, turns; /* operations and turns of the greedy client */
	char text[512];
};
static struct progress *progress;

/* A get that is repeated for ever. */
struct again {
	struct lend_op op;
	struct lend_mem *mem;
	struct lend_ref ref;
	struct iovec into;
};

static void get_done(struct lend_op *op)
{
	struct again *a = (struct again *)op;

	if (op->status == LEND_OK) {
		atomic_fetch_add(&progress->ops, 1);
	} else if (op->status != LEND_RESOURCE_EXHAUSTED) {
		_exit(2);
	}
	a->op = (struct lend_op){.done = get_done, .timeout = 20 * SECOND};
	if (lend_get(a->mem, &a->ref, 0, &a->into, 1, &a->op) < 0)
		_exit(3);
}

/* One process with several endpoints, which share the process's share. */
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
		    lend_ref_parse(mem, progress->text, &ref) < 0)
			_exit(1);
		for (int k = 0; k < DEPTH; k++) {
			struct again *a = calloc(1, sizeof(*a));

			*a = (struct again){.op.status = LEND_RESOURCE_EXHAUSTED, .mem = mem};
			a->ref = ref;
			a->into = (struct iovec){malloc(len), len};
			get_done(&a->op);
		}
	}
	for (;; atomic_fetch_add(&progress->turns, 1))
		for (int i = 0; i < ENDS; i++)
			(void)lend_poll(ep[i]);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void wait_turns(struct mem_node *node, uint64_t n)
{
	for (n += atomic_load(&progress->turns); atomic_load(&progress->turns) < n;)
		cr_assert_geq(lend_wait(node->ep, lend_now(node->ep) + SECOND / 1000), 0);
}

/* Stops the node and returns how many replies the greedy process has; it gets no more. */
static uint64_t stop_node(struct mem_node *node)
{
	uint64_t before;

	kill(node->pid, SIGSTOP);
	do {
		before = atomic_load(&progress->ops);
		wait_turns(node, 4);
	} while (atomic_load(&progress->ops) != before);
	return before;
}

static uint64_t median_of(uint64_t *of, size_t n)
{
	qsort(of, n, sizeof(of[0]), by_size);
	return of[n / 2];
}

/* The node finds FEW gets of one process, each with a STAT behind it, among the other's operations.
 * Returns how many of the other's it runs while it runs WINDOW of these gets. kills: 0, or the
 * other process, which is killed while its operations are queued. */
static uint64_t run_race(struct mem_node *node, const struct lend_ref *ref, size_t len, pid_t kills)
{
	static char into[LEN_MAX];
	struct iovec iov = {into, len};
	static struct lend_op get[FEW], ask[FEW];
	static struct lend_mem_stat at[FEW];
	uint64_t others[FEW - WINDOW];

	mem_stat(node->mem, &at[0]); /* so that the other does not count as alone */
	(void)stop_node(node);
	for (int i = 0; i < FEW; i++) {
		get[i] = ask[i] = (struct lend_op){.timeout = 20 * SECOND};
		cr_assert_eq(lend_get(node->mem, ref, 0, &iov, 1, &get[i]), 0);
		cr_assert_eq(lend_mem_stat_get(node->mem, 0, &at[i], &ask[i]), 0);
	}
	wait_turns(node, 4);
	if (kills)
		kill(kills, SIGKILL);
	kill(node->pid, SIGCONT);
	for (int i = 0; i < FEW; i++) {
		cr_assert_eq(mem_end(node->mem, &get[i], 0), LEND_OK);
		cr_assert_eq(mem_end(node->mem, &ask[i], 0), LEND_OK);
	}
	for (int i = 0; i < FEW - WINDOW; i++)
		others[i] = at[i + WINDOW].ops - at[i].ops - 2ul * WINDOW;
	return median_of(others, FEW - WINDOW);
}

/* A process that was active lately sends an operation: how many of the greedy one's operations, all
 * at the node or in its queue, run first. base: operations of other processes. */
static uint64_t wait_of(struct mem_node *node, uint64_t base, uint64_t *asked)
{
	struct lend_mem_stat last, stat;
	struct lend_op op = {.timeout = 20 * SECOND};
	uint64_t done;

	for (int i = 0; i < 3; i++, ++*asked)
		mem_stat(node->mem, &last);
	done = stop_node(node) + *asked + base;
	cr_assert_eq(lend_mem_stat_get(node->mem, 0, &stat, &op), 0);
	wait_turns(node, 4);
	kill(node->pid, SIGCONT);
	cr_assert_eq(mem_end(node->mem, &op, 0), LEND_OK);
	++*asked;
	return stat.ops > done ? stat.ops - done : 0;
}

/* While it runs WINDOW of the modest process's operations, the node runs from least to most of the
 * greedy one's. Over udp all arrive in one socket queue: an operation must not wait for all that
 * arrived before it. Some replies of 64 KiB are in flight when the node stops, so for these the
 * order before is unknown. */
static void run_modest(const char *carrier, size_t len, uint64_t least, uint64_t most)
{
	struct lend_terms shared = {sizeof(shared), LEND_SHARED, 0, 600 * SECOND, 0};
	struct lend_mem_stat stat;
	struct mem_node node;
	struct lend_ref ref;
	uint64_t of[ROUNDS], waits[ROUNDS], asked = 0;
	char *bytes = calloc(1, len);
	int go[2];
	pid_t pid;

	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	cr_assert(progress != MAP_FAILED && pipe(go) == 0);
	pid = fork();
	if (pid == 0)
		be_greedy(go[0], len);
	mem_node_start(&node, carrier, "64M", "");
	ref = mem_put(node.mem, bytes, len, &shared);
	cr_assert_eq(lend_ref_text(node.mem, &ref, progress->text, sizeof(progress->text)), 0);
	mem_stat(node.mem, &stat);
	cr_assert_eq(write(go[1], "x", 1), 1);
	while (atomic_load(&progress->ops) < 2 * ENDS * DEPTH)
		wait_turns(&node, 1);
	for (int i = 0; i < ROUNDS; i++)
		waits[i] = wait_of(&node, stat.ops, &asked);
	for (int i = 0; i < ROUNDS; i++)
		of[i] = run_race(&node, &ref, len, 0);
	(void)run_race(&node, &ref, len, pid);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(mem_get(node.mem, &ref, 0, bytes, len), LEND_OK);
	mem_node_kill(&node);
	qsort(of, ROUNDS, sizeof(of[0]), by_size);
	qsort(waits, ROUNDS, sizeof(waits[0]), by_size);
	cr_log_info(
	    "%s, %zu bytes: %llu operations of the greedy one while %d ran, %llu before one",
	    carrier, len, (unsigned long long)of[ROUNDS / 2], WINDOW,
	    (unsigned long long)waits[ROUNDS / 4]);
	cr_assert_geq(of[ROUNDS * 3 / 4], least, "%llu of the greedy one's",
		      (unsigned long long)of[ROUNDS * 3 / 4]);
	cr_assert_leq(of[ROUNDS / 4], most, "%llu of the greedy one's",
		      (unsigned long long)of[ROUNDS / 4]);
	cr_assert(strcmp(carrier, "udp") != 0 || len == LEN_MAX ||
		      waits[ROUNDS / 4] < ENDS * DEPTH * 3 / 4,
		  "%llu before one", (unsigned long long)waits[ROUNDS / 4]);
	free(bytes);
}

TestRuns(mem_fair, bytes_shm, run_modest("shm", LEN_MAX, WINDOW / 2, 2 * WINDOW));
TestRuns(mem_fair, bytes_udp, run_modest("udp", LEN_MAX, WINDOW / 2, 2 * WINDOW));
TestRuns(mem_fair, operations_shm, run_modest("shm", 64, WINDOW, 6 * WINDOW));
TestRuns(mem_fair, operations_udp, run_modest("udp", 64, WINDOW, 6 * WINDOW));
