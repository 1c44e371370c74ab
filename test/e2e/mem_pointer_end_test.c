/* Goal: a thread that touches a page which cannot be fetched continues within a bound, without a
 * signal, and the space reports that it read zeros. A node that comes back in time is waited for.
 * Where the kernel or a fork forbids such memory, it returns an error, and nothing else breaks.
 * Method: lend-mn is stopped, killed or restarted while a thread waits for a page; a child forbids
 * itself userfaultfd by seccomp. Covers: cn/paging/page_fetch.c, cn/paging/pager.c,
 * cn/space_pointer.c, cn/space_view.c, src/sys/uffd.c */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/manager.h"
#include "e2e/mem_node.h"
#include "lend/stats.h"
#include "one_line_test.h"

enum { PAGE = 4096, LEN = 64 * PAGE };

struct view {
	struct mem_node node;
	struct lend_ref ref;
	lend_space space;
	char in[LEN], *p;
};

static void open_view(struct view *v)
{
	struct lend_op op = {.timeout = SECOND * 5};

	mem_fill(v->in, LEN, 1);
	v->ref = mem_put(v->node.mem, v->in, LEN, NULL);
	cr_assert_eq(
	    mem_end(v->node.mem, &op, lend_space_map(v->node.mem, &v->ref, &v->space, &op)),
	    LEND_OK);
	v->p = lend_space_pointer(v->node.mem, v->space);
	cr_assert(v->p, "%s", lend_why());
	cr_assert_eq(v->p[0], v->in[0]);
}

static uint64_t sent_bytes(struct view *v)
{
	struct lend_stats stats;

	lend_stats_get(v->node.ep, &stats);
	return stats.tx_bytes;
}

static enum lend_status seal_space(struct view *v)
{
	struct lend_op op = {.timeout = SECOND};

	return mem_end(v->node.mem, &op, lend_space_seal(v->node.mem, v->space, 0, LEN, NULL, &op));
}

static void make_view(struct view *v, const char *carrier)
{
	mem_node_start(&v->node, carrier, "64M", "");
	open_view(v);
}

struct touch {
	const char *at;
	char got;
};

static void *touch_page(void *arg)
{
	struct touch *t = arg;

	t->got = *(const volatile char *)t->at;
	return NULL;
}

static lend_ns touch_in_thread(struct view *v, size_t page, void (*meanwhile)(struct view *),
			       char *got)
{
	struct touch t = {.at = v->p + page * PAGE};
	struct lend_mem_cache_stat before, now;
	lend_ns since = lend_now(v->node.ep);
	pthread_t thread;

	lend_mem_cache_stat_get(&before);
	cr_assert_eq(pthread_create(&thread, NULL, touch_page, &t), 0);
	do
		lend_mem_cache_stat_get(&now);
	while (now.faults == before.faults);
	meanwhile(v);
	pthread_join(thread, NULL);
	*got = t.got;
	return lend_now(v->node.ep) - since;
}

static void expect_torn(struct view *v)
{
	cr_assert_eq(lend_space_intact(v->node.mem, v->space), -EIO);
	cr_assert(strstr(lend_why(), "zeros"), "%s", lend_why());
	cr_assert_eq(seal_space(v), LEND_DATA_LOSS);
	cr_assert_eq(v->p[0], v->in[0], "what is here stays");
	v->p[1] = 5;
	cr_assert_eq(v->p[1], 5);
	cr_assert_eq(v->p[50 * PAGE], 0, "and no thread waits again");
}

static void end_view(struct view *v)
{
	mem_client_close(v->node.ep, v->node.mem);
	kill(v->node.pid, SIGKILL);
	waitpid(v->node.pid, NULL, 0);
	free(v);
}

static void kill_node(struct view *v)
{
	kill(v->node.pid, SIGKILL);
}

static void leave_node(struct view *v)
{
	(void)v;
}

static void awake_soon(struct view *v)
{
	usleep(300000); /* the length of the pause itself */
	kill(v->node.pid, SIGCONT);
}

static void stopped_while_a_page_is_awaited(const char *carrier, void (*then)(struct view *))
{
	struct view *v = malloc(sizeof(*v));
	lend_ns took;
	char got;

	make_view(v, carrier);
	kill(v->node.pid, SIGSTOP);
	took = touch_in_thread(v, 9, then, &got);
	cr_assert_eq(got, 0);
	cr_assert(took > SECOND * 4 && took < SECOND * 8, "%llu ns", (unsigned long long)took);
	expect_torn(v);
	end_view(v);
}

TestRuns(mem_pointer_end, killed_while_a_page_is_awaited,
	 stopped_while_a_page_is_awaited("shm", kill_node));
TestRuns(mem_pointer_end, node_stopped_while_a_page_is_awaited,
	 stopped_while_a_page_is_awaited("udp", leave_node));

static void run_paused(const char *carrier)
{
	struct view *v = malloc(sizeof(*v));
	char got;

	make_view(v, carrier);
	kill(v->node.pid, SIGSTOP);
	cr_assert_gt(touch_in_thread(v, 9, awake_soon, &got), SECOND / 4);
	cr_assert_eq(got, v->in[9 * PAGE]);
	cr_assert(!memcmp(v->p, v->in, LEN));
	cr_assert_eq(lend_space_intact(v->node.mem, v->space), 0);
	cr_assert_eq(seal_space(v), LEND_OK);
	end_view(v);
}

TestRuns(mem_pointer_end, a_pause_is_waited_for_shm, run_paused("shm"));
TestRuns(mem_pointer_end, a_pause_is_waited_for_udp, run_paused("udp"));

/* A restarted node without the old memory is another node: that is detected at once. */
Test(mem_pointer_end, node_restarted)
{
	struct view *v = malloc(sizeof(*v));
	lend_ns since;

	make_view(v, "shm");
	mem_node_restart(&v->node, "64M");
	since = lend_now(v->node.ep);
	cr_assert_eq(v->p[9 * PAGE], 0);
	cr_assert_lt(lend_now(v->node.ep) - since, SECOND * 4);
	cr_assert_eq(lend_space_intact(v->node.mem, v->space), -EIO);
	end_view(v);
}

static struct manager manager;
static char manager_args[200];

static void start_again(struct view *v)
{
	(void)v;
	cr_assert(manager_start(&manager, manager_args));
}

/* A node that keeps its memory over a restart is the same node: a touch waits for it. */
Test(mem_pointer_end, node_that_kept_its_memory)
{
	struct view *v = malloc(sizeof(*v));
	struct lend_op op = {.timeout = SECOND * 5};
	char got, out[LEN];

	manager_open(&manager);
	snprintf(v->node.address, sizeof(v->node.address), "shm:ptr%d", (int)getpid());
	snprintf(manager_args, sizeof(manager_args), "--listen %s --size 64M --keep",
		 v->node.address);
	cr_assert(manager_start(&manager, manager_args));
	mem_client_open(&v->node, &v->node.ep, &v->node.mem);
	open_view(v);
	v->p[3 * PAGE] = v->in[3 * PAGE] = 3;
	cr_assert_eq(manager_end(&manager, SIGKILL), -SIGKILL);
	(void)touch_in_thread(v, 9, start_again, &got);
	cr_assert_eq(got, v->in[9 * PAGE]);
	cr_assert(!memcmp(v->p, v->in, LEN));
	cr_assert_eq(lend_space_intact(v->node.mem, v->space), 0);
	while (
	    mem_end(v->node.mem, &op, lend_space_seal(v->node.mem, v->space, 0, LEN, NULL, &op)) ==
	    LEND_UNAVAILABLE)
		op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(op.status, LEND_OK);
	cr_assert_eq(mem_get(v->node.mem, &op.ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(out, v->in, LEN));
	mem_client_close(v->node.ep, v->node.mem);
	cr_assert_eq(manager_end(&manager, SIGTERM), 0);
	manager_close(&manager);
	free(v);
}

/* Dirty pages of a failed seal are sent with the next one. */
Test(mem_pointer_end, seal__failed__next_one_sends_its_pages)
{
	struct view *v = malloc(sizeof(*v));
	struct lend_op op = {.timeout = SECOND / 5};
	uint64_t before;
	lend_ns since;
	char out[LEN];

	make_view(v, "udp");
	for (size_t i = 0; i < LEN; i += PAGE)
		v->p[i] = v->in[i] = 7;
	kill(v->node.pid, SIGSTOP);
	cr_assert_eq(
	    mem_end(v->node.mem, &op, lend_space_seal(v->node.mem, v->space, 0, LEN, NULL, &op)),
	    LEND_DEADLINE_EXCEEDED);
	op = (struct lend_op){.timeout = SECOND * 20};
	since = lend_now(v->node.ep);
	before = sent_bytes(v);
	cr_assert_eq(lend_space_seal(v->node.mem, v->space, 0, LEN, NULL, &op), 0);
	while (lend_now(v->node.ep) < since + SECOND / 10)
		lend_wait(v->node.ep, since + SECOND / 10);
	cr_assert_lt(sent_bytes(v) - before, PAGE, "it waits for the node's answer to the first");
	kill(v->node.pid, SIGCONT);
	while (mem_end(v->node.mem, &op, 0) == LEND_UNAVAILABLE) {
		op = (struct lend_op){.timeout = SECOND * 5};
		cr_assert_eq(lend_space_seal(v->node.mem, v->space, 0, LEN, NULL, &op), 0);
	}
	cr_assert_eq(op.status, LEND_OK);
	cr_assert_eq(mem_get(v->node.mem, &op.ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(out, v->in, LEN));
	end_view(v);
}

/* A prefetch returns a status where a touch would read zeros. */
Test(mem_pointer_end, prefetch__node_is_gone__returns_a_status)
{
	struct view *v = malloc(sizeof(*v));
	struct lend_op op = {.timeout = SECOND / 5};

	make_view(v, "shm");
	kill_node(v);
	cr_assert_neq(
	    mem_end(v->node.mem, &op, lend_space_prefetch(v->node.mem, v->space, 0, LEN, &op)),
	    LEND_OK);
	cr_assert_eq(lend_space_intact(v->node.mem, v->space), 0, "no byte was wrong");
	end_view(v);
}

Test(mem_pointer_end, a_child_has_no_such_memory)
{
	struct view *v = malloc(sizeof(*v));
	int status;
	pid_t pid;

	make_view(v, "shm");
	pid = fork();
	if (pid == 0) {
		int fds[2];
		bool none = pipe(fds) == 0 && write(fds[1], v->p, 1) < 0 && errno == EFAULT;

		lend_mem_close(v->node.mem); /* the parent's, which stays open */
		_exit(none ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_assert_eq(status, 0);
	cr_assert(!memcmp(v->p, v->in, LEN), "and the parent's is served on");
	end_view(v);
}

static void forbid_userfaultfd(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

/* Criterion runs each test in a process of its own. */
Test(mem_pointer_end, userfaultfd_refused)
{
	struct mem_node node;
	char in[3 * PAGE], out[sizeof(in)];
	struct iovec into = {out, sizeof(out)};
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref;
	lend_space space = {0};

	mem_node_start(&node, "shm", "64M", "");
	mem_fill(in, sizeof(in), 2);
	ref = mem_put(node.mem, in, sizeof(in), NULL);
	cr_assert_eq(mem_end(node.mem, &op, lend_space_map(node.mem, &ref, &space, &op)), LEND_OK);
	forbid_userfaultfd();
	for (int i = 0; i < 3; i++) {
		cr_assert_null(lend_space_pointer(node.mem, space));
		cr_assert(strstr(lend_why(), "userfaultfd") && strstr(lend_why(), "seccomp") &&
			      strstr(lend_why(), "lend_space_read"),
			  "%s", lend_why());
	}
	cr_assert_eq(lend_space_prefetch(node.mem, space, 0, 1, &op), -EINVAL);
	op = (struct lend_op){.timeout = SECOND * 5};
	cr_assert_eq(mem_end(node.mem, &op, lend_space_read(node.mem, space, 0, &into, 1, &op)),
		     LEND_OK);
	cr_assert(!memcmp(in, out, sizeof(in)));
	mem_node_kill(&node);
}

/* A pool needs userfaultfd only for dirty tracking: without it each seal also sends earlier stores
 * again. */
Test(mem_pointer_end, userfaultfd_refused_over_a_pool)
{
	struct view *v = malloc(sizeof(*v));
	char out[LEN];

	make_view(v, "pool");
	forbid_userfaultfd();
	for (int i = 0; i < 3; i++) {
		struct lend_op op = {.timeout = SECOND * 5};

		v->p[i * PAGE] = v->in[i * PAGE] = (char)i;
		cr_assert_eq(mem_end(v->node.mem, &op,
				     lend_space_seal(v->node.mem, v->space, 0, LEN, NULL, &op)),
			     LEND_OK);
		cr_assert_eq(mem_get(v->node.mem, &op.ref, 0, out, LEN), LEND_OK);
		cr_assert(!memcmp(out, v->in, LEN));
	}
	end_view(v);
}
