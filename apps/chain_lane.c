/* chain_lane - one request of a chain after the other: put, call, release; or just the call.
 *
 *   by value   start -> call -> called -> end
 *   by ref     start -> put -> kept -> call -> called -> release -> released -> end
 * Each arrow is a done function of the one before, so a lane never waits.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/chain.h"
#include "apps/common/echo.h"
#include "apps/common/server.h"

struct app_chain_lane {
	struct app_lane lane;
	struct app_chain *chain;
	struct lend_call call;
	struct lend_op op;
	struct lend_ref ref;
	struct iovec data;
	enum lend_status status; /* of the call, until the release has ended too */
	uint64_t wrong;
};

#define OF(pointer, member)                                                                        \
	((struct app_chain_lane *)(void *)((char *)(pointer)-offsetof(struct app_chain_lane,       \
								      member)))

static void nothing(void *arg)
{
	(void)arg; /* the pattern stays for good */
}

static void released(struct lend_op *op)
{
	struct app_chain_lane *lane = OF(op, op);

	if (lane->status == LEND_OK)
		lane->status = op->status;
	app_lane_end(&lane->lane, lane->status, lane->wrong);
}

static void release(struct app_chain_lane *lane)
{
	lane->op = (struct lend_op){.done = released};
	if (lend_release(lane->chain->mem, &lane->ref, 1, &lane->op) < 0)
		app_die("release: %s", lend_why());
}

static void called(struct lend_call *call)
{
	struct app_chain_lane *lane = OF(call, call);
	struct app_chain *chain = lane->chain;
	uint64_t number = lane->lane.number;

	lane->status = call->status;
	lane->wrong = 0;
	if (call->status == LEND_OK)
		lane->wrong =
		    app_sum_wrong(call->reply, app_pattern_crc(number, chain->size), chain->size);
	if (call->reply)
		lend_buf_give(chain->ep, call->reply);
	if (call->request)
		lend_buf_give(chain->ep, call->request);
	call->request = call->reply = NULL;
	if (chain->ref)
		release(lane);
	else
		app_lane_end(&lane->lane, lane->status, lane->wrong);
}

/* Takes request, also when it fails. */
static int call(struct app_chain_lane *lane, uint32_t method, struct lend_buf *request)
{
	int rc;

	lane->call = (struct lend_call){.method = method,
					.request = request,
					.timeout = APP_CALL_NS + lane->chain->size * APP_BYTE_NS,
					.done = called};
	rc = lend_call_start(lane->chain->ep, lane->chain->session, &lane->call);
	if (rc < 0 && request)
		lend_buf_give(lane->chain->ep, request);
	return rc;
}

static void kept(struct lend_op *op)
{
	struct app_chain_lane *lane = OF(op, op);
	struct lend_buf *request;

	if (op->status != LEND_OK) {
		app_lane_end(&lane->lane, op->status, 0);
		return;
	}
	lane->ref = op->ref;
	request = lend_buf_take(lane->chain->ep, APP_REF_LEN);
	if (request) {
		lend_ref_store(request->data, &lane->ref);
		request->len = APP_REF_LEN;
	}
	if (request && call(lane, APP_METHOD_CHAIN_REF, request) == 0)
		return;
	lane->status = LEND_RESOURCE_EXHAUSTED;
	lane->wrong = 0;
	release(lane);
}

static int start(struct app_lane *at)
{
	struct app_chain_lane *lane = OF(at, lane);
	struct app_chain *chain = lane->chain;
	void *bytes = (void *)(uintptr_t)app_pattern(at->number, chain->size);
	struct lend_buf *request = NULL;

	if (chain->ref) {
		lane->data = (struct iovec){bytes, chain->size};
		lane->op = (struct lend_op){.done = kept};
		return lend_put(chain->mem, &lane->data, 1, NULL, &lane->op);
	}
	if (chain->size) {
		request = lend_buf_wrap(chain->ep, bytes, (uint32_t)chain->size, nothing, NULL);
		if (!request)
			return -EAGAIN;
	}
	return call(lane, APP_METHOD_CHAIN, request);
}

void app_chain_lanes_make(struct app_chain *chain)
{
	unsigned n = chain->load_args.window;

	chain->lane = calloc(n, sizeof(*chain->lane));
	chain->order = calloc(n, sizeof(struct app_lane *));
	if (!chain->lane || !chain->order)
		app_die("no memory for %u requests in flight; give a smaller --window", n);
	for (unsigned i = 0; i < n; i++) {
		chain->lane[i].chain = chain;
		chain->order[i] = &chain->lane[i].lane;
	}
	chain->load.ep = chain->ep;
	chain->load.start = start;
	chain->load.sleep = true; /* there are more processes than CPUs */
}

void app_chain_lanes_free(struct app_chain *chain)
{
	free(chain->lane);
	free(chain->order);
}
