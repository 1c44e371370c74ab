/* exchange_call - exchanges that are calls. See exchange.h. */
#include "gateway/exchange.h"

static void call_done(struct lend_call *call)
{
	struct exchange *x = (void *)((char *)call - offsetof(struct exchange, call));
	struct lend_gateway *g = x->peer ? exchange_gateway(x) : NULL;

	x->running = false;
	if (x->peer)
		exchange_answer_call(x);
	host->buf_give(x->ep, call->request);
	host->buf_give(x->ep, call->reply);
	call->request = call->reply = NULL;
	if (!g) {
		exchange_free(x);
		return;
	}
	x->in.received = 0;
	exchange_count_bytes(x);
	h2_connection_send(&x->peer->connection); /* may free the exchange */
	exchange_relieve(g);
}

void exchange_start_call(struct exchange *x)
{
	int rc;

	x->call = (struct lend_call){.method = x->method,
				     .head = &x->head,
				     .queue = 1,
				     .timeout = exchange_time_left(x),
				     .request = x->in.first,
				     .done = call_done};
	rc = host->call_start(x->ep, x->peer->to, &x->call);
	if (exchange_reconnect(x, rc))
		rc = host->call_start(x->ep, x->peer->to, &x->call);
	x->running = rc == 0;
	if (x->running)
		x->in.first = x->in.last = NULL;
	else
		exchange_answer_status(x, exchange_status(rc), host->why());
}
