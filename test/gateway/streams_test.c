/* Goal: methods of streams work with a stock client: all four kinds, in order, with the status and
 * metadata at the end; neither side runs ahead of a slow other one; each end can end first. Method:
 * an HTTP/2 client in the thread of the endpoint. Covers: src/gateway/exchange_stream.c,
 * src/gateway/exchange_messages.c, src/gateway/message.c, src/gateway/exchange_reply.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/http2_client.h"
#include "lend/stats.h"
#include "lend/stream.h"

enum { STREAMS = 8, MESSAGE = 1000, LONGEST = 1 << 20 };

/* The server's ends of streams. */
static struct talk {
	struct lend_stream stream;
	bool open, done;
	enum lend_status status;
	struct lend_buf *unsent;
	uint32_t got, to_send, sent, limit;
	bool mute; /* reads nothing */
} talks[STREAMS];
static struct lend_ep *ep;
static char address[256];
static struct http2_client client;

static struct talk *talk_of(struct lend_stream *stream)
{
	return (struct talk *)(void *)stream;
}

static void talk_ended(struct lend_stream *stream)
{
	struct talk *t = talk_of(stream);

	t->status = stream->status;
	t->open = false;
	t->done = true;
	lend_buf_give(ep, t->unsent);
}

static void end_talk(struct talk *t, enum lend_status status)
{
	struct lend_metadata *m = lend_metadata_new();
	struct lend_reply_head head = {.trailing = m, .message = status ? "broken" : NULL};

	(void)lend_metadata_add(m, "got", "yes", 3);
	cr_assert_eq(lend_stream_end_with(ep, &t->stream, status, &head), 0);
	lend_metadata_free(m);
}

/* Sends every message back, and ends after the client. */
static void echo_messages(struct lend_stream *stream)
{
	struct talk *t = talk_of(stream);
	struct lend_buf *message = t->unsent;
	int rc = 0;

	t->unsent = NULL;
	while (message || (rc = lend_stream_read(ep, stream, &message)) == 0) {
		if (lend_stream_write(ep, stream, message) < 0) {
			t->unsent = message;
			return;
		}
		t->got++;
		message = NULL;
		if (t->limit && t->got == t->limit) {
			end_talk(t, LEND_ABORTED);
			return;
		}
	}
	if (rc == -ENODATA)
		end_talk(t, LEND_OK);
}

/* Sends ten times as many messages as the first byte of the request. */
static void send_down(struct lend_stream *stream)
{
	struct talk *t = talk_of(stream);
	struct lend_buf *message;

	if (!t->got && lend_stream_read(ep, stream, &message) == 0) {
		t->got = 1;
		t->to_send = 10u * *(uint8_t *)message->data;
		lend_buf_give(ep, message);
	}
	while (t->got && t->sent < t->to_send) {
		message = lend_buf_take(ep, MESSAGE);
		memset(message->data, (int)t->sent, MESSAGE);
		message->len = MESSAGE;
		if (lend_stream_write(ep, stream, message) < 0) {
			lend_buf_give(ep, message);
			return;
		}
		t->sent++;
	}
	if (t->got && t->sent == t->to_send)
		end_talk(t, LEND_OK);
}

/* Answers once, with the number of messages. */
static void count_up(struct lend_stream *stream)
{
	struct talk *t = talk_of(stream);
	struct lend_buf *message;
	int rc = t->mute ? -EAGAIN : 0;

	while (rc == 0) {
		rc = lend_stream_read(ep, stream, &message);
		if (rc == 0)
			lend_buf_give(ep, message);
		t->got += rc == 0;
	}
	if (rc != -ENODATA)
		return;
	message = lend_buf_take(ep, 4);
	memcpy(message->data, &t->got, 4);
	message->len = 4;
	cr_assert_eq(lend_stream_write(ep, stream, message), 0);
	end_talk(t, LEND_OK);
}

static void serve_stream(lend_request request, void *arg)
{
	void (*run)(struct lend_stream *) = *(void (**)(struct lend_stream *))arg;
	const char *name = lend_request_text(ep, request, LEND_TEXT_METHOD);
	struct talk *t = talks;

	while (t->open)
		t++;
	*t = (struct talk){.stream = {.readable = run, .writable = run, .ended = talk_ended},
			   .open = true,
			   .limit = strstr(name, "Break") ? 2 : 0,
			   .mute = strstr(name, "Mute")};
	cr_assert_eq(lend_stream_accept(ep, request, &t->stream), 0);
}

static void open_all(void)
{
	static void (*const echo)(struct lend_stream *) = echo_messages;
	static void (*const down)(struct lend_stream *) = send_down;
	static void (*const up)(struct lend_stream *) = count_up;
	const struct {
		const char *name;
		const void *run;
	} methods[] = {{"/t.T/Talk", &echo},
		       {"/t.T/Break", &echo},
		       {"/t.T/Down", &down},
		       {"/t.T/Up", &up},
		       {"/t.T/Mute", &up}};
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = "http2:127.0.0.1:0";
	config.message_max = LONGEST;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
	for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		cr_assert_eq(lend_serve_stream_name(ep, methods[i].name, serve_stream,
						    (void *)methods[i].run, 0),
			     0);
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

/* Makes n messages of len bytes, which differ, with gRPC's prefix. */
static uint8_t *make_messages(uint32_t n, uint32_t len)
{
	uint8_t *bytes = calloc(n, len + 5), *at = bytes;

	for (uint32_t i = 0; i < n; i++, at += len + 5) {
		for (unsigned k = 0; k < 4; k++)
			at[1 + k] = (uint8_t)(len >> (24 - 8 * k));
		for (uint32_t k = 0; k < len; k++)
			at[5 + k] = (uint8_t)(k + i * 7);
	}
	return bytes;
}

static void assert_status(const struct answer *a, const char *status)
{
	const char *found = answer_header(a->trailing, "grpc-status");

	found = found ? found : answer_header(a->initial, "grpc-status");
	cr_assert(found && !strcmp(found, status), "%s", found ? found : a->initial);
}

/* All messages come back in order, of any length and number, also without any. */
Test(gateway_streams, bidirectional, .init = open_all, .fini = close_all)
{
	static const struct {
		uint32_t n, len;
	} table[] = {{0, 0}, {1, 0}, {1, 100}, {20, 1}, {1000, 10}, {50, 70000}, {3, LONGEST}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint8_t *bytes = make_messages(table[i].n + 1, table[i].len);
		struct answer a = {.path = "/t.T/Talk",
				   .body = bytes,
				   .len = table[i].n * (size_t)(table[i].len + 5)};

		http2_client_ask(&client, &a);
		turn_until(&a.over);
		assert_status(&a, "0");
		cr_assert_str_eq(answer_header(table[i].n ? a.trailing : a.initial, "got"), "yes");
		cr_assert_eq(a.n, a.len, "row %u: %zu of %zu", i, a.n, a.len);
		if (a.n)
			cr_assert_arr_eq(a.bytes, bytes, a.n);
		free(a.bytes);
		free(bytes);
	}
}

/* Each message comes back before the next one is sent. */
Test(gateway_streams, turns, .init = open_all, .fini = close_all)
{
	uint8_t *bytes = make_messages(10, 20);
	struct answer a = {.path = "/t.T/Talk", .body = bytes, .open = true};

	http2_client_ask(&client, &a);
	for (unsigned i = 1; i <= 10; i++) {
		lend_ns end = lend_now(ep) + 10000000000;

		a.len = i * 25;
		a.open = i < 10;
		(void)nghttp2_session_resume_data(client.session, a.stream);
		while (a.n < a.len && lend_now(ep) < end)
			turn_once();
		cr_assert_eq(a.n, a.len);
	}
	turn_until(&a.over);
	assert_status(&a, "0");
	cr_assert_arr_eq(a.bytes, bytes, a.n);
	free(a.bytes);
	free(bytes);
}

Test(gateway_streams, one_side, .init = open_all, .fini = close_all)
{
	uint8_t *bytes = make_messages(300, 5);
	struct answer down = {.path = "/t.T/Down", .body = "\0\0\0\0\1\x14", .len = 6};
	struct answer up = {.path = "/t.T/Up", .body = bytes, .len = 3000};

	http2_client_ask(&client, &down);
	turn_until(&down.over);
	assert_status(&down, "0");
	cr_assert_eq(down.n, 200 * (MESSAGE + 5));
	for (unsigned i = 0; i < 200; i++)
		cr_assert(down.bytes[i * (MESSAGE + 5) + 5] == i, "in order");
	http2_client_ask(&client, &up);
	turn_until(&up.over);
	assert_status(&up, "0");
	cr_assert(up.n == 9 && !memcmp(up.bytes, "\0\0\0\0\4\x2c\1\0\0", 9));
	free(down.bytes);
	free(up.bytes);
	free(bytes);
}

/* The server ends with a status while the client goes on sending. */
Test(gateway_streams, server_ends_first, .init = open_all, .fini = close_all)
{
	uint8_t *bytes = make_messages(20, 100);
	struct answer a = {.path = "/t.T/Break", .body = bytes, .len = 2100, .open = true};

	http2_client_ask(&client, &a);
	turn_until(&a.over);
	assert_status(&a, "10");
	cr_assert_str_eq(answer_header(a.trailing, "grpc-message"), "broken");
	cr_assert_eq(a.n, 210);
	free(a.bytes);
	free(bytes);
}

/* A client that does not read stops the server; a server that does not read stops the client. */
Test(gateway_streams, slow_readers, .init = open_all, .fini = close_all)
{
	uint8_t *bytes = make_messages(4000, 1000);
	struct answer down = {.path = "/t.T/Down", .body = "\0\0\0\0\1\xff", .len = 6};
	struct answer mute = {.path = "/t.T/Mute", .body = bytes, .len = 4000 * 1005};
	struct lend_stats stats;

	client.slow = true;
	http2_client_ask(&client, &down);
	http2_client_ask(&client, &mute);
	for (int i = 0; i < 3000; i++)
		turn_once();
	cr_assert_eq(down.n, 65535);
	cr_assert_lt(talks[0].sent, 65535 / MESSAGE + 40, "%u", talks[0].sent);
	cr_assert_leq(mute.sent, 2 << 20, "%zu", mute.sent);
	cr_assert_not(mute.over);
	lend_stats_get(ep, &stats);
	cr_assert_lt(stats.buf_bytes, 8 << 20);
	nghttp2_submit_rst_stream(client.session, 0, mute.stream, NGHTTP2_CANCEL);
	turn_until(&talks[1].done);
	cr_assert_eq(talks[1].status, LEND_CANCELLED);
	client.slow = false;
	(void)nghttp2_session_consume(client.session, down.stream, down.n);
	turn_until(&down.over);
	assert_status(&down, "0");
	cr_assert_eq(down.n, 2550 * (MESSAGE + 5));
	free(down.bytes);
	free(bytes);
}

/* The request ends inside of a message while earlier ones wait for credit. */
Test(gateway_streams, cut_behind_a_slow_server, .init = open_all, .fini = close_all)
{
	uint8_t *bytes = make_messages(60, 1000);
	struct answer a = {.path = "/t.T/Mute", .body = bytes, .len = 59 * 1005 + 3};

	http2_client_ask(&client, &a);
	for (int i = 0; i < 500; i++)
		turn_once();
	cr_assert_eq(a.sent, a.len);
	cr_assert_not(a.over);
	talks[0].mute = false;
	count_up(&talks[0].stream);
	turn_until(&a.over);
	assert_status(&a, "13");
	free(bytes);
}

/* Malformed messages and deadlines end the server's stream, too. */
Test(gateway_streams, ends_with_errors, .init = open_all, .fini = close_all)
{
	static const struct {
		const char *path, *headers, *body;
		size_t len;
		bool open;
		const char *status;
	} table[] = {{"/t.T/Talk", "", "\0\0\0\0\1a\2", 7, false, "13"},
		     {"/t.T/Talk", "", "\0\0\0\0\1a\2\0\0\0\1b", 12, true, "13"},
		     {"/t.T/Talk", "", "\0\0\0\0\1a\0\0\0\0\2b", 12, false, "13"},
		     {"/t.T/Talk", "", "\0\xff\0\0\0", 5, true, "8"},
		     {"/t.T/Talk", "", "\0\0\x10\0\1", 5, true, "8"}, /* LONGEST + 1 */
		     {"/t.T/Talk", "grpc-timeout: 20m\n", "\0\0\0\0\1a", 6, true, "4"},
		     {"/t.T/Up", "grpc-timeout: 20m\n", "", 0, true, "4"}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct answer a = {.path = table[i].path,
				   .headers = table[i].headers,
				   .body = table[i].body,
				   .len = table[i].len,
				   .open = table[i].open};

		http2_client_ask(&client, &a);
		turn_until(&a.over);
		assert_status(&a, table[i].status);
		for (int k = 0; k < 1000 && (k < 100 || talks[0].open); k++)
			turn_once();
		cr_assert_not(talks[0].open, "row %u", i);
		free(a.bytes);
	}
}

/* The connection ends in the middle of streams. */
Test(gateway_streams, client_goes, .init = open_all, .fini = close_all)
{
	uint8_t *bytes = make_messages(4000, 1000);
	struct answer a = {.path = "/t.T/Talk", .body = bytes, .len = 4000 * 1005};
	struct answer b = {.path = "/t.T/Mute", .body = bytes, .len = 4000 * 1005};

	client.slow = true;
	http2_client_ask(&client, &a);
	http2_client_ask(&client, &b);
	for (int i = 0; i < 1000; i++)
		turn_once();
	http2_client_close(&client);
	for (int i = 0; i < 2; i++)
		while (!talks[i].done)
			(void)lend_poll(ep);
	http2_client_open(&client, address);
	free(a.bytes);
	free(bytes);
}
