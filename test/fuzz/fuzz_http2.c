/* Goal: whatever bytes a stock client sends, the HTTP/2 listener handles them, frees what they held
 * when the connection ends, and answers the next client. Method: a live endpoint; the bytes are a
 * session's, or steps that make one of frames, requests, messages and pauses. Covers:
 * src/gateway/exchange_request.c, src/gateway/connection.c, src/gateway/message.c */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "fuzz/finding.h"
#include "fuzz/http2_peer.h"
#include "lend/stats.h"
#include "lend/stream.h"

const char fuzz_name[] = "http2";

enum { STREAMS = 16, TURNS = 6 };
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
static struct sockaddr_in listener = {.sin_family = AF_INET};
static uint64_t base; /* bytes of buffers without a client */
static struct talk {
	struct lend_stream stream;
	bool open;
} talks[STREAMS];

static void serve_echo(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_buf *out = lend_buf_take(ep, in->len + 1);

	(void)arg;
	if (out) {
		memcpy(out->data, in->data, in->len);
		out->len = in->len;
	}
	lend_reply(ep, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

/* Sends messages back; one without credit ends the stream. */
static void echo_messages(struct lend_stream *s)
{
	struct lend_buf *message;
	int rc = 0;

	while (rc == 0 && (rc = lend_stream_read(ep, s, &message)) == 0) {
		rc = lend_stream_write(ep, s, message);
		if (rc < 0)
			lend_buf_give(ep, message);
	}
	if (rc != -EAGAIN)
		(void)lend_stream_end(ep, s, rc == -ENODATA ? LEND_OK : LEND_ABORTED, NULL);
}

static void talk_ended(struct lend_stream *s)
{
	((struct talk *)(void *)s)->open = false;
}

static void serve_stream(lend_request request, void *arg)
{
	struct talk *t = talks;

	(void)arg;
	while (t < talks + STREAMS && t->open)
		t++;
	if (t == talks + STREAMS) {
		lend_reply(ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	*t = (struct talk){.stream = {.readable = echo_messages, .ended = talk_ended}};
	t->open = lend_stream_accept(ep, request, &t->stream) == 0;
}

static uint64_t buffers_now(void)
{
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.buf_bytes;
}

static void open_listener(void)
{
	struct lend_config config = LEND_CONFIG_INIT;
	char address[64];

	(void)setenv("LEND_MODULE_DIR", FUZZ_MODULE_DIR, 0);
	config.listen = "http2:127.0.0.1:0";
	config.message_max = 1 << 20;
	config.memory_max = 64 << 20;
	FUZZ_CHECK(lend_open(&config, &ep) == 0, "no listener");
	FUZZ_CHECK(lend_address(ep, address, sizeof(address)) == 0, "no address");
	listener.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	(void)lend_serve_name(ep, "/t/E", serve_echo, NULL, 0);
	(void)lend_serve_stream_name(ep, "/t/S", serve_stream, NULL, 0);
}

static void send_request(struct choice *c, uint32_t stream)
{
	static const char *const paths[] = {"/t/E", "/t/S", "/t/N"};
	static const char *const more[] = {"",
					   "\0\14grpc-timeout\0022m",
					   "\0\15grpc-encoding\4gzip",
					   "\0\5k-bin\4AAAA",
					   "\0\7content-\1x",
					   "\xbe"};
	static const uint8_t more_len[] = {0, 16, 19, 11, 11, 1};
	uint8_t block[128] = "\x83\x86\1\1a\x44\4/t/E\x5f\x10"
			     "application/grpc";
	uint32_t i = choice_of(c, 6);

	memcpy(block + 7, paths[choice_of(c, 3)], 4);
	memcpy(block + 29, more[i], more_len[i]);
	send_frame(1, choice_rare(c, 4) ? 5 : 4, stream, block, 29u + more_len[i]);
}

static void take_step(struct choice *c)
{
	uint32_t stream = 2 * choice_of(c, 8) + 1;

	switch (choice_u8(c) % 8) {
	case 0:
	case 1:
		send_request(c, stream);
		return;
	case 2:
	case 3:
		send_message(c, stream);
		return;
	case 4:
		send_any_frame(c, stream);
		return;
	case 5:
		send_frame(3, 0, stream, "\0\0\0\10", 4);
		return;
	case 6:
		if (choice_rare(c, 8))
			(void)shutdown(fd, SHUT_WR);
		return;
	case 7:
		run_turns(1 + choice_of(c, 4));
		return;
	}
}

static void open_client(void)
{
	fd = socket(AF_INET, SOCK_STREAM, 0);
	FUZZ_CHECK(connect(fd, (struct sockaddr *)&listener, sizeof(listener)) == 0, "refused");
}

/* A whole call of another client is answered. */
static void call_beside(void)
{
	struct choice none = {0};
	uint64_t before = received;

	open_client();
	send_bytes(PREFACE, sizeof(PREFACE) - 1);
	send_request(&none, 1);
	send_frame(0, 1, 1, "\0\0\0\0\1x", 6);
	for (unsigned i = 0; i < 10000 && received < before + 90; i++)
		run_turns(1);
	FUZZ_CHECK(received >= before + 90, "the next client is not answered");
	close_peer();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct choice c = {.at = data + 1, .end = data + len};
	static unsigned n;

	fuzz_begin();
	if (!ep)
		open_listener();
	if (n++ % 32 == 0) {
		call_beside();
		for (int i = 0; i < 100; i++)
			(void)lend_poll(ep);
		base = base ? base : buffers_now();
		FUZZ_CHECK(buffers_now() <= base + (4 << 10), "buffers are left");
	}
	if (len < 2)
		return 0;
	fuzz_hostile++;
	open_client();
	if (data[0] % 2) {
		send_bytes(data + 1, len - 1);
	} else {
		send_bytes(PREFACE, sizeof(PREFACE) - 1);
		while (choice_left(&c))
			take_step(&c);
	}
	run_turns(TURNS);
	close_peer();
	(void)lend_poll(ep);
	return 0;
}
