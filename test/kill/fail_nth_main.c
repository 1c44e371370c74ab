/* Goal: whatever the system refuses, a function fails with a typed error and an error text with a
 * remedy, nothing is leaked, and the same operation works afterwards. Method: the n-th call of each
 * function of the C library fails, for every n in a history of opening, connecting, calling, memory
 * operations and closing, on shm and on udp, with a memory node in the server; then the same
 * history without a failure. Covers: src/sys/last_error.c, src/rpc/endpoint.c, src/rpc/carrier.c,
 * src/rpc/session.c, src/io/shm/carrier.c, src/io/shm/rendezvous.c, src/io/shm/handshake.c,
 * src/io/udp/sock.c, src/io/udp/carrier.c, src/sys/unix_listener.c, src/sys/fd_passing.c,
 * cn/client.c, mn/lend_mn.c, mn/node_server.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill/fail_nth_world.h"

static uint32_t runs, bad;

static void complain(const struct nth_world *w, const char *what)
{
	if (bad++ < 20)
		printf("%s: %s\n", what, w->why);
}

/* Runs one history with a failure in it. */
static void run(const char *scheme, enum nth which, uint32_t n, uint32_t streak)
{
	struct nth_world w = {.scheme = scheme, .lstat_failed = which == NTH_lstat};
	char what[128];

	(void)snprintf(what, sizeof(what), "%s, call %u of %s%s", scheme, n, nth_name[which],
		       streak > 1 ? " and the following ones" : "");
	runs++;
	nth_arm(which, n, streak);
	nth_world_run(&w);
	nth_arm(NTH_malloc, 0, 0);
	nth_world_leaks(&w);
	if (w.why[0])
		complain(&w, what);
	w = (struct nth_world){.scheme = scheme, .strict = true};
	nth_world_run(&w);
	nth_world_leaks(&w);
	if (w.why[0])
		complain(&w, what);
}

static void run_all(const char *scheme, uint32_t cap)
{
	struct nth_world w = {.scheme = scheme, .strict = true};
	uint32_t calls[NTH_COUNT];

	nth_world_run(&w); /* allocations that happen once and stay */
	nth_world_base();
	nth_arm(0, 0, 0);
	nth_world_run(&w);
	nth_world_leaks(&w);
	if (w.why[0])
		complain(&w, scheme);
	for (int f = 0; f < NTH_COUNT; f++)
		calls[f] = nth_calls((enum nth)f);
	for (int f = 0; f < NTH_COUNT; f++) {
		uint32_t some = f < NTH_lend_buf_take ? cap : 5 * cap; /* own functions: all */
		uint32_t most = calls[f] < some ? calls[f] : some;

		for (uint32_t n = 1; n <= most; n++) {
			run(scheme, (enum nth)f, n, 1);
			if (n % 4 == 1)
				run(scheme, (enum nth)f, n, 16);
			if (n == 3 ||
			    (n % 4 == 3 && f >= NTH_malloc)) /* more of them would wait for long */
				run(scheme, (enum nth)f, n, NTH_FOR_GOOD);
		}
	}
}

int main(int argc, char **argv)
{
	uint32_t cap = argc > 1 ? (uint32_t)atoi(argv[1]) : 8;
	char folder[] = "/tmp/lend-nth-XXXXXX", path[64];

	if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1))
		return 2;
	run_all("shm", cap);
	run_all("udp", cap);
	nth_start_all(&runs, &bad);
	(void)snprintf(path, sizeof(path), "%s/lend/.lock", folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/lend", folder);
	if (rmdir(path) || rmdir(folder)) {
		printf("files are left in %s\n", folder);
		bad++;
	}
	printf("%u histories with a failure, %u violations\n", runs, bad);
	return bad != 0;
}
