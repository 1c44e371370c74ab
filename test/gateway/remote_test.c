/* Goal: calls to a stock gRPC server end with the status that gRPC defines for its response, reset,
 * lost connection or goodbye, and with ran exact; requests carry name, deadline and metadata; the
 * server's limits hold. Method: an HTTP/2 server of nghttp2 in the thread of the endpoint, tables.
 * Covers: src/gateway/remote.c, src/gateway/forward.c, src/gateway/forward_reply.c,
 * src/gateway/address.c, src/gateway/name_lookup.c, src/gateway/keepalive.c, src/rpc/remotes.c */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <nghttp2/nghttp2.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lend/metadata.h"

/* An answer of the server; lines "name: value\n". */
struct response {
	const char *headers, *body, *trailers; /* trailers NULL: the headers end the response */
	size_t len;
	uint32_t reset; /* instead: RST_STREAM */
	bool none;      /* no answer */
};

#define OK_HEADERS ":status: 200\ncontent-type: application/grpc\n"
static const struct response echo = {
    OK_HEADERS "k: v\nx-bin: AAH/\n", "\0\0\0\0\2hi", "grpc-status: 0\nt: w\n", 7, 0, false};
static const struct response none = {.none = true};

/* The server: one connection at a time. */
static struct server {
	int listener, fd;
	nghttp2_session *session;
	const struct response *response;
	uint32_t streams_max;
	char seen[1024];               /* headers of the last request, "name: value\n" */
	unsigned requests, open, most; /* most: open ones at once */
	int32_t first;
	uint32_t reset; /* last RST_STREAM of the client */
	unsigned pings;
} server;
static struct lend_ep *ep;
static lend_session session;
static char address[64];

/* The name server, which stands before getaddrinfo(): the numeric hosts of shop.test, in turn. */
static struct {
	const char *hosts[3]; /* NULL: none follows */
	unsigned lookups;
	bool slow; /* answers when `go` is posted */
	sem_t go, done;
} names;

__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
						       const struct addrinfo *hints,
						       struct addrinfo **found)
{
	__typeof__(getaddrinfo) *real = (__typeof__(real))dlsym(RTLD_NEXT, "getaddrinfo");
	int rc = EAI_NONAME;

	if (!host || strcmp(host, "shop.test") != 0 || hints->ai_flags & AI_NUMERICHOST)
		return real(host, service, hints, found);
	names.lookups++;
	if (names.slow)
		while (sem_wait(&names.go) < 0)
			continue;
	for (unsigned i = 0; i < 3 && names.hosts[i]; i++, found = &(*found)->ai_next)
		rc = real(names.hosts[i], service, hints, found);
	sem_post(&names.done);
	return rc;
}

static size_t read_lines(char *text, nghttp2_nv *list)
{
	char *save;
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line + 1, ':');

		list[n++] = (nghttp2_nv){.name = (uint8_t *)line,
					 .namelen = (size_t)(colon - line),
					 .value = (uint8_t *)colon + 2,
					 .valuelen = strlen(colon + 2)};
	}
	return n;
}

static ssize_t read_body(nghttp2_session *s, int32_t stream, uint8_t *out, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	const struct response *r = source->ptr;
	nghttp2_nv list[16];
	char text[256];
	size_t n;

	(void)arg;
	cr_assert_leq(r->len, cap);
	memcpy(out, r->body, r->len);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!*r->trailers)
		return (ssize_t)r->len;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	(void)snprintf(text, sizeof(text), "%s", r->trailers);
	n = read_lines(text, list);
	(void)nghttp2_submit_trailer(s, stream, list, n);
	return (ssize_t)r->len;
}

static void answer_with(int32_t stream, const struct response *r)
{
	nghttp2_data_provider source = {.source.ptr = (void *)r, .read_callback = read_body};
	nghttp2_nv list[16];
	char text[512];
	size_t n;

	if (r->none)
		return;
	if (r->reset) {
		(void)nghttp2_submit_rst_stream(server.session, 0, stream, r->reset);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s", r->headers);
	n = read_lines(text, list);
	(void)nghttp2_submit_response(server.session, stream, list, n,
				      r->trailers ? &source : NULL);
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	size_t at = strlen(server.seen);

	(void)s, (void)frame, (void)flags, (void)arg;
	(void)snprintf(server.seen + at, sizeof(server.seen) - at, "%.*s: %.*s\n", (int)name_len,
		       (const char *)name, (int)len, (const char *)value);
	return 0;
}

static int on_begin(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
	(void)s, (void)arg;
	server.seen[0] = '\0';
	if (!server.requests++)
		server.first = frame->hd.stream_id;
	if (++server.open > server.most)
		server.most = server.open;
	return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *arg)
{
	(void)s, (void)arg;
	server.pings += frame->hd.type == NGHTTP2_PING;
	if (frame->hd.type == NGHTTP2_RST_STREAM)
		server.reset = frame->rst_stream.error_code;
	if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		answer_with(frame->hd.stream_id, server.response);
	return 0;
}

static int on_close(nghttp2_session *s, int32_t stream, uint32_t code, void *arg)
{
	(void)s, (void)stream, (void)code, (void)arg;
	server.open--;
	return 0;
}

static void server_hang_up(void)
{
	if (server.fd < 0)
		return;
	nghttp2_session_del(server.session);
	close(server.fd);
	server.fd = -1;
	server.open = 0;
}

static void server_listen(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port)};
	socklen_t len = sizeof(at);
	int on = 1;

	server.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	(void)setsockopt(server.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	cr_assert_eq(bind(server.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(server.listener, 8), 0);
	(void)getsockname(server.listener, (struct sockaddr *)&at, &len);
	(void)snprintf(address, sizeof(address), "http2:127.0.0.1:%u", ntohs(at.sin_port));
}

static void server_accept(void)
{
	nghttp2_settings_entry limit = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
					server.streams_max};
	nghttp2_session_callbacks *callbacks;
	int fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK);

	if (fd < 0)
		return;
	server_hang_up();
	server.fd = fd;
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_server_new(&server.session, callbacks, NULL);
	nghttp2_session_callbacks_del(callbacks);
	(void)nghttp2_submit_settings(server.session, 0, &limit, server.streams_max ? 1 : 0);
}

/* Runs a turn of the server and of the endpoint. */
static void turn_once(void)
{
	uint8_t in[16384];
	const uint8_t *out;
	ssize_t n;

	if (server.listener >= 0)
		server_accept();
	while (server.fd >= 0 && (n = recv(server.fd, in, sizeof(in), 0)) >= 0) {
		if (n > 0)
			cr_assert_eq(nghttp2_session_mem_recv(server.session, in, (size_t)n), n);
		else
			server_hang_up();
	}
	while (server.fd >= 0 && (n = nghttp2_session_mem_send(server.session, &out)) > 0)
		cr_assert_eq(send(server.fd, out, (size_t)n, MSG_NOSIGNAL), n);
	(void)lend_poll(ep);
}

static void open_with(const char *parameters)
{
	server = (struct server){.fd = -1, .response = &echo};
	server_listen(0);
	strcat(address, parameters);
	cr_assert_eq(lend_open(NULL, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_connect(ep, address, &session), 0, "%s", lend_why());
}

static void open_all(void)
{
	open_with("");
}

static void close_all(void)
{
	lend_close(ep);
	server_hang_up();
	close(server.listener);
}

static const struct lend_call_head name = {.name = "/t.T/M"};

static void start_call(struct lend_call *call)
{
	if (!call->head)
		call->head = &name;
	cr_assert_eq(lend_call_start(ep, session, call), 0, "%s", lend_why());
}

static char last_why[256];
static unsigned ended;
static void note_end(struct lend_call *call)
{
	(void)snprintf(last_why, sizeof(last_why), "%s", lend_call_why(ep, call));
	ended++;
}

/* Makes a call, and returns when it has ended. */
static void call_once(struct lend_call *call)
{
	ended = 0;
	call->done = note_end;
	start_call(call);
	while (!ended)
		turn_once();
}

Test(gateway_remote, statuses, .init = open_all, .fini = close_all)
{
	static const struct {
		struct response response;
		enum lend_status status;
		enum lend_ran ran;
		const char *why; /* how it begins */
	} table[] = {
	    {{OK_HEADERS, "\0\0\0\0\0", "grpc-status: 0\n", 5, 0, 0}, LEND_OK, LEND_RAN_YES, ""},
	    {{OK_HEADERS "grpc-status: 5\ngrpc-message: no%20%E2%98%BA\n", 0, 0, 0, 0, 0},
	     LEND_NOT_FOUND,
	     LEND_RAN_YES,
	     "no \xe2\x98\xba"},
	    {{OK_HEADERS, "", "grpc-status: 9\n", 0, 0, 0},
	     LEND_FAILED_PRECONDITION,
	     LEND_RAN_YES,
	     ""},
	    {{OK_HEADERS, "", "grpc-status: 99\n", 0, 0, 0}, LEND_UNKNOWN, LEND_RAN_YES, ""},
	    {{OK_HEADERS, "", "grpc-status: x\n", 0, 0, 0}, LEND_UNKNOWN, LEND_RAN_YES, ""},
	    {{OK_HEADERS, "", "grpc-status: 0\n", 0, 0, 0},
	     LEND_INTERNAL,
	     LEND_RAN_YES,
	     "the response ends without"},
	    {{OK_HEADERS, "\0\0\0\0\2h", "grpc-status: 0\n", 6, 0, 0},
	     LEND_INTERNAL,
	     LEND_RAN_YES,
	     "the response ends inside"},
	    {{OK_HEADERS, "\0\0\0\0\0\0\0\0\0\0", "grpc-status: 0\n", 10, 0, 0},
	     LEND_UNIMPLEMENTED,
	     LEND_RAN_YES,
	     "there is more"},
	    {{OK_HEADERS, "\1\0\0\0\1h", "grpc-status: 0\n", 6, 0, 0},
	     LEND_INTERNAL,
	     LEND_RAN_YES,
	     "a compressed"},
	    {{OK_HEADERS, "\0\x7f\0\0\0", "grpc-status: 0\n", 5, 0, 0},
	     LEND_RESOURCE_EXHAUSTED,
	     LEND_RAN_YES,
	     "the message is longer"},
	    {{OK_HEADERS "x-bin: *\n", "\0\0\0\0\0", "grpc-status: 0\n", 5, 0, 0},
	     LEND_INTERNAL,
	     LEND_RAN_YES,
	     "malformed"},
	    {{OK_HEADERS, "\0\0\0\0\0", "", 5, 0, 0},
	     LEND_UNKNOWN,
	     LEND_RAN_YES,
	     "the response has"},
	    {{":status: 503\n", 0, 0, 0, 0, 0}, LEND_UNAVAILABLE, LEND_RAN_YES, "the response has"},
	    {{":status: 404\n", 0, 0, 0, 0, 0}, LEND_UNIMPLEMENTED, LEND_RAN_YES, ""},
	    {{":status: 401\n", 0, 0, 0, 0, 0}, LEND_UNAUTHENTICATED, LEND_RAN_YES, ""},
	    {{":status: 200\ncontent-type: text/html\n", "<html>", "", 6, 0, 0},
	     LEND_UNKNOWN,
	     LEND_RAN_YES,
	     "the response is not"},
	    {{.reset = NGHTTP2_CANCEL}, LEND_CANCELLED, LEND_RAN_YES, "the server reset"},
	    {{.reset = NGHTTP2_INTERNAL_ERROR}, LEND_INTERNAL, LEND_RAN_YES, ""},
	    {{.reset = NGHTTP2_ENHANCE_YOUR_CALM}, LEND_RESOURCE_EXHAUSTED, LEND_RAN_YES, ""},
	    {{.reset = NGHTTP2_INADEQUATE_SECURITY}, LEND_PERMISSION_DENIED, LEND_RAN_YES, ""},
	    {{.reset = NGHTTP2_REFUSED_STREAM},
	     LEND_UNAVAILABLE,
	     LEND_RAN_NO,
	     "the server refused"},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct lend_call call = {.method = 0};

		server.response = &table[i].response;
		call_once(&call);
		cr_assert_eq(call.status, table[i].status, "row %u: %d %s", i, call.status,
			     last_why);
		cr_assert_eq(call.ran, table[i].ran, "row %u: ran %d", i, call.ran);
		cr_assert_eq(strncmp(last_why, table[i].why, strlen(table[i].why)), 0, "row %u: %s",
			     i, last_why);
		lend_buf_give(ep, call.reply);
	}
}

static void check_reply(struct lend_call *call)
{
	struct lend_pair pair;
	uint32_t at = 0;

	ended++;
	cr_assert_eq(call->status, LEND_OK, "%s", lend_call_why(ep, call));
	cr_assert_eq(call->reply->len, 2);
	cr_assert(lend_call_metadata(ep, call, false, &at, &pair) && !strcmp(pair.key, "k"));
	cr_assert(lend_call_metadata(ep, call, false, &at, &pair) && pair.len == 3 &&
		  !memcmp(pair.value, "\0\1\xff", 3));
	at = 0;
	cr_assert(lend_call_metadata(ep, call, true, &at, &pair) && !strcmp(pair.key, "t"));
}

Test(gateway_remote, headers_of_a_request, .init = open_all, .fini = close_all)
{
	struct lend_metadata *metadata = lend_metadata_new();
	const struct lend_call_head head = {
	    .name = "/t.T/M", .authority = "shop", .metadata = metadata};
	struct lend_call call = {.head = &head, .timeout = 5000000000, .done = check_reply};
	struct lend_peer peer;

	(void)lend_metadata_add(metadata, "a", "b", 1);
	(void)lend_metadata_add(metadata, "te", "gzip", 4);
	(void)lend_metadata_add(metadata, "grpc-timeout", "1H", 2);
	(void)lend_metadata_add(metadata, "c-bin", "\0\1\xff", 3);
	start_call(&call);
	while (!ended)
		turn_once();
	lend_buf_give(ep, call.reply);
	lend_metadata_free(metadata);
	cr_assert(
	    strstr(server.seen,
		   ":method: POST\n:scheme: http\n:path: /t.T/M\n:authority: shop\nte: trailers\n"
		   "content-type: application/grpc\n"
		   "grpc-accept-encoding: identity,gzip\ngrpc-timeout: ") == server.seen,
	    "%s", server.seen);
	cr_assert(strstr(server.seen, "u\na: b\nc-bin: AAH/\nuser-agent: "), "%s", server.seen);
	cr_assert_eq(lend_session_peer(ep, session, &peer), 0);
	cr_assert_str_eq(peer.address, address);
}

Test(gateway_remote, credentials_in_clear, .init = open_all, .fini = close_all)
{
	struct lend_metadata *metadata = lend_metadata_new();
	const struct lend_call_head head = {.name = "/t.T/M", .metadata = metadata};
	struct lend_call call = {.head = &head};

	(void)lend_metadata_add(metadata, "authorization", "x", 1);
	call_once(&call);
	cr_assert(call.status == LEND_UNAUTHENTICATED && call.ran == LEND_RAN_NO, "%d",
		  call.status);
	cr_assert(strstr(last_why, "TLS"), "%s", last_why);
	cr_assert_eq(server.requests, 0);
	lend_metadata_free(metadata);
}

Test(gateway_remote, numbers_have_no_form, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.method = 7, .done = note_end};

	cr_assert_eq(lend_call_start(ep, session, &call), 0);
	while (!ended)
		turn_once();
	cr_assert(call.status == LEND_UNIMPLEMENTED && call.ran == LEND_RAN_NO);
	cr_assert(strstr(last_why, "names only"), "%s", last_why);
}

/* Connects in a worker. */
static void serve_slowly(lend_request request, const struct lend_buf *in, void *arg)
{
	struct lend_ep *own = lend_request_ep(ep, request);
	lend_session other;

	(void)in, (void)arg;
	cr_assert_eq(lend_connect(own, address, &other), -ENODEV);
	(void)lend_reply_copy(ep, request, LEND_OK, lend_why(), (uint32_t)strlen(lend_why()));
}

Test(gateway_remote, worker__is_refused_with_the_fix, .fini = close_all)
{
	struct lend_call call = {.method = 1, .done = note_end};
	struct lend_config config = LEND_CONFIG_INIT;
	char own[32];

	server = (struct server){.fd = -1, .response = &echo};
	server_listen(0);
	(void)snprintf(own, sizeof(own), "shm:slow%d", getpid());
	config.listen = own;
	cr_assert_eq(lend_open(&config, &ep), 0, "%s", lend_why());
	cr_assert_eq(lend_serve(ep, 1, serve_slowly, NULL, LEND_SLOW), 0);
	cr_assert_eq(lend_connect(ep, own, &session), 0);
	cr_assert_eq(lend_call_start(ep, session, &call), 0);
	while (!ended)
		turn_once();
	cr_assert_eq(call.status, LEND_OK);
	cr_assert(call.reply && memmem(call.reply->data, call.reply->len, "without LEND_SLOW", 17));
	lend_buf_give(ep, call.reply);
}

Test(gateway_remote, lost_connection, .init = open_all, .fini = close_all)
{
	struct lend_call lost = {.done = note_end}, next = {.method = 0};

	server.response = &none;
	start_call(&lost);
	while (!server.requests)
		turn_once();
	server_hang_up();
	while (!ended)
		turn_once();
	cr_assert(lost.status == LEND_UNAVAILABLE && lost.ran == LEND_RAN_MAYBE, "%d %d",
		  lost.status, lost.ran);
	server.response = &echo;
	call_once(&next);
	cr_assert_eq(next.status, LEND_OK, "%s", last_why);
	lend_buf_give(ep, next.reply);
}

/* Bytes that are not HTTP/2: the calls end although the server does not close. */
Test(gateway_remote, malformed_server, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.done = note_end};

	server.response = &none;
	start_call(&call);
	while (!server.requests)
		turn_once();
	cr_assert_eq(send(server.fd, "\0\0\1\0\0\0\0\0\0x", 10, 0), 10);
	for (lend_ns end = lend_now(ep) + 10000000000; !ended && lend_now(ep) < end;)
		(void)lend_poll(ep);
	cr_assert(ended && call.status == LEND_UNAVAILABLE && call.ran == LEND_RAN_MAYBE, "%u %d",
		  ended, call.status);
}

/* The first of two requests is answered after the goodbye, the second has not run, and the third
 * gets another connection. */
Test(gateway_remote, goodbye, .init = open_all, .fini = close_all)
{
	struct lend_call one = {.done = note_end}, two = {.done = note_end}, three = {.method = 0};

	server.response = &none;
	start_call(&one);
	start_call(&two);
	while (server.requests < 2)
		turn_once();
	(void)nghttp2_submit_goaway(server.session, 0, server.first, NGHTTP2_NO_ERROR, NULL, 0);
	while (!ended)
		turn_once();
	cr_assert(two.status == LEND_UNAVAILABLE && two.ran == LEND_RAN_NO, "%d %d", two.status,
		  two.ran);
	answer_with(server.first, &echo);
	while (ended < 2)
		turn_once();
	cr_assert(one.status == LEND_OK, "%d %s", one.status, last_why);
	lend_buf_give(ep, one.reply);
	server.response = &echo;
	call_once(&three);
	cr_assert_eq(three.status, LEND_OK, "%s", last_why);
	lend_buf_give(ep, three.reply);
}

/* Returns the time until the server gets a PING. */
static lend_ns await_ping(void)
{
	lend_ns began = lend_now(ep);
	unsigned before = server.pings;

	while (server.pings == before)
		turn_once();
	return lend_now(ep) - began;
}

/* PINGs while there are calls, until the server does not answer them. */
Test(gateway_remote, keepalive, .fini = close_all)
{
	struct lend_call call = {.method = 0};

	open_with("?keepalive=0.01&keepalive_timeout=0.2");
	call_once(&call);
	cr_assert_eq(call.status, LEND_OK, "%s", last_why);
	lend_buf_give(ep, call.reply);
	for (unsigned i = 0; i < 10; i++)
		turn_once();
	server.pings = 0;
	for (lend_ns end = lend_now(ep) + 30000000; lend_now(ep) < end;)
		turn_once();
	cr_assert_eq(server.pings, 0, "%u without a call", server.pings);
	server.response = &none;
	call = (struct lend_call){.done = note_end};
	ended = 0;
	start_call(&call);
	for (unsigned i = 0; i < 3; i++)
		(void)await_ping();
	while (!ended)
		(void)lend_poll(ep);
	cr_assert(call.status == LEND_UNAVAILABLE && call.ran == LEND_RAN_MAYBE, "%d %d",
		  call.status, call.ran);
}

/* Each goodbye because of PINGs doubles the time between them. */
Test(gateway_remote, too_many_pings, .fini = close_all)
{
	const uint8_t *debug = (const uint8_t *)"too_many_pings";
	static struct lend_call call;

	open_with("?keepalive=0.01");
	for (unsigned i = 0; i < 4; i++) {
		call = (struct lend_call){.method = 0};
		call_once(&call);
		lend_buf_give(ep, call.reply);
		(void)nghttp2_submit_goaway(server.session, 0, server.first,
					    NGHTTP2_ENHANCE_YOUR_CALM, debug, 14);
		while (server.fd >= 0)
			turn_once();
	}
	server.response = &none;
	call = (struct lend_call){.done = note_end};
	start_call(&call);
	cr_assert_geq(await_ping(), 160000000);
}

Test(gateway_remote, streams_of_the_server, .init = open_all, .fini = close_all)
{
	enum { N = 5 };
	struct lend_call calls[N] = {{.method = 0}};

	server.streams_max = 2;
	server.response = &none;
	for (unsigned i = 0; i < N; i++) {
		calls[i].done = note_end;
		start_call(&calls[i]);
	}
	while (server.open < 2)
		turn_once();
	for (unsigned i = 0; i < 100; i++)
		turn_once();
	cr_assert_eq(server.requests, 2);
	lend_call_cancel(ep, &calls[4]); /* waits */
	for (int32_t i = 0; i < N - 1; i++) {
		while (server.requests <= (unsigned)i)
			turn_once();
		answer_with(server.first + 2 * i, &echo);
	}
	while (ended < N)
		turn_once();
	cr_assert_eq(server.most, 2);
	for (unsigned i = 0; i < N; i++) {
		cr_assert_eq(calls[i].status, i < 4 ? LEND_OK : LEND_CANCELLED, "%u: %d", i,
			     calls[i].status);
		lend_buf_give(ep, calls[i].reply);
	}
}

Test(gateway_remote, cancel, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.done = note_end};

	server.response = &none;
	start_call(&call);
	while (!server.requests)
		turn_once();
	lend_call_cancel(ep, &call);
	while (!server.reset || !ended)
		turn_once();
	cr_assert_eq(server.reset, NGHTTP2_CANCEL);
	cr_assert_eq(call.status, LEND_CANCELLED);
}

Test(gateway_remote, no_server_yet, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.method = 0};
	uint16_t port = (uint16_t)atoi(strrchr(address, ':') + 1);

	close(server.listener);
	server.listener = -1;
	call_once(&call);
	cr_assert(call.status == LEND_UNAVAILABLE && call.ran == LEND_RAN_NO, "%d", call.status);
	cr_assert(strstr(last_why, "refused"), "%s", last_why);
	server_listen(port);
	do
		call_once(&call);
	while (call.status == LEND_UNAVAILABLE);
	cr_assert_eq(call.status, LEND_OK, "%s", last_why);
	lend_buf_give(ep, call.reply);
}

/* Connects by name to the server's port. */
static void connect_by_name(void)
{
	char to[80];

	(void)snprintf(to, sizeof(to), "http2:shop.test:%s", strrchr(address, ':') + 1);
	cr_assert_eq(sem_init(&names.go, 0, 0), 0);
	cr_assert_eq(sem_init(&names.done, 0, 0), 0);
	cr_assert_eq(lend_connect(ep, to, &session), 0, "%s", lend_why());
}

/* The endpoint's turns go on during a lookup. Addresses are tried in turn, and looked up again for
 * the next connection; those of before still serve when the name server fails. */
Test(gateway_remote, names_of_hosts, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.done = note_end};

	connect_by_name();
	names.slow = true;
	names.hosts[0] = "127.0.0.2"; /* refuses */
	names.hosts[1] = "127.0.0.1";
	start_call(&call);
	for (int i = 0; i < 100; i++)
		turn_once();
	cr_assert_eq(ended, 0);
	sem_post(&names.go);
	while (!ended)
		turn_once();
	cr_assert_eq(call.status, LEND_OK, "%s", last_why);
	lend_buf_give(ep, call.reply);
	names.slow = false;
	for (unsigned lookups = 2; lookups < 4; lookups++) {
		server_hang_up();
		for (int i = 0; i < 100; i++)
			turn_once();
		call = (struct lend_call){.method = 0};
		call_once(&call);
		cr_assert_eq(call.status, LEND_OK, "%s", last_why);
		cr_assert_eq(names.lookups, lookups, "%u, not %u", names.lookups, lookups);
		lend_buf_give(ep, call.reply);
		names.hosts[0] = NULL;
	}
}

Test(gateway_remote, name_of_no_host, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.method = 0};

	connect_by_name();
	call_once(&call);
	cr_assert(call.status == LEND_UNAVAILABLE && call.ran == LEND_RAN_NO, "%d", call.status);
	cr_assert(strstr(last_why, gai_strerror(EAI_NONAME)), "%s", last_why);
}

/* The session ends during a lookup. */
Test(gateway_remote, name_of_slow_host, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.done = note_end};

	connect_by_name();
	names.slow = true;
	start_call(&call);
	while (!names.lookups)
		turn_once();
	lend_disconnect(ep, session);
	while (!ended)
		turn_once();
	cr_assert_eq(call.status, LEND_CANCELLED);
	sem_post(&names.go);
	while (sem_wait(&names.done) < 0)
		continue;
}

Test(gateway_remote, disconnect, .init = open_all, .fini = close_all)
{
	struct lend_call call = {.done = note_end};

	server.response = &none;
	start_call(&call);
	while (!server.requests)
		turn_once();
	lend_disconnect(ep, session);
	while (!ended || server.fd >= 0)
		turn_once();
	cr_assert_eq(call.status, LEND_CANCELLED);
}

Test(gateway_remote, addresses, .init = open_all, .fini = close_all)
{
	static const struct {
		const char *address;
		int err;
	} table[] = {{"http2:127.0.0.1:1", 0},
		     {"http2:[::1]:1", 0},
		     {"http2:127.0.0.1:1?tls&name=shop", 0},
		     {"http2:127.0.0.1:1?keepalive=0.5", 0},
		     {"http2:127.0.0.1:1?keepalive=-1", -EINVAL},
		     {"http2:127.0.0.1", -EINVAL},
		     {"http2::1", -EINVAL},
		     {"http2:127.0.0.1:99999", -EINVAL},
		     {"http2:127.0.0.1:1?tsl", -EINVAL},
		     {"http2:127.0.0.1:1?ca=/none", -ENOENT},
		     {"http2:no.invalid:1", 0}}; /* looked up for the first call */
	lend_session other;

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		cr_assert_eq(lend_connect(ep, table[i].address, &other), table[i].err, "%s: %s",
			     table[i].address, lend_why());
}
