/* Goal: messages of a stream arrive in order, each once, within credit, and before the status; both
 * directions end by half-close, status, cancel, deadline or death, and leave nothing. Method: two
 * endpoints in one thread, over shm and udp; scripted ends that write as much as they may and check
 * each byte they read. Covers: src/rpc/stream.c, src/rpc/stream_table.c, src/rpc/stream_calls.c,
 * src/rpc/stream_serve.c, src/stream/duplex.c */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "e2e/rpc_pair.h"
#include "lend/metadata.h"
#include "lend/stream.h"
#include "stream/duplex.h"

enum { STREAM = 40, OTHER = 41 };
#define MS UINT64_C(1000000)

/* One end of a stream, which writes `writes` messages. */
struct end {
	struct lend_stream stream; /* first */
	struct lend_ep *ep;
	uint32_t writes, written, read;
	uint32_t len;  /* of each message; UINT32_MAX: of many lengths */
	bool finishes; /* opener: half-close after the last one */
	bool stopped;  /* it does not read */
	bool answers;  /* server: ends with OK when both directions are done */
	bool eof, over;
	uint32_t ends; /* times that ended() ran */
};

static struct end server;
static uint32_t opened;
static char told[512]; /* text of the last status */

static uint32_t length_of(const struct end *e, uint32_t i)
{
	static const uint32_t many[] = {0, 1, 488, 489, 2000, 60000, 100000, 7};

	return e->len == UINT32_MAX ? many[i % 8] : e->len;
}

static void write_some(struct end *e)
{
	while (e->written < e->writes) {
		struct lend_buf *m = ask_bytes(e->ep, length_of(e, e->written), e->written);
		int rc = lend_stream_write(e->ep, &e->stream, m);

		if (rc < 0) {
			lend_buf_give(e->ep, m);
			cr_assert(rc == -EAGAIN || rc == -EPIPE, "%d", rc);
			return;
		}
		e->written++;
	}
	if (e->finishes && e->written == e->writes) {
		cr_assert_eq(lend_stream_finish(e->ep, &e->stream), 0);
		e->finishes = false;
	}
	if (e->answers && e->eof && e->written == e->writes) {
		e->answers = false;
		cr_assert_eq(lend_stream_end(e->ep, &e->stream, LEND_OK, "all of it"), 0);
	}
}

static void read_some(struct end *e)
{
	struct lend_buf *m;
	int rc = -EAGAIN;

	while (!e->stopped && (rc = lend_stream_read(e->ep, &e->stream, &m)) == 0) {
		cr_assert(ask_same(m, length_of(e, e->read), e->read), "message %u", e->read);
		lend_buf_give(e->ep, m);
		e->read++;
	}
	e->eof |= rc == -ENODATA;
}

static void on_readable(struct lend_stream *stream)
{
	struct end *e = (struct end *)stream;

	cr_assert_eq(e->ends, 0);
	read_some(e);
	write_some(e);
}

static void on_writable(struct lend_stream *stream)
{
	write_some((struct end *)stream);
}

static void on_ended(struct lend_stream *stream)
{
	struct end *e = (struct end *)stream;

	e->ends++;
	e->over = true;
	snprintf(told, sizeof(told), "%s", stream->why);
	cr_assert_null(stream->state);
}

static void prepare_end(struct end *e, struct lend_ep *ep)
{
	e->ep = ep;
	e->stream.readable = on_readable;
	e->stream.writable = on_writable;
	e->stream.ended = on_ended;
}

static void accept_stream(lend_request request, void *arg)
{
	opened++;
	prepare_end(&server, arg);
	cr_assert_eq(lend_stream_accept(arg, request, &server.stream), 0, "%s", lend_why());
	cr_assert_eq(lend_stream_accept(arg, request, &server.stream), -ESTALE);
	write_some(&server);
}

static void serve_streams(struct pair *pair)
{
	opened = 0;
	memset(&server, 0, sizeof(server));
	cr_assert_eq(lend_serve_stream(pair->server, STREAM, accept_stream, pair->server), 0);
}

static void open_pair(struct pair *pair, const char *scheme)
{
	pair_open(pair, scheme);
	serve_streams(pair);
}

static void open_stream(struct pair *pair, struct end *client)
{
	prepare_end(client, pair->client);
	client->stream.method = STREAM;
	cr_assert_eq(lend_stream_open(pair->client, pair->session, &client->stream), 0, "%s",
		     lend_why());
	cr_assert_eq(lend_stream_open(pair->client, pair->session, &client->stream), -EALREADY);
	write_some(client);
}

static void check_over(struct pair *pair, struct end *client, enum lend_status status)
{
	cr_assert(pair_until(pair, &client->over), "read %u wrote %u; server read %u wrote %u",
		  client->read, client->written, server.read, server.written);
	cr_assert_eq(client->stream.status, status, "%d", client->stream.status);
	if (opened)
		cr_assert(pair_until(pair, &server.over));
	pair_turns(pair, 10);
	cr_assert_eq(client->ends, 1);
	cr_assert_eq(server.ends, opened);
}

/* All four kinds: one or many messages each way. */
Test(rpc_stream, messages__each_way__in_order_then_the_status)
{
	static const uint32_t n[] = {0, 1, 200};

	for (int i = 0; i < 2 * 3 * 3 * 2; i++) {
		struct end client = {.writes = n[i / 2 % 3], .finishes = true};
		struct pair pair;

		open_pair(&pair, pair_schemes[i % 2]);
		server.writes = n[i / 6 % 3];
		server.answers = true;
		client.len = server.len = i / 18 ? UINT32_MAX : 32;
		open_stream(&pair, &client);
		check_over(&pair, &client, LEND_OK);
		cr_assert_eq(client.read, server.writes);
		cr_assert_eq(server.read, client.writes);
		cr_assert_eq(client.stream.ran, LEND_RAN_YES);
		pair_close(&pair);
	}
}

/* The note before a message does not count: messages of message_max bytes arrive, longer ones are
 * refused. */
Test(rpc_stream, longest_messages)
{
	static const uint32_t longest[] = {1000, 100000};

	for (int i = 0; i < 4; i++) {
		struct end client = {.finishes = true, .len = longest[i / 2]};
		struct lend_config config = LEND_CONFIG_INIT;
		struct lend_buf *message;
		struct pair pair;

		config.message_max = client.len;
		pair_open_with(&pair, pair_schemes[i % 2], &config, &config);
		serve_streams(&pair);
		server.len = client.len;
		server.writes = 3;
		server.answers = true;
		prepare_end(&client, pair.client);
		client.stream.method = STREAM;
		client.stream.compress = i % 2; /* then each message has a head, too */
		cr_assert_eq(lend_stream_open(pair.client, pair.session, &client.stream), 0);
		while (lend_session_message_max(pair.client, pair.session) != client.len)
			pair_turns(&pair, 1);
		message = ask_bytes(pair.client, client.len + 1, 1);
		cr_assert_eq(lend_stream_write(pair.client, &client.stream, message), -EMSGSIZE,
			     "%s", lend_why());
		lend_buf_give(pair.client, message);
		client.writes = 3;
		write_some(&client);
		check_over(&pair, &client, LEND_OK);
		cr_assert_eq(client.read, 3);
		cr_assert_eq(server.read, 3);
		pair_close(&pair);
	}
}

/* A reader that stops holds its writer at the limit; then all arrive. */
Test(rpc_stream, reader__stops__writer_waits_for_it)
{
	static const uint32_t len[] = {8, 100000};

	for (int i = 0; i < 4; i++) {
		struct end client = {.len = len[i / 2], .stopped = true, .finishes = true};
		uint32_t most = i / 2 ? 3 : LEND_STREAM_WINDOW;
		struct pair pair;

		open_pair(&pair, pair_schemes[i % 2]);
		server.len = client.len;
		server.writes = 300;
		server.answers = true;
		open_stream(&pair, &client);
		for (int k = 0; k < 100 && server.written < most; k++)
			pair_turns(&pair, 100);
		pair_turns(&pair, 100);
		cr_assert_eq(server.written, most);
		cr_assert_eq(client.over, false);
		client.stopped = false;
		read_some(&client);
		check_over(&pair, &client, LEND_OK);
		cr_assert_eq(client.read, 300);
		pair_close(&pair);
	}
}

/* Unread messages hold back the end of a stream, but not its status. */
Test(rpc_stream, status__before_the_messages_are_read__ends_after_them)
{
	struct end client = {.len = 8, .stopped = true, .finishes = true};
	struct lend_buf *m;
	struct pair pair;

	open_pair(&pair, "shm");
	server.len = 8;
	server.writes = 10;
	server.answers = true;
	open_stream(&pair, &client);
	cr_assert(pair_until(&pair, &server.over));
	pair_turns(&pair, 50);
	cr_assert_eq(client.ends, 0);
	client.stopped = false;
	read_some(&client);
	cr_assert(client.eof && client.read == 10);
	cr_assert_eq(client.stream.status, LEND_OK);
	cr_assert_eq(lend_stream_read(pair.client, &client.stream, &m), -ENODATA);
	check_over(&pair, &client, LEND_OK);
	pair_close(&pair);
}

enum way { CANCEL_CLIENT, CANCEL_SERVER, DEADLINE, HANG_UP, SERVER_FAILS, WAYS };

static void end_early(struct pair *pair, struct end *client, enum way way)
{
	switch (way) {
	case CANCEL_CLIENT:
		lend_stream_cancel(pair->client, &client->stream);
		lend_stream_cancel(pair->client, &client->stream);
		return;
	case CANCEL_SERVER:
		lend_stream_cancel(pair->server, &server.stream);
		return;
	case DEADLINE:
		return;
	case HANG_UP:
		lend_disconnect(pair->client, pair->session);
		return;
	case SERVER_FAILS:
		(void)lend_stream_end(pair->server, &server.stream, LEND_ABORTED, "no more");
		return;
	case WAYS:
		return;
	}
}

/* Ends a stream early after each number of turns, with messages under way in both directions. */
Test(rpc_stream, early_end__at_each_step__ends_both_sides)
{
	static const enum lend_status want[WAYS] = {
	    LEND_CANCELLED, LEND_CANCELLED, LEND_DEADLINE_EXCEEDED, LEND_CANCELLED, LEND_ABORTED};

	for (int i = 0; i < WAYS * 2 * 12; i++) {
		struct end client = {.writes = 1u << 30, .len = 3000};
		enum way way = i % WAYS;
		struct pair pair;

		open_pair(&pair, pair_schemes[i / WAYS % 2]);
		server.writes = 1u << 30;
		server.len = 3000;
		client.stream.timeout = way == DEADLINE ? 3 * MS : 0;
		open_stream(&pair, &client);
		pair_turns(&pair,
			   i / WAYS / 2 + (way == CANCEL_SERVER || way == SERVER_FAILS ? 8 : 0));
		if (!opened && (way == CANCEL_SERVER || way == SERVER_FAILS))
			pair_until(&pair, (bool *)&opened);
		end_early(&pair, &client, way);
		check_over(&pair, &client, want[way]);
		cr_assert_eq(lend_stream_write(pair.client, &client.stream, NULL), -EPIPE);
		pair_close(&pair);
	}
}

/* An endpoint that closes ends its streams, and its peers'. */
Test(rpc_stream, close__with_open_streams__ends_them)
{
	for (int i = 0; i < 4; i++) {
		struct end client = {.len = 8, .stopped = i / 2};
		struct pair pair;

		open_pair(&pair, pair_schemes[i % 2]);
		server.len = 8;
		server.writes = 5;
		open_stream(&pair, &client);
		pair_turns(&pair, 200);
		lend_close(pair.server);
		pair.server = NULL;
		cr_assert_eq(server.ends, opened);
		if (client.stopped)
			lend_stream_cancel(pair.client, &client.stream);
		while (!client.over)
			(void)lend_wait(pair.client, lend_now(pair.client) + MS);
		cr_assert_eq(client.ends, 1);
		lend_close(pair.client);
	}
}

static enum lend_status send_raw(struct pair *pair, uint32_t method, const void *bytes,
				 uint32_t len)
{
	struct ask ask = {.call = {.method = 0}};
	struct lend_buf *request = lend_buf_take(pair->client, len);
	enum lend_status status;

	memcpy(request->data, bytes, request->len = len);
	ask_run(pair, &ask, method, request);
	status = ask.call.status;
	ask_give(pair->client, &ask);
	return status;
}

/* Notes that contradict their stream get a status, and change nothing. */
Test(rpc_stream, notes__forged__typed_status)
{
	struct end client = {.len = 8};
	struct lend_note note = {.stream = 1, .kind = LEND_NOTE_MESSAGE};
	uint8_t big[sizeof(note) + 8] = {0};
	struct pair pair;

	open_pair(&pair, "udp");
	server.stopped = true;
	open_stream(&pair, &client);
	pair_turns(&pair, 200);
	cr_assert_eq(opened, 1);
	cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, 5), LEND_INVALID_ARGUMENT);
	note.zero[3] = 1;
	cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, sizeof(note)),
		     LEND_INVALID_ARGUMENT);
	note.zero[3] = 0;
	note.stream = 99;
	cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, sizeof(note)), LEND_NOT_FOUND);
	note.stream = 1;
	note.to_opener = 1;
	cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, sizeof(note)), LEND_NOT_FOUND);
	note.to_opener = 0;
	note.at = LEND_STREAM_WINDOW;
	cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, sizeof(note)),
		     LEND_FAILED_PRECONDITION);
	for (note.kind = LEND_NOTE_LAST; note.kind <= LEND_NOTE_OPEN; note.kind++) {
		note.at = 1u << 20;
		cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, sizeof(note)),
			     LEND_FAILED_PRECONDITION);
	}
	note.kind = LEND_NOTE_KINDS;
	cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, &note, sizeof(note)),
		     LEND_INVALID_ARGUMENT);
	cr_assert_eq(send_raw(&pair, STREAM, &note, 3), LEND_UNIMPLEMENTED);
	/* The reader's memory is bounded, whatever is sent. */
	note.kind = LEND_NOTE_MESSAGE;
	for (uint32_t i = 0; i < 3 * LEND_STREAM_WINDOW; i++) {
		note.at = i;
		memcpy(big, &note, sizeof(note));
		cr_assert_eq(send_raw(&pair, LEND_METHOD_STREAM, big, sizeof(big)),
			     i < LEND_STREAM_WINDOW ? LEND_OK : LEND_FAILED_PRECONDITION);
	}
	lend_stream_cancel(pair.client, &client.stream);
	check_over(&pair, &client, LEND_CANCELLED);
	pair_close(&pair);
}

static void refuse_stream(lend_request request, void *arg)
{
	lend_reply_why(arg, request, LEND_PERMISSION_DENIED, "not today");
}

/* A text of one byte and 150 characters of two: byte 200 is inside a character. */
static void refuse_at_length(lend_request request, void *arg)
{
	char text[302] = "x";
	struct lend_reply_head head = {.message = text};

	for (int i = 0; i < 150; i++)
		memcpy(text + 1 + 2 * i, "\xc3\xa4", 2);
	cr_assert_eq(lend_reply_with(arg, request, LEND_PERMISSION_DENIED, NULL, &head), 0);
}

static void ignore_stream(lend_request request, void *arg)
{
	(void)request, (void)arg;
}

Test(rpc_stream, opening__refused__ends_with_its_status)
{
	struct end one = {.len = 8, .writes = 3}, two = {.len = 8}, three = {.len = 8};
	struct end long_text = {.len = 8};
	struct pair pair;

	open_pair(&pair, "shm");
	cr_assert_eq(lend_serve_stream(pair.server, STREAM, refuse_stream, pair.server), 0);
	open_stream(&pair, &one);
	check_over(&pair, &one, LEND_PERMISSION_DENIED);
	cr_assert_str_eq(told, "not today");
	cr_assert_eq(lend_serve_stream(pair.server, STREAM, refuse_at_length, pair.server), 0);
	open_stream(&pair, &long_text);
	check_over(&pair, &long_text, LEND_PERMISSION_DENIED);
	cr_assert_eq(strlen(told), 199);
	cr_assert_eq(lend_serve_stream(pair.server, STREAM, ignore_stream, NULL), 0);
	open_stream(&pair, &two);
	check_over(&pair, &two, LEND_UNIMPLEMENTED);
	cr_assert_eq(two.stream.ran, LEND_RAN_NO);
	cr_assert_eq(lend_serve_stream(pair.server, STREAM, NULL, NULL), 0);
	open_stream(&pair, &three);
	check_over(&pair, &three, LEND_UNIMPLEMENTED);
	pair_close(&pair);
}

/* Streams leave room for the calls of their messages. */
Test(rpc_stream, streams__as_many_as_calls_permit__all_exchange)
{
	enum { CALLS = 64, STREAMS = CALLS - CALLS / 8 - 1 };
	struct lend_config config = LEND_CONFIG_INIT;
	static struct end client[STREAMS + 1];
	struct pair pair;

	config.calls = CALLS;
	pair_open_with(&pair, "shm", &config, &config);
	opened = 0;
	memset(&server, 0, sizeof(server));
	cr_assert_eq(lend_serve_stream(pair.server, STREAM, ignore_stream, NULL), 0);
	for (uint32_t i = 0; i < STREAMS; i++) {
		client[i] = (struct end){.len = 8, .writes = 1};
		open_stream(&pair, &client[i]);
	}
	prepare_end(&client[STREAMS], pair.client);
	client[STREAMS].stream.method = STREAM;
	cr_assert_eq(lend_stream_open(pair.client, pair.session, &client[STREAMS].stream), -EAGAIN);
	for (uint32_t i = 0; i < STREAMS; i++)
		check_over(&pair, &client[i], LEND_UNIMPLEMENTED);
	open_stream(&pair, &client[STREAMS]);
	check_over(&pair, &client[STREAMS], LEND_UNIMPLEMENTED);
	pair_close(&pair);
}
