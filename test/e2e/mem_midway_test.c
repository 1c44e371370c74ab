/* Goal: leases that end in mid-operation, concurrent writers, references that are being released
 * and nodes restarted under load: every operation ends with a status that reports its effect, and
 * no byte is wrong. Method: real processes, stopped or killed while others work; seeds; every read
 * compared. Covers: cn/op_order.c, cn/op_protocol.c, cn/life.c, cn/node.c, mn/store/lease.c */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "util/rng.h"
#include "one_line_test.h"

#define MIB (1 << 20)

static uint64_t read_seed(void)
{
	const char *text = getenv("SEED");
	uint64_t s = text ? strtoull(text, NULL, 0) : 0;

	if (!text)
		cr_assert_eq(getrandom(&s, 4, 0), 4);
	return s;
}

/* In a client's process, where no assertion may run. */
static enum lend_status wait_for(struct lend_mem *mem, struct lend_op *op, int rc)
{
	return rc < 0 || lend_op_wait(mem, op) < 0 ? LEND_INTERNAL : op->status;
}

/* Long puts and gets until its lease ended this often; 0, or what was wrong. */
static int put_through_lives(const char *address, int fd)
{
	static char bytes[12 * MIB], back[12 * MIB];
	struct iovec out = {bytes, sizeof(bytes)}, in = {back, sizeof(back)};
	enum lend_status status = LEND_OK;
	int fenced = 0, good = 0;
	struct lend_mem *mem;
	struct lend_ep *ep;

	if (lend_open(NULL, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		return 1;
	for (int i = 1; fenced < 3 || !good; i++) {
		struct lend_op op = {.timeout = 20 * SECOND}, get = {.timeout = 20 * SECOND};

		memset(bytes, i, sizeof(bytes));
		if (write(fd, "x", 1) != 1)
			return 2;
		status = wait_for(mem, &op, lend_put(mem, &out, 1, NULL, &op));
		if (status == LEND_OK)
			status = wait_for(mem, &get, lend_get(mem, &op.ref, 0, &in, 1, &get));
		if (status == LEND_OK && memcmp(bytes, back, sizeof(back)) != 0)
			return 3;
		if (status == LEND_OK) {
			struct lend_op end = {.timeout = 20 * SECOND};

			status = wait_for(mem, &end, lend_release(mem, &op.ref, 1, &end));
		}
		good += status == LEND_OK;
		fenced += status == LEND_ABORTED || status == LEND_NOT_FOUND;
		if (status != LEND_OK && status != LEND_ABORTED && status != LEND_NOT_FOUND &&
		    status != LEND_UNAVAILABLE) /* its session was lost with the life */
			return 100 + (int)status;
	}
	lend_mem_close(mem);
	lend_close(ep);
	return 0;
}

/* The client is stopped at random moments, for longer than its lease. */
Test(mem_midway, lease_expired_in_mid_operation)
{
	struct lend_mem_stat stat;
	struct mem_node node;
	int fds[2], status;
	struct lend_rng rng;
	uint64_t s = read_seed();
	pid_t pid;
	char c;

	lend_rng_seed(&rng, s);
	mem_node_start(&node, "udp", "64M", "--lease 150");
	cr_assert_eq(pipe(fds), 0);
	pid = mem_fork();
	if (pid == 0) {
		_exit(put_through_lives(node.address, fds[1]));
	}
	close(fds[1]);
	while (read(fds[0], &c, 1) == 1) {
		lend_ns until = lend_now(node.ep) + lend_rng_below(&rng, 20000000);

		if (lend_rng_below(&rng, 2)) /* this one is not stopped */
			continue;
		do
			mem_stat(node.mem, &stat);
		while (lend_now(node.ep) < until);
		kill(pid, SIGSTOP);
		until = lend_now(node.ep) + 5 * SECOND;
		do /* whether it held anything or not */
			mem_stat(node.mem, &stat);
		while (stat.clients > 1 && lend_now(node.ep) < until);
		cr_assert_lt(lend_now(node.ep), until, "SEED=%llu: the lease does not end",
			     (unsigned long long)s);
		kill(pid, SIGCONT);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "SEED=%llu: it ended with %x",
		  (unsigned long long)s, status);
	cr_assert(mem_pages_become(node.ep, node.mem, 0, 8000));
	mem_node_stop(&node);
}

enum { WRITES = 200, LEN = 40000 };

/* Overlapping writes in progress together leave the bytes of the one started last. */
static void two_writers(const char *carrier)
{
	static char data[WRITES][9000], want[LEN], back[LEN];
	struct lend_op op = {.timeout = 5 * SECOND}, write[WRITES];
	struct iovec iov = {back, LEN}, one[WRITES];
	struct mem_node node;
	struct lend_rng rng;
	lend_space space;
	uint64_t s = read_seed();

	lend_rng_seed(&rng, s);
	mem_node_start(&node, carrier, "16M", "");
	cr_assert_eq(mem_end(node.mem, &op, lend_space_alloc(node.mem, LEN, &space, &op)), LEND_OK);
	for (int i = 0; i < WRITES; i++) {
		uint64_t at = lend_rng_below(&rng, LEN), len = 1 + lend_rng_below(&rng, 9000);

		len = at + len > LEN ? LEN - at : len;
		memset(data[i], i + 1, len);
		memset(want + at, i + 1, len);
		one[i] = (struct iovec){data[i], len};
		write[i] = (struct lend_op){.timeout = 10 * SECOND};
		cr_assert_eq(lend_space_write(node.mem, space, at, &one[i], 1, &write[i]), 0);
	}
	op = (struct lend_op){.timeout = 10 * SECOND};
	cr_assert_eq(mem_end(node.mem, &op, lend_space_read(node.mem, space, 0, &iov, 1, &op)),
		     LEND_OK);
	for (int i = 0; i < WRITES; i++)
		cr_assert_eq(mem_end(node.mem, &write[i], 0), LEND_OK);
	cr_assert_arr_eq(back, want, LEN, "SEED=%llu", (unsigned long long)s);
	op = (struct lend_op){.timeout = 5 * SECOND};
	cr_assert_eq(mem_end(node.mem, &op, lend_space_free(node.mem, space, &op)), LEND_OK);
	mem_node_stop(&node);
}

TestRuns(mem_midway, two_writers_to_one_space_shm, two_writers("shm"));
TestRuns(mem_midway, two_writers_to_one_space_udp, two_writers("udp"));

/* Release and map in both orders, without a wait in between. */
static void map_of_a_released_reference(const char *carrier)
{
	static char data[9000], back[9000];
	struct iovec iov = {back, sizeof(back)};
	struct mem_node node;

	mem_node_start(&node, carrier, "16M", "--workers 2");
	for (int i = 0; i < 40; i++) {
		struct lend_op map = {.timeout = 5 * SECOND}, release = map, late = map, op = map;
		struct lend_ref ref;
		lend_space space, none;

		memset(data, i, sizeof(data));
		ref = mem_put(node.mem, data, sizeof(data), NULL);
		cr_assert_eq(lend_space_map(node.mem, &ref, &space, &map), 0);
		cr_assert_eq(lend_release(node.mem, &ref, 1, &release), 0);
		cr_assert_eq(lend_space_map(node.mem, &ref, &none, &late), 0);
		cr_assert_eq(mem_end(node.mem, &late, 0), LEND_NOT_FOUND);
		cr_assert_eq(mem_end(node.mem, &release, 0), LEND_OK);
		cr_assert_eq(mem_end(node.mem, &map, 0), LEND_OK);
		cr_assert_eq(
		    mem_end(node.mem, &op, lend_space_read(node.mem, space, 0, &iov, 1, &op)),
		    LEND_OK);
		cr_assert_arr_eq(back, data, sizeof(data));
		op = (struct lend_op){.timeout = 5 * SECOND};
		cr_assert_eq(mem_end(node.mem, &op, lend_space_free(node.mem, space, &op)),
			     LEND_OK);
	}
	mem_node_stop(&node);
}

TestRuns(mem_midway, map_of_a_released_reference_shm, map_of_a_released_reference("shm"));
TestRuns(mem_midway, map_of_a_released_reference_udp, map_of_a_released_reference("udp"));

/* One of several streams that work at once: put, get, compare, release, for ever. */
enum { STREAMS = 24, STREAM_LEN = 3 * 4096 + 5 };
struct stream {
	struct lend_op op;
	struct lend_mem *mem;
	uint64_t seed;
	struct lend_ref ref;
	int step; /* 0 put, 1 get, 2 release */
	bool idle;
	char data[STREAM_LEN], back[STREAM_LEN];
};
static struct stream stream[STREAMS];
static unsigned good, bad_bytes, bad_status[17];
static bool enough;

static void start_next(struct stream *l);

static void stream_done(struct lend_op *op)
{
	struct stream *l = (struct stream *)op;
	enum lend_status status = op->status;

	good += status == LEND_OK;
	if (status == LEND_OK && l->step == 0)
		l->ref = op->ref;
	if (status == LEND_OK && l->step == 1 && memcmp(l->data, l->back, STREAM_LEN) != 0)
		bad_bytes++;
	if (status != LEND_OK && status != LEND_UNAVAILABLE && status != LEND_NOT_FOUND &&
	    status != LEND_ABORTED)
		bad_status[status]++;
	l->step = status == LEND_OK ? (l->step + 1) % 3 : 0;
	start_next(l);
}

static void start_next(struct stream *l)
{
	struct iovec iov = {l->step ? l->back : l->data, STREAM_LEN};
	int rc;

	l->idle = enough && !l->step;
	if (l->idle)
		return;
	l->op = (struct lend_op){.timeout = 10 * SECOND, .done = stream_done};
	if (l->step == 0) {
		mem_fill(l->data, STREAM_LEN, ++l->seed);
		rc = lend_put(l->mem, &iov, 1, NULL, &l->op);
	} else if (l->step == 1) {
		rc = lend_get(l->mem, &l->ref, 0, &iov, 1, &l->op);
	} else {
		rc = lend_release(l->mem, &l->ref, 1, &l->op);
	}
	if (rc < 0) { /* no node has its id now */
		l->step = 0;
		l->idle = true;
	}
}

static bool all_idle(void)
{
	bool idle = true;

	for (int i = 0; i < STREAMS; i++)
		idle &= stream[i].idle;
	return idle;
}

static void run_until(struct mem_node *node, unsigned more, unsigned ms)
{
	lend_ns until = lend_now(node->ep) + ms * UINT64_C(1000000);
	unsigned want = good + more;

	while (good < want && lend_now(node->ep) < until) {
		cr_assert_geq(lend_wait(node->ep, lend_now(node->ep) + 1000000), 0);
		for (int i = 0; i < STREAMS; i++)
			if (stream[i].idle && !enough) {
				stream[i].idle = false;
				start_next(&stream[i]);
			}
	}
	cr_assert_geq(good, want, "%u of %u operations in %u ms", good, want, ms);
}

static void run_restarted(const char *carrier, const char *more)
{
	struct mem_node node;
	char size[64];
	uint64_t s = read_seed();

	snprintf(size, sizeof(size), "32M %s", more);
	mem_node_start(&node, carrier, "32M", more);
	memcpy(node.listen, node.address, sizeof(node.listen)); /* the port, too */
	for (int i = 0; i < STREAMS; i++) {
		stream[i].mem = node.mem;
		stream[i].seed = s + (uint64_t)i * 1000000;
		start_next(&stream[i]);
	}
	for (int i = 0; i < 4; i++) {
		run_until(&node, 100 + (unsigned)(s + (uint64_t)i * 7) % 50, 20000);
		mem_node_restart(&node, size); /* SIGKILL: calls are in flight */
	}
	run_until(&node, 100, 20000);
	enough = true;
	while (!all_idle())
		cr_assert_geq(lend_wait(node.ep, lend_now(node.ep) + 1000000), 0);
	cr_expect_eq(bad_bytes, 0, "SEED=%llu", (unsigned long long)s);
	for (int i = 0; i < 17; i++)
		cr_expect_eq(bad_status[i], 0, "SEED=%llu: %u with status %d",
			     (unsigned long long)s, bad_status[i], i);
	mem_node_stop(&node);
}

TestRuns(mem_midway, node_restarted_under_load_shm, run_restarted("shm", ""));
TestRuns(mem_midway, node_restarted_under_load_udp, run_restarted("udp", ""));
TestRuns(mem_midway, node_restarted_under_load_workers, run_restarted("shm", "--workers 2"));
