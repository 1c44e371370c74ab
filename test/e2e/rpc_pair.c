#include "e2e/rpc_pair.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const pair_schemes[SCHEMES] = {"shm", "udp"};

void pair_address(char *text, size_t cap, const char *scheme)
{
	static atomic_int counter;

	if (strcmp(scheme, "shm") == 0)
		snprintf(text, cap, "shm:t%d-%d", (int)getpid(), atomic_fetch_add(&counter, 1));
	else
		snprintf(text, cap,
			 strcmp(scheme, "raw") == 0 ? "raw:mlx5_0@127.0.0.1:0" : "udp:127.0.0.1:0");
}

static void serve_echo(lend_request request, const struct lend_buf *in, void *arg)
{
	struct pair *pair = arg;
	struct lend_buf *out = lend_request_take(pair->server, request);

	(void)in;
	lend_reply(pair->server, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

static void serve_hold(lend_request request, const struct lend_buf *in, void *arg)
{
	struct pair *pair = arg;

	(void)in;
	pair->held[pair->n_held++] = request;
}

static void serve_sink(lend_request request, const struct lend_buf *in, void *arg)
{
	struct pair *pair = arg;

	(void)in;
	lend_reply(pair->server, request, LEND_OK, NULL);
}

void pair_open_with(struct pair *pair, const char *scheme, const struct lend_config *server,
		    const struct lend_config *client)
{
	struct lend_config listen = *server;
	char address[128];

	memset(pair, 0, sizeof(*pair));
	pair_address(address, sizeof(address), scheme);
	listen.listen = address;
	cr_assert_eq(lend_open(&listen, &pair->server), 0, "%s", lend_why());
	cr_assert_eq(lend_address(pair->server, pair->address, sizeof(pair->address)), 0);
	cr_assert_eq(lend_open(client, &pair->client), 0, "%s", lend_why());
	cr_assert_eq(lend_serve(pair->server, ECHO, serve_echo, pair, 0), 0);
	cr_assert_eq(lend_serve(pair->server, HOLD, serve_hold, pair, 0), 0);
	cr_assert_eq(lend_serve(pair->server, SINK, serve_sink, pair, 0), 0);
	cr_assert_eq(lend_connect(pair->client, pair->address, &pair->session), 0, "%s",
		     lend_why());
}

void pair_open(struct pair *pair, const char *scheme)
{
	const struct lend_config config = LEND_CONFIG_INIT;

	pair_open_with(pair, scheme, &config, &config);
}

void pair_close(struct pair *pair)
{
	lend_close(pair->client);
	lend_close(pair->server);
}

void pair_turns(struct pair *pair, int n)
{
	while (n--) {
		if (pair->client)
			cr_assert_geq(lend_poll(pair->client), 0);
		if (pair->server)
			cr_assert_geq(lend_poll(pair->server), 0);
	}
}

bool pair_until(struct pair *pair, const bool *done)
{
	lend_ns end = lend_now(pair->client) + UINT64_C(10000000000);

	while (!*done && lend_now(pair->client) < end)
		pair_turns(pair, 1);
	return *done;
}

void pair_until_held(struct pair *pair, uint32_t n)
{
	lend_ns end = lend_now(pair->client) + UINT64_C(10000000000);

	while (pair->n_held < n && lend_now(pair->client) < end)
		pair_turns(pair, 1);
	cr_assert_eq(pair->n_held, n);
}

void ask_done(struct lend_call *call)
{
	struct ask *ask = (struct ask *)(void *)call;

	ask->done = true;
	ask->times++;
}

static uint8_t byte_at(uint64_t i, uint32_t seed)
{
	return (uint8_t)((i * 2654435761u + seed) >> 11);
}

struct lend_buf *ask_bytes(struct lend_ep *ep, uint32_t len, uint32_t seed)
{
	struct lend_buf *buf = lend_buf_take(ep, len);

	cr_assert_not_null(buf, "%s", lend_why());
	buf->len = len;
	for (uint32_t i = 0; i < len; i++)
		((uint8_t *)buf->data)[i] = byte_at(i, seed);
	return buf;
}

bool ask_same(const struct lend_buf *chain, uint64_t len, uint32_t seed)
{
	uint64_t at = 0;

	for (; chain; chain = chain->next)
		for (uint32_t i = 0; i < chain->len; i++, at++)
			if (at >= len || ((const uint8_t *)chain->data)[i] != byte_at(at, seed))
				return false;
	return at == len;
}

void ask_start(struct pair *pair, struct ask *ask, uint32_t method, lend_ns timeout)
{
	*ask = (struct ask){.call = {.method = method, .timeout = timeout, .done = ask_done}};
	ask->call.request = ask_bytes(pair->client, 100, 1);
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask->call), 0, "%s", lend_why());
}

void ask_run(struct pair *pair, struct ask *ask, uint32_t method, struct lend_buf *request)
{
	ask->call.method = method;
	ask->call.request = request;
	ask->call.done = ask_done;
	ask->done = false;
	cr_assert_eq(lend_call_start(pair->client, pair->session, &ask->call), 0, "%s", lend_why());
	cr_assert(pair_until(pair, &ask->done), "the call did not end");
}

void ask_give(struct lend_ep *ep, struct ask *ask)
{
	lend_buf_give(ep, ask->call.request);
	lend_buf_give(ep, ask->call.reply);
	memset(ask, 0, sizeof(*ask));
}
