/* Goal: a reply reports through how many services the message of its request went: those that
 * passed it on in a nested call, and no others. Method: a chain of endpoints in one thread, over
 * shm and udp; each one passes the message on, sends other bytes, or a copy that is marked.
 * Covers: src/rpc/nested_calls.c, src/rpc/call.c, src/core/core.c */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/rpc_pair.h"

enum { SERVICES = 5, STEP = 1 };
enum how { TAKEN, CHAINED, OTHER, MARKED, SLOW };

static struct service {
	struct lend_ep *ep;
	lend_session next;
	char address[128];
} service[SERVICES];
static enum how how;

struct forwarded {
	struct lend_call call;
	struct service *at;
};

static void forward_done(struct lend_call *call)
{
	struct forwarded *f = (struct forwarded *)(void *)call;

	if (call->request)
		lend_buf_give(f->at->ep, call->request);
	lend_reply(f->at->ep, call->parent, call->status, call->reply);
	free(f);
}

static struct lend_buf *make_message(struct service *at, lend_request request)
{
	struct lend_buf *taken = lend_request_take(at->ep, request), *head;

	if (how == TAKEN)
		return taken;
	head = lend_buf_take(at->ep, 8);
	memset(head->data, 0, head->len = 8);
	if (how == CHAINED)
		head->next = taken;
	else
		lend_buf_give(at->ep, taken);
	return head;
}

static void serve_step(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct service *at = arg;
	struct forwarded *f;

	(void)bytes;
	if (!at->next.id) {
		lend_reply(at->ep, request, LEND_OK, NULL);
		return;
	}
	f = calloc(1, sizeof(*f));
	f->at = at;
	f->call = (struct lend_call){.method = STEP,
				     .parent = request,
				     .hops = how == MARKED,
				     .request = make_message(at, request),
				     .done = forward_done};
	cr_assert_eq(lend_call_start(at->ep, at->next, &f->call), 0);
}

/* Passes the message on from a worker thread, to the last service. */
static void serve_slow(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct service *at = arg;
	struct lend_ep *ep = lend_request_ep(at->ep, request);
	struct lend_call call = {.method = STEP, .parent = request};
	lend_session next;

	(void)bytes;
	call.request = lend_request_take(at->ep, request);
	cr_assert_eq(lend_connect(ep, service[SERVICES - 1].address, &next), 0);
	cr_assert_eq(lend_call_sync(ep, next, &call), 0);
	lend_buf_give(ep, call.request);
	lend_buf_give(ep, call.reply);
	lend_disconnect(ep, next);
	lend_reply(at->ep, request, call.status, NULL);
}

static void open_all(const char *scheme)
{
	for (int i = SERVICES - 1; i >= 0; i--) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct service *at = &service[i];

		*at = (struct service){.ep = NULL};
		pair_address(at->address, sizeof(at->address), scheme);
		config.listen = at->address;
		cr_assert_eq(lend_open(&config, &at->ep), 0, "%s", lend_why());
		cr_assert_eq(lend_address(at->ep, at->address, sizeof(at->address)), 0);
		cr_assert_eq(lend_serve(at->ep, STEP, how == SLOW && !i ? serve_slow : serve_step,
					at, how == SLOW && !i ? LEND_SLOW : 0),
			     0);
		if (i < SERVICES - 1)
			cr_assert_eq(lend_connect(at->ep, service[i + 1].address, &at->next), 0);
	}
}

/* Returns the hops that a call of the first service reports. */
static unsigned count_hops(void)
{
	struct lend_ep *client;
	lend_session session;
	struct ask ask = {.call = {.method = STEP, .done = ask_done}};
	unsigned hops;

	cr_assert_eq(lend_open(NULL, &client), 0);
	cr_assert_eq(lend_connect(client, service[0].address, &session), 0);
	ask.call.request = ask_bytes(client, 100, 1);
	cr_assert_eq(lend_call_start(client, session, &ask.call), 0);
	while (!ask.done) {
		cr_assert(lend_poll(client) >= 0);
		for (int i = 0; i < SERVICES; i++)
			cr_assert(lend_poll(service[i].ep) >= 0);
	}
	cr_assert_eq(ask.call.status, LEND_OK);
	hops = ask.call.hops;
	ask_give(client, &ask);
	lend_close(client);
	return hops;
}

static unsigned run_chain(const char *scheme, enum how as)
{
	unsigned hops;

	how = as;
	open_all(scheme);
	hops = count_hops();
	for (int i = 0; i < SERVICES; i++)
		lend_close(service[i].ep);
	return hops;
}

Test(rpc_hops, reply__of_a_chain__counts_the_services)
{
	for (int s = 0; s < SCHEMES; s++) {
		cr_assert_eq(run_chain(pair_schemes[s], TAKEN), SERVICES);
		cr_assert_eq(run_chain(pair_schemes[s], CHAINED), SERVICES);
		cr_assert_eq(run_chain(pair_schemes[s], MARKED), SERVICES);
	}
}

Test(rpc_hops, reply__of_nested_calls_with_other_bytes__is_one)
{
	for (int s = 0; s < SCHEMES; s++)
		cr_assert_eq(run_chain(pair_schemes[s], OTHER), 1);
}

Test(rpc_hops, reply__of_a_slow_handler__counts_its_calls)
{
	cr_assert_eq(run_chain("udp", SLOW), 2);
}

Test(rpc_hops, call__that_did_not_run__has_none)
{
	struct pair pair;
	struct ask ask;

	pair_open(&pair, "udp");
	ask = (struct ask){.call = {.hops = 9}};
	ask_run(&pair, &ask, 12345, ask_bytes(pair.client, 10, 1));
	cr_assert_eq(ask.call.status, LEND_UNIMPLEMENTED);
	cr_assert_eq(ask.call.hops, 0);
	ask_give(pair.client, &ask);
	pair_close(&pair);
}
