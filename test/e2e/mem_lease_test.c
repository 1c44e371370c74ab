/* Goal: the lease of a client that is gone ends, that of a busy one does not. After its lease
 * ended, a client starts a new life, and every read returns the bytes that its reference names.
 * Method: clients with a thread that is away for longer than the lease, and one that is stopped
 * until its pages are free. Covers: cn/lease_renew.c, cn/life.c, mn/store/lease.c */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"

/* The lease is a third of the time for which the client's thread is away. Over a carrier that is
 * given, perhaps in a guest where time is emulated, both are longer: the renewals open a session
 * first. After 5 s away the client's own session has ended over some carriers: the first read may
 * find that out, and the next one opens another session in the same life. */
static void a_busy_client_keeps_its_lease(const char *carrier)
{
	bool slow = strcmp(carrier, "given") == 0;
	enum lend_status status;
	struct mem_node node;
	struct lend_mem_stat stat;
	struct lend_ref ref;
	char out[4];

	mem_node_start(&node, carrier, "16M", slow ? "--lease 3000" : "--lease 300");
	ref = mem_put(node.mem, "abc", 4, NULL);
	usleep(slow ? 8000000 : 1000000); /* the client's thread is busy elsewhere */
	status = mem_get(node.mem, &ref, 0, out, 4);
	if (slow && status == LEND_UNAVAILABLE)
		status = mem_get(node.mem, &ref, 0, out, 4);
	cr_assert_eq(status, LEND_OK, "%d", status);
	mem_stat(node.mem, &stat);
	cr_assert_eq(stat.leases_expired, 0);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}
OVER_EACH(mem_lease, a_busy_client_keeps_its_lease)

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A third of this lease is longer than an endpoint needs to open, so the renewing thread has none
 * at first. */
Test(mem_lease, a_long_lease_is_renewed_by_a_late_endpoint)
{
	struct mem_node node;
	struct lend_mem_stat stat;
	struct lend_ref ref;
	unsigned before;
	char out[4];

	mem_node_start(&node, "udp", "16M", "--lease 3600");
	ref = mem_put(node.mem, "abc", 4, NULL);
	before = count_descriptors();
	usleep(100000);
	cr_assert_eq(count_descriptors(), before, "an endpoint was opened at once");
	usleep(4500000);
	cr_assert_gt(count_descriptors(), before);
	cr_assert_eq(mem_get(node.mem, &ref, 0, out, 4), LEND_OK);
	mem_stat(node.mem, &stat);
	cr_assert_eq(stat.leases_expired, 0);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

/* In the client, where no assertion may run. On a busy machine its lease may end again at any
 * time. */
static enum lend_status child_put(struct lend_mem *mem, char byte, struct lend_ref *ref)
{
	struct lend_op op;
	int tries = 1000;

	do {
		op = (struct lend_op){.timeout = 5 * SECOND};
		if (lend_put_sync(mem, &(struct iovec){&byte, 1}, 1, NULL, &op) < 0)
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
		if (lend_get_sync(mem, ref, 0, &(struct iovec){byte, 1}, 1, &op) < 0)
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
	for (int i = 0; i < 100 && status; i++) { /* lives until its lease ends again */
		if (child_put(mem, 'x', &new))
			return 4;
		status = child_get(mem, &new, &c);
	}
	if (status || c != 'x')
		return 5;
	mem_client_close(ep, mem);
	return 0;
}

Test(mem_lease, a_fenced_client_lives_on)
{
	int up[2], down[2], status;
	struct mem_node node;
	char c;
	pid_t pid;

	mem_node_start(&node, "udp", "16M", "--lease 50");
	cr_assert(pipe(up) == 0 && pipe(down) == 0);
	pid = mem_fork();
	if (pid == 0) {
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
