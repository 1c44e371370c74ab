/* Goal: the death of a server's process is noticed, and a fork's child does not affect the
 * endpoint. Method: real processes; every wait is bounded. Covers: src/rpc/session.c,
 * src/io/shm/peers.c, src/rpc/endpoint.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_server.h"

/* A server in a process of its own; the pipe carries its address. */
static pid_t server_process(const char *scheme, char *address, size_t cap)
{
	int ends[2];
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct server s = {.scheme = scheme};

		pair_address(address, cap, scheme);
		config.listen = address;
		if (lend_open(&config, &s.ep) < 0 || lend_address(s.ep, address, cap) < 0)
			_exit(1);
		server_serve(&s);
		(void)!write(ends[1], address, cap);
		lend_run(s.ep, LEND_NEVER);
		_exit(0);
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], address, cap), (ssize_t)cap);
	close(ends[0]);
	return pid;
}

Test(rpc_death, killed_server)
{
	for (int s = 0; s < SCHEMES; s++) {
		struct lend_config config = LEND_CONFIG_INIT;
		char address[128];
		pid_t pid = server_process(pair_schemes[s], address, sizeof(address));
		struct ask ask = {
		    .call = {.method = HOLD, .timeout = 20000ull * MS, .done = ask_done}};
		lend_session session;
		struct lend_ep *ep;
		lend_ns killed;

		config.probe = 50 * MS;
		config.dead = 400 * MS;
		cr_assert_eq(lend_open(&config, &ep), 0);
		cr_assert_eq(lend_connect(ep, address, &session), 0, "%s", lend_why());
		sync_echo(ep, session, ECHO, 10000);
		cr_assert_eq(lend_call_start(ep, session, &ask.call), 0);
		sync_echo(ep, session, ECHO, 10);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		killed = lend_now(ep);
		while (!ask.done && lend_now(ep) < killed + 10000ull * MS)
			cr_assert_geq(lend_wait(ep, lend_now(ep) + 100 * MS), 0);
		cr_assert(ask.done);
		cr_assert_eq(ask.call.status, LEND_UNAVAILABLE);
		cr_assert_eq(ask.call.ran, LEND_RAN_MAYBE);
		cr_assert_lt(lend_now(ep) - killed, 2000ull * MS);
		ask_give(ep, &ask);
		ask.call.method = ECHO;
		cr_assert_eq(lend_call_start(ep, session, &ask.call), -ESTALE);
		lend_close(ep);
	}
}

Test(rpc_death, a_forks_child_leaves_the_endpoint_alone)
{
	struct server server;
	lend_session session;
	struct lend_ep *ep;
	int status;
	pid_t pid;

	server_start(&server, "shm");
	ep = client_of(server.address, &session);
	sync_echo(ep, session, ECHO, 100);
	pid = fork();
	if (pid == 0) {
		struct lend_call call = {.method = ECHO};
		bool right =
		    lend_poll(ep) == -EPERM && lend_call_sync(ep, session, &call) == -EPERM;

		lend_close(ep);
		_exit(right ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	sync_echo(ep, session, ECHO, 100);
	lend_close(ep);
	server_stop(&server);
}
