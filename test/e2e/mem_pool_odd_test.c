/* Goal: a pool that cannot be mapped is reported in one line with a remedy, and explicit reads
 * still work. Method: a socket that plays a faulty pool at a node's name: another release, a
 * truncated file, garbage, a refusal, no answer. Covers: cn/pool/pool_client.c,
 * cn/pool/pool_window.c, mn/pool_server.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/mem_node.h"
#include "sys/fd_passing.h"

enum { PAGE = 4096, LEN = 1 << 20 };

static char in[LEN];

/* Answers as another release would, or with a truncated file. */
static void play_server(struct mem_node *node, const struct lend_fd_message *msg, size_t file_len,
			const char *want)
{
	char address[128];
	struct lend_unix_listener listener;
	int sock, file = memfd_create("short", MFD_CLOEXEC);
	struct lend_fd_message out = *msg;
	struct lend_ref ref;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_space space;
	pid_t pid;

	cr_assert_eq(ftruncate(file, (off_t)file_len), 0);
	cr_assert_eq(lend_fd_passing_listen(node->address + 4, &listener), 0, "%s", lend_why());
	pid = mem_fork();
	if (pid == 0) {
		struct iovec iov = {&out, sizeof(out)};
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

		while ((sock = accept(listener.fd, NULL, NULL)) < 0)
			usleep(1000);
		if (out.version == LEND_FD_PASSING_VERSION)
			(void)lend_fd_passing_send(sock, &out, out.status ? -1 : file);
		else
			(void)sendmsg(sock, &m, 0);
		(void)!read(sock, &sock, 1);
		_exit(0);
	}
	snprintf(address, sizeof(address), "pool:%s", node->address + 4);
	cr_assert_eq(lend_open(&(struct lend_config)LEND_CONFIG_INIT, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, address, &mem), 0);
	ref = mem_put(mem, in, LEN, NULL);
	space = mem_map(mem, &ref);
	cr_assert_null(lend_space_pointer(mem, space));
	cr_assert(strstr(lend_why(), want), "%s", lend_why());
	cr_assert_null(strchr(lend_why(), '\n'));
	cr_assert_eq(mem_get(mem, &ref, 0, in, LEN), LEND_OK, "explicit reads go on");
	mem_free_space(mem, space);
	mem_client_close(ep, mem);
	lend_unix_listener_close(&listener);
	close(file);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(mem_pool_odd, no_pool_that_we_know)
{
	struct lend_fd_message fine = {.magic = "LPOL",
				       .version = LEND_FD_PASSING_VERSION,
				       .page = PAGE,
				       .size = 4 * PAGE,
				       .key = 1};
	struct lend_fd_message other = fine, odd = fine, full = fine, garbage = fine;
	struct mem_node node;

	other.version++;
	odd.page = 1000;
	full.status = ENOSPC;
	garbage.version = 0;
	memset(garbage.magic, 0, 4);
	mem_node_start(&node, "shm", "16M", "");
	play_server(&node, &fine, 3 * PAGE, "restart the node");
	play_server(&node, &other, 4 * PAGE, "install the same release on both");
	play_server(&node, &odd, 4 * PAGE, "install the same release on both");
	play_server(&node, &full, 4 * PAGE, "--clients");
	play_server(&node, &garbage, 4 * PAGE, "not a memory node");
	mem_node_stop(&node);
}

Test(mem_pool_odd, a_node_that_is_none)
{
	struct mem_node node;
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct lend_ref ref;
	lend_space space;
	char address[128];

	mem_node_start(&node, "shm", "16M", "");
	snprintf(address, sizeof(address), "pool:%s", node.address + 4);
	cr_assert_eq(lend_open(&(struct lend_config)LEND_CONFIG_INIT, &ep), 0);
	cr_assert_eq(lend_mem_open(ep, address, &mem), 0);
	ref = mem_put(mem, in, LEN, NULL);
	space = mem_map(mem, &ref);
	cr_assert_null(lend_space_pointer(mem, space));
	cr_assert(strstr(lend_why(), "--listen pool:"), "%s", lend_why());
	mem_client_close(ep, mem);
	mem_node_stop(&node);
}

/* Connects as one more process. Returns the socket, or -errno. */
static int map_pool(const char *name)
{
	struct lend_fd_message msg;
	int sock, file, rc = lend_fd_passing_receive(name, &msg, &sock, &file);

	if (rc < 0)
		return rc;
	close(file);
	return sock;
}

Test(mem_pool_odd, a_full_table_is_answered__and_strangers_that_send_are_dropped)
{
	enum { CLIENTS = 2 };
	struct timeval limit = {.tv_sec = 5};
	struct mem_node node;
	int sock[CLIENTS + 1], n = 0;
	char byte = 1;

	mem_node_start(&node, "pool", "16M", "--clients 2");
	while (n <= CLIENTS && (sock[n] = map_pool(node.address + 5)) >= 0)
		n++;
	cr_assert_lt(n, CLIENTS + 1, "%d processes have room", n);
	cr_assert_gt(n, 0);
	cr_assert_eq(sock[n], -ENOSPC, "%s", lend_why());
	cr_assert(strstr(lend_why(), "--clients"), "%s", lend_why());
	cr_assert_eq(write(sock[0], &byte, 1), 1);
	setsockopt(sock[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	cr_assert_leq(read(sock[0], &byte, 1), 0);
	cr_assert_neq(errno, EAGAIN, "the node keeps a process that sends");
	close(sock[0]);
	sock[0] = map_pool(node.address + 5);
	cr_assert_geq(sock[0], 0, "its place is free again: %s", lend_why());
	while (n > 0)
		close(sock[--n]);
	mem_node_stop(&node);
}

/* Huge pages are not mapped by 4 KiB: spaces of such a pool are paged as over a network. */
Test(mem_pool_odd, on_huge_pages)
{
	enum { HUGE = 32 << 20 };
	int file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	void *room = file < 0 || ftruncate(file, HUGE) < 0
			 ? MAP_FAILED
			 : mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	struct mem_node node;
	struct lend_op op = {.timeout = 5 * SECOND};
	struct lend_ref ref;
	lend_space space;
	char *p, *out = malloc(LEN);

	if (file >= 0)
		close(file);
	if (room == MAP_FAILED)
		cr_skip_test("no huge pages: sysctl vm.nr_hugepages=32");
	munmap(room, HUGE);
	mem_fill(in, LEN, 8);
	mem_node_start(&node, "pool", "16M", "--memory huge");
	ref = mem_put(node.mem, in, LEN, NULL);
	space = mem_map(node.mem, &ref);
	p = lend_space_pointer(node.mem, space);
	cr_assert(p, "%s", lend_why());
	cr_assert(!memcmp(p, in, LEN));
	p[5 * PAGE] = in[5 * PAGE] = 9;
	cr_assert_eq(mem_end(node.mem, &op, lend_space_seal(node.mem, space, 0, LEN, NULL, &op)),
		     LEND_OK);
	cr_assert_eq(mem_get(node.mem, &op.ref, 0, out, LEN), LEND_OK);
	cr_assert(!memcmp(out, in, LEN));
	cr_assert_eq(mem_release(node.mem, &op.ref), LEND_OK);
	cr_assert_eq(mem_release(node.mem, &ref), LEND_OK);
	mem_free_space(node.mem, space);
	free(out);
	mem_node_stop(&node);
}
