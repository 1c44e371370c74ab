/* Goal: a pool's pages are shared with all processes that map them, changed only by the node, and
 * reused only after each of these has unmapped them or died. Method: other processes by fork before
 * anything is opened; a child that is killed or stopped in the middle of its stores; and the node's
 * counters. Covers: cn/pool/pool_view.c, cn/pool/pool_client.c, cn/pool/pool_window.c,
 * mn/pool_server.c, mn/store/pinned_map.c */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"

enum { PAGE = 4096, LEN = 1 << 20 };

static char in[LEN];

static const struct lend_terms shared = {sizeof(shared), LEND_SHARED, 0, 60 * SECOND, 0};

/* A child's action on a reference once it has mapped it: writes a byte to out, and continues. */
typedef void act(char *p, int out, int in_fd);

static void send_byte(int fd)
{
	(void)!write(fd, "x", 1);
}

static void await_byte(int fd)
{
	char byte;

	cr_assert_eq(read(fd, &byte, 1), 1, "the other process ended");
}

struct child {
	pid_t pid;
	int to, from;
};

/* Before any endpoint is opened here: the text of the reference comes later. */
static struct child start_child(act *doing)
{
	int down[2], up[2];
	struct child c;

	cr_assert_eq(pipe(down), 0);
	cr_assert_eq(pipe(up), 0);
	c.pid = mem_fork();
	if (c.pid == 0) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct lend_ep *ep;
		struct lend_mem *mem;
		struct lend_ref ref;
		lend_space space;
		char text[512] = "";

		close(down[1]);
		close(up[0]);
		if (read(down[0], text, sizeof(text)) <= 0 || lend_open(&config, &ep) < 0 ||
		    lend_mem_open(ep, NULL, &mem) < 0 || lend_ref_parse(mem, text, &ref) < 0)
			_exit(1);
		space = mem_map(mem, &ref);
		doing(lend_space_pointer(mem, space), up[1], down[0]);
		mem_client_close(ep, mem);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	c.to = down[1];
	c.from = up[0];
	return c;
}

static void give_ref(struct mem_node *node, const struct child *c, const struct lend_ref *ref)
{
	char text[512] = "";

	cr_assert_eq(lend_ref_text(node->mem, ref, text, sizeof(text)), 0, "%s", lend_why());
	cr_assert(strstr(text, "@pool:"), "%s", text);
	cr_assert_gt(write(c->to, text, sizeof(text)), 0);
}

static void end_child(const struct child *c, int want)
{
	int status;

	close(c->to);
	close(c->from);
	cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
	cr_assert_eq(status, want);
}

/* Reads all, and stores to every third page. */
static void reads_and_stores(char *p, int out, int in_fd)
{
	if (!p || memcmp(p, in, LEN) != 0)
		_exit(2);
	for (size_t i = 0; i < LEN; i += 3 * PAGE)
		p[i] = (char)~p[i];
	send_byte(out);
	await_byte(in_fd);
	for (size_t i = 0; i < LEN; i += PAGE)
		if (p[i] != (i % (3 * PAGE) ? in[i] : (char)~in[i]))
			_exit(3);
}

Test(mem_pool, many_processes_and_one_snapshot)
{
	struct child c[4];
	struct mem_node node;
	struct lend_mem_stat before, during;
	struct lend_ref ref;
	lend_space mine;

	mem_fill(in, LEN, 1);
	for (int i = 0; i < 4; i++)
		c[i] = start_child(reads_and_stores);
	mem_node_start(&node, "pool", "16M", "");
	ref = mem_put(node.mem, in, LEN, &shared);
	mine = mem_map(node.mem, &ref);
	mem_stat(node.mem, &before);
	for (int i = 0; i < 4; i++)
		give_ref(&node, &c[i], &ref);
	for (int i = 0; i < 4; i++)
		await_byte(c[i].from);
	mem_stat(node.mem, &during);
	cr_assert_eq(during.pages_used, before.pages_used, "their copies are their own");
	cr_assert(!memcmp(lend_space_pointer(node.mem, mine), in, LEN),
		  "no other store is visible");
	for (int i = 0; i < 4; i++)
		send_byte(c[i].to);
	for (int i = 0; i < 4; i++)
		end_child(&c[i], 0);
	mem_free_space(node.mem, mine);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_kill(&node);
}

/* Stores for ever. */
static void store_forever(char *p, int out, int in_fd)
{
	(void)in_fd;
	send_byte(out);
	for (unsigned n = 1;; n++)
		for (size_t i = 0; i < LEN; i += 64)
			p[i] = (char)(n + i);
}

Test(mem_pool, killed_in_the_middle_of_a_store)
{
	for (int i = 0; i < 8; i++) {
		struct child c = start_child(store_forever);
		struct mem_node node;
		struct lend_ref ref;
		char *out = malloc(LEN);

		mem_fill(in, LEN, 2);
		mem_node_start(&node, "pool", "16M", "");
		ref = mem_put(node.mem, in, LEN, &shared);
		give_ref(&node, &c, &ref);
		await_byte(c.from);
		kill(c.pid, SIGKILL);
		end_child(&c, SIGKILL);
		cr_assert_eq(mem_get(node.mem, &ref, 0, out, LEN), LEND_OK);
		cr_assert(!memcmp(out, in, LEN), "a store reached the snapshot");
		cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
		free(out);
		kill(node.pid, SIGCONT);
		mem_node_kill(&node);
	}
}

/* Waits until it is notified, and then must still see what it mapped. */
static void looks_again(char *p, int out, int in_fd)
{
	if (!p || memcmp(p, in, PAGE) != 0)
		_exit(2);
	send_byte(out);
	await_byte(in_fd);
	if (memcmp(p, in, LEN) != 0)
		_exit(3);
	send_byte(out);
	await_byte(in_fd);
}

/* Its lease ends while it is stopped; its pages are still mapped, so they must not be reused. */
Test(mem_pool, frames__lease_ended__kept_while_mapped)
{
	struct lend_terms brief = {sizeof(brief), LEND_SHARED, 0, SECOND / 2, 0};
	struct lend_mem_stat stat;
	struct child c;
	struct mem_node node;
	struct lend_ref ref, other[3];
	char *noise = malloc(LEN);

	mem_fill(in, LEN, 3);
	c = start_child(looks_again);
	mem_fill(noise, LEN, 4);
	mem_node_start(&node, "pool", "4M", "--lease 300");
	ref = mem_put(node.mem, in, LEN, &brief);
	give_ref(&node, &c, &ref);
	await_byte(c.from);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	kill(c.pid, SIGSTOP);
	do {
		cr_assert_geq(lend_wait(node.ep, lend_now(node.ep) + SECOND / 50), 0);
		mem_stat(node.mem, &stat);
	} while (stat.leases_expired == 0 || stat.refs > 0);
	cr_assert_eq(stat.spaces, 0, "its lease has ended");
	cr_assert_geq(stat.pages_used, LEN / PAGE, "its pages are kept");
	for (int i = 0; i < 3; i++) { /* uses all free pages */
		struct lend_op op = {.timeout = 5 * SECOND};
		struct iovec iov = {noise, LEN - (i == 2 ? 2 * PAGE : 0)};

		cr_assert_eq(mem_end(node.mem, &op, lend_put(node.mem, &iov, 1, NULL, &op)),
			     LEND_OK);
		other[i] = op.ref;
	}
	kill(c.pid, SIGCONT);
	send_byte(c.to);
	await_byte(c.from);
	send_byte(c.to);
	end_child(&c, 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(mem_release(node.mem, &other[i]), LEND_OK);
	cr_assert(mem_pages_become(node.ep, node.mem, 0, 2000), "pages are left");
	free(noise);
	mem_node_kill(&node);
}

/* The node is gone, and another has its name: the mapping shows the old bytes. */
Test(mem_pool, a_view_outlives_its_node)
{
	struct mem_node node;
	struct lend_ref ref, anew;
	lend_space space, other;
	const char *p;
	enum lend_status status;

	mem_fill(in, LEN, 5);
	mem_node_start(&node, "pool", "16M", "");
	ref = mem_put(node.mem, in, LEN, NULL);
	space = mem_map(node.mem, &ref);
	p = lend_space_pointer(node.mem, space);
	cr_assert(p, "%s", lend_why());
	mem_node_restart(&node, "16M");
	do
		status = mem_get(node.mem, &ref, 0, in, 0);
	while (status == LEND_UNAVAILABLE);
	cr_assert_eq(status, LEND_NOT_FOUND);
	mem_fill(in, LEN, 6);
	anew = mem_put(node.mem, in, LEN, NULL);
	other = mem_map(node.mem, &anew);
	cr_assert(!memcmp(lend_space_pointer(node.mem, other), in, LEN), "%s", lend_why());
	mem_fill(in, LEN, 5);
	cr_assert(!memcmp(p, in, LEN));
	mem_free_space(node.mem, space);
	mem_free_space(node.mem, other);
	cr_assert_eq(mem_release(node.mem, &anew), LEND_OK);
	mem_node_stop(&node);
}

/* More runs than a view has room for: the space is paged as over a network; the bytes are the
 * same. */
Test(mem_pool, a_space_in_many_pieces)
{
	struct mem_node node;
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_mem_cache_stat before, after;
	struct lend_ref ref;
	lend_space space = {0}, view;
	char *p;

	mem_fill(in, LEN, 7);
	mem_node_start(&node, "pool", "16M", "");
	cr_assert_eq(mem_end(node.mem, &op, lend_space_alloc(node.mem, LEN, &space, &op)), LEND_OK);
	for (size_t i = 0; i < LEN; i += 2 * PAGE) {
		struct iovec iov = {in + i, PAGE};

		cr_assert_eq(
		    mem_end(node.mem, &op, lend_space_write(node.mem, space, i, &iov, 1, &op)),
		    LEND_OK);
	}
	cr_assert_eq(mem_end(node.mem, &op, lend_space_seal(node.mem, space, 0, LEN, NULL, &op)),
		     LEND_OK);
	ref = op.ref;
	view = mem_map(node.mem, &ref);
	lend_mem_cache_stat_get(&before);
	p = lend_space_pointer(node.mem, view);
	lend_mem_cache_stat_get(&after);
	cr_assert_eq(after.pool_fetched, before.pool_fetched + (p != NULL));
	cr_assert_eq(after.pool_views, before.pool_views);
	for (size_t i = 0; p && i < LEN; i++)
		cr_assert_eq(p[i], i / PAGE % 2 ? 0 : in[i], "byte %zu", i);
	mem_free_space(node.mem, view);
	mem_free_space(node.mem, space);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_node_stop(&node);
}

struct mapping {
	struct lend_op op;
	struct lend_mem *mem;
	lend_space space;
	const char *p;
};

static void take_pointer(struct lend_op *op)
{
	struct mapping *m = (struct mapping *)(void *)op;

	if (op->status == LEND_OK)
		m->p = lend_space_pointer(m->mem, m->space);
}

/* Inside a turn no call can be made for a pointer: all frames, holes too, are known before done. */
Test(mem_pool, a_long_pointer_inside_a_turn)
{
	enum { LONG = 64 << 20, HOLE = 300 << 20 };
	struct mem_node node;
	struct lend_mem_cache_stat before, after;
	struct mapping m = {.op = {.done = take_pointer, .timeout = 10 * SECOND}};
	struct lend_op op = {.timeout = 10 * SECOND};
	char *bytes = malloc(LONG);
	struct iovec iov = {bytes, LONG};
	struct lend_ref ref;
	lend_space space;

	mem_fill(bytes, LONG, 8);
	mem_node_start(&node, "pool", "128M", "");
	space = mem_alloc(node.mem, HOLE + LONG);
	cr_assert_eq(mem_end(node.mem, &op, lend_space_write(node.mem, space, HOLE, &iov, 1, &op)),
		     LEND_OK);
	cr_assert_eq(
	    mem_end(node.mem, &op, lend_space_seal(node.mem, space, 0, HOLE + LONG, NULL, &op)),
	    LEND_OK);
	ref = op.ref;
	lend_mem_cache_stat_get(&before);
	m.mem = node.mem;
	cr_assert_eq(mem_end(node.mem, &m.op, lend_space_map(node.mem, &ref, &m.space, &m.op)),
		     LEND_OK);
	lend_mem_cache_stat_get(&after);
	cr_assert(m.p, "%s", lend_why());
	cr_assert_eq(after.pool_views, before.pool_views + 1);
	cr_assert_eq(after.pool_fetched, before.pool_fetched);
	cr_assert_eq(m.p[HOLE / 2], 0);
	cr_assert(!memcmp(m.p + HOLE, bytes, LONG));
	mem_free_space(node.mem, m.space);
	mem_free_space(node.mem, space);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	free(bytes);
	mem_node_stop(&node);
}

/* A map that is cancelled at any point leaves no space behind. */
Test(mem_pool, a_long_map_that_is_cancelled)
{
	enum { LONG = 32 << 20 };
	struct mem_node node;
	char *bytes = malloc(LONG);
	struct lend_ref ref;
	unsigned cancelled = 0;
	enum lend_status status;

	mem_fill(bytes, LONG, 9);
	mem_node_start(&node, "pool", "64M", "");
	ref = mem_put(node.mem, bytes, LONG, NULL);
	for (int i = 0; i < 200; i++) {
		struct lend_op op = {.timeout = 10 * SECOND};
		lend_space space = {0};

		cr_assert_eq(lend_space_map(node.mem, &ref, &space, &op), 0);
		for (int k = 0; k < i; k++)
			(void)lend_poll(node.ep);
		lend_op_cancel(node.mem, &op);
		cr_assert_eq(lend_op_wait(node.mem, &op), 0);
		if (op.status == LEND_OK)
			mem_free_space(node.mem, space);
		cancelled += op.status != LEND_OK;
	}
	cr_assert_gt(cancelled, 0);
	/* A cancelled call keeps its slot until the node confirms that it ended. */
	do
		status = mem_release(node.mem, &ref);
	while (status == LEND_RESOURCE_EXHAUSTED && lend_poll(node.ep) >= 0);
	cr_assert_eq(status, LEND_OK);
	free(bytes);
	mem_node_stop(&node);
}
