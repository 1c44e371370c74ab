#include "cn/lent/relay.h"

#include <stdlib.h>
#include <string.h>

#include "lend/alloc.h"
#include "sys/ref_counts.h"

#define BYTES_MAX (UINT64_C(32) << 20)

struct relay {
	struct lend_op op; /* first: read_done() finds the relay by it */
	struct cn_relays *relays;
	struct lend_ep *ep;
	lend_request request;
	struct iovec memory;
};

static void relay_gone(void *arg)
{
	struct relay *relay = arg;

	relay->relays->bytes -= relay->memory.iov_len;
	lend_free(relay->memory.iov_base);
	free(relay);
}

static void end_relay(struct relay *relay, enum lend_status status)
{
	struct lend_buf *reply = NULL;

	if (status == LEND_OK) {
		reply = lend_buf_wrap(relay->ep, relay->memory.iov_base,
				      (uint32_t)relay->memory.iov_len, relay_gone, relay);
		status = reply ? LEND_OK : LEND_RESOURCE_EXHAUSTED;
	}
	(void)lend_reply(relay->ep, relay->request, status, reply);
	if (!reply)
		relay_gone(relay);
}

static void read_done(struct lend_op *op)
{
	struct relay *relay = (struct relay *)(void *)op;

	if (op->status == LEND_OK)
		atomic_fetch_add_explicit(&lend_ref_counts.relayed, relay->memory.iov_len,
					  memory_order_relaxed);
	end_relay(relay, op->status == LEND_CANCELLED ? LEND_UNAVAILABLE : op->status);
}

static bool same_root(const struct lend_ref *ref, const struct lend_memref *want)
{
	struct lend_memref r;

	cn_ref_in(&r, ref);
	return r.home == LEND_HOME_CALLER && r.node == want->node && r.epoch == want->epoch &&
	       r.slot == want->slot && r.serial == want->serial;
}

/* Finds the call on this session that passes the reference on. *home: the lender's address. */
static struct cn_args *find_pass(const struct cn_relays *relays, lend_session session,
				 const struct lend_memref *ref, const char **home)
{
	struct cn_args *a;

	LIST_FOREACH(a, &relays->passes, pass)
	for (uint32_t i = 0; a->session.id == session.id && i < a->n; i++) {
		*home = a->arg[i].home;
		if (a->arg[i].plan == CN_ARG_REF && *home && same_root(&a->arg[i].ref, ref))
			return a;
	}
	return NULL;
}

static struct relay *make_relay(struct cn_relays *relays, struct lend_ep *ep, lend_request request,
				uint64_t len)
{
	struct relay *relay = len <= BYTES_MAX - relays->bytes ? calloc(1, sizeof(*relay)) : NULL;

	if (!relay)
		return NULL;
	relay->memory = (struct iovec){lend_malloc(len), len};
	if (!relay->memory.iov_base) {
		free(relay);
		return NULL;
	}
	relay->relays = relays;
	relay->ep = ep;
	relay->request = request;
	relays->bytes += len;
	return relay;
}

bool cn_relay_serve(struct cn_relays *relays, struct lend_ep *ep, lend_request request,
		    const struct lend_memop *say, const uint8_t *ref)
{
	struct lend_arg arg = {.bytes = NULL};
	struct relay *relay;
	const char *home;
	struct cn_args *a;

	a = find_pass(relays, lend_request_session(ep, request), &say->ref, &home);
	if (!a || say->flags)
		return false;
	lend_ref_load(&arg.ref, ref);
	arg.len = lend_ref_len(&arg.ref);
	if (say->offset > arg.len || say->len > arg.len - say->offset) {
		(void)lend_reply(ep, request, LEND_OUT_OF_RANGE, NULL);
		return true;
	}
	relay = make_relay(relays, ep, request, say->len);
	if (!relay) {
		(void)lend_reply(ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return true;
	}
	strcpy(arg.home, home);
	relay->op = (struct lend_op){.done = read_done,
				     .parent = a->user->parent,
				     .timeout = lend_request_left(ep, request)};
	if (lend_arg_get(a->mem, &arg, say->offset, &relay->memory, 1, &relay->op) < 0)
		end_relay(relay, LEND_UNAVAILABLE);
	return true;
}
