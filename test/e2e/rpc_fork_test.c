/* Goal: a fork's child cannot change a message of its parent or use the parent's endpoints; it can
 * open its own, and exec. Method: children that write into each kind of message memory, and one
 * that does what a child may. Covers: src/sys/shared_arena.c, src/io/shm/rendezvous.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e/rpc_pair.h"

enum { LONG = 200000, KEPT = 9 };

static volatile unsigned char *lent; /* the bytes of the request that the handler has */

static void serve_keep(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)request, (void)arg;
	lent = in->data;
}

/* The exit status of a child that runs act. */
static int status_of(void (*act)(void *arg), void *arg)
{
	const struct rlimit no_core = {0, 0};
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)signal(SIGSEGV, SIG_DFL);
		act(arg);
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

static void write_byte(void *at)
{
	*(volatile unsigned char *)at ^= 0xff;
}

static void expect_out_of_reach(volatile unsigned char *at)
{
	unsigned char before = *at;
	int status = status_of(write_byte, (void *)(uintptr_t)at);

	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", status);
	cr_assert_eq(*at, before);
}

Test(rpc_fork, child__cannot_change_a_message, .timeout = 60)
{
	static const uint32_t lens[] = {64, LONG}; /* in a slot of the ring, in shared memory */
	struct pair p;

	pair_open(&p, "shm");
	cr_assert_eq(lend_serve(p.server, KEPT, serve_keep, NULL, 0), 0);
	for (int i = 0; i < 2; i++) {
		struct lend_buf *request = ask_bytes(p.client, lens[i], 7);
		struct ask ask = {.call = {.method = KEPT, .request = request, .done = ask_done}};

		expect_out_of_reach(request->data);
		cr_assert_eq(lend_call_start(p.client, p.session, &ask.call), 0);
		for (lent = NULL; !lent;)
			pair_turns(&p, 1);
		if (lens[i] > 64) /* written by the sender, read-only for the receiver */
			expect_out_of_reach(request->data);
		else
			expect_out_of_reach(lent);
		lend_call_cancel(p.client, &ask.call);
		pair_until(&p, &ask.done);
		ask_give(p.client, &ask);
	}
	pair_close(&p);
}

static void live_on(void *arg)
{
	struct pair *parent = arg, own;
	struct ask ask = {.call = {.done = ask_done}};

	if (lend_poll(parent->client) != -EPERM)
		_exit(1);
	lend_close(parent->client);
	pair_open(&own, "shm");
	ask_run(&own, &ask, ECHO, ask_bytes(own.client, LONG, 3));
	if (ask.call.status != LEND_OK || !ask_same(ask.call.reply, LONG, 3))
		_exit(2);
	ask_give(own.client, &ask);
	pair_close(&own);
	execlp("true", "true", NULL);
	_exit(3);
}

Test(rpc_fork, child__has_its_own_endpoints_and_execs, .timeout = 60)
{
	struct ask ask = {.call = {.done = ask_done}};
	struct pair p;

	pair_open(&p, "shm");
	ask_run(&p, &ask, ECHO, ask_bytes(p.client, LONG, 5));
	cr_assert_eq(status_of(live_on, &p), 0);
	cr_assert(ask_same(ask.call.reply, LONG, 5));
	ask_give(p.client, &ask);
	ask = (struct ask){.call = {.done = ask_done}};
	ask_run(&p, &ask, ECHO, ask_bytes(p.client, LONG, 6));
	cr_assert(ask_same(ask.call.reply, LONG, 6));
	ask_give(p.client, &ask);
	pair_close(&p);
}
