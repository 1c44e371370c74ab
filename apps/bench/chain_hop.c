/* chain_hop - one service of a chain: forwards a request unchanged, or, as the last hop, reads the
 * bytes and answers with their checksum.
 *
 * It forwards the received buffer itself: no byte is copied here, by value or by reference. Layer:
 * apps. Threads: one. Relays are kept on a free list and released at the end of the process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/chain.h"
#include "apps/commands.h"
#include "apps/common/echo.h"
#include "apps/common/memnode.h"
#include "apps/common/bench_server.h"
#include "util/crc32c.h"

struct hop {
	struct app_server_args args;
	const char *next_address, *node_address;
	struct lend_ep *ep;
	struct lend_mem *mem;
	lend_session next;
	struct relay *relays; /* free list */
};

/* A request that is forwarded to the next hop. */
struct relay {
	struct lend_call call;
	lend_request request;
	struct hop *hop;
	struct relay *rest;
};

static const struct lend_option options[] = {
    OPT_TEXT(struct hop, next_address, "next", "ADDR", "The next hop; without it this is the last"),
    OPT_TEXT(struct hop, node_address, "node", "ADDR",
	     "The memory node that the last hop reads from"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct hop *hop = input;

	if (!hop->args.listen)
		app_bad("no address to serve at; give --listen ADDR");
}

static void relay_done(struct lend_call *call)
{
	struct relay *relay = (struct relay *)(void *)call;
	struct hop *hop = relay->hop;

	if (call->request)
		lend_buf_give(hop->ep, call->request);
	lend_reply(hop->ep, relay->request, call->status, call->reply);
	relay->rest = hop->relays;
	hop->relays = relay;
}

/* Starts a call of the next hop, with a new session if that hop was started again meanwhile. */
static int call_next(struct hop *hop, struct lend_call *call)
{
	int rc = lend_call_start(hop->ep, hop->next, call);

	if (rc == -ESTALE && lend_connect(hop->ep, hop->next_address, &hop->next) == 0)
		rc = lend_call_start(hop->ep, hop->next, call);
	return rc;
}

static void pass_on(struct hop *hop, lend_request request, const struct lend_buf *bytes)
{
	struct relay *relay = hop->relays;
	struct lend_buf *taken = bytes ? lend_request_take(hop->ep, request) : NULL;

	if (relay)
		hop->relays = relay->rest;
	else
		relay = malloc(sizeof(*relay));
	if (relay) {
		*relay = (struct relay){.request = request, .hop = hop};
		relay->call = (struct lend_call){.method = APP_METHOD_CHAIN,
						 .parent = request,
						 .request = taken,
						 .done = relay_done};
		if (call_next(hop, &relay->call) == 0)
			return;
		relay->rest = hop->relays;
		hop->relays = relay;
	}
	if (taken)
		lend_buf_give(hop->ep, taken);
	lend_reply(hop->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
}

static void forward_request(lend_request request, const struct lend_buf *bytes, void *of)
{
	pass_on(of, request, bytes);
}

static void sum_payload(lend_request request, const struct lend_arg *arg, int n, void *of)
{
	struct hop *hop = of;

	if (n == 1)
		app_sum_reply(hop->ep, request, lend_crc32c(0, arg->bytes, arg->len), arg->len);
	else
		lend_reply_why(hop->ep, request, LEND_INVALID_ARGUMENT, "one argument is expected");
}

static int serve_chain(struct hop *hop)
{
	if (hop->next_address)
		return lend_serve(hop->ep, APP_METHOD_CHAIN, forward_request, hop, LEND_RESERVED);
	hop->mem = app_node_open(hop->ep, hop->node_address ? hop->node_address : "");
	return lend_serve_args(hop->mem, APP_METHOD_CHAIN, sum_payload, hop, LEND_RESERVED);
}

static void close_node(void *arg)
{
	struct hop *hop = arg;

	if (hop->mem)
		lend_mem_close(hop->mem);
}

static void free_rest(struct hop *hop)
{
	for (struct relay *relay; (relay = hop->relays);) {
		hop->relays = relay->rest;
		free(relay);
	}
}

int app_hop(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options,
						  .child = &app_server_syntax,
						  .child_at = offsetof(struct hop, args),
						  .check = check_args,
						  .doc = "One service of lend chain."};
	struct hop hop = {.args = APP_SERVER_ARGS_INIT};
	struct app_server server;
	int rc;

	app_options_read(&syntax, argc, argv, &hop);
	app_server_open(&server, &hop.args, NULL);
	hop.ep = server.ep;
	if (hop.next_address && lend_connect(hop.ep, hop.next_address, &hop.next) < 0)
		app_die("%s", lend_why());
	if (serve_chain(&hop) < 0)
		app_die("%s", lend_why());
	server.closing = close_node;
	server.arg = &hop;
	rc = app_server_run(&server);
	free_rest(&hop);
	return rc;
}
