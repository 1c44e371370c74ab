/* Goal: bad datagrams only increment a counter each: no log line, no exit, no lost work. A peer
 * that stops draining costs its caller no CPU time and no more time than its deadline. Method: a
 * plain UDP socket sends bytes to a serving endpoint with stderr in a file; then a stopped process
 * behind shm. Covers: src/core/input.c, src/io/udp/rx.c, src/rpc/loop.c */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"
#include "util/rng.h"

#define MS UINT64_C(1000000)

static uint64_t read_counter(struct lend_ep *ep, const char *which)
{
	const char *name, *meaning;
	uint64_t value, sum = 0;

	for (unsigned i = 0; lend_stats_each(ep, i, &name, &meaning, &value); i++)
		if (strstr(name, which))
			sum += value;
	return sum;
}

static void throw_at(const char *address, struct pair *pair)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct lend_rng rng;
	uint8_t data[200];

	to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	lend_rng_seed(&rng, 5);
	for (uint32_t i = 0; i < 2000; i++) {
		for (size_t b = 0; b < sizeof(data); b++)
			data[b] = (uint8_t)lend_rng_next(&rng);
		/* Lengths 0, 1, 2 .. first: these have stopped other systems. */
		cr_assert_geq(sendto(s, data, i % sizeof(data), 0, (void *)&to, sizeof(to)), 0);
		if (i % 50 == 0)
			pair_turns(pair, 10);
	}
	close(s);
	pair_turns(pair, 200);
}

Test(rpc_hostile, bad_datagrams__counted_without_a_log_line)
{
	char log[] = "/tmp/lend-stderr-XXXXXX";
	int fd = mkstemp(log), old = dup(2);
	struct ask ask = {0};
	struct pair pair;
	struct stat st;

	cr_assert_geq(fd, 0);
	pair_open(&pair, "udp");
	ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 100, 1));
	ask_give(pair.client, &ask);
	dup2(fd, 2);
	throw_at(pair.address, &pair);
	dup2(old, 2);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(st.st_size, 0, "%lld bytes of log", (long long)st.st_size);
	cr_assert_geq(read_counter(pair.server, "rx_corrupt"), 1000);
	ask = (struct ask){0};
	ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 50000, 2));
	cr_assert_eq(ask.call.status, LEND_OK);
	cr_assert(ask_same(ask.call.reply, 50000, 2));
	ask_give(pair.client, &ask);
	pair_close(&pair);
	unlink(log);
	close(fd);
	close(old);
}

static void serve_echo(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)bytes;
	lend_reply(arg, request, LEND_OK, NULL);
}

static pid_t serve_in_child(const char *address)
{
	int ready[2];
	char c;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct lend_ep *ep;

		config.listen = address;
		if (lend_open(&config, &ep) < 0 || lend_serve(ep, ECHO, serve_echo, ep, 0) < 0 ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		lend_run(ep, LEND_NEVER);
		_exit(0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static lend_ns cpu_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * 1000 * MS +
	       ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000;
}

Test(rpc_hostile, a_peer_that_stops_draining)
{
	enum { CALLS = 4, LEN = 4 << 20 };
	struct lend_config config = LEND_CONFIG_INIT;
	struct ask ask[CALLS] = {0};
	struct lend_ep *ep;
	lend_session session;
	char address[128];
	lend_ns busy, start;
	pid_t pid;

	pair_address(address, sizeof(address), "shm");
	pid = serve_in_child(address);
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, address, &session), 0, "%s", lend_why());
	ask[0].call.method = ECHO;
	cr_assert_eq(lend_call_sync(ep, session, &ask[0].call), 0, "%s", lend_why());
	cr_assert_eq(ask[0].call.status, LEND_OK);
	ask_give(ep, &ask[0]);
	kill(pid, SIGSTOP);
	for (int i = 0; i < CALLS; i++) {
		ask[i] = (struct ask){.call = {.method = ECHO, .timeout = 600 * MS}};
		ask[i].call.done = ask_done;
		ask[i].call.request = ask_bytes(ep, LEN, (uint32_t)i);
		cr_assert_eq(lend_call_start(ep, session, &ask[i].call), 0);
	}
	start = lend_now(ep);
	busy = cpu_time();
	while (!(ask[0].done && ask[1].done && ask[2].done && ask[3].done) &&
	       lend_now(ep) < start + 10000 * MS)
		cr_assert_geq(lend_wait(ep, lend_now(ep) + 100 * MS), 0);
	busy = cpu_time() - busy;
	for (int i = 0; i < CALLS; i++) {
		cr_assert(ask[i].done);
		cr_assert_eq(ask[i].call.status, LEND_DEADLINE_EXCEEDED);
	}
	cr_assert_lt(busy, 300 * MS, "%llu ms of processor while waiting 600 ms",
		     (unsigned long long)(busy / MS));
	kill(pid, SIGCONT);
	for (int i = 0; i < CALLS; i++)
		ask_give(ep, &ask[i]);
	ask[0] = (struct ask){.call = {.method = ECHO}};
	cr_assert_eq(lend_call_sync(ep, session, &ask[0].call), 0);
	cr_assert_eq(ask[0].call.status, LEND_OK);
	ask_give(ep, &ask[0]);
	lend_close(ep);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
