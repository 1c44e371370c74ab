/* Goal: a stock gRPC client's calls reach the handlers of their names and get status, message,
 * metadata and reply as gRPC's specification defines; malformed, slow and endless requests end with
 * a status or with their connection, and others continue. Method: an HTTP/2 client in the thread of
 * the endpoint, tables. Covers: src/gateway/exchange_request.c, src/gateway/exchange_headers.c,
 * src/gateway/exchange_call.c, src/gateway/connection.c, src/gateway/gateway.c,
 * src/gateway/headers.c, src/rpc/gateways.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/http2_client.h"
#include "lend/metadata.h"
#include "kit/counter.h"

static struct lend_ep *ep;
static char address[256];
static struct http2_client client;
static lend_request held;
static unsigned runs;

/* Answers with the request's bytes, and its metadata as initial ones. */
static void serve_echo(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_metadata *initial = lend_metadata_new(), *trailing = lend_metadata_new();
	struct lend_reply_head head = {.initial = initial, .trailing = trailing};
	struct lend_buf *out = lend_buf_take(ep, in->len + 1);
	struct lend_pair pair;

	(void)arg;
	runs++;
	for (uint32_t at = 0; lend_request_metadata(ep, request, &at, &pair);)
		(void)lend_metadata_add(initial, pair.key, pair.value, pair.len);
	(void)lend_metadata_add(trailing, "end-bin", "\0\1\xff", 3);
	memcpy(out->data, in->data, in->len);
	out->len = in->len;
	cr_assert_eq(lend_reply_with(ep, request, LEND_OK, out, &head), 0);
	lend_metadata_free(initial);
	lend_metadata_free(trailing);
}

/* Fails with initial metadata if the request has bytes. */
static void serve_failure(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_metadata *m = lend_metadata_new();
	struct lend_reply_head head = {
	    .initial = in->len ? m : NULL, .trailing = m, .message = "50 % \xe2\x98\xba"};

	(void)arg;
	(void)lend_metadata_add(m, "k", "v", 1);
	cr_assert_eq(lend_reply_with(ep, request, LEND_FAILED_PRECONDITION, NULL, &head), 0);
	lend_metadata_free(m);
}

static void serve_hold(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)in;
	(void)arg;
	held = request;
}

static void open_all(void)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = "http2:127.0.0.1:0";
	config.message_max = 4 << 20;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
	cr_assert_eq(strncmp(address, "http2:127.0.0.1:", 16), 0, "%s", address);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Echo", serve_echo, NULL, 0), 0);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Fail", serve_failure, NULL, 0), 0);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Hold", serve_hold, NULL, 0), 0);
	http2_client_open(&client, address);
}

static void close_all(void)
{
	http2_client_close(&client);
	lend_close(ep);
}

static void turn_once(void)
{
	http2_client_turn(&client, ep);
}

static void turn_until(const bool *done)
{
	http2_client_until(&client, ep, done);
}

/* Makes a request. The caller frees answer->bytes. */
static void ask_once(struct answer *answer)
{
	http2_client_ask(&client, answer);
	turn_until(&answer->over);
}

static const char *status_of(const struct answer *a)
{
	const char *status = answer_header(a->trailing, "grpc-status");

	return status ? status : answer_header(a->initial, "grpc-status");
}

#define ECHO "\0\0\0\0\5hello"

Test(gateway_calls, statuses, .init = open_all, .fini = close_all)
{
	static const struct {
		const char *path, *headers, *body;
		size_t len;
		const char *http, *status; /* status NULL: none */
	} table[] = {{"/t.T/Echo", "", ECHO, 10, "200", "0"},
		     {"/t.T/Echo", "", "\0\0\0\0\0", 5, "200", "0"},
		     {"/t.T/None", "", ECHO, 10, "200", "12"},
		     {"/t.T/Fail", "", ECHO, 10, "200", "9"},
		     {"/t.T/Hold", "grpc-timeout: 1m\n", ECHO, 10, "200", "4"},
		     {"/t.T/Hold", "grpc-timeout: 0n\n", ECHO, 10, "200", "4"},
		     {"/t.T/Echo", "grpc-timeout: 1x\n", ECHO, 10, "200", "13"},
		     {"/t.T/Echo", "grpc-timeout: 10S\n", ECHO, 10, "200", "0"},
		     {"/t.T/Echo", "grpc-encoding: snappy\n", ECHO, 10, "200", "12"},
		     {"/t.T/Echo", "grpc-encoding: gzip\n", ECHO, 10, "200", "0"},
		     {"/t.T/Echo", "grpc-encoding: gzip\n", "\1\0\0\0\5hello", 10, "200", "13"},
		     {"/t.T/Echo", "grpc-encoding: identity\n", ECHO, 10, "200", "0"},
		     {"/t.T/Echo", "x-bin: AA*A\n", ECHO, 10, "200", "13"},
		     {"/t.T/Echo", "", "\1\0\0\0\5hello", 10, "200", "13"},
		     {"/t.T/Echo", "", "\2\0\0\0\5hello", 10, "200", "13"},
		     {"/t.T/Echo", "", "\0\0\0\0\6hello", 10, "200", "13"},
		     {"/t.T/Echo", "", "\0\0\0", 3, "200", "13"},
		     {"/t.T/Echo", "", "", 0, "200", "12"},
		     {"/t.T/Echo", "", ECHO ECHO, 19, "200", "12"},
		     {"/t.T/Echo", "", "\0\xff\xff\xff\xff", 5, "200", "8"},
		     {"/t.T/Echo", "", "\0\0\x40\0\1", 5, "200", "8"},
		     {"/t.T/Echo", "content-type: text/plain\n", ECHO, 10, "415", NULL},
		     {"/t.T/Echo", ":method: PUT\n", ECHO, 10, "405", NULL}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct answer a = {.path = table[i].path,
				   .headers = table[i].headers,
				   .body = table[i].body,
				   .len = table[i].len};

		ask_once(&a);
		cr_assert_str_eq(a.http, table[i].http, "row %u: %s", i, a.http);
		if (table[i].status)
			cr_assert_str_eq(status_of(&a), table[i].status, "row %u: %s", i,
					 status_of(&a));
		else
			cr_assert_null(status_of(&a));
		free(a.bytes);
	}
}

Test(gateway_calls, metadata_and_messages, .init = open_all, .fini = close_all)
{
	struct answer a = {.path = "/t.T/Echo",
			   .headers = "k: v 1\nx-bin: AAH/,Zm9v\nx-bin: YQ==\n",
			   .body = ECHO,
			   .len = 10};
	struct answer fail = {.path = "/t.T/Fail", .body = "\0\0\0\0\0", .len = 5};
	struct answer early = {.path = "/t.T/Fail", .body = ECHO, .len = 10};

	ask_once(&a);
	cr_assert_eq(a.n, 10);
	cr_assert_arr_eq(a.bytes, ECHO, 10);
	cr_assert_str_eq(a.initial, "content-type: application/grpc\nk: v 1\nx-bin: AAH/\n"
				    "x-bin: Zm9v\nx-bin: YQ==\n");
	cr_assert_str_eq(a.trailing, "grpc-status: 0\nend-bin: AAH/\n");
	free(a.bytes);
	ask_once(&fail); /* one block of headers */
	cr_assert_str_eq(fail.initial, "content-type: application/grpc\ngrpc-status: 9\n"
				       "grpc-message: 50 %25 %E2%98%BA\nk: v\n");
	cr_assert_str_empty(fail.trailing);
	ask_once(&early);
	cr_assert_str_eq(early.initial, "content-type: application/grpc\nk: v\n");
	cr_assert_str_eq(early.trailing, "grpc-status: 9\ngrpc-message: 50 %25 %E2%98%BA\nk: v\n");
}

/* Requests of one connection share what the headers mean only while these are the same. */
Test(gateway_calls, headers_in_turns, .init = open_all, .fini = close_all)
{
	static const char *const table[] = {"",       "k: 1\n",       "k: 1\n", "k: 2\n", "",
					    "j: 1\n", "j: 1\nk: 1\n", "k: 1\n", ""};
	char expected[128];

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct answer a = {
		    .path = "/t.T/Echo", .headers = table[i], .body = ECHO, .len = 10};

		ask_once(&a);
		(void)snprintf(expected, sizeof(expected), "content-type: application/grpc\n%s",
			       table[i]);
		cr_assert_str_eq(a.initial, expected, "row %u: %s", i, a.initial);
		free(a.bytes);
	}
}

/* Lengths around frames, windows and segments. */
Test(gateway_calls, lengths, .init = open_all, .fini = close_all)
{
	static const uint32_t lengths[] = {1,      16379,  16384,   65535,   65536,
					   131072, 131073, 1 << 20, 3000000, 4 << 20};
	uint8_t *body = malloc(ANSWER_MAX);

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct answer a = {.path = "/t.T/Echo",
				   .headers = "k: not of the message\n",
				   .body = body,
				   .len = lengths[i] + 5};

		memset(body, 0, 5);
		for (unsigned k = 0; k < 4; k++)
			body[1 + k] = (uint8_t)(lengths[i] >> (24 - 8 * k));
		for (uint32_t k = 0; k < lengths[i]; k++)
			body[5 + k] = (uint8_t)(k * 31 + i);
		ask_once(&a);
		cr_assert_str_eq(status_of(&a), "0", "%u: %s", lengths[i], a.initial);
		cr_assert_eq(a.n, a.len, "%zu of %zu: %s%s", a.n, a.len, a.initial, a.trailing);
		cr_assert_arr_eq(a.bytes, body, a.n);
		free(a.bytes);
	}
	free(body);
}

/* More than a session has calls, and each in order of its own. */
Test(gateway_calls, many_at_once, .init = open_all, .fini = close_all)
{
	enum { N = 1000 };
	struct answer *all = calloc(N, sizeof(*all));
	char body[N][16];

	for (unsigned i = 0; i < N; i++) {
		memcpy(body[i], "\0\0\0\0\4", 5);
		memcpy(body[i] + 5, &i, 4);
		all[i] = (struct answer){.path = "/t.T/Echo", .body = body[i], .len = 9};
		http2_client_ask(&client, &all[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		turn_until(&all[i].over);
		cr_assert(all[i].n == 9 && !memcmp(all[i].bytes, body[i], 9), "%u", i);
		free(all[i].bytes);
	}
	cr_assert_eq(runs, N);
	cr_assert_eq(counter_of(ep, "gateway_calls"), N);
	cr_assert_eq(counter_of(ep, "gateway_errors"), 0);
	cr_assert_eq(counter_of(ep, "gateway_connections"), 1);
	free(all);
}

Test(gateway_calls, cancel_reaches_the_handler, .init = open_all, .fini = close_all)
{
	struct answer a = {.path = "/t.T/Hold", .body = ECHO, .len = 10};
	struct answer next = {.path = "/t.T/Echo", .body = ECHO, .len = 10};

	http2_client_ask(&client, &a);
	while (!held.id)
		turn_once();
	cr_assert_not(lend_request_cancelled(ep, held));
	nghttp2_submit_rst_stream(client.session, 0, a.stream, NGHTTP2_CANCEL);
	while (!lend_request_cancelled(ep, held))
		turn_once();
	ask_once(&next);
	cr_assert_str_eq(status_of(&next), "0");
	free(next.bytes);
}

/* The connection ends while calls run, and while a reply waits for the client's window. */
Test(gateway_calls, client_goes, .init = open_all, .fini = close_all)
{
	struct answer a = {.path = "/t.T/Hold", .body = ECHO, .len = 10};
	struct answer b = {.path = "/t.T/Echo", .len = 1000005};
	uint8_t *body = calloc(1, b.len);

	body[2] = 0x0f;
	body[3] = 0x42;
	body[4] = 0x40;
	b.body = body;
	client.slow = true;
	http2_client_ask(&client, &a);
	http2_client_ask(&client, &b);
	while (!held.id || b.n < 65535)
		turn_once();
	for (int i = 0; i < 100; i++)
		turn_once();
	cr_assert_eq(b.n, 65535, "no byte beyond the window");
	http2_client_close(&client);
	while (!lend_request_cancelled(ep, held))
		(void)lend_poll(ep);
	http2_client_open(&client, address);
	free(b.bytes);
	b = (struct answer){.path = "/t.T/Echo", .body = ECHO, .len = 10};
	ask_once(&b);
	cr_assert_str_eq(status_of(&b), "0");
	free(b.bytes);
	free(body);
}

/* Memory is taken for what has arrived of a message, not for its announced length. */
Test(gateway_calls, announced_message, .init = open_all, .fini = close_all)
{
	struct answer announced = {
	    .path = "/t.T/Echo", .body = "\0\0\x3f\xff\xffx", .len = 6, .open = true};
	struct answer next = {.path = "/t.T/Echo", .body = ECHO, .len = 10};
	struct lend_stats before, stats;

	ask_once(&next);
	free(next.bytes);
	lend_stats_get(ep, &before);
	http2_client_ask(&client, &announced);
	for (int i = 0; i < 1000; i++)
		turn_once();
	lend_stats_get(ep, &stats);
	cr_assert_leq(stats.buf_bytes - before.buf_bytes, 128 << 10);
	next = (struct answer){.path = "/t.T/Echo", .body = ECHO, .len = 10};
	ask_once(&next);
	cr_assert_str_eq(status_of(&next), "0");
	free(next.bytes);
}

Test(gateway_calls, addresses)
{
	static const struct {
		const char *listen;
		int err;
	} table[] = {{"http2:127.0.0.1:0", 0},
		     {"http2:[::1]:0", 0},
		     {"udp:127.0.0.1:0,http2:127.0.0.1:0,http2:127.0.0.1:0", 0},
		     {"http2:nowhere", -EINVAL},
		     {"http2:127.0.0.1:port", -EINVAL},
		     {"http2:127.0.0.1:99999", -EINVAL},
		     {"http2:", -EINVAL}};
	struct lend_config config = LEND_CONFIG_INIT;

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		config.listen = table[i].listen;
		cr_assert_eq(lend_open(&config, &ep), table[i].err, "%s: %s", table[i].listen,
			     lend_why());
		if (table[i].err)
			continue;
		cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
		lend_close(ep);
	}
}

/* The last frame to a client is a GOAWAY with the number of its last request. */
Test(gateway_calls, goodbye, .init = open_all)
{
	struct answer a = {.path = "/t.T/Hold", .body = ECHO, .len = 10};
	uint8_t in[4096];
	ssize_t n;

	http2_client_ask(&client, &a);
	while (!held.id)
		turn_once();
	cr_assert_eq(nghttp2_session_check_request_allowed(client.session), 1);
	lend_close(ep);
	while ((n = recv(client.fd, in, sizeof(in), 0)) > 0)
		cr_assert_eq(nghttp2_session_mem_recv(client.session, in, (size_t)n), n);
	cr_assert_eq(n, 0, "%s", strerror(errno));
	cr_assert_eq(nghttp2_session_check_request_allowed(client.session), 0);
	http2_client_close(&client);
}
