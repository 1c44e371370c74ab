/* Goal: a sampled call and all calls that handlers make for it keep spans of one tree, at both ends
 * and in workers; others keep none; ids from the wire are checked; the ring is bounded. Method:
 * a chain of endpoints in one thread, over shm and udp, of which the last is called from a worker;
 * a table of ids; more calls than the ring has spans. Covers: src/rpc/call_spans.c,
 * src/rpc/trace_service.c, src/rpc/call.c, src/rpc/call_head.c, src/rpc/request_head.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "lend/metadata.h"
#include "lend/tracing.h"

enum { SERVICES = 3, STEP = 7, SPANS_MAX = 5000, RING = 4096 };
static const char name[] = "/chain.Service/Step";
static const char key[] = "grpc-trace-bin";

static struct service {
	struct lend_ep *ep;
	lend_session next;
	char address[128], shm[64]; /* statistics are not read over udp without a key */
} service[SERVICES];
static bool slow; /* the last but one service calls from a worker */
static struct lend_span span[SPANS_MAX], of_request;
static bool request_traced, traced_in_worker;

static const struct lend_call_head named = {.name = name};

static void end_forwarded(struct lend_call *call)
{
	struct service *at = *(struct service **)(void *)(call + 1);

	lend_reply(at->ep, call->parent, call->status, call->reply);
	free(call);
}

static void call_from_worker(struct service *at, lend_request request)
{
	struct lend_ep *ep = lend_request_ep(at->ep, request);
	struct lend_call call = {.parent = request, .head = &named};
	struct lend_call hello = {.method = LEND_METHOD_PING};
	lend_session next;

	cr_assert_eq(lend_connect(ep, service[SERVICES - 1].address, &next), 0);
	cr_assert_eq(lend_call_sync(ep, next, &hello), 0); /* the session is up */
	lend_buf_give(ep, hello.reply);
	cr_assert_eq(lend_call_sync(ep, next, &call), 0);
	lend_buf_give(ep, call.reply);
	traced_in_worker = lend_request_span(ep, request, &of_request);
	lend_disconnect(ep, next);
	lend_reply(at->ep, request, call.status, NULL);
}

static void serve_step(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct service *at = arg;
	struct lend_call *call;

	(void)bytes;
	if (at == &service[SERVICES - 1]) {
		request_traced = lend_request_span(at->ep, request, &of_request);
		lend_reply(at->ep, request, LEND_NOT_FOUND, NULL);
		return;
	}
	if (slow && at == &service[SERVICES - 2]) {
		call_from_worker(at, request);
		return;
	}
	call = calloc(1, sizeof(*call) + sizeof(at));
	*call = (struct lend_call){.head = &named, .parent = request, .done = end_forwarded};
	memcpy(call + 1, &at, sizeof(at));
	cr_assert_eq(lend_call_start(at->ep, at->next, call), 0);
}

static void turn_all(struct lend_ep *client)
{
	cr_assert(lend_poll(client) >= 0);
	for (int i = 0; i < SERVICES; i++)
		cr_assert(lend_poll(service[i].ep) >= 0);
}

static enum lend_status run_call(struct lend_ep *client, lend_session session, struct ask *ask)
{
	enum lend_status status;

	ask->done = false;
	ask->call.done = ask_done;
	cr_assert_eq(lend_call_start(client, session, &ask->call), 0, "%s", lend_why());
	while (!ask->done)
		turn_all(client);
	status = ask->call.status;
	ask_give(client, ask);
	return status;
}

static void open_all(const char *scheme)
{
	for (int i = SERVICES - 1; i >= 0; i--) {
		struct lend_config config = LEND_CONFIG_INIT;
		struct service *at = &service[i];
		bool works = slow && i == SERVICES - 2;

		*at = (struct service){.ep = NULL};
		char listen[256];

		pair_address(at->shm, sizeof(at->shm), "shm");
		pair_address(at->address, sizeof(at->address), scheme);
		(void)snprintf(listen, sizeof(listen), "%s,%s", at->address, at->shm);
		config.listen = listen;
		cr_assert_eq(lend_open(&config, &at->ep), 0, "%s", lend_why());
		cr_assert_eq(lend_address(at->ep, at->address, sizeof(at->address)), 0);
		*strchr(at->address, ',') = '\0';
		cr_assert_eq(lend_serve_name(at->ep, name, serve_step, at, works ? LEND_SLOW : 0),
			     0);
		if (i < SERVICES - 1)
			cr_assert_eq(lend_connect(at->ep, service[i + 1].address, &at->next), 0);
	}
}

/* Opens a client whose session is up, as are those of the services. */
static struct lend_ep *open_client(lend_session *session)
{
	struct lend_ep *client;
	struct ask ask = {.call = {.method = LEND_METHOD_PING}};
	struct lend_stats stats;

	cr_assert_eq(lend_open(NULL, &client), 0);
	cr_assert_eq(lend_connect(client, service[0].address, session), 0);
	cr_assert_eq(run_call(client, *session, &ask), LEND_OK);
	for (int i = 0; i < SERVICES - 1; i++)
		do {
			turn_all(client);
			lend_stats_get(service[i].ep, &stats);
		} while (stats.sessions < 2);
	return client;
}

static void close_all(struct lend_ep *client)
{
	lend_close(client);
	for (int i = 0; i < SERVICES; i++)
		lend_close(service[i].ep);
}

/* Reads the ring of the service at a session into span[]. Returns how many spans there were. */
static uint32_t read_ring(struct lend_ep *client, lend_session session)
{
	struct lend_trace_head head = {.next = 0};
	uint32_t n = 0;

	do {
		struct ask ask = {.call = {.method = LEND_METHOD_TRACE, .done = ask_done}};

		ask.call.request = lend_buf_take(client, 8);
		memcpy(ask.call.request->data, &head.next, 8);
		ask.call.request->len = 8;
		cr_assert_eq(lend_call_start(client, session, &ask.call), 0);
		while (!ask.done)
			turn_all(client);
		cr_assert_eq(ask.call.status, LEND_OK);
		memcpy(&head, ask.call.reply->data, sizeof(head));
		cr_assert_eq(head.size, sizeof(head));
		cr_assert_eq(head.span_size, sizeof(span[0]));
		cr_assert_eq(ask.call.reply->len, head.size + head.n * head.span_size);
		cr_assert_leq(n + head.n, SPANS_MAX);
		memcpy(&span[n], (char *)ask.call.reply->data + head.size,
		       head.n * sizeof(span[0]));
		n += head.n;
		ask_give(client, &ask);
	} while (head.next);
	return n;
}

/* Reads the rings of all services. */
static uint32_t read_all(struct lend_ep *client)
{
	static struct lend_span all[SPANS_MAX];
	uint32_t n = 0;

	for (int i = 0; i < SERVICES; i++) {
		struct ask ask = {.call = {.method = LEND_METHOD_PING}};
		lend_session session;
		uint32_t here;

		cr_assert_eq(lend_connect(client, service[i].shm, &session), 0);
		cr_assert_eq(run_call(client, session, &ask), LEND_OK);
		here = read_ring(client, session);
		memcpy(&all[n], span, here * sizeof(span[0]));
		n += here;
		lend_disconnect(client, session);
	}
	memcpy(span, all, n * sizeof(span[0]));
	return n;
}

static const struct lend_span *find_id(const uint8_t id[8], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!memcmp(span[i].id, id, 8))
			return &span[i];
	return NULL;
}

static void check_tree(uint32_t n)
{
	uint32_t outside = 0; /* spans whose parent is the client's */

	for (uint32_t i = 0; i < n; i++) {
		const struct lend_span *s = &span[i], *parent = find_id(s->parent, n);

		cr_expect_str_eq(s->name, name);
		cr_expect_eq(memcmp(s->trace, span[0].trace, 16), 0);
		cr_expect_eq(s->status, LEND_NOT_FOUND);
		cr_expect_geq(s->end, s->start);
		outside += !parent;
		if (!parent)
			continue;
		cr_expect_neq(parent->kind, s->kind);
		cr_expect_leq(parent->start, s->start);
		cr_expect_geq(parent->end, s->start);
	}
	cr_expect_eq(outside, 1);
	/* servers' spans of all services, clients' of all but the last */
	cr_expect_eq(n, 2 * SERVICES - 1);
}

static void run_chain(const char *scheme, bool from_worker)
{
	struct lend_ep *client;
	lend_session session;
	struct ask ask = {.call = {.head = &named}};

	slow = from_worker;
	open_all(scheme);
	client = open_client(&session);
	cr_assert_eq(run_call(client, session, &ask), LEND_NOT_FOUND);
	cr_expect_eq(read_all(client), 0, "nothing is sampled");
	cr_assert_eq(lend_trace_sample(client, 1), 0);
	ask = (struct ask){.call = {.head = &named}};
	cr_assert_eq(run_call(client, session, &ask), LEND_NOT_FOUND);
	cr_expect(request_traced);
	cr_expect_eq(traced_in_worker, from_worker);
	cr_assert_eq(lend_trace_sample(client, 0), 0);
	check_tree(read_all(client));
	ask = (struct ask){.call = {.head = &named}};
	cr_assert_eq(run_call(client, session, &ask), LEND_NOT_FOUND);
	cr_expect(!request_traced);
	cr_expect_eq(read_all(client), 2 * SERVICES - 1, "sampling ended");
	close_all(client);
}

Test(rpc_trace, calls_of_handlers__sampled__are_one_tree)
{
	for (int i = 0; i < SCHEMES; i++)
		run_chain(pair_schemes[i], false);
}

Test(rpc_trace, calls_of_workers__sampled__are_in_the_tree)
{
	for (int i = 0; i < SCHEMES; i++)
		run_chain(pair_schemes[i], true);
}

Test(rpc_trace, calls_by_number__share__is_kept)
{
	enum { CALLS = 20000 };
	struct pair pair;
	uint32_t traced = 0;

	pair_open(&pair, "shm");
	cr_assert_eq(lend_trace_sample(pair.client, 1.5), -EINVAL);
	cr_assert_eq(lend_trace_sample(pair.client, -0.1), -EINVAL);
	cr_assert_eq(lend_trace_sample(pair.client, 0.05), 0);
	for (uint32_t i = 0; i < CALLS; i++) {
		struct ask ask = {.call = {.method = 0}};

		ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 20, i));
		cr_assert_eq(ask.call.status, LEND_OK);
		cr_assert(ask_same(ask.call.reply, 20, i));
		ask_give(pair.client, &ask);
	}
	service[0].ep = service[1].ep = service[2].ep = pair.server;
	traced = read_ring(pair.client, pair.session);
	cr_expect(traced > CALLS / 20 * 0.8 && traced < CALLS / 20 * 1.2, "%u", traced);
	cr_expect_str_eq(span[0].name, "1");
	cr_expect_eq(span[0].kind, LEND_SPAN_SERVER);
	pair_close(&pair);
}

Test(rpc_trace, ring__of_many_calls__keeps_the_newest)
{
	enum { CALLS = RING + 100 };
	struct pair pair;

	pair_open(&pair, "shm");
	cr_assert_eq(lend_trace_sample(pair.client, 1), 0);
	for (uint32_t i = 0; i < CALLS; i++) {
		struct ask ask = {.call = {.method = 0}};

		ask_run(&pair, &ask, ECHO, ask_bytes(pair.client, 20, i));
		ask_give(pair.client, &ask);
	}
	service[0].ep = service[1].ep = service[2].ep = pair.server;
	cr_expect_eq(read_ring(pair.client, pair.session), RING);
	for (uint32_t i = 1; i < RING; i++)
		cr_assert_leq(span[i - 1].start, span[i].start);
	pair_close(&pair);
}

Test(rpc_trace, ids_from_the_wire__malformed__are_ignored)
{
	static const char good[] = "\0\0tttttttttttttttt\1iiiiiiii\2\1";
	static const struct {
		const char *what;
		int at, value, len;
		bool traced;
	} table[] = {
	    {"as it is", -1, 0, 29, true},
	    {"not sampled", 28, 0, 29, false},
	    {"other flags, sampled", 28, 3, 29, true},
	    {"version", 0, 1, 29, false},
	    {"field of the trace", 1, 1, 29, false},
	    {"field of the span", 18, 0, 29, false},
	    {"field of the flags", 27, 3, 29, false},
	    {"short", -1, 0, 28, false},
	    {"long", -1, 0, 30, false},
	    {"empty", -1, 0, 0, false},
	    {"no trace", 2, 16, 29, false},
	    {"no span", 19, 8, 29, false},
	};
	struct pair pair;

	slow = false;
	pair_open(&pair, "shm");
	for (int i = 0; i < SERVICES; i++)
		service[i].ep = pair.server;
	cr_assert_eq(lend_serve_name(pair.server, name, serve_step, &service[SERVICES - 1], 0), 0);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lend_metadata *metadata = lend_metadata_new();
		struct lend_call_head head = {.name = name, .metadata = metadata};
		struct ask ask = {.call = {.head = &head}};
		char ids[30] = {0};

		memcpy(ids, good, 29);
		if (table[i].at == 2 || table[i].at == 19)
			memset(ids + table[i].at, 0, (size_t)table[i].value);
		else if (table[i].at >= 0)
			ids[table[i].at] = (char)table[i].value;
		cr_assert_eq(lend_metadata_add(metadata, key, ids, (size_t)table[i].len), 0);
		cr_assert_eq(run_call(pair.client, pair.session, &ask), LEND_NOT_FOUND);
		cr_expect_eq(request_traced, table[i].traced, "%s", table[i].what);
		if (table[i].traced)
			cr_expect(!memcmp(of_request.trace, good + 2, 16) &&
				  !memcmp(of_request.parent, good + 19, 8));
		lend_metadata_free(metadata);
	}
	pair_close(&pair);
}

Test(rpc_trace, environment__share__is_checked)
{
	static const struct {
		const char *text;
		int rc;
	} table[] = {{"0.5", 0},     {"1", 0},       {"", 0},        {"0", 0},
		     {"2", -EINVAL}, {"x", -EINVAL}, {"-1", -EINVAL}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lend_ep *ep = NULL;

		setenv("LEND_TRACE", table[i].text, 1);
		cr_expect_eq(lend_open(NULL, &ep), table[i].rc, "%s", table[i].text);
		lend_close(ep);
	}
}
