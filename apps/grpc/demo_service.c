/* demo_service - see demo_service.h. */
#include "apps/grpc/demo_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/report.h"
#include "demo.pb-c.h"
#include "lend/grpc.h"
#include "util/utf8.h"

enum { TEXT_MAX = 1024 };

/* A stream that is open. */
struct talk {
	void *stream;
	char names[TEXT_MAX]; /* the client's, one after the other */
	uint32_t left;        /* greetings to send */
	struct talk *next;
};

static struct {
	struct lend_ep *ep;
	char listening[256];
	uint64_t calls, http2, errors;
	struct talk *talks;
} demo;

/* Counts a call. Stock gRPC clients name the server that they call; Lend's own do only if they are
 * asked to. */
static void count_call(const void *closure_data)
{
	demo.calls++;
	demo.http2 +=
	    lend_request_text(demo.ep, lend_pb_request(closure_data), LEND_TEXT_AUTHORITY) != NULL;
}

static void fail_call(void *closure_data, enum lend_status status, const char *why)
{
	demo.errors++;
	lend_pb_fail(closure_data, status, why);
}

/* Appends as much of a name as there is room for. */
static void append_name(char text[TEXT_MAX], const char *name)
{
	size_t len = strlen(text), room = TEXT_MAX - 1 - len, n = strlen(name);

	if (n > room)
		n = lend_utf8_cut(name, (uint32_t)room);
	memcpy(text + len, name, n);
	text[len + n] = 0;
}

static Demo__Greeting greeting_of(const char *name, char text[TEXT_MAX])
{
	Demo__Greeting out = DEMO__GREETING__INIT;

	strcpy(text, "hello, ");
	append_name(text, name);
	out.text = text;
	return out;
}

static void serve_greet(Demo__Demo_Service *service, const Demo__Name *in,
			Demo__Greeting_Closure closure, void *closure_data)
{
	char text[TEXT_MAX];
	Demo__Greeting out = greeting_of(in->name, text);

	(void)service;
	count_call(closure_data);
	if (*in->name)
		closure(&out, closure_data);
	else
		fail_call(closure_data, LEND_INVALID_ARGUMENT, "a greeting needs a name");
}

static void free_talk(void *stream, void *talk)
{
	struct talk **at = &demo.talks;

	(void)stream;
	while (*at != talk)
		at = &(*at)->next;
	*at = ((struct talk *)talk)->next;
	free(talk);
}

/* Returns the record of a stream, made for its first message; NULL: no memory, it was ended. */
static struct talk *talk_of(void *stream, void (*writable)(void *stream, void *talk))
{
	struct talk *t = demo.talks;

	while (t && t->stream != stream)
		t = t->next;
	if (t)
		return t;
	count_call(stream);
	t = calloc(1, sizeof(*t));
	if (!t) {
		fail_call(stream, LEND_RESOURCE_EXHAUSTED, "no memory");
		return NULL;
	}
	t->stream = stream;
	t->next = demo.talks;
	demo.talks = t;
	lend_pb_on(stream,
		   &(struct lend_pb_events){.writable = writable, .ended = free_talk, .arg = t});
	return t;
}

static void serve_greet_all(Demo__Demo_Service *service, const Demo__Name *in,
			    Demo__Greeting_Closure closure, void *stream)
{
	struct talk *t = talk_of(stream, NULL);
	char text[TEXT_MAX];
	Demo__Greeting out;

	(void)service;
	if (!t)
		return;
	if (in) {
		append_name(t->names, *t->names ? ", " : "");
		append_name(t->names, in->name);
		return;
	}
	out = greeting_of(t->names, text);
	closure(&out, stream);
}

/* Sends what there is credit for. */
static void send_greetings(void *stream, void *talk)
{
	struct talk *t = talk;
	char text[TEXT_MAX];
	Demo__Greeting out = greeting_of(t->names, text);

	while (t->left && lend_pb_send(stream, &out.base, NULL, NULL) == 0)
		t->left--;
	if (!t->left)
		lend_pb_reply(stream, NULL, NULL, NULL);
}

static void serve_greet_times(Demo__Demo_Service *service, const Demo__Times *in,
			      Demo__Greeting_Closure closure, void *stream)
{
	struct talk *t = talk_of(stream, send_greetings);

	(void)service, (void)closure;
	if (!t)
		return;
	append_name(t->names, in->name);
	t->left = in->times;
	send_greetings(stream, t);
}

static void resume_reading(void *stream, void *talk)
{
	(void)talk;
	lend_pb_pause(stream, false);
}

static void serve_greet_each(Demo__Demo_Service *service, const Demo__Name *in,
			     Demo__Greeting_Closure closure, void *stream)
{
	char text[TEXT_MAX];
	Demo__Greeting out = greeting_of(in ? in->name : "", text);

	(void)service;
	if (!talk_of(stream, resume_reading))
		return;
	closure(in ? &out : NULL, stream);
	if (in && lend_pb_check(stream) == -EAGAIN)
		lend_pb_pause(stream, true);
}

static void print_demo(void *arg)
{
	struct app_server *server = arg;
	struct app_report report;

	app_report_begin(&report, server->args.json, "demo.Demo");
	app_report_text(&report, "listening", demo.listening, "the addresses");
	app_report_int(&report, "calls", demo.calls, "calls and streams");
	app_report_int(&report, "native", demo.calls - demo.http2, "of them from Lend's clients");
	app_report_int(&report, "http2", demo.http2, "of them from stock gRPC clients");
	app_report_int(&report, "errors", demo.errors, "of them with another status than OK");
	app_report_end(&report);
	server->args.json = false; /* printed instead of the endpoint's counters */
}

void app_demo_service(struct app_server *server)
{
	static Demo__Demo_Service service = DEMO__DEMO__INIT(serve_);
	static const enum lend_pb_kind kinds[] = {LEND_PB_UNARY, LEND_PB_CLIENT_STREAM,
						  LEND_PB_SERVER_STREAM, LEND_PB_BOTH_STREAM};

	demo.ep = server->ep;
	if (lend_address(server->ep, demo.listening, sizeof(demo.listening)) < 0 ||
	    lend_pb_serve_kinds(server->ep, &service.base, kinds) < 0)
		app_die("%s", lend_why());
	server->closing = print_demo;
	server->arg = server;
}
