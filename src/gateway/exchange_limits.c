/* exchange_limits - limits of exchanges. See exchange.h. */
#include "gateway/exchange.h"
#include "util/bits.h"

enum {
	EXCHANGE_BYTES = 32 << 10, /* an exchange without messages: headers here and in the call */
	RESETS_MAX = 1000          /* at once */
};
static const lend_ns reset_time = 1000000; /* clients cancel calls, and their deadlines pass */

static void set_held(struct exchange *x, uint64_t held)
{
	struct h2_client *client = (struct h2_client *)x->peer;

	client->held += held - x->held;
	client->gateway->held += held - x->held;
	x->held = held;
}

void exchange_count_bytes(struct exchange *x)
{
	set_held(x, EXCHANGE_BYTES + x->in.received + x->backlog_len + x->out.len);
}

void exchange_count_nothing(struct exchange *x)
{
	set_held(x, 0);
}

/* Resets a stream, and forgets it here at once: its client may not read the reset. */
static void evict_exchange(struct exchange *x)
{
	struct h2_connection *c = &x->peer->connection;

	exchange_gateway(x)->counters.calls += !x->answered;
	exchange_gateway(x)->counters.errors += !x->answered;
	(void)nghttp2_session_set_stream_user_data(c->session, x->id, NULL);
	if (nghttp2_submit_rst_stream(c->session, 0, x->id, NGHTTP2_ENHANCE_YOUR_CALM) < 0)
		c->over = true;
	exchange_drop(x);
	h2_connection_send(c);
}

void exchange_relieve(struct lend_gateway *g)
{
	while (g->held > g->held_max) {
		struct h2_client *most = g->clients;
		struct exchange *longest;

		for (struct h2_client *client = most; client; client = client->next)
			most = client->held > most->held ? client : most;
		longest = most->peer.first;
		for (struct exchange *x = longest; x; x = x->next)
			longest = x->held > longest->held ? x : longest;
		evict_exchange(longest);
	}
}

static void deadline_passes(struct lend_alarm *alarm)
{
	struct exchange *x = (void *)((char *)alarm - offsetof(struct exchange, late));

	if (!x->answered)
		exchange_answer_status(x, LEND_DEADLINE_EXCEEDED,
				       "the request did not end before its deadline");
	h2_connection_send(&x->peer->connection);
}

void exchange_start_deadline(struct exchange *x)
{
	x->late.ring = deadline_passes;
	host->alarm_set(x->ep, &x->late, host->now(x->ep) + (lend_ns)x->timeout);
}

lend_ns exchange_time_left(struct exchange *x)
{
	lend_ns now = host->now(x->ep), at = x->late.at;

	if (at == LEND_NEVER)
		return LEND_NEVER;
	host->alarm_set(x->ep, &x->late, LEND_NEVER);
	return at > now ? at - now : 1;
}

void exchange_count_reset(struct h2_client *client)
{
	lend_ns now = host->now(client->gateway->ep);
	uint64_t forgotten = (now - client->resets_since) / reset_time;

	client->resets -= (unsigned)lend_min_u64(client->resets, forgotten);
	client->resets_since = client->resets ? client->resets_since + forgotten * reset_time : now;
	if (++client->resets > RESETS_MAX &&
	    nghttp2_session_terminate_session(client->peer.connection.session,
					      NGHTTP2_ENHANCE_YOUR_CALM) < 0)
		client->peer.connection.over = true;
}
