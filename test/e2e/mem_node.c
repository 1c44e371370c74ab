#include "e2e/mem_node.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "teardown.h"
#include "util/rng.h"

static char rundir[] = "/tmp/lend-mem-XXXXXX";

void memif_begin(void)
{
	cr_assert(mkdtemp(rundir));
	setenv("XDG_RUNTIME_DIR", rundir, 1);
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
}

bool memif_is_here(void)
{
	if (access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) == 0)
		return true;
	cr_skip_test("not on this machine: lend_io_dpdk.so was not built (libdpdk-dev)");
	return false;
}

bool given_is_here(void)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (getenv("LEND_TEST_LISTEN"))
		return true;
	cr_skip_test("no $LEND_TEST_LISTEN: scripts/conform.sh gives it");
	return false;
}

void memif_end(void)
{
	teardown_remove(rundir);
}

pid_t mem_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

pid_t mem_child_start(const struct mem_node *node, mem_child *run)
{
	int fds[2];
	pid_t pid;
	char c;

	cr_assert_eq(pipe(fds), 0);
	pid = mem_fork();
	if (pid == 0) {
		run(node->address, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &c, 1), 1, "the client ended by itself");
	close(fds[0]);
	return pid;
}

void mem_child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static void start_node(struct mem_node *node, const char *size, const char *more)
{
	char command[512], line[1024] = "";
	int fds[2];
	FILE *out;

	snprintf(command, sizeof(command), "exec '%s/lend-mn' --listen %s --size %s %s",
		 LEND_BUILD_DIR, node->listen, size, more);
	cr_assert_eq(pipe(fds), 0);
	node->pid = mem_fork();
	if (node->pid == 0) {
		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		if (getenv("LEND_TEST_EAL"))
			setenv("LEND_EAL", getenv("LEND_TEST_EAL"), 1);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	out = fdopen(fds[0], "r");
	cr_assert(fgets(line, sizeof(line), out), "lend-mn printed nothing: %s", command);
	cr_assert_eq(
	    sscanf(strstr(line, " at ") ? strstr(line, " at ") : "", " at %103s", node->address), 1,
	    "\"%s\"", line);
	node->out = dup(fds[0]);
	fclose(out);
}

void mem_client_open(struct mem_node *node, struct lend_ep **ep, struct lend_mem **mem)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.sessions = 512;
	cr_assert_eq(lend_open(&config, ep), 0, "%s", lend_why());
	cr_assert_eq(lend_mem_open(*ep, node->address, mem), 0, "%s", lend_why());
}

void mem_client_close(struct lend_ep *ep, struct lend_mem *mem)
{
	lend_mem_close(mem);
	lend_close(ep);
}

void mem_node_start(struct mem_node *node, const char *carrier, const char *size, const char *more)
{
	static atomic_uint count;

	memset(node, 0, sizeof(*node));
	if (strcmp(carrier, "given") == 0)
		snprintf(node->listen, sizeof(node->listen), "'%s'", getenv("LEND_TEST_LISTEN"));
	else if (strcmp(carrier, "udp") != 0 && strcmp(carrier, "dpdk") != 0)
		snprintf(node->listen, sizeof(node->listen), "%s:mem%d-%u", carrier, (int)getpid(),
			 count++);
	else
		snprintf(node->listen, sizeof(node->listen), "%s127.0.0.1:0",
			 carrier[0] == 'd' ? "dpdk:memif@" : "udp:");
	start_node(node, size, more);
	mem_client_open(node, &node->ep, &node->mem);
}

void mem_child_killed(mem_child *run, const char *carrier, const char *more, unsigned ms)
{
	struct lend_mem_stat stat;
	struct mem_node node;
	pid_t pid;

	mem_node_start(&node, carrier, "64M", more);
	pid = mem_child_start(&node, run);
	do /* its frames may be taken back if it was suspended for longer than its lease */
		mem_stat(node.mem, &stat);
	while (stat.pages_used == 0);
	mem_child_kill(pid);
	cr_assert(mem_pages_become(node.ep, node.mem, 0, ms));
	mem_node_stop(&node);
}

void mem_node_restart(struct mem_node *node, const char *size)
{
	kill(node->pid, SIGKILL);
	waitpid(node->pid, NULL, 0);
	close(node->out);
	start_node(node, size, "");
}

void mem_node_stop(struct mem_node *node)
{
	cr_assert(mem_pages_become(node->ep, node->mem, 0, 2000), "pages are left");
	mem_node_kill(node);
}

void mem_node_kill(struct mem_node *node)
{
	int status;

	mem_client_close(node->ep, node->mem);
	kill(node->pid, SIGTERM);
	cr_assert_eq(waitpid(node->pid, &status, 0), node->pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "lend-mn ended with %x", status);
}

uint64_t mem_node_report(struct mem_node *node, const char *name)
{
	unsigned long long value = 0;
	char report[8192], key[64];
	const char *at;
	ssize_t n;

	mem_node_stop(node);
	n = read(node->out, report, sizeof(report) - 1);
	cr_assert_gt(n, 0);
	report[n] = '\0';
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(report, key);
	cr_assert(at && sscanf(at + strlen(key), "%llu", &value) == 1, "%s: %s", name, report);
	return value;
}

enum lend_status mem_end(struct lend_mem *mem, struct lend_op *op, int rc)
{
	cr_assert_eq(rc, 0, "%s", lend_why());
	cr_assert_eq(lend_op_wait(mem, op), 0, "%s", lend_why());
	return op->status;
}

void mem_stat(struct lend_mem *mem, struct lend_mem_stat *stat)
{
	struct lend_op op;

	do /* with a lease of 50 ms, on a busy machine this client's lease may end */
		op = (struct lend_op){.timeout = 5000000000};
	while (mem_end(mem, &op, lend_mem_stat_get(mem, 0, stat, &op)) == LEND_ABORTED);
	cr_assert_eq(op.status, LEND_OK);
}

bool mem_pages_become(struct lend_ep *ep, struct lend_mem *mem, uint64_t pages, unsigned ms)
{
	lend_ns until = lend_now(ep) + ms * UINT64_C(1000000);
	struct lend_mem_stat stat;

	do {
		mem_stat(mem, &stat);
		if (stat.pages_used == pages && (pages || (!stat.spaces && !stat.refs)))
			return true;
	} while (lend_now(ep) < until);
	cr_log_error("%llu pages, %llu references, %llu spaces",
		     (unsigned long long)stat.pages_used, (unsigned long long)stat.refs,
		     (unsigned long long)stat.spaces);
	return false;
}

struct lend_ref mem_put(struct lend_mem *mem, const void *data, size_t len,
			const struct lend_terms *terms)
{
	struct iovec iov = {(void *)data, len};
	struct lend_op op = {.timeout = 10000000000};

	cr_assert_eq(lend_put_sync(mem, &iov, 1, terms, &op), 0, "%s", lend_why());
	return op.ref;
}

enum lend_status mem_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
			 void *into, size_t len)
{
	struct iovec iov = {into, len};
	struct lend_op op = {.timeout = 10000000000};

	return mem_end(mem, &op, lend_get(mem, ref, offset, &iov, 1, &op));
}

enum lend_status mem_release(struct lend_mem *mem, const struct lend_ref *ref)
{
	struct lend_op op = {.timeout = 5000000000};

	return mem_end(mem, &op, lend_release(mem, ref, 1, &op));
}

enum lend_status mem_adopt(struct lend_mem *mem, const struct lend_ref *ref)
{
	struct lend_op op = {.timeout = 5000000000};

	return mem_end(mem, &op, lend_adopt(mem, ref, &op));
}

lend_space mem_map(struct lend_mem *mem, const struct lend_ref *ref)
{
	lend_space space = {0};

	cr_assert_eq(lend_space_map_sync(mem, ref, &space, NULL), 0, "%s", lend_why());
	return space;
}

lend_space mem_alloc(struct lend_mem *mem, uint64_t len)
{
	lend_space space = {0};

	cr_assert_eq(lend_space_alloc_sync(mem, len, &space, NULL), 0, "%s", lend_why());
	return space;
}

void mem_free_space(struct lend_mem *mem, lend_space space)
{
	cr_assert_eq(lend_space_free_sync(mem, space, NULL), 0, "%s", lend_why());
}

void mem_fill(void *data, size_t len, uint64_t seed)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = lend_rng_next(&rng);

		memcpy((char *)data + i, &word, len - i < 8 ? len - i : 8);
	}
}
