/* Goal: where two processes over shm, or two threads of an endpoint, each store one variable and
 * then load the other's, a full fence separates store and load. Without it both may read the old
 * value and a wake-up is lost (test/model/wait.pml and room.pml show how).
 * Method: the sources are compiled with hooks that report each atomic access. Two endpoints call,
 * idle, sleep and fill their rings in one thread. For each pair, loads after a store without a
 * fence in between are counted. Control: with all fences ignored, each pair must be counted.
 * Covers: src/io/shm/poll.c, src/io/shm/send.c, src/io/shm/ring.h, src/rpc/sleep.c */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/fences/hooks.h"
#include "lend/rpc.h"

enum { ANY = -1, CALLS = 300, LONG = 16000, ROUNDS = 5 };

struct rule {
	const char *stored;
	int value; /* stored value that the rule is about, or ANY */
	const char *looked;
	bool open; /* stored, and no fence since */
	unsigned looks, bad;
};
static struct rule rule[] = {
    {"mark", ANY, "ring->polled", false, 0, 0},
    {"ring->polled", 0, "mark", false, 0, 0},
    {"bell->asleep", 1, "bell->word", false, 0, 0},
    {"ring->wanted", 1, "ring->taken", false, 0, 0},
    {"ring->taken", ANY, "ring->wanted", false, 0, 0},
    {"ep->asleep", 1, "ep->wait_stopped", false, 0, 0},
    {"ep->wait_stopped", 1, "ep->asleep", false, 0, 0},
};
enum { RULES = sizeof(rule) / sizeof(rule[0]) };
static bool overlooked; /* control: fences are ignored */

void fence_note_full(bool full)
{
	for (int i = 0; i < RULES && full && !overlooked; i++)
		rule[i].open = false;
}

void fence_note(char what, const char *operand, unsigned long long value)
{
	for (int i = 0; i < RULES; i++) {
		struct rule *r = &rule[i];

		if (what == 'S' && strstr(operand, r->stored))
			r->open = r->value == ANY || (value != 0) == (r->value != 0);
		if (what != 'L' || !strstr(operand, r->looked))
			continue;
		r->looks++;
		r->bad += r->open;
	}
}

static struct lend_ep *server, *client;
static lend_session session;
static int ended;

static void serve_request(lend_request request, const struct lend_buf *bytes, void *ep)
{
	(void)bytes;
	cr_assert_eq(lend_reply(ep, request, LEND_OK, NULL), 0);
}

static void call_done(struct lend_call *call)
{
	lend_buf_give(client, call->request);
	lend_buf_give(client, call->reply);
	ended++;
}

static void open_both(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char name[64];

	(void)snprintf(name, sizeof(name), "shm:fence-%d", (int)getpid());
	config.listen = name;
	config.calls = 2 * CALLS; /* a session leaves some for urgent calls */
	cr_assert_eq(lend_open(&config, &server), 0, "%s", lend_why());
	cr_assert_eq(lend_serve(server, 1, serve_request, server, 0), 0);
	config.listen = NULL;
	cr_assert_eq(lend_open(&config, &client), 0);
	cr_assert_eq(lend_connect(client, name, &session), 0);
}

/* Sends n calls of len bytes, then sleeps until they end, before the server polls. */
static void run_calls(int n, uint32_t len)
{
	static struct lend_call call[CALLS];

	ended = 0;
	for (int i = 0; i < n; i++) {
		call[i] = (struct lend_call){.method = 1, .done = call_done};
		call[i].request = lend_buf_take(client, len);
		memset(call[i].request->data, 0, len);
		call[i].request->len = len;
		cr_assert_eq(lend_call_start(client, session, &call[i]), 0, "%s", lend_why());
		cr_assert_geq(lend_poll(client), 0); /* so that none shares a datagram */
	}
	while (ended < n) {
		cr_assert_geq(lend_wait(client, lend_now(client) + 1000000), 0);
		cr_assert_geq(lend_wait(server, lend_now(server) + 1000000), 0);
	}
}

static void run_rounds(void)
{
	open_both();
	for (int round = 0; round < ROUNDS; round++) {
		run_calls(1, 64);
		run_calls(50, 64);
		run_calls(CALLS, 64); /* more than a ring holds, of slots and of bodies */
		run_calls(CALLS, LONG);
		lend_stop(server);
		(void)lend_wait(server, lend_now(server) + 1000000);
	}
	lend_close(client);
	lend_close(server);
}

Test(fence, store_then_load__fence_between)
{
	run_rounds();
	for (int i = 0; i < RULES; i++) {
		cr_expect(rule[i].looks > 0, "no load of %s", rule[i].looked);
		cr_expect_eq(rule[i].bad, 0,
			     "%u times no fence between a store to %s and a load of %s",
			     rule[i].bad, rule[i].stored, rule[i].looked);
	}
}

Test(fence, control__without_fences_each_is_counted)
{
	overlooked = true;
	run_rounds();
	for (int i = 0; i < RULES; i++)
		cr_expect(rule[i].bad > 0, "%s, then %s", rule[i].stored, rule[i].looked);
}
