/* chain_hop - one service of a chain: forwards a request unchanged, or, as the last hop, reads the
 * bytes and answers with their checksum.
 *
 * It forwards the received buffer itself: no byte is copied here, by value or by reference. Layer:
 * apps. Threads: one. Relays and fetches are kept on free lists and released at the end of the
 * process. */
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
	struct fetch *fetches;
};

/* A request that is forwarded to the next hop. */
struct relay {
	struct lend_call call;
	lend_request request;
	struct hop *hop;
	struct relay *rest;
};

/* A read of an argument that is a reference. */
struct fetch {
	struct lend_op op;
	struct lend_arg_view view;
	lend_request request;
	struct hop *hop;
	struct fetch *rest;
};

enum { KEY_NEXT = 0x7601, KEY_NODE };

static const struct argp_option options[] = {
    {"next", KEY_NEXT, "ADDR", 0, "The next hop; without it this is the last", 0},
    {"node", KEY_NODE, "ADDR", 0, "The memory node that the last hop reads from", 0},
    {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct hop *hop = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &hop->args;
		return 0;
	case KEY_NEXT:
		hop->next_address = arg;
		return 0;
	case KEY_NODE:
		hop->node_address = arg;
		return 0;
	case ARGP_KEY_END:
		if (!hop->args.listen)
			app_bad("no address to serve at; give --listen ADDR");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
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
		if (lend_call_start(hop->ep, hop->next, &relay->call) == 0)
			return;
		relay->rest = hop->relays;
		hop->relays = relay;
	}
	if (taken)
		lend_buf_give(hop->ep, taken);
	lend_reply(hop->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
}

static void give_fetch(struct fetch *fetch)
{
	fetch->rest = fetch->hop->fetches;
	fetch->hop->fetches = fetch;
}

static void fetch_done(struct lend_op *op)
{
	struct fetch *fetch = (struct fetch *)(void *)op;
	struct hop *hop = fetch->hop;
	enum lend_status status = op->status;
	uint32_t crc = 0;

	if (status == LEND_OK) {
		crc = lend_crc32c(0, fetch->view.bytes, fetch->view.len);
		if (lend_arg_intact(&fetch->view) < 0)
			status = LEND_ABORTED;
		lend_arg_unmap(hop->mem, &fetch->view);
	}
	if (status == LEND_OK)
		app_sum_reply(hop->ep, fetch->request, crc, lend_ref_len(&op->ref));
	else
		lend_reply(hop->ep, fetch->request, status, NULL);
	give_fetch(fetch);
}

/* Maps the argument, or fetches it where it cannot be mapped. */
static void read_ref(struct hop *hop, lend_request request, const struct lend_arg *arg)
{
	struct fetch *fetch = hop->fetches;

	if (fetch)
		hop->fetches = fetch->rest;
	else
		fetch = malloc(sizeof(*fetch));
	if (!fetch || !hop->mem || arg->len > 1 << 30) {
		free(fetch);
		lend_reply(hop->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	*fetch = (struct fetch){.hop = hop, .request = request};
	fetch->op = (struct lend_op){.done = fetch_done, .parent = request};
	if (lend_arg_map(hop->mem, arg, &fetch->view, &fetch->op) == 0)
		return;
	give_fetch(fetch);
	lend_reply(hop->ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
}

static void on_chain(lend_request request, const struct lend_buf *bytes, void *of)
{
	struct hop *hop = of;
	struct lend_arg arg;
	uint32_t cursor = 0;

	if (hop->next_address)
		pass_on(hop, request, bytes);
	else if (lend_arg_next(bytes, &cursor, &arg) != 1)
		lend_reply(hop->ep, request, LEND_INVALID_ARGUMENT, NULL);
	else if (arg.bytes)
		app_sum_reply(hop->ep, request, lend_crc32c(0, arg.bytes, arg.len), arg.len);
	else
		read_ref(hop, request, &arg);
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
	for (struct fetch *fetch; (fetch = hop->fetches);) {
		hop->fetches = fetch->rest;
		free(fetch);
	}
}

int app_hop(int argc, char **argv)
{
	static const struct argp_child children[] = {{&app_server_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {.options = options,
					 .parser = parse_option,
					 .children = children,
					 .doc = "One service of lend chain."};
	struct hop hop = {.args = APP_SERVER_ARGS_INIT};
	struct app_server server;
	int rc;

	app_parse(&argp, argc, argv, &hop);
	app_server_open(&server, &hop.args, NULL);
	hop.ep = server.ep;
	if (hop.next_address && lend_connect(hop.ep, hop.next_address, &hop.next) < 0)
		app_die("%s", lend_why());
	if (!hop.next_address)
		hop.mem = app_node_open(hop.ep, hop.node_address ? hop.node_address : "");
	if (lend_serve(hop.ep, APP_METHOD_CHAIN, on_chain, &hop, LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	server.closing = close_node;
	server.arg = &hop;
	rc = app_server_run(&server);
	free_rest(&hop);
	return rc;
}
