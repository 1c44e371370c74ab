/* interop_client - the client of gRPC's interoperability tests: interop_client ADDRESS CASE. Exits
 * with 0 if the server did what the case specifies, else with 1 and a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lend/grpc.h>

#include "interop.pb-c.h"

#define INITIAL  "x-grpc-test-echo-initial"
#define TRAILING "x-grpc-test-echo-trailing-bin"
#define TIMEOUT  UINT64_C(20000000000)
enum { REQUEST = 271828, RESPONSE = 314159, MESSAGES = 4, SOAK = 100, CONCURRENT = 1000 };
static const int32_t request_sizes[] = {27182, 8, 1828, 45904};
static const int32_t response_sizes[] = {31415, 9, 2653, 58979};

typedef Grpc__Testing__StreamingOutputCallRequest stream_request;
typedef Grpc__Testing__StreamingOutputCallResponse stream_response;

static struct lend_ep *ep;
static lend_session session;
static ProtobufCService *service;
static uint8_t zeros[REQUEST];

/* Result of one call or stream. */
static struct {
	bool ended;
	enum lend_status status;
	char why[512];
	char initial[64];
	uint8_t trailing[8];
	size_t trailing_len;
	unsigned n; /* messages */
	size_t size[MESSAGES + 1];
	bool compressed[MESSAGES + 1];
	int32_t sum;
} got;

static void expect_that(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "interop_client: %s: status %d, %s; %u messages\n", what, got.status,
		got.why, got.n);
	exit(1);
}

static void note_metadata(void)
{
	struct lend_pair pair;

	for (uint32_t at = 0; lend_pb_metadata(service, false, &at, &pair);)
		if (strcmp(pair.key, INITIAL) == 0)
			(void)snprintf(got.initial, sizeof(got.initial), "%s",
				       (const char *)pair.value);
	for (uint32_t at = 0; lend_pb_metadata(service, true, &at, &pair);)
		if (strcmp(pair.key, TRAILING) == 0 && pair.len <= sizeof(got.trailing)) {
			memcpy(got.trailing, pair.value, pair.len);
			got.trailing_len = pair.len;
		}
}

static bool is_compressed(void)
{
	const struct lend_call *call = lend_pb_call(service);

	return call ? !!lend_call_text(ep, call, LEND_TEXT_COMPRESSED)
		    : lend_pb_compressed(lend_pb_opened(service));
}

/* Notes a message, or the end. one: there is no end after a message. */
static void note_message(bool any, const Grpc__Testing__Payload *payload, bool one)
{
	if (any && got.n <= MESSAGES)
		got.compressed[got.n] = is_compressed();
	if (any && got.n <= MESSAGES)
		got.size[got.n++] = payload ? payload->body.len : 0;
	if (any && !one)
		return;
	got.ended = true;
	got.status = any ? LEND_OK : lend_pb_status(service);
	(void)snprintf(got.why, sizeof(got.why), "%s", any ? "" : lend_pb_why(service));
	note_metadata();
}

static void note_empty(const Grpc__Testing__Empty *reply, void *data)
{
	(void)data;
	note_message(reply, NULL, true);
}

static void note_simple(const Grpc__Testing__SimpleResponse *reply, void *data)
{
	(void)data;
	note_message(reply, reply ? reply->payload : NULL, true);
}

static void note_sum(const Grpc__Testing__StreamingInputCallResponse *reply, void *data)
{
	(void)data;
	got.sum = reply ? reply->aggregated_payload_size : -1;
	note_message(reply, NULL, true);
}

static void note_streamed(const stream_response *reply, void *data)
{
	(void)data;
	note_message(reply, reply ? reply->payload : NULL, false);
}

static void wait_end(void)
{
	while (!got.ended)
		(void)lend_wait(ep, LEND_NEVER);
}

static void set_timeout(lend_ns timeout)
{
	lend_pb_client_set(service, &(struct lend_call){.timeout = timeout});
}

static Grpc__Testing__Payload payload_of(size_t size)
{
	Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;

	payload.body.data = zeros;
	payload.body.len = size;
	return payload;
}

/* Sets whether requests are compressed from now on. */
static void set_compression(bool compress)
{
	lend_pb_client_head(service, &(struct lend_call_head){.compress = compress});
}

/* expect, respond: the server is to find the request compressed, and to compress its response. */
static void call_unary_with(int32_t response_size, size_t size, const char *message, bool expect,
			    bool respond)
{
	Grpc__Testing__BoolValue expected = GRPC__TESTING__BOOL_VALUE__INIT, responded = expected;
	Grpc__Testing__SimpleRequest in = GRPC__TESTING__SIMPLE_REQUEST__INIT;
	Grpc__Testing__EchoStatus status = GRPC__TESTING__ECHO_STATUS__INIT;
	Grpc__Testing__Payload payload = payload_of(size);

	memset(&got, 0, sizeof(got));
	in.response_size = response_size;
	in.payload = &payload;
	status.code = LEND_UNKNOWN;
	status.message = (char *)message;
	in.response_status = message ? &status : NULL;
	expected.value = expect;
	responded.value = respond;
	in.expect_compressed = &expected;
	in.response_compressed = &responded;
	grpc__testing__test_service__unary_call(service, &in, note_simple, NULL);
	wait_end();
}

static void call_unary(int32_t response_size, size_t size, const char *message)
{
	call_unary_with(response_size, size, message, false, false);
}

static void *open_duplex(void)
{
	memset(&got, 0, sizeof(got));
	grpc__testing__test_service__full_duplex_call(service, NULL, note_streamed, NULL);
	return lend_pb_opened(service);
}

/* Sends a message that asks for one of this size, or ends with a status. */
static void send_duplex(void *stream, int32_t response_size, size_t size, const char *message)
{
	stream_request in = GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
	Grpc__Testing__ResponseParameters one = GRPC__TESTING__RESPONSE_PARAMETERS__INIT,
					  *list[] = {&one};
	Grpc__Testing__EchoStatus status = GRPC__TESTING__ECHO_STATUS__INIT;
	Grpc__Testing__Payload payload = payload_of(size);

	one.size = response_size;
	in.response_parameters = list;
	in.n_response_parameters = message ? 0 : 1;
	in.payload = &payload;
	status.code = LEND_UNKNOWN;
	status.message = (char *)message;
	in.response_status = message ? &status : NULL;
	expect_that(lend_pb_send(stream, &in.base, NULL, NULL) == 0, "a message was not taken");
}

static void empty_unary(void)
{
	const Grpc__Testing__Empty in = GRPC__TESTING__EMPTY__INIT;

	grpc__testing__test_service__empty_call(service, &in, note_empty, NULL);
	wait_end();
	expect_that(got.status == LEND_OK && got.n == 1, "not one empty message");
}

static void large_unary(void)
{
	call_unary(RESPONSE, REQUEST, NULL);
	expect_that(got.status == LEND_OK && got.size[0] == RESPONSE, "not the response's size");
}

static void *open_input(void)
{
	memset(&got, 0, sizeof(got));
	grpc__testing__test_service__streaming_input_call(service, NULL, note_sum, NULL);
	return lend_pb_opened(service);
}

static void send_input(void *stream, int32_t size, bool expect)
{
	Grpc__Testing__StreamingInputCallRequest in =
	    GRPC__TESTING__STREAMING_INPUT_CALL_REQUEST__INIT;
	Grpc__Testing__Payload payload = payload_of((size_t)size);
	Grpc__Testing__BoolValue expected = GRPC__TESTING__BOOL_VALUE__INIT;

	in.payload = &payload;
	expected.value = expect;
	in.expect_compressed = &expected;
	expect_that(lend_pb_send(stream, &in.base, NULL, NULL) == 0, "a message was not taken");
}

static void rpc_soak(void)
{
	for (unsigned i = 0; i < SOAK; i++)
		large_unary();
}

static void count_large(const Grpc__Testing__SimpleResponse *reply, void *large)
{
	got.n++;
	got.status = lend_pb_status(service);
	*(unsigned *)large += reply && reply->payload && reply->payload->body.len == RESPONSE;
}

static void concurrent_large_unary(void)
{
	Grpc__Testing__SimpleRequest in = GRPC__TESTING__SIMPLE_REQUEST__INIT;
	Grpc__Testing__Payload payload = payload_of(REQUEST);
	unsigned large = 0;

	set_timeout(4 * TIMEOUT);
	in.response_size = RESPONSE;
	in.payload = &payload;
	for (unsigned i = 0; i < CONCURRENT; i++)
		grpc__testing__test_service__unary_call(service, &in, count_large, &large);
	while (got.n < CONCURRENT)
		(void)lend_wait(ep, LEND_NEVER);
	expect_that(large == CONCURRENT, "not the response's size");
}

static void client_streaming(void)
{
	void *stream = open_input();

	for (unsigned i = 0; i < MESSAGES; i++)
		send_input(stream, request_sizes[i], false);
	(void)lend_pb_finish(stream);
	wait_end();
	expect_that(got.status == LEND_OK && got.sum == 74922, "not the sum of the sizes");
}

static void client_compressed_unary(void)
{
	call_unary_with(RESPONSE, REQUEST, NULL, true, false);
	expect_that(got.status == LEND_INVALID_ARGUMENT, "an uncompressed message was taken");
	for (unsigned compress = 2; compress-- > 0;) {
		set_compression(compress);
		call_unary_with(RESPONSE, REQUEST, NULL, compress, false);
		expect_that(got.status == LEND_OK && got.size[0] == RESPONSE, "not a response");
	}
}

static void server_compressed_unary(void)
{
	for (unsigned compress = 2; compress-- > 0;) {
		call_unary_with(RESPONSE, REQUEST, NULL, false, compress);
		expect_that(got.status == LEND_OK && got.size[0] == RESPONSE, "not a response");
		expect_that(got.compressed[0] == compress, "not compressed as asked for");
	}
}

static void client_compressed_streaming(void)
{
	void *stream = open_input();

	send_input(stream, request_sizes[0], true);
	(void)lend_pb_finish(stream);
	wait_end();
	expect_that(got.status == LEND_INVALID_ARGUMENT, "an uncompressed message was taken");
	set_compression(true);
	stream = open_input();
	send_input(stream, request_sizes[0], true);
	lend_pb_compress(stream, false);
	send_input(stream, request_sizes[3], false);
	(void)lend_pb_finish(stream);
	wait_end();
	expect_that(got.status == LEND_OK && got.sum == 73086, "not the sum of the sizes");
}

static void expect_responses(void)
{
	expect_that(got.status == LEND_OK && got.n == MESSAGES, "not four messages");
	for (unsigned i = 0; i < MESSAGES; i++)
		expect_that(got.size[i] == (size_t)response_sizes[i], "not a response's size");
}

static void server_streaming(void)
{
	stream_request in = GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
	Grpc__Testing__ResponseParameters all[MESSAGES], *list[MESSAGES];

	for (unsigned i = 0; i < MESSAGES; i++) {
		all[i] =
		    (Grpc__Testing__ResponseParameters)GRPC__TESTING__RESPONSE_PARAMETERS__INIT;
		all[i].size = response_sizes[i];
		list[i] = &all[i];
	}
	in.response_parameters = list;
	in.n_response_parameters = MESSAGES;
	grpc__testing__test_service__streaming_output_call(service, &in, note_streamed, NULL);
	wait_end();
	expect_responses();
}

static void server_compressed_streaming(void)
{
	stream_request in = GRPC__TESTING__STREAMING_OUTPUT_CALL_REQUEST__INIT;
	Grpc__Testing__ResponseParameters first = GRPC__TESTING__RESPONSE_PARAMETERS__INIT,
					  second = first, *list[] = {&first, &second};
	Grpc__Testing__BoolValue yes = GRPC__TESTING__BOOL_VALUE__INIT, no = yes;

	yes.value = 1;
	first.size = 31415;
	first.compressed = &yes;
	second.size = 92653;
	second.compressed = &no;
	in.response_parameters = list;
	in.n_response_parameters = 2;
	grpc__testing__test_service__streaming_output_call(service, &in, note_streamed, NULL);
	wait_end();
	expect_that(got.status == LEND_OK && got.n == 2 && got.size[0] == 31415 &&
			got.size[1] == 92653,
		    "not two messages");
	expect_that(got.compressed[0] && !got.compressed[1], "not compressed as asked for");
}

static void ping_pong(void)
{
	void *stream = open_duplex();

	for (unsigned i = 0; i < MESSAGES; i++) {
		send_duplex(stream, response_sizes[i], (size_t)request_sizes[i], NULL);
		while (got.n <= i && !got.ended)
			(void)lend_wait(ep, LEND_NEVER);
	}
	(void)lend_pb_finish(stream);
	wait_end();
	expect_responses();
}

static void empty_stream(void)
{
	(void)lend_pb_finish(open_duplex());
	wait_end();
	expect_that(got.status == LEND_OK && got.n == 0, "not an empty stream");
}

static void expect_metadata(void)
{
	expect_that(strcmp(got.initial, "test_initial_metadata_value") == 0,
		    "not the initial metadata");
	expect_that(got.trailing_len == 3 && memcmp(got.trailing, "\xab\xab\xab", 3) == 0,
		    "not the trailing metadata");
}

static void custom_metadata(void)
{
	struct lend_metadata *metadata = lend_metadata_new();
	static const char value[] = "test_initial_metadata_value";
	const struct lend_call_head head = {.metadata = metadata};
	void *stream;

	(void)lend_metadata_add(metadata, INITIAL, value, sizeof(value) - 1);
	(void)lend_metadata_add(metadata, TRAILING, "\xab\xab\xab", 3);
	lend_pb_client_head(service, &head);
	call_unary(1, 1, NULL);
	expect_metadata();
	stream = open_duplex();
	send_duplex(stream, 1, 1, NULL);
	(void)lend_pb_finish(stream);
	wait_end();
	expect_metadata();
	set_compression(false);
	lend_metadata_free(metadata);
}

static void expect_status(const char *message)
{
	expect_that(got.status == LEND_UNKNOWN && strcmp(got.why, message) == 0, "not the status");
}

static void status_code_and_message(void)
{
	static const char message[] = "test status message";

	call_unary(1, 1, message);
	expect_status(message);
	send_duplex(open_duplex(), 1, 1, message);
	wait_end();
	expect_status(message);
}

static void special_status_message(void)
{
	static const char message[] =
	    "\t\ntest with whitespace\r\nand Unicode BMP \xe2\x98\xba and "
	    "non-BMP \xf0\x9f\x98\x88\t\n";

	call_unary(1, 1, message);
	expect_status(message);
}

static void call_unknown(const char *name)
{
	const struct lend_call_head head = {.name = name};
	struct lend_call call = {.head = &head, .timeout = TIMEOUT};

	expect_that(lend_call_sync(ep, session, &call) == 0, "not started");
	got.status = call.status;
	expect_that(call.status == LEND_UNIMPLEMENTED, "not UNIMPLEMENTED");
}

static void unimplemented_method(void)
{
	call_unknown("/grpc.testing.TestService/UnimplementedCall");
}

static void unimplemented_service(void)
{
	call_unknown("/grpc.testing.UnimplementedService/UnimplementedCall");
}

static void cancel_after_begin(void)
{
	lend_pb_cancel(open_input());
	wait_end();
	expect_that(got.status == LEND_CANCELLED, "not CANCELLED");
}

static void cancel_after_first_response(void)
{
	void *stream = open_duplex();

	send_duplex(stream, response_sizes[0], (size_t)request_sizes[0], NULL);
	while (!got.n && !got.ended)
		(void)lend_wait(ep, LEND_NEVER);
	expect_that(!got.ended, "an early end");
	lend_pb_cancel(stream);
	wait_end();
	expect_that(got.status == LEND_CANCELLED && got.n == 1, "not CANCELLED after a message");
}

static void timeout_on_sleeping_server(void)
{
	set_timeout(1000000);
	send_duplex(open_duplex(), 1, (size_t)request_sizes[0], NULL);
	wait_end();
	expect_that(got.status == LEND_DEADLINE_EXCEEDED, "not DEADLINE_EXCEEDED");
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {{"empty_unary", empty_unary},
	     {"large_unary", large_unary},
	     {"rpc_soak", rpc_soak},
	     {"concurrent_large_unary", concurrent_large_unary},
	     {"client_streaming", client_streaming},
	     {"server_streaming", server_streaming},
	     {"client_compressed_unary", client_compressed_unary},
	     {"server_compressed_unary", server_compressed_unary},
	     {"client_compressed_streaming", client_compressed_streaming},
	     {"server_compressed_streaming", server_compressed_streaming},
	     {"ping_pong", ping_pong},
	     {"empty_stream", empty_stream},
	     {"custom_metadata", custom_metadata},
	     {"status_code_and_message", status_code_and_message},
	     {"special_status_message", special_status_message},
	     {"unimplemented_method", unimplemented_method},
	     {"unimplemented_service", unimplemented_service},
	     {"cancel_after_begin", cancel_after_begin},
	     {"cancel_after_first_response", cancel_after_first_response},
	     {"timeout_on_sleeping_server", timeout_on_sleeping_server}};

int main(int argc, char **argv)
{
	static const enum lend_pb_kind kinds[] = {LEND_PB_UNARY,         LEND_PB_UNARY,
						  LEND_PB_SERVER_STREAM, LEND_PB_CLIENT_STREAM,
						  LEND_PB_BOTH_STREAM,   LEND_PB_BOTH_STREAM};
	unsigned ran = 0;

	if (argc < 3 || lend_open(NULL, &ep) < 0 || lend_connect(ep, argv[1], &session) < 0 ||
	    lend_pb_client(ep, session, &grpc__testing__test_service__descriptor, &service) < 0) {
		fprintf(stderr, "interop_client: %s\n",
			argc < 3 ? "usage: interop_client ADDRESS CASE" : lend_why());
		return 1;
	}
	lend_pb_client_kinds(service, kinds);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[2], cases[i].name) != 0)
			continue;
		set_timeout(TIMEOUT);
		cases[i].run();
		ran++;
	}
	protobuf_c_service_destroy(service);
	lend_close(ep);
	if (!ran)
		fprintf(stderr, "interop_client: no case %s\n", argv[2]);
	return !ran;
}
