/* interop_server - the server of gRPC's interoperability tests: interop_server ADDRESS. Prints
 * "ready ADDRESS", and serves until SIGTERM. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lend/grpc.h>

#include "interop.pb-c.h"

#define INITIAL  "x-grpc-test-echo-initial"
#define TRAILING "x-grpc-test-echo-trailing-bin"

static struct lend_ep *ep;
static uint8_t zeros[16 << 20];

/* Answers that a stream has to send. */
struct replies {
	void *stream;
	struct lend_alarm alarm; /* until the next one may be sent */
	struct reply {
		int32_t size, interval_us;
		bool compress;
	} * list;
	size_t n, sent;
	bool ended, waits; /* the client has ended its direction; the alarm is set */
	struct lend_reply_head head;
	struct replies *next;
};
static struct replies *open_streams;

/* Sends the metadata back that the test asks for. Returns whether there are any. The caller frees
 * both. */
static bool echo_metadata(void *closure_data, struct lend_reply_head *head)
{
	struct lend_metadata *initial = lend_metadata_new(), *trailing = lend_metadata_new();
	struct lend_pair pair;
	bool any = false;

	for (uint32_t at = 0;
	     lend_request_metadata(ep, lend_pb_request(closure_data), &at, &pair);) {
		bool first = !strcmp(pair.key, INITIAL);

		if (!first && strcmp(pair.key, TRAILING) != 0)
			continue;
		any = true;
		(void)lend_metadata_add(first ? initial : trailing, pair.key, pair.value, pair.len);
	}
	*head = (struct lend_reply_head){.initial = initial, .trailing = trailing};
	return any;
}

static void free_metadata(const struct lend_reply_head *head)
{
	lend_metadata_free((struct lend_metadata *)head->initial);
	lend_metadata_free((struct lend_metadata *)head->trailing);
}

static void test_empty_call(Grpc__Testing__TestService_Service *service,
			    const Grpc__Testing__Empty *in, Grpc__Testing__Empty_Closure closure,
			    void *data)
{
	(void)service;
	(void)in;
	closure(&(Grpc__Testing__Empty)GRPC__TESTING__EMPTY__INIT, data);
}

static bool is_set(const Grpc__Testing__BoolValue *flag)
{
	return flag && flag->value;
}

/* Returns false, and ends a call or stream whose message is not compressed as the test expects. */
static bool is_compressed_as(void *closure_data, const Grpc__Testing__BoolValue *expect)
{
	if (!is_set(expect) || lend_pb_compressed(closure_data))
		return true;
	lend_pb_fail(closure_data, LEND_INVALID_ARGUMENT, "the message is not compressed");
	return false;
}

static Grpc__Testing__Payload payload_of(int32_t size)
{
	Grpc__Testing__Payload payload = GRPC__TESTING__PAYLOAD__INIT;

	payload.body.data = zeros;
	payload.body.len = size > 0 && (size_t)size <= sizeof(zeros) ? (size_t)size : 0;
	return payload;
}

static void test_unary_call(Grpc__Testing__TestService_Service *service,
			    const Grpc__Testing__SimpleRequest *in,
			    Grpc__Testing__SimpleResponse_Closure closure, void *data)
{
	Grpc__Testing__SimpleResponse out = GRPC__TESTING__SIMPLE_RESPONSE__INIT;
	Grpc__Testing__Payload payload = payload_of(in->response_size);
	struct lend_reply_head head;
	bool any;

	(void)service;
	if (!is_compressed_as(data, in->expect_compressed))
		return;
	any = echo_metadata(data, &head);
	head.compress = is_set(in->response_compressed);
	if (any || head.compress)
		lend_pb_reply_head(data, &head);
	out.payload = &payload;
	if (in->response_status && in->response_status->code)
		lend_pb_fail(data, (enum lend_status)in->response_status->code,
			     in->response_status->message);
	else
		closure(&out, data);
	free_metadata(&head);
}

static void send_replies(void *stream, void *arg)
{
	struct replies *r = arg;

	while (!r->waits && r->sent < r->n) {
		Grpc__Testing__StreamingOutputCallResponse out =
		    GRPC__TESTING__STREAMING_OUTPUT_CALL_RESPONSE__INIT;
		Grpc__Testing__Payload payload = payload_of(r->list[r->sent].size);

		if (r->list[r->sent].interval_us > 0) {
			lend_alarm_set(ep, &r->alarm,
				       lend_now(ep) + (lend_ns)r->list[r->sent].interval_us * 1000);
			r->list[r->sent].interval_us = 0;
			r->waits = true;
			return;
		}
		out.payload = &payload;
		lend_pb_compress(stream, r->list[r->sent].compress);
		if (lend_pb_send(stream, &out.base, NULL, NULL) < 0)
			return;
		r->sent++;
	}
	if (!r->ended || r->sent < r->n)
		return;
	r->ended = false; /* once */
	lend_pb_fail(stream, LEND_OK, "");
}

static void alarm_rings(struct lend_alarm *alarm)
{
	struct replies *r = (void *)((char *)alarm - offsetof(struct replies, alarm));

	r->waits = false;
	send_replies(r->stream, r);
}

static void forget_stream(void *stream, void *arg)
{
	struct replies *r = arg, **at = &open_streams;

	(void)stream;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	lend_alarm_set(ep, &r->alarm, LEND_NEVER);
	free_metadata(&r->head);
	free(r->list);
	free(r);
}

static struct replies *replies_of(void *stream)
{
	struct replies *r = open_streams;

	while (r && r->stream != stream)
		r = r->next;
	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	*r = (struct replies){.stream = stream,
			      .alarm = {.ring = alarm_rings, .at = LEND_NEVER},
			      .next = open_streams};
	open_streams = r;
	lend_pb_on(stream, &(struct lend_pb_events){send_replies, forget_stream, r});
	if (echo_metadata(stream, &r->head))
		lend_pb_reply_head(stream, &r->head);
	return r;
}

static void take_request(struct replies *r, const Grpc__Testing__StreamingOutputCallRequest *in)
{
	r->list = realloc(r->list, (r->n + in->n_response_parameters) * sizeof(*r->list));
	for (size_t i = 0; i < in->n_response_parameters; i++)
		r->list[r->n++] = (struct reply){in->response_parameters[i]->size,
						 in->response_parameters[i]->interval_us,
						 is_set(in->response_parameters[i]->compressed)};
}

/* Takes a request of a stream; NULL: the client's end. last: none follows. early: replies may be
 * sent before the last one. */
static void handle_request(void *stream, const Grpc__Testing__StreamingOutputCallRequest *in,
			   bool last, bool early)
{
	struct replies *r = replies_of(stream);

	if (in && in->response_status && in->response_status->code) {
		lend_pb_fail(stream, (enum lend_status)in->response_status->code,
			     in->response_status->message);
		return;
	}
	if (in)
		take_request(r, in);
	r->ended = last;
	if (last || early)
		send_replies(stream, r);
}

static void test_streaming_output_call(Grpc__Testing__TestService_Service *service,
				       const Grpc__Testing__StreamingOutputCallRequest *in,
				       Grpc__Testing__StreamingOutputCallResponse_Closure closure,
				       void *stream)
{
	(void)service;
	(void)closure;
	handle_request(stream, in, true, true);
}

static void test_full_duplex_call(Grpc__Testing__TestService_Service *service,
				  const Grpc__Testing__StreamingOutputCallRequest *in,
				  Grpc__Testing__StreamingOutputCallResponse_Closure closure,
				  void *stream)
{
	(void)service;
	(void)closure;
	handle_request(stream, in, !in, true);
}

static void test_half_duplex_call(Grpc__Testing__TestService_Service *service,
				  const Grpc__Testing__StreamingOutputCallRequest *in,
				  Grpc__Testing__StreamingOutputCallResponse_Closure closure,
				  void *stream)
{
	(void)service;
	(void)closure;
	handle_request(stream, in, !in, false);
}

static void test_streaming_input_call(Grpc__Testing__TestService_Service *service,
				      const Grpc__Testing__StreamingInputCallRequest *in,
				      Grpc__Testing__StreamingInputCallResponse_Closure closure,
				      void *stream)
{
	Grpc__Testing__StreamingInputCallResponse out =
	    GRPC__TESTING__STREAMING_INPUT_CALL_RESPONSE__INIT;
	struct replies *r = replies_of(stream);

	(void)service;
	if (in && !is_compressed_as(stream, in->expect_compressed))
		return;
	if (in) {
		r->n += in->payload ? in->payload->body.len : 0;
		return;
	}
	out.aggregated_payload_size = (int32_t)r->n;
	closure(&out, stream);
}

static void on_signal(int number)
{
	(void)number;
	lend_stop(ep);
}

int main(int argc, char **argv)
{
	static const enum lend_pb_kind kinds[] = {LEND_PB_UNARY,         LEND_PB_UNARY,
						  LEND_PB_SERVER_STREAM, LEND_PB_CLIENT_STREAM,
						  LEND_PB_BOTH_STREAM,   LEND_PB_BOTH_STREAM};
	Grpc__Testing__TestService_Service service = GRPC__TESTING__TEST_SERVICE__INIT(test_);
	struct lend_config config = LEND_CONFIG_INIT;
	char address[256];

	config.listen = argc > 1 ? argv[1] : "http2:127.0.0.1:0";
	config.message_max = 32 << 20;
	if (lend_open(&config, &ep) < 0 || lend_pb_serve_kinds(ep, &service.base, kinds) < 0 ||
	    lend_address(ep, address, sizeof(address)) < 0) {
		fprintf(stderr, "interop_server: %s\n", lend_why());
		return 1;
	}
	(void)signal(SIGTERM, on_signal);
	printf("ready %s\n", address);
	(void)fflush(stdout);
	(void)lend_run(ep, LEND_NEVER);
	lend_close(ep);
	lend_pb_end(ep);
	return 0;
}
