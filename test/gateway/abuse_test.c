/* Goal: hostile HTTP/2 clients get the error that HTTP/2 or gRPC names, or lose their connection;
 * memory stays bounded, and a well-behaved client next to them is answered in time. Method: raw
 * frames in the thread of the endpoint; the heap and the message buffers are measured while they
 * arrive. Covers: src/gateway/gateway.c, src/gateway/connection.c, src/gateway/exchange_request.c,
 * src/gateway/exchange_headers.c, src/gateway/exchange_stream.c, src/gateway/exchange_limits.c,
 * src/gateway/gzip.c, src/gateway/keepalive.c */
#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zlib.h>

#include "gateway/http2_client.h"
#include "gateway/raw_client.h"
#include "lend/alloc.h"
#include "lend/stats.h"
#include "lend/stream.h"

enum { MIB = 1 << 20, MESSAGE_MAX = 1 * MIB, MEMORY_MAX = 64 * MIB };
#define ECHO "\0\0\0\0\5hello"

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static struct lend_ep *ep;
static char address[256];
static struct http2_client client; /* well-behaved */
static struct raw_client raw;
static uint64_t before, heap_before, peak; /* bytes */
static lend_ns slowest;                    /* answer to the well-behaved client */
static unsigned held;
static struct lend_stream stream;

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

static void serve_never(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)request;
	(void)in;
	(void)arg;
	held++;
}

/* Answers with half a MiB. */
static void serve_long(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_buf *out = lend_buf_take(ep, MIB / 2);

	(void)in;
	(void)arg;
	if (out) {
		memset(out->data, 1, MIB / 2);
		out->len = MIB / 2;
	}
	lend_reply(ep, request, out ? LEND_OK : LEND_RESOURCE_EXHAUSTED, out);
}

static void stream_ended(struct lend_stream *s)
{
	(void)s;
	held = 0;
}

/* Accepts a stream, and reads nothing. */
static void serve_mute(lend_request request, void *arg)
{
	(void)arg;
	stream = (struct lend_stream){.ended = stream_ended};
	held = 1;
	cr_assert_eq(lend_stream_accept(ep, request, &stream), 0);
}

static uint64_t memory_now(void)
{
	struct mallinfo2 heap = mallinfo2();
	struct lend_stats stats;

	lend_stats_get(ep, &stats);
	return stats.buf_bytes + (__sanitizer_get_current_allocated_bytes
				      ? __sanitizer_get_current_allocated_bytes()
				      : heap.uordblks + heap.hblkhd);
}

/* Returns the bytes of Lend's heap, which free message buffers stay in. */
static uint64_t heap_used(void)
{
	struct lend_alloc_stat heap;

	lend_alloc_trim();
	lend_alloc_stat_get(&heap);
	return heap.used;
}

/* The well-behaved client makes a call. */
static void call_beside(void)
{
	struct answer a = {.path = "/t.T/Echo", .body = ECHO, .len = 10};
	lend_ns began = lend_now(ep), took;
	uint64_t grown;

	http2_client_ask(&client, &a);
	http2_client_until(&client, ep, &a.over);
	grown = heap_used() - heap_before;
	took = lend_now(ep) - began;
	slowest = took > slowest ? took : slowest;
	cr_assert(a.over && a.n == 10 && !memcmp(a.bytes, ECHO, 10),
		  "%s%s held %u, %.2f MB, base %.2f", a.initial, a.trailing, held,
		  (double)memory_now() / 1e6, (double)before / 1e6);
	free(a.bytes);
	peak = memory_now() > peak ? memory_now() : peak;
	peak = grown + before > peak ? grown + before : peak;
}

static void open_with(const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = listen;
	config.message_max = MESSAGE_MAX;
	config.memory_max = MEMORY_MAX;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_address(ep, address, sizeof(address)), 0);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Echo", serve_echo, NULL, 0), 0);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Never", serve_never, NULL, 0), 0);
	cr_assert_eq(lend_serve_name(ep, "/t.T/Long", serve_long, NULL, 0), 0);
	cr_assert_eq(lend_serve_stream_name(ep, "/t.T/Mute", serve_mute, NULL, 0), 0);
	http2_client_open(&client, address);
	call_beside();
	raw_open(&raw, ep, address);
	call_beside();
	heap_before = heap_used();
	before = peak = memory_now();
}

static void open_all(void)
{
	open_with("http2:127.0.0.1:0");
}

/* Runs turns until *value is wanted, or the connection is lost. At most 10 s. */
static void turn_until(const int *value, int wanted)
{
	lend_ns end = lend_now(ep) + 10000000000;

	while (*value != wanted && !raw.lost && lend_now(ep) < end)
		raw_turn(&raw);
}

static void turn_often(unsigned n)
{
	while (n-- && !raw.lost)
		raw_turn(&raw);
}

static void turn_until_lost(void)
{
	lend_ns end = lend_now(ep) + 10000000000;

	while (!raw.lost && lend_now(ep) < end)
		raw_turn(&raw);
	cr_assert(raw.lost, "the connection goes on");
}

/* Ends a test: the neighbour was answered in time, memory was bounded, and is free again. */
static void close_all(const char *name, uint64_t bound)
{
	call_beside();
	fprintf(stderr, "%s: %.1f MB received, at most %.2f MB of memory, slowest answer %.1f ms\n",
		name, (double)raw.sent / 1e6, (double)(peak - before) / 1e6, (double)slowest / 1e6);
	cr_assert_leq(peak - before, bound);
	cr_assert_lt(slowest, UINT64_C(3000000000));
	raw_close(&raw);
	for (int i = 0; i < 100; i++)
		(void)lend_poll(ep);
	call_beside();
	cr_assert_leq(memory_now(), before + MIB, "%.2f MB are left",
		      (double)(memory_now() - before) / 1e6);
	http2_client_close(&client);
	lend_close(ep);
}

/* A frame of 16 KiB whose headers have 50 MB: one of 4 KB in the dynamic table, again and again. */
Test(gateway_abuse, header_bomb, .init = open_all)
{
	static uint8_t block[16384];

	memcpy(block,
	       "\x83\x86\x44\x9/t.T/Echo\x41\4test\x5f\x10"
	       "application/grpc",
	       37);
	memcpy(block + 37, "\x40\1k\x7f\xa1\x1e", 6); /* 4000 bytes */
	memset(block + 43, 'v', 4000);
	memset(block + 4043, 0xbe, sizeof(block) - 4043);
	for (unsigned i = 0; i < 20; i++) {
		raw.grpc = -1;
		raw_frame(&raw, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1, block,
			  sizeof(block));
		turn_until(&raw.grpc, LEND_RESOURCE_EXHAUSTED);
		cr_assert_eq(raw.grpc, LEND_RESOURCE_EXHAUSTED);
		call_beside();
	}
	close_all("header bomb", MIB);
}

/* Header blocks that do not end. */
Test(gateway_abuse, continuation_flood, .init = open_all)
{
	raw_request(&raw, 1, "/t.T/Echo", "", 0);
	raw_frames(&raw, 100, NGHTTP2_CONTINUATION, 1, "\0\1k\1v", 5);
	turn_until(&raw.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	cr_assert_eq(raw.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	close_all("CONTINUATION flood", MIB);
}

/* Requests that are refused by their headers, most of which do not end. */
Test(gateway_abuse, refused_headers, .init = open_all)
{
	static const struct {
		const char *path, *more;
		bool ends;
		int http, grpc;
	} table[] = {{"/t.T/Echo", "content-type: text/plain\n", true, 415, -1},
		     {"/t.T/Echo", "content-type: application/grpcx\n", true, 415, -1},
		     {"/t.T/Echo", "grpc-encoding: snappy\n", false, 200, LEND_UNIMPLEMENTED},
		     {"/t.T/None", "", false, 200, LEND_UNIMPLEMENTED},
		     {"/t.T/Echo", "grpc-timeout: x\n", false, 200, LEND_INTERNAL},
		     {"/t.T/Echo", "grpc-timeout: 30m\n", false, 200, LEND_DEADLINE_EXCEEDED},
		     {"/t.T/Mute", "grpc-timeout: 30m\n", false, 200, LEND_DEADLINE_EXCEEDED}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		unsigned resets = raw.resets;

		raw.http = raw.grpc = raw.reset = -1;
		raw_request(&raw, 1 + 2 * i, table[i].path, table[i].more,
			    NGHTTP2_FLAG_END_HEADERS |
				(table[i].ends ? NGHTTP2_FLAG_END_STREAM : 0));
		turn_until(&raw.http, table[i].http);
		turn_until(&raw.grpc, table[i].grpc);
		cr_assert(raw.http == table[i].http && raw.grpc == table[i].grpc, "row %u: %d %d",
			  i, raw.http, raw.grpc);
		turn_until(&raw.reset, table[i].ends ? -1 : NGHTTP2_NO_ERROR);
		cr_assert_eq(raw.resets, resets + !table[i].ends, "row %u", i);
	}
	close_all("refused headers", MIB);
}

/* Headers that HTTP/2 forbids, after a good request with the same ones before them. */
Test(gateway_abuse, malformed_headers, .init = open_all)
{
	static const char *const table[] = {
	    "Upper: 1\n",      "connection: close\n", "te: gzip\n",          ":path: /t.T/Echo\n",
	    ":unknown: 1\n",   "content-length: 1\n", "content-length: x\n", "host: a\nhost: b\n",
	    ":method: POST\n", "upgrade: h2c\n"};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		raw.grpc = raw.reset = -1;
		raw_request(&raw, 1 + 4 * i, "/t.T/Echo", "",
			    NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM);
		turn_until(&raw.grpc, LEND_UNIMPLEMENTED); /* no message */
		cr_assert(raw.grpc == LEND_UNIMPLEMENTED && raw.reset == -1, "row %u", i);
		raw_request(&raw, 3 + 4 * i, "/t.T/Echo", table[i],
			    NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM);
		turn_until(&raw.reset, NGHTTP2_PROTOCOL_ERROR);
		cr_assert_eq(raw.reset, NGHTTP2_PROTOCOL_ERROR, "row %u", i);
	}
	close_all("malformed headers", MIB);
}

/* Streams that are reset at once: by the client, and by the server after a frame that it has to
 * refuse. */
static void reset_rapidly(bool by_server)
{
	unsigned n = 0;

	for (; n < 20000 && raw.goaway < 0 && !raw.lost; n++) {
		raw_request(&raw, 2 * n + 1, "/t.T/Mute", "", NGHTTP2_FLAG_END_HEADERS);
		raw_frame(&raw, by_server ? NGHTTP2_WINDOW_UPDATE : NGHTTP2_RST_STREAM, 0,
			  2 * n + 1, by_server ? "\x7f\xff\xff\xff" : "\0\0\0\x8", 4);
		turn_often(n % 10 == 0);
		if (n % 500 == 0)
			call_beside();
	}
	turn_until(&raw.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	cr_assert_eq(raw.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	cr_assert_lt(n, 20000);
}

Test(gateway_abuse, rapid_reset, .init = open_all)
{
	reset_rapidly(false);
	close_all("rapid reset", 4 * MIB);
}

Test(gateway_abuse, rapid_reset_by_the_server, .init = open_all)
{
	reset_rapidly(true);
	close_all("rapid reset by the server", 4 * MIB);
}

/* Compresses with gzip. Returns the length behind the prefix of gRPC, which it writes. */
static size_t make_gzip(uint8_t *out, size_t cap, const void *bytes, size_t len)
{
	z_stream z = {.next_in = (void *)(uintptr_t)bytes, .avail_in = (uint32_t)len};

	z.next_out = out + 5;
	z.avail_out = (uint32_t)cap - 5;
	cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	cr_assert_eq(deflateEnd(&z), Z_OK);
	out[0] = 1;
	for (unsigned i = 1; i < 5; i++)
		out[i] = (uint8_t)(z.total_out >> 8 * (4 - i));
	return z.total_out + 5;
}

#define GZIP "grpc-encoding: gzip\ngrpc-accept-encoding: deflate,gzip\n"

/* Compressed messages: whole, a bomb of 1,000 times its length, cut, changed, with bytes behind the
 * end, and without grpc-encoding. */
Test(gateway_abuse, gzip, .init = open_all)
{
	static uint8_t zeros[64 * MIB], message[1 * MIB];
	static const struct {
		size_t len;       /* number of zeros */
		int cut, changed; /* bytes less; the one that is changed; 0: none */
		const char *more;
		int grpc;
	} table[] = {{100000, 0, 0, GZIP, LEND_OK},
		     {MESSAGE_MAX - 4096, 0, 0, GZIP, LEND_OK},
		     {MESSAGE_MAX + 1, 0, 0, GZIP, LEND_RESOURCE_EXHAUSTED},
		     {sizeof(zeros), 0, 0, GZIP, LEND_RESOURCE_EXHAUSTED},
		     {100000, 1, 0, GZIP, LEND_INTERNAL},
		     {100000, -1, 0, GZIP, LEND_INTERNAL},
		     {100000, 0, 5, GZIP, LEND_INTERNAL},
		     {100000, 0, 130, GZIP, LEND_INTERNAL},
		     {100000, 0, 0, "", LEND_INTERNAL}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		size_t len = make_gzip(message, sizeof(message), zeros, table[i].len);

		len -= (size_t)table[i].cut;
		for (unsigned k = 1; k < 5; k++)
			message[k] = (uint8_t)((len - 5) >> 8 * (4 - k));
		message[table[i].changed] ^= table[i].changed ? 0x55 : 0;
		raw.grpc = -1;
		raw_request(&raw, 1 + 2 * i, "/t.T/Echo", table[i].more, NGHTTP2_FLAG_END_HEADERS);
		for (size_t at = 0; at < len; at += 16384)
			raw_frame(&raw, NGHTTP2_DATA,
				  at + 16384 < len ? 0 : NGHTTP2_FLAG_END_STREAM, 1 + 2 * i,
				  message + at, len - at < 16384 ? len - at : 16384);
		turn_until(&raw.grpc, table[i].grpc);
		cr_assert_eq(raw.grpc, table[i].grpc, "row %u: %d", i, raw.grpc);
		call_beside();
	}
	cr_assert_lt(raw.data, 8192, "replies are not compressed");
	close_all("gzip", 8 * MIB);
}

/* Frames behind the end of a request whose call runs. */
Test(gateway_abuse, half_closed, .init = open_all)
{
	raw_request(&raw, 1, "/t.T/Never", "", NGHTTP2_FLAG_END_HEADERS);
	raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, ECHO, 10);
	while (!held)
		raw_turn(&raw);
	raw_frame(&raw, NGHTTP2_DATA, 0, 1, ECHO, 10);
	turn_until(&raw.goaway, NGHTTP2_STREAM_CLOSED);
	cr_assert_eq(raw.goaway, NGHTTP2_STREAM_CLOSED);
	close_all("half-closed", MIB);
}

/* Requests up to the last byte but one, on many streams of many connections. */
Test(gateway_abuse, bodies_never_end, .init = open_all)
{
	enum { CONNECTIONS = 2, STREAMS = 100, FRAMES = 60 };
	static struct raw_client more[CONNECTIONS];
	static uint8_t bytes[16384] = {0, 0, 0x0f, 0xff, 0xff};
	unsigned resets = 0;

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		raw_open(&more[i], ep, address);
		for (unsigned k = 0; k < 10; k++)
			raw_turn(&more[i]);
		for (unsigned k = 0; k < STREAMS; k++) {
			raw_request(&more[i], 2 * k + 1, "/t.T/Echo", "", NGHTTP2_FLAG_END_HEADERS);
			raw_frame(&more[i], NGHTTP2_DATA, 0, 2 * k + 1, bytes, 16384);
			raw_frames(&more[i], FRAMES, NGHTTP2_DATA, 2 * k + 1, bytes + 5, 16000);
			raw_turn(&more[i]);
			call_beside();
		}
		cr_assert_not(more[i].lost);
		raw.sent += more[i].sent;
		resets += more[i].resets;
	}
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		cr_assert_eq(more[i].reset, NGHTTP2_ENHANCE_YOUR_CALM);
		raw_close(&more[i]);
	}
	cr_assert_gt(resets, 100);
	close_all("bodies that never end", MEMORY_MAX / 2 + 4 * MIB);
}

/* Calls whose handlers do not answer. */
Test(gateway_abuse, handlers_never_finish, .init = open_all)
{
	enum { CONNECTIONS = 16, STREAMS = 140 };
	static struct raw_client more[CONNECTIONS];

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		raw_open(&more[i], ep, address);
		turn_often(2);
		for (unsigned k = 0; k < STREAMS; k++) {
			raw_request(&more[i], 2 * k + 1, "/t.T/Never", "",
				    NGHTTP2_FLAG_END_HEADERS);
			raw_frame(&more[i], NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 2 * k + 1, ECHO,
				  10);
		}
		for (unsigned k = 0; k < 20; k++)
			raw_turn(&more[i]);
		call_beside();
		raw.sent += more[i].sent;
	}
	cr_assert_gt(held, 1000);
	cr_assert(more[0].resets == STREAMS - 128 && more[0].reset == NGHTTP2_REFUSED_STREAM);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		raw_close(&more[i]);
	close_all("handlers that never finish", 32 * MIB);
}

/* Replies that are not read. */
Test(gateway_abuse, readers_never_read, .init = open_all)
{
	raw.mute = true;
	for (unsigned k = 0; k < 120; k++) {
		raw_request(&raw, 2 * k + 1, "/t.T/Long", "", NGHTTP2_FLAG_END_HEADERS);
		raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 2 * k + 1, ECHO, 10);
		raw_turn(&raw);
		call_beside();
	}
	turn_often(100);
	close_all("readers that never read", MEMORY_MAX);
}

/* Frames without use, whose answers are not read. */
Test(gateway_abuse, floods)
{
	static const struct {
		const char *name;
		uint8_t type;
		uint32_t stream;
		const char *payload;
		size_t len;
		bool mute;
		int goaway;
	} table[] = {
	    {"PING", NGHTTP2_PING, 0, "12345678", 8, true, NGHTTP2_ENHANCE_YOUR_CALM},
	    {"PING, read", NGHTTP2_PING, 0, "12345678", 8, false, NGHTTP2_ENHANCE_YOUR_CALM},
	    {"SETTINGS", NGHTTP2_SETTINGS, 0, "\0\3\0\0\0\x64", 6, true, NGHTTP2_ENHANCE_YOUR_CALM},
	    {"SETTINGS, read", NGHTTP2_SETTINGS, 0, "\0\3\0\0\0\x64", 6, false, -1},
	    {"PRIORITY", NGHTTP2_PRIORITY, 1, "\0\0\0\0\1", 5, false, -1},
	    {"WINDOW_UPDATE", NGHTTP2_WINDOW_UPDATE, 0, "\0\0\0\1", 4, false, -1},
	    {"empty DATA", NGHTTP2_DATA, 1, "", 0, false, -1},
	    {"unknown type", 0x42, 0, "12345678", 8, false, -1}};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		unsigned n = 0;

		open_all();
		raw.mute = table[i].mute;
		raw_request(&raw, 1, "/t.T/Mute", "", NGHTTP2_FLAG_END_HEADERS);
		for (; n < 1000000 && raw.goaway < 0 && !raw.lost; n += 20000) {
			raw_frames(&raw, 20000, table[i].type, table[i].stream, table[i].payload,
				   table[i].len);
			call_beside();
		}
		raw.mute = false;
		turn_until(&raw.goaway, table[i].goaway);
		cr_assert_eq(raw.goaway, table[i].goaway, "%s: %d", table[i].name, raw.goaway);
		close_all(table[i].name, MIB);
		slowest = 0;
	}
}

/* Bytes that are not HTTP/2, and too few. */
Test(gateway_abuse, starts_slowly)
{
	open_with("http2:127.0.0.1:0?slow=300");
	raw_request(&raw, 1, "/t.T/Echo", "", 0);
	for (lend_ns end = lend_now(ep) + 10000000000; !raw.lost && lend_now(ep) < end;) {
		raw_frame(&raw, 0x42, 0, 0, "", 0);
		raw_turn(&raw);
	}
	turn_until_lost();
	close_all("slow headers", MIB);
}

/* PINGs more often than the server permits, except while it sends. */
Test(gateway_abuse, pings, .init = open_all)
{
	for (unsigned i = 0; i < 6; i++) {
		raw.grpc = -1;
		raw_request(&raw, 1 + 2 * i, "/t.T/Echo", "", NGHTTP2_FLAG_END_HEADERS);
		raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1 + 2 * i, ECHO, 10);
		turn_until(&raw.grpc, LEND_OK);
		raw_frames(&raw, 3, NGHTTP2_PING, 0, "12345678", 8);
		turn_often(10);
	}
	cr_assert(raw.goaway == -1 && !raw.lost, "two strikes are permitted");
	raw_frame(&raw, NGHTTP2_PING, 0, 0, "12345678", 8);
	turn_until(&raw.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	cr_assert_eq(raw.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	cr_assert_str_eq(raw.debug, "too_many_pings");
	turn_until_lost();
	close_all("PINGs", MIB);
}

Test(gateway_abuse, pings_permitted)
{
	open_with("http2:127.0.0.1:0?ping_min=0.001");
	for (unsigned i = 0; i < 10; i++) {
		raw_frame(&raw, NGHTTP2_PING, 0, 0, "12345678", 8);
		for (lend_ns at = lend_now(ep) + 1500000; lend_now(ep) < at;)
			raw_turn(&raw);
	}
	cr_assert(raw.goaway == -1 && !raw.lost);
	close_all("PINGs that are permitted", MIB);
}

/* Ends the connection of a client that does not answer PINGs, and no other. */
Test(gateway_abuse, keepalive)
{
	open_with("http2:127.0.0.1:0?keepalive=0.02&keepalive_timeout=1");
	raw_request(&raw, 1, "/t.T/Never", "", NGHTTP2_FLAG_END_HEADERS);
	for (lend_ns end = lend_now(ep) + 10000000000; !raw.lost && lend_now(ep) < end;) {
		raw_turn(&raw);
		http2_client_turn(&client, ep);
	}
	cr_assert(raw.lost && raw.pings == 1 && !client.lost, "%u", raw.pings);
	close_all("no answer to a PING", MIB);
}

/* More connections than the server takes: those that have nothing open make room. */
Test(gateway_abuse, many_connections, .init = open_all)
{
	enum { CONNECTIONS = 1200 };
	struct rlimit files = {0};
	struct raw_client *more;
	struct http2_client late;
	struct answer a = {.path = "/t.T/Echo", .body = ECHO, .len = 10};
	unsigned ended = 0;

	(void)getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur < 4 * CONNECTIONS)
		cr_skip_test("needs %d files", 4 * CONNECTIONS);
	more = calloc(CONNECTIONS, sizeof(*more));
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		raw_open(&more[i], ep, address);
		raw_turn(&more[i]);
		raw_turn(&more[i]);
		if (i % 100 == 0)
			call_beside();
	}
	http2_client_open(&late, address);
	http2_client_ask(&late, &a);
	http2_client_until(&late, ep, &a.over);
	cr_assert(a.over, "a later client is answered");
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		raw_turn(&more[i]);
		ended += more[i].goaway == NGHTTP2_NO_ERROR;
		raw_close(&more[i]);
	}
	cr_assert_gt(ended, CONNECTIONS / 2);
	http2_client_close(&late);
	free(a.bytes);
	free(more);
	close_all("many connections", 512 * MIB);
}
