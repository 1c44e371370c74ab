/* Goal: whatever bytes a stock server sends, each call and stream to it ends, with its memory free,
 * and calls to the next server are answered. Method: a live endpoint as the client; the bytes are a
 * session's, or steps that make one of frames, responses, messages, pauses and cancellations.
 * Covers: src/gateway/remote.c, src/gateway/forward.c, src/gateway/forward_reply.c,
 * src/gateway/connection.c */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/finding.h"
#include "fuzz/http2_peer.h"
#include "lend/stats.h"
#include "lend/stream.h"

const char fuzz_name[] = "remote";

enum { CALLS = 3, TURNS = 6, TURNS_MAX = 100000, SETTINGS = 4, GOAWAY = 7 };
enum { REQUEST = 150 }; /* bytes of a session up to its first request, at least */
static struct sockaddr_in listener = {.sin_family = AF_INET};
static int accepts;
static lend_session session;
static struct lend_call call[CALLS];
static struct lend_stream stream[CALLS];
static bool calls[CALLS], streams[CALLS]; /* in progress */
static uint64_t base;                     /* bytes of buffers without a server */

static void call_ended(struct lend_call *c)
{
	calls[c - call] = false;
	lend_buf_give(ep, c->request);
	lend_buf_give(ep, c->reply);
}

static void stream_ended(struct lend_stream *s)
{
	streams[s - stream] = false;
}

static void read_all(struct lend_stream *s)
{
	struct lend_buf *message;

	while (lend_stream_read(ep, s, &message) == 0)
		lend_buf_give(ep, message);
}

static struct lend_buf *make_message(void)
{
	struct lend_buf *buf = lend_buf_take(ep, 4);

	FUZZ_CHECK(buf, "no memory");
	buf->len = 4;
	memcpy(buf->data, "ping", 4);
	return buf;
}

static void start_call(uint32_t i)
{
	static const struct lend_call_head head = {.name = "/t/E"};

	if (calls[i])
		return;
	call[i] = (struct lend_call){.head = &head, .done = call_ended, .request = make_message()};
	calls[i] = lend_call_start(ep, session, &call[i]) == 0;
	if (!calls[i])
		lend_buf_give(ep, call[i].request);
}

static void open_stream(uint32_t i)
{
	static const struct lend_call_head head = {.name = "/t/S"};
	struct lend_buf *message;

	if (!streams[i]) {
		stream[i] = (struct lend_stream){
		    .head = &head, .readable = read_all, .ended = stream_ended};
		streams[i] = lend_stream_open(ep, session, &stream[i]) == 0;
	}
	message = streams[i] ? make_message() : NULL;
	if (message && lend_stream_write(ep, &stream[i], message) < 0)
		lend_buf_give(ep, message);
}

static bool is_busy(void)
{
	for (uint32_t i = 0; i < CALLS; i++)
		if (calls[i] || streams[i])
			return true;
	return false;
}

static void open_client(void)
{
	socklen_t len = sizeof(listener);

	(void)setenv("LEND_MODULE_DIR", FUZZ_MODULE_DIR, 0);
	FUZZ_CHECK(lend_open(NULL, &ep) == 0, "no endpoint");
	accepts = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	listener.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	FUZZ_CHECK(bind(accepts, (struct sockaddr *)&listener, len) == 0 &&
		       listen(accepts, 8) == 0 &&
		       getsockname(accepts, (struct sockaddr *)&listener, &len) == 0,
		   "no listener");
}

/* Connects to a server of its own, by a call. */
static void open_server(void)
{
	char address[64];

	(void)snprintf(address, sizeof(address), "http2:127.0.0.1:%u?keepalive=0.001",
		       ntohs(listener.sin_port));
	FUZZ_CHECK(lend_connect(ep, address, &session) == 0, "no session");
	start_call(0);
	received = 0;
	for (fd = -1; fd < 0; fd = accept4(accepts, NULL, NULL, SOCK_NONBLOCK))
		(void)lend_poll(ep);
}

/* Ends connections that requests move to. */
static void refuse_connections(void)
{
	while ((fd = accept4(accepts, NULL, NULL, SOCK_NONBLOCK)) >= 0)
		close_peer();
}

/* Ends the server, and then the session. */
static void close_server(void)
{
	close_peer();
	for (unsigned i = 0; i < TURNS_MAX && is_busy(); i++) {
		(void)lend_poll(ep);
		refuse_connections();
	}
	FUZZ_CHECK(!is_busy(), "a call does not end");
	lend_disconnect(ep, session);
	refuse_connections();
}

static void send_response(struct choice *c, uint32_t id)
{
	static const char *const more[] = {"",
					   "\0\13grpc-status\0010",
					   "\0\15grpc-encoding\4gzip",
					   "\0\5k-bin\4AAAA",
					   "\0\14grpc-message\3%20",
					   "\xbe"};
	static const uint8_t more_len[] = {0, 15, 21, 13, 19, 1};
	uint8_t block[128] = "\x88\x5f\x10"
			     "application/grpc";
	uint32_t i = choice_of(c, 6);

	block[0] = (uint8_t)(0x88 + choice_rare(c, 8));
	memcpy(block + 19, more[i], more_len[i]);
	send_frame(1, choice_rare(c, 8) ? 5 : 4, id, block, 19u + more_len[i]);
}

static void send_trailers(struct choice *c, uint32_t id)
{
	uint8_t block[] = "\0\13grpc-status\0010";

	block[14] = (uint8_t)('0' + choice_of(c, 20));
	send_frame(1, 5, id, block, sizeof(block) - 1);
}

static void send_goaway(struct choice *c)
{
	static const char bytes[] = "\0\0\0\1\0\0\0\0too_many_pings";
	uint8_t goaway[sizeof(bytes) - 1];

	memcpy(goaway, bytes, sizeof(goaway));
	goaway[3] = choice_of(c, 8);
	goaway[0] = choice_rare(c, 2) ? 0x7f : 0;
	goaway[7] = choice_of(c, 14);
	send_frame(GOAWAY, 0, 0, goaway, choice_rare(c, 2) ? sizeof(goaway) : 8);
}

static void act_as_client(struct choice *c)
{
	uint32_t i = choice_of(c, CALLS);

	switch (choice_u8(c) % 6) {
	case 0:
		start_call(i);
		return;
	case 1:
		open_stream(i);
		return;
	case 2:
		if (calls[i])
			lend_call_cancel(ep, &call[i]);
		return;
	case 3:
		if (streams[i])
			lend_stream_cancel(ep, &stream[i]);
		return;
	case 4:
		if (streams[i])
			(void)lend_stream_finish(ep, &stream[i]);
		return;
	case 5:
		run_turns(1 + choice_of(c, 4));
		return;
	}
}

static void take_step(struct choice *c)
{
	uint32_t id = 2 * choice_of(c, 8) + 1;

	switch (choice_u8(c) % 9) {
	case 0:
		send_response(c, id);
		return;
	case 1:
		send_message(c, id);
		return;
	case 2:
		send_trailers(c, id);
		return;
	case 3:
		send_any_frame(c, id);
		return;
	case 4:
		send_frame(3, 0, id, choice_rare(c, 2) ? "\0\0\0\7" : "\0\0\0\10", 4);
		return;
	case 5:
		send_goaway(c);
		return;
	case 6:
		if (choice_rare(c, 8))
			(void)shutdown(fd, SHUT_WR);
		return;
	case 7:
		act_as_client(c);
		return;
	case 8:
		run_turns(1 + choice_of(c, 4));
		return;
	}
}

/* A whole call to a well-behaved server is answered. */
static void call_beside(void)
{
	struct choice none = {0};
	unsigned i = 0;

	open_server();
	send_frame(SETTINGS, 0, 0, "", 0);
	while (received < REQUEST && i++ < TURNS_MAX)
		run_turns(1);
	send_response(&none, 1);
	send_frame(0, 0, 1, "\0\0\0\0\1x", 6);
	send_trailers(&none, 1);
	for (; calls[0] && i < TURNS_MAX; i++)
		run_turns(1);
	FUZZ_CHECK(i < TURNS_MAX && call[0].status == LEND_OK, "the next server is not understood");
	close_server();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct choice c = {.at = data + 1, .end = data + len};
	struct lend_stats stats;
	static unsigned n;

	fuzz_begin();
	if (!ep)
		open_client();
	if (n++ % 32 == 0) {
		call_beside();
		for (int i = 0; i < 100; i++)
			(void)lend_poll(ep);
		lend_stats_get(ep, &stats);
		base = base ? base : stats.buf_bytes;
		FUZZ_CHECK(stats.buf_bytes <= base + (4 << 10), "buffers are left");
	}
	if (len < 2)
		return 0;
	fuzz_hostile++;
	open_server();
	if (data[0] % 2) {
		run_turns(2);
		send_bytes(data + 1, len - 1);
	} else {
		send_frame(SETTINGS, 0, 0, "", 0);
		run_turns(2);
		while (choice_left(&c))
			take_step(&c);
	}
	run_turns(TURNS);
	close_server();
	return 0;
}
