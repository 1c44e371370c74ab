/* Goal: a server that drains ends what is in progress, and refuses the rest as not run. Method: raw
 * frames and a native session in the thread of the endpoint. Covers: src/rpc/drain.c,
 * src/gateway/gateway.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/raw_client.h"
#include "lend/metadata.h"

#define HELLO "\0\0\0\0\5hello"
enum { HEADERS = NGHTTP2_FLAG_END_HEADERS, END = NGHTTP2_FLAG_END_STREAM, REQUESTS_MAX = 1000 };

static struct lend_ep *ep;
static char address[256];
static lend_request held;
static unsigned runs;

static void serve_late(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)in, (void)arg;
	held = request;
	runs++;
}

static void open_at(const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = listen;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Late", serve_late, NULL, 0), 0);
}

static void await_runs(struct raw_client *raw, unsigned n)
{
	for (lend_ns end = lend_now(ep) + 10000000000; runs < n && lend_now(ep) < end;)
		raw_turn(raw);
	cr_assert_eq(runs, n);
}

static void send_request(struct raw_client *raw, uint32_t stream)
{
	raw_request(raw, stream, "/t.T/Late", "", HEADERS);
	raw_frame(raw, NGHTTP2_DATA, END, stream, HELLO, 10);
}

Test(gateway_drain, http2)
{
	struct raw_client raw;

	open_at("http2:127.0.0.1:0");
	raw_open(&raw, ep, address);
	send_request(&raw, 1);
	await_runs(&raw, 1);
	cr_assert_eq(lend_drain(ep, 0), -ETIMEDOUT);
	while (!raw.pings)
		raw_turn(&raw);
	cr_assert(raw.goaway == NGHTTP2_NO_ERROR && raw.last == INT32_MAX, "%d", raw.last);
	lend_reply_copy(ep, held, LEND_OK, NULL, 0);
	send_request(&raw, 3); /* on its way when the client read the first GOAWAY */
	raw_frame(&raw, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, raw.ping, 8);
	await_runs(&raw, 2);
	while (raw.last == INT32_MAX)
		raw_turn(&raw);
	cr_assert_eq(raw.last, 3);
	send_request(&raw, 5);
	lend_reply_copy(ep, held, LEND_OK, NULL, 0);
	while (!raw.lost && raw.heads < 4)
		raw_turn(&raw);
	cr_assert(raw.heads == 4 && runs == 2, "%u %u", raw.heads, runs);
	raw_close(&raw);
	cr_assert_eq(lend_drain(ep, 10000000000), 0, "%s", lend_why());
	lend_close(ep);
}

/* Connections that are idle, or old, are asked to end. What is in progress goes on, for a grace. */
Test(gateway_drain, lifetimes)
{
	static const struct {
		const char *parameters;
		bool held;         /* a request is in progress */
		bool answers;      /* the PING, and then the request */
		bool more;         /* requests until then */
		unsigned ran;      /* requests at the end, at least */
		unsigned after_ms; /* the first GOAWAY comes */
		int grpc;          /* last status of a request */
	} table[] = {
	    {"max_idle=0.05", .answers = true, .ran = 1, .after_ms = 45},
	    {"max_idle=0.05&keepalive_timeout=0.1", .ran = 1, .after_ms = 45},
	    {"max_age=0.05", .held = true, .answers = true, .ran = 1, .after_ms = 44},
	    {"max_age=0.05&max_age_grace=0.05", .held = true, .ran = 1, .after_ms = 44, .grpc = -1},
	    {"max_idle=0.02&max_age=0.2", .held = true, .answers = true, .ran = 1, .after_ms = 179},
	    {"max_idle=100&max_age=0.3", .answers = true, .more = true, .ran = 2, .after_ms = 269}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct raw_client raw;
		char listen[128];
		lend_ns began, end;

		runs = 0;
		(void)snprintf(listen, sizeof(listen), "http2:127.0.0.1:0?%s", table[i].parameters);
		open_at(listen);
		began = lend_now(ep);
		end = began + 10000000000;
		raw_open(&raw, ep, address);
		send_request(&raw, 1);
		await_runs(&raw, 1);
		if (!table[i].held)
			lend_reply_copy(ep, held, LEND_OK, NULL, 0);
		for (uint32_t stream = 3; !raw.pings && lend_now(ep) < end; raw_turn(&raw)) {
			if (!table[i].more || raw.heads < 2 * runs || runs == REQUESTS_MAX)
				continue; /* the client gives no credit */
			send_request(&raw, stream);
			stream += 2;
			await_runs(&raw, runs + 1);
			lend_reply_copy(ep, held, LEND_OK, NULL, 0);
		}
		cr_assert(raw.goaway == NGHTTP2_NO_ERROR && raw.last == INT32_MAX, "row %u", i);
		cr_assert_geq(lend_now(ep) - began, table[i].after_ms * UINT64_C(1000000), "row %u",
			      i);
		if (table[i].answers)
			raw_frame(&raw, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, raw.ping, 8);
		while (table[i].answers && !raw.lost && raw.last == INT32_MAX && lend_now(ep) < end)
			raw_turn(&raw);
		if (table[i].held && table[i].answers)
			lend_reply_copy(ep, held, LEND_OK, NULL, 0);
		while (!raw.lost && lend_now(ep) < end)
			raw_turn(&raw);
		cr_assert(raw.lost, "row %u", i);
		cr_assert_geq(runs, table[i].ran, "row %u", i);
		cr_assert_eq(raw.grpc, table[i].grpc, "row %u: %d", i, raw.grpc);
		raw_close(&raw);
		lend_close(ep);
	}
}

static unsigned ended;
static void note_end(struct lend_call *call)
{
	(void)call;
	ended++;
}

Test(gateway_drain, native)
{
	static const struct lend_call_head head = {.name = "/t.T/Late"};
	struct lend_call early = {.head = &head, .done = note_end},
			 late = {.head = &head, .done = note_end};
	struct lend_ep *client;
	lend_session session;
	char name[32];

	(void)snprintf(name, sizeof(name), "shm:drain%d", getpid());
	open_at(name);
	cr_assert_eq(lend_open(NULL, &client), 0);
	cr_assert_eq(lend_connect(client, name, &session), 0, "%s", lend_why());
	cr_assert_eq(lend_call_start(client, session, &early), 0);
	for (; !runs; (void)lend_poll(client))
		(void)lend_poll(ep);
	cr_assert_eq(lend_drain(ep, 0), -ETIMEDOUT);
	cr_assert_eq(lend_call_start(client, session, &late), 0);
	for (; !ended; (void)lend_poll(client))
		(void)lend_poll(ep);
	cr_assert(late.status == LEND_UNAVAILABLE && late.ran == LEND_RAN_NO, "%d", late.status);
	cr_assert_eq(lend_drain(ep, 0), -ETIMEDOUT);
	lend_reply_copy(ep, held, LEND_OK, NULL, 0);
	for (; ended < 2; (void)lend_poll(client))
		(void)lend_poll(ep);
	cr_assert_eq(early.status, LEND_OK);
	for (int rc = -ETIMEDOUT; rc < 0; (void)lend_poll(client))
		rc = lend_drain(ep, 1000000);
	cr_assert_eq(runs, 1);
	lend_close(client);
	lend_close(ep);
}
