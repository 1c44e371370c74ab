/* grpc_bridge - forwards the calls and streams of every name to another server: stock gRPC clients
 * to Lend servers, Lend clients to stock gRPC servers, and any other pair of addresses.
 *
 * HTTP/2 does not have the kind of a method, so stock clients' requests arrive as streams. A Lend
 * server refuses a stream for a method of calls: then the stream's one message becomes a call, and
 * the bridge remembers the method.
 *
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/bench_server.h"
#include "lend/stream.h"

enum {
	UNARY_MAX = 1024, /* methods that are remembered */
	CALLS = 1024,     /* default number for a session */
	DRAIN = 10        /* seconds */
};

struct bridge_args {
	struct app_server_args server;
	const char *to;
};
static struct bridge {
	struct lend_ep *ep;
	const char *to;
	lend_session session;
	uint32_t unary[UNARY_MAX]; /* numbers of methods that take no stream */
	unsigned n_unary;
	struct relay *waiting; /* streams that the session has no room for, the newest first */
} bridge;

/* One call or stream that is forwarded. Messages are held while the other side has no credit. */
struct relay {
	lend_request request;
	struct lend_stream in, out; /* the client's stream, and that to the server */
	bool in_open, out_open;
	bool client_done;           /* the client has ended its direction */
	struct lend_buf *up, *down; /* held messages: to the server, to the client */
	struct lend_buf *first; /* copy of the first message, until the server took the stream */
	unsigned sent;          /* messages to the server */
	bool answered;          /* a message of the server arrived */
	bool waits;
	struct relay *next;
	uint32_t method;
	char *name;
	struct lend_call call;
	bool calling; /* call is in progress */
	/* The end, while a message is held. */
	bool over;
	enum lend_status status;
	char *why;
	struct lend_metadata *initial, *trailing;
};

static struct relay *make_relay(lend_request request)
{
	const char *name = lend_request_text(bridge.ep, request, LEND_TEXT_METHOD);
	struct relay *r = name ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->request = request;
	r->name = strdup(name);
	r->method = lend_method_number(name);
	return r;
}

static void free_relay(struct relay *r)
{
	lend_buf_give(bridge.ep, r->up);
	lend_buf_give(bridge.ep, r->down);
	lend_buf_give(bridge.ep, r->first);
	lend_metadata_free(r->initial);
	lend_metadata_free(r->trailing);
	free(r->why);
	free(r->name);
	free(r);
}

static struct lend_metadata *copy_request_metadata(lend_request request)
{
	struct lend_metadata *copy = lend_metadata_new();
	struct lend_pair pair;

	for (uint32_t at = 0; copy && lend_request_metadata(bridge.ep, request, &at, &pair);)
		(void)lend_metadata_add(copy, pair.key, pair.value, pair.len);
	return copy;
}

static struct lend_metadata *copy_call_metadata(const struct lend_call *call, bool trailing)
{
	struct lend_metadata *copy = lend_metadata_new();
	struct lend_pair pair;

	for (uint32_t at = 0; copy && lend_call_metadata(bridge.ep, call, trailing, &at, &pair);)
		(void)lend_metadata_add(copy, pair.key, pair.value, pair.len);
	return copy;
}

static struct lend_metadata *copy_stream_metadata(const struct lend_stream *stream, bool trailing)
{
	struct lend_metadata *copy = lend_metadata_new();
	struct lend_pair pair;

	for (uint32_t at = 0; copy && lend_stream_metadata(stream, trailing, &at, &pair);)
		(void)lend_metadata_add(copy, pair.key, pair.value, pair.len);
	return copy;
}

static struct lend_call_head head_of(const struct relay *r, struct lend_metadata *metadata)
{
	return (struct lend_call_head){
	    .name = r->name,
	    .authority = lend_request_text(bridge.ep, r->request, LEND_TEXT_AUTHORITY),
	    .encoding = lend_request_text(bridge.ep, r->request, LEND_TEXT_ENCODING),
	    .metadata = metadata,
	    .any_encoding = true,
	    .compress = lend_request_text(bridge.ep, r->request, LEND_TEXT_COMPRESSED)};
}

/* Starts the call of a relay, again in a new session if the old one has ended. */
static int start_call(struct relay *r, struct lend_buf *message, void (*done)(struct lend_call *))
{
	struct lend_metadata *metadata = copy_request_metadata(r->request);
	struct lend_call_head head = head_of(r, metadata);
	int rc;

	if (r->in_open)
		head.compress = r->in.compressed; /* the stream's only message */
	r->call = (struct lend_call){.head = &head,
				     .parent = r->request,
				     .timeout = lend_request_left(bridge.ep, r->request),
				     .queue = 1,
				     .request = message,
				     .done = done};
	rc = lend_call_start(bridge.ep, bridge.session, &r->call);
	if (rc == -ESTALE && lend_connect(bridge.ep, bridge.to, &bridge.session) == 0)
		rc = lend_call_start(bridge.ep, bridge.session, &r->call);
	lend_metadata_free(metadata);
	return rc;
}

static void call_done(struct lend_call *call)
{
	struct relay *r = (void *)((char *)call - offsetof(struct relay, call));
	const char *why = lend_call_why(bridge.ep, call);
	struct lend_reply_head head;

	r->initial = copy_call_metadata(call, false);
	r->trailing = copy_call_metadata(call, true);
	head = (struct lend_reply_head){
	    .initial = r->initial,
	    .trailing = r->trailing,
	    .message = *why ? why : NULL,
	    .encoding = lend_call_text(bridge.ep, call, LEND_TEXT_ENCODING),
	    .compress = lend_call_text(bridge.ep, call, LEND_TEXT_COMPRESSED)};
	(void)lend_reply_with(bridge.ep, r->request, call->status, call->reply, &head);
	lend_buf_give(bridge.ep, call->request);
	free_relay(r);
}

static void forward_call(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct relay *r = make_relay(request);
	struct lend_buf *message = r && bytes->len ? lend_request_take(bridge.ep, request) : NULL;

	(void)arg;
	if (r && (message || !bytes->len) && start_call(r, message, call_done) == 0)
		return;
	lend_buf_give(bridge.ep, message);
	(void)lend_reply_why(bridge.ep, request, LEND_UNAVAILABLE, lend_why());
	if (r)
		free_relay(r);
}

static void maybe_free(struct relay *r)
{
	if (!r->in_open && !r->out_open && !r->calling)
		free_relay(r);
}

/* Ends the client's stream, unless a message is held: then later. */
static void end_in(struct relay *r)
{
	const struct lend_reply_head head = {
	    .initial = r->answered ? NULL : r->initial, .trailing = r->trailing, .message = r->why};

	if (!r->over || r->down || !r->in_open)
		return;
	if (lend_stream_end_with(bridge.ep, &r->in, r->status, &head) < 0)
		(void)lend_stream_end(bridge.ep, &r->in, r->status, NULL);
}

static void set_end(struct relay *r, enum lend_status status, const char *why)
{
	r->over = true;
	r->status = status;
	free(r->why);
	r->why = *why ? strdup(why) : NULL;
}

/* Copies the first message, for a method that may turn out to take no stream. */
static struct lend_buf *copy_message(const struct lend_buf *message)
{
	struct lend_buf *copy;
	uint32_t len = 0;

	for (const struct lend_buf *at = message; at; at = at->next)
		len += at->len;
	copy = lend_buf_take(bridge.ep, len + 1);
	for (const struct lend_buf *at = message; copy && at; at = at->next) {
		if (at->len)
			memcpy((char *)copy->data + copy->len, at->data, at->len);
		copy->len += at->len;
	}
	return copy;
}

/* Writes a message, and gives back one that the stream does not take any more. Returns false if
 * there is no credit: it is held. */
static bool write_held(struct lend_stream *to, struct lend_buf **held)
{
	int rc = lend_stream_write(bridge.ep, to, *held);

	if (rc == -EAGAIN)
		return false;
	if (rc < 0)
		lend_buf_give(bridge.ep, *held);
	if (rc < 0 && rc != -EPIPE)
		lend_stream_cancel(bridge.ep, to);
	*held = NULL;
	return true;
}

static void unary_done(struct lend_call *call)
{
	struct relay *r = (void *)((char *)call - offsetof(struct relay, call));

	r->calling = false;
	r->initial = copy_call_metadata(call, false);
	r->trailing = copy_call_metadata(call, true);
	set_end(r, call->status, lend_call_why(bridge.ep, call));
	if (call->status == LEND_OK && r->in_open) {
		(void)lend_stream_begin(bridge.ep, &r->in, r->initial);
		r->answered = true;
		r->down = call->reply;
		r->in.compress = lend_call_text(bridge.ep, call, LEND_TEXT_COMPRESSED);
		call->reply = NULL;
		(void)write_held(&r->in, &r->down);
	}
	lend_buf_give(bridge.ep, call->reply);
	lend_buf_give(bridge.ep, call->request);
	end_in(r);
	maybe_free(r);
}

/* Makes the call of a stream with one message, once the client has sent it and ended. */
static void try_unary(struct relay *r)
{
	struct lend_buf *message = r->first;

	if (!r->client_done || r->out_open || r->over || r->call.done || !r->in_open)
		return;
	if (r->sent != 1) {
		set_end(r, LEND_UNIMPLEMENTED, "the method takes one message");
		end_in(r);
		return;
	}
	r->first = NULL;
	r->calling = start_call(r, message, unary_done) == 0;
	if (r->calling)
		return;
	lend_buf_give(bridge.ep, message);
	r->call.done = NULL;
	set_end(r, LEND_UNAVAILABLE, lend_why());
	end_in(r);
}

/* Sends the client's messages to the server. */
static void pump_up(struct relay *r)
{
	while (r->in_open && !r->over && !r->waits) {
		int rc = r->up ? 0 : lend_stream_read(bridge.ep, &r->in, &r->up);

		if (rc == -ENODATA && !r->client_done) {
			r->client_done = true;
			if (r->out_open)
				(void)lend_stream_finish(bridge.ep, &r->out);
			try_unary(r);
		}
		if (rc < 0)
			return;
		r->out.compress = r->in.compressed;
		if (!r->sent && !r->first)
			r->first = copy_message(r->up);
		if (r->out_open && !write_held(&r->out, &r->up))
			return;
		lend_buf_give(bridge.ep, r->up); /* no stream */
		r->up = NULL;
		r->sent++;
	}
}

/* Sends the server's messages to the client. */
static void pump_down(struct relay *r)
{
	while (r->in_open) {
		if (!r->down &&
		    (!r->out_open || lend_stream_read(bridge.ep, &r->out, &r->down) < 0))
			break;
		if (!r->answered) {
			lend_buf_give(bridge.ep, r->first);
			r->first = NULL;
			r->initial = copy_stream_metadata(&r->out, false);
			(void)lend_stream_begin(bridge.ep, &r->in, r->initial);
			r->answered = true;
		}
		r->in.compress = r->out.compressed;
		if (!write_held(&r->in, &r->down))
			return;
	}
	end_in(r);
}

#define RELAY_OF(stream, side)                                                                     \
	((struct relay *)(void *)((char *)(stream)-offsetof(struct relay, side)))

static void in_readable(struct lend_stream *stream)
{
	pump_up(RELAY_OF(stream, in));
}

static void in_writable(struct lend_stream *stream)
{
	pump_down(RELAY_OF(stream, in));
}

static void out_writable(struct lend_stream *stream)
{
	pump_up(RELAY_OF(stream, out));
}

static void out_readable(struct lend_stream *stream)
{
	pump_down(RELAY_OF(stream, out));
}

/* Takes a stream out of those that wait. */
static void stop_waiting(struct relay *r)
{
	struct relay **at = &bridge.waiting;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	r->waits = false;
}

static void in_ended(struct lend_stream *stream)
{
	struct relay *r = RELAY_OF(stream, in);

	r->in_open = false;
	if (r->waits)
		stop_waiting(r);
	if (r->out_open)
		lend_stream_cancel(bridge.ep, &r->out);
	else
		maybe_free(r);
}

static bool is_unary(uint32_t method)
{
	for (unsigned i = 0; i < bridge.n_unary; i++)
		if (bridge.unary[i] == method)
			return true;
	return false;
}

static void out_ended(struct lend_stream *stream);

/* Opens the stream to the server. Returns 0 or -errno. */
static int open_out(struct relay *r)
{
	struct lend_metadata *metadata = copy_request_metadata(r->request);
	const struct lend_call_head head = head_of(r, metadata);
	lend_ns left = lend_request_left(bridge.ep, r->request);
	int rc;

	r->out = (struct lend_stream){.readable = out_readable,
				      .writable = out_writable,
				      .ended = out_ended,
				      .timeout = left == LEND_NEVER ? 0 : left,
				      .head = &head};
	rc = lend_stream_open(bridge.ep, bridge.session, &r->out);
	if (rc == -ESTALE && lend_connect(bridge.ep, bridge.to, &bridge.session) == 0)
		rc = lend_stream_open(bridge.ep, bridge.session, &r->out);
	r->out_open = rc == 0;
	lend_metadata_free(metadata);
	return rc;
}

/* Opens the stream to the server, now or when one of the others has ended. */
static void begin_out(struct relay *r)
{
	int rc = is_unary(r->method) ? 0 : open_out(r);

	if (rc == -EAGAIN) {
		r->next = bridge.waiting;
		bridge.waiting = r;
		r->waits = true;
	} else if (rc < 0) {
		set_end(r, LEND_UNAVAILABLE, lend_why());
		end_in(r);
	} else {
		pump_up(r);
	}
}

static void begin_waiting(void)
{
	struct relay *r = bridge.waiting;

	if (!r)
		return;
	stop_waiting(r);
	begin_out(r);
}

static void out_ended(struct lend_stream *stream)
{
	struct relay *r = RELAY_OF(stream, out);

	r->out_open = false;
	begin_waiting();
	if (stream->status == LEND_UNIMPLEMENTED && stream->ran == LEND_RAN_NO && !r->answered &&
	    r->sent <= 1 && r->in_open && strstr(stream->why, "without a stream")) {
		if (!is_unary(r->method) && bridge.n_unary < UNARY_MAX)
			bridge.unary[bridge.n_unary++] = r->method;
		pump_up(r);
		try_unary(r);
		return;
	}
	if (!r->answered)
		r->initial = copy_stream_metadata(stream, false);
	r->trailing = copy_stream_metadata(stream, true);
	set_end(r, stream->status, stream->why ? stream->why : "");
	end_in(r);
	maybe_free(r);
}

static void forward_stream(lend_request request, void *arg)
{
	struct relay *r = make_relay(request);

	(void)arg;
	if (!r) {
		(void)lend_refuse(bridge.ep, request, LEND_RESOURCE_EXHAUSTED);
		return;
	}
	r->in = (struct lend_stream){
	    .readable = in_readable, .writable = in_writable, .ended = in_ended};
	if (lend_stream_accept(bridge.ep, request, &r->in) < 0) {
		free_relay(r);
		return; /* the runtime refuses it */
	}
	r->in_open = true;
	begin_out(r);
}

static const struct lend_option options[] = {
    OPT_TEXT(struct bridge_args, server.listen, "listen", "ADDR",
	     "Where clients call: http2:HOST:PORT, udp:HOST:PORT, shm:NAME, or several"),
    OPT_TEXT(struct bridge_args, to, "to", "ADDR", "The server that gets the calls"),
    {.name = NULL}};

static void check_args(void *input)
{
	const struct bridge_args *args = input;

	if (!args->server.listen || !args->to)
		app_bad("between what? give --listen ADDR and --to ADDR");
}

int app_grpc_bridge(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options,
	    .child = &app_server_syntax,
	    .check = check_args,
	    .doc =
		"Forwards the calls and streams of every name, with metadata, deadlines and "
		"cancellation, until a signal ends it.\v"
		"For programs that cannot be changed, in any language. It prints \"ready ADDRESS\" "
		"when it can be called. \n\n"
		"  lend grpc-bridge --listen http2:127.0.0.1:50051 --to udp:10.0.0.2:31850\n"
		"  lend grpc-bridge --listen shm:shop --to http2:shop.example:443?tls"};
	struct bridge_args args = {.server = APP_SERVER_ARGS_INIT};
	struct app_server server;

	args.server.calls = CALLS;
	args.server.drain = DRAIN;
	app_options_read(&syntax, argc, argv, &args);
	app_server_open(&server, &args.server, NULL);
	bridge.ep = server.ep;
	bridge.to = args.to;
	if (lend_connect(bridge.ep, bridge.to, &bridge.session) < 0 ||
	    lend_serve_any(bridge.ep, forward_call, NULL, LEND_ANY_ENCODING) < 0 ||
	    lend_serve_stream_any(bridge.ep, forward_stream, NULL, LEND_ANY_ENCODING) < 0)
		app_die("%s", lend_why());
	return app_server_run(&server);
}
