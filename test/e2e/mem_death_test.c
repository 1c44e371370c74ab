/* Goal: whoever dies, stops or comes late, no page is kept for ever, no operation hangs, and nobody
 * sees bytes that are not what the reference names.
 * Method: SIGKILL and SIGSTOP of real clients and nodes at moments that a pipe or a counter tells;
 * then the node's own count of pages. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "lend/stats.h"

#define SECOND UINT64_C(1000000000)

static int done_runs;
static void count_done(struct lend_op *op)
{
	(void)op;
	done_runs++;
}

/* Puts for ever, short and long, and says so after the first round. */
static void put_for_ever(const char *address, int fd)
{
	static char bytes[9 << 20];
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem *mem;
	struct lend_ep *ep;

	if (lend_open(&config, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		_exit(1);
	for (int i = 0;; i++) {
		struct iovec iov = {bytes, i % 4 == 3 ? sizeof(bytes) : 5000};
		struct lend_op op = {.timeout = SECOND};

		if (lend_put(mem, &iov, 1, NULL, &op) < 0 || lend_op_wait(mem, &op) < 0)
			_exit(2);
		if (op.status == LEND_RESOURCE_EXHAUSTED || i == 8)
			(void)!write(fd, "x", 1);
	}
}

static void killed_in_mid_operation(const char *carrier, const char *more, unsigned ms)
{
	struct mem_node node;
	struct lend_mem_stat stat;
	int fds[2];
	pid_t pid;
	char c;

	mem_node_start(&node, carrier, "64M", more);
	mem_stat(node.mem, &stat);
	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		put_for_ever(node.address, fds[1]);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &c, 1), 1, "the client ended by itself");
	mem_stat(node.mem, &stat);
	cr_assert_gt(stat.pages_used, 0);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert(mem_pages_become(node.ep, node.mem, 0, ms));
	close(fds[0]);
	mem_node_stop(&node);
}

Test(mem_death, client_killed_shm)
{
	killed_in_mid_operation("shm", "", 1000);
}

Test(mem_death, client_killed_udp)
{
	killed_in_mid_operation("udp", "--lease 50", 8000);
}

static void node_killed(const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_op op = {.timeout = 5 * SECOND};
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;
	struct lend_ref ref;
	char out[4];
	lend_ns start;

	config.probe = SECOND / 50;
	config.dead = SECOND / 5;
	mem_node_start(&node, carrier, "16M", "");
	cr_assert_eq(lend_open(&config, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, node.address, &mem), 0);
	ref = mem_put(mem, "abc", 4, NULL);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	start = lend_now(ep);
	cr_assert_eq(mem_get(mem, &ref, 0, out, 4), LEND_UNAVAILABLE);
	cr_assert_lt(lend_now(ep) - start, 4 * SECOND);
	cr_assert_eq(mem_end(mem, &op, lend_put(mem, &(struct iovec){out, 4}, 1, NULL, &op)),
		     LEND_UNAVAILABLE);
	mem_client_close(ep, mem);
	mem_client_close(node.ep, node.mem);
}

Test(mem_death, node_killed_shm)
{
	node_killed("shm");
}

Test(mem_death, node_killed_udp)
{
	node_killed("udp");
}

/* The session ends while no operation is under way: the next one has to find out and go on. */
Test(mem_death, node_started_anew_behind_an_idle_client)
{
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_stats stats;
	struct mem_node node;

	mem_node_start(&node, "shm", "16M", "");
	(void)mem_put(node.mem, "abc", 4, NULL);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	mem_node_restart(&node, "16M");
	do {
		cr_assert_geq(lend_poll(node.ep), 0);
		lend_stats(node.ep, &stats);
	} while (stats.sessions);
	cr_assert_eq(mem_end(node.mem, &op, lend_put(node.mem, NULL, 0, NULL, &op)), LEND_OK,
		     "status %d", op.status);
	cr_assert_eq(mem_release(node.mem, &op.ref), LEND_OK);
	mem_node_stop(&node);
}

/* Who only reads has to find the new node behind the address that it knows, too. */
Test(mem_death, a_reader_outlives_its_node)
{
	struct lend_stats here, there;
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;
	struct lend_ref ref;
	char out[4];

	mem_node_start(&node, "shm", "16M", "");
	mem_client_open(&node, &ep, &mem);
	ref = mem_put(node.mem, "abc", 4, NULL);
	cr_assert_eq(mem_get(mem, &ref, 0, out, 4), LEND_OK);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	mem_node_restart(&node, "16M");
	do {
		cr_assert_geq(lend_poll(ep), 0);
		cr_assert_geq(lend_poll(node.ep), 0);
		lend_stats(ep, &here);
		lend_stats(node.ep, &there);
	} while (here.sessions || there.sessions);
	ref = mem_put(node.mem, "xyz", 4, NULL);
	cr_assert_eq(mem_get(mem, &ref, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "xyz");
	mem_client_close(ep, mem);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

Test(mem_death, node_started_anew)
{
	struct mem_node node;
	struct lend_ref ref, fresh;
	enum lend_status status;
	char out[4];

	mem_node_start(&node, "shm", "16M", "");
	ref = mem_put(node.mem, "abc", 4, NULL);
	kill(node.pid, SIGKILL);
	waitpid(node.pid, NULL, 0);
	mem_node_restart(&node, "16M");
	do /* the session has to notice first */
		status = mem_get(node.mem, &ref, 0, out, 4);
	while (status == LEND_UNAVAILABLE);
	cr_assert_eq(status, LEND_NOT_FOUND);
	fresh = mem_put(node.mem, "xyz", 4, NULL);
	cr_assert_eq(mem_get(node.mem, &ref, 0, out, 4), LEND_NOT_FOUND);
	cr_assert_eq(mem_get(node.mem, &fresh, 0, out, 4), LEND_OK);
	cr_assert_eq(mem_release(node.mem, &fresh), LEND_OK);
	mem_node_stop(&node);
}

/* A put that the node runs long after its caller gave up must leave nothing. */
static void forgotten(const char *carrier, size_t len)
{
	static char bytes[9 << 20];
	struct iovec iov = {bytes, len};
	struct mem_node node;

	mem_node_start(&node, carrier, "64M", "");
	for (int i = 0; i < 2; i++) {
		struct lend_ref ref = mem_put(node.mem, "abc", 4, NULL);
		struct lend_op put = {.timeout = SECOND / 20}, map = put, rel = put;
		struct lend_mem_stat stat;
		lend_space space;

		kill(node.pid, SIGSTOP);
		cr_assert_eq(mem_end(node.mem, &put, lend_put(node.mem, &iov, 1, NULL, &put)),
			     LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(put.ran, LEND_RAN_MAYBE);
		cr_assert_eq(mem_end(node.mem, &map, lend_space_map(node.mem, &ref, &space, &map)),
			     LEND_DEADLINE_EXCEEDED);
		cr_assert_eq(mem_end(node.mem, &rel, lend_release(node.mem, &ref, 1, &rel)),
			     LEND_DEADLINE_EXCEEDED);
		kill(node.pid, SIGCONT);
		cr_assert(mem_pages_become(node.ep, node.mem, 0, 8000), "%zu bytes on %s", len,
			  carrier);
		mem_stat(node.mem, &stat);
		cr_assert_eq(stat.spaces, 0);
	}
	mem_node_stop(&node);
}

Test(mem_death, forgotten_short_shm)
{
	forgotten("shm", 5000);
}

Test(mem_death, forgotten_long_shm)
{
	forgotten("shm", 9 << 20);
}

Test(mem_death, forgotten_short_udp)
{
	forgotten("udp", 5000);
}

Test(mem_death, forgotten_long_udp)
{
	forgotten("udp", 1 << 20);
}

static void cancelled(const char *carrier)
{
	static char bytes[9 << 20];
	const size_t len[] = {0, 4096, 1 << 20, sizeof(bytes)};
	struct mem_node node;

	mem_node_start(&node, carrier, "64M", "");
	for (int i = 0; i < 40; i++) {
		struct iovec iov = {bytes, len[i % 4]};
		struct lend_op op = {.timeout = 5 * SECOND, .done = count_done};

		done_runs = 0;
		cr_assert_eq(lend_put(node.mem, &iov, 1, NULL, &op), 0);
		for (int turns = i % 4 == 3 ? i * 40 : i / 4; turns > 0; turns--)
			lend_poll(node.ep);
		lend_op_cancel(node.mem, &op);
		cr_assert_eq(lend_op_wait(node.mem, &op), 0);
		cr_assert_eq(done_runs, 1);
		if (op.status == LEND_OK)
			cr_assert_eq(mem_release(node.mem, &op.ref), LEND_OK);
		else
			cr_assert_eq(op.status, LEND_CANCELLED);
	}
	cr_assert(mem_pages_become(node.ep, node.mem, 0, 5000));
	mem_node_stop(&node);
}

Test(mem_death, cancelled_shm)
{
	cancelled("shm");
}

Test(mem_death, cancelled_udp)
{
	cancelled("udp");
}

/* Long ones too, which are between two calls at times. */
Test(mem_death, closed_with_operations_under_way)
{
	static char bytes[17 << 20];
	struct iovec iov = {bytes, 0};
	struct lend_op op[20];
	struct mem_node node;
	struct lend_mem *mem;
	struct lend_ep *ep;

	mem_node_start(&node, "shm", "64M", "");
	mem_client_open(&node, &ep, &mem);
	done_runs = 0;
	for (int i = 0; i < 20; i++) {
		op[i] = (struct lend_op){.timeout = SECOND, .done = count_done};
		iov.iov_len = i % 5 ? 1 << 20 : sizeof(bytes);
		cr_assert_eq(lend_put(mem, &iov, 1, NULL, &op[i]), 0);
		lend_poll(ep);
	}
	mem_client_close(ep, mem);
	cr_assert_eq(done_runs, 20);
	mem_node_stop(&node);
}

/* The lease is a third of the time that the client's thread is away. */
Test(mem_death, a_busy_client_keeps_its_lease)
{
	struct mem_node node;
	struct lend_mem_stat stat;
	struct lend_ref ref;
	char out[4];

	mem_node_start(&node, "udp", "16M", "--lease 300");
	ref = mem_put(node.mem, "abc", 4, NULL);
	usleep(1000000); /* the client's thread is busy elsewhere */
	cr_assert_eq(mem_get(node.mem, &ref, 0, out, 4), LEND_OK);
	mem_stat(node.mem, &stat);
	cr_assert_eq(stat.leases_expired, 0);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

/* In the client: no assertion may run there. A busy machine may fence it once more, at any time. */
static enum lend_status child_put(struct lend_mem *mem, char byte, struct lend_ref *ref)
{
	struct lend_op op;
	int tries = 1000;

	do {
		op = (struct lend_op){.timeout = 5 * SECOND};
		if (lend_put(mem, &(struct iovec){&byte, 1}, 1, NULL, &op) < 0 ||
		    lend_op_wait(mem, &op) < 0)
			return LEND_INTERNAL;
	} while (op.status == LEND_ABORTED && tries--);
	*ref = op.ref;
	return op.status;
}

static enum lend_status child_get(struct lend_mem *mem, const struct lend_ref *ref, char *byte)
{
	struct lend_op op;
	int tries = 1000;

	do {
		op = (struct lend_op){.timeout = 5 * SECOND};
		if (lend_get(mem, ref, 0, &(struct iovec){byte, 1}, 1, &op) < 0 ||
		    lend_op_wait(mem, &op) < 0)
			return LEND_INTERNAL;
	} while ((op.status == LEND_ABORTED || op.status == LEND_UNAVAILABLE) && tries--);
	return op.status;
}

static int life_after_life(const char *address, int to_parent, int from_parent)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_mem *mem;
	struct lend_ep *ep;
	struct lend_ref old, new;
	enum lend_status status = LEND_INTERNAL;
	char c = 'x';

	if (lend_open(&config, &ep) < 0 || lend_mem_open(ep, address, &mem) < 0)
		return 1;
	if (child_put(mem, 'a', &old) || write(to_parent, &c, 1) != 1 ||
	    read(from_parent, &c, 1) != 1)
		return 2;
	if (child_get(mem, &old, &c) != LEND_NOT_FOUND)
		return 3;
	for (int i = 0; i < 100 && status; i++) { /* lives until it is fenced again */
		if (child_put(mem, 'x', &new))
			return 4;
		status = child_get(mem, &new, &c);
	}
	if (status || c != 'x')
		return 5;
	mem_client_close(ep, mem);
	return 0;
}

Test(mem_death, a_fenced_client_lives_on)
{
	int up[2], down[2], status;
	struct mem_node node;
	char c;
	pid_t pid;

	mem_node_start(&node, "udp", "16M", "--lease 50");
	cr_assert(pipe(up) == 0 && pipe(down) == 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(life_after_life(node.address, up[1], down[0]));
	}
	cr_assert_eq(read(up[0], &c, 1), 1);
	kill(pid, SIGSTOP);
	cr_assert(mem_pages_become(node.ep, node.mem, 0, 8000), "the lease did not end");
	cr_assert_eq(write(down[1], &c, 1), 1);
	kill(pid, SIGCONT);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
	mem_node_stop(&node);
}

Test(mem_death, two_nodes)
{
	struct mem_node one, two, same;
	struct lend_ref a, b;
	char out[4];

	mem_node_start(&one, "shm", "16M", "--id 7");
	mem_node_start(&two, "udp", "16M", "--id 8");
	mem_node_start(&same, "shm", "16M", "--id 7");
	a = mem_put(one.mem, "abc", 4, NULL);
	b = mem_put(two.mem, "xyz", 4, NULL);
	cr_assert_eq(lend_get(one.mem, &b, 0, NULL, 0, &(struct lend_op){.timeout = SECOND}),
		     -EHOSTUNREACH);
	cr_assert_eq(lend_mem_add(one.mem, two.address), 0, "%s", lend_why());
	cr_assert_eq(mem_get(one.mem, &b, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "xyz");
	cr_assert_eq(mem_get(one.mem, &a, 0, out, 4), LEND_OK);
	cr_assert_str_eq(out, "abc");
	cr_assert_eq(lend_mem_add(one.mem, same.address), -EEXIST);
	cr_assert(strstr(lend_why(), "--id"), "%s", lend_why());
	cr_assert_eq(lend_mem_add(one.mem, "shm:nobody-is-here"), -EHOSTUNREACH);
	cr_assert_eq(mem_release(two.mem, &b), LEND_OK);
	cr_assert_eq(mem_release(one.mem, &a), LEND_OK);
	mem_node_stop(&one); /* first: what it got is pinned until it acknowledges, or closes */
	mem_node_stop(&same);
	mem_node_stop(&two);
}
