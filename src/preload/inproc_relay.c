/* inproc_relay - see inproc_relay.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "preload/inproc_relay.h"

static void start_steps(struct engine_task *task);

static void queue_relay(struct relay *r)
{
	if (r->queued)
		return;
	r->queued = true;
	r->refs++;
	r->task.run = start_steps;
	engine_add_task(&r->server->engine, &r->task);
}

static void unref_relay(struct relay *r)
{
	if (--r->refs)
		return;
	if (__atomic_sub_fetch(&r->server->engine.owed, 1, __ATOMIC_RELAXED) == 0 &&
	    r->server->engine.sleepers)
		pthread_cond_broadcast(&r->server->engine.changed);
	if (r->call)
		real_grpc()->grpc_call_unref(r->call);
	pairs_free(&r->sent);
	grpc_byte_buffer_destroy(r->out);
	grpc_byte_buffer_destroy(r->sending);
	grpc_byte_buffer_destroy(r->in);
	grpc_metadata_array_destroy(&r->initial);
	grpc_metadata_array_destroy(&r->trailing);
	grpc_slice_unref(r->details);
	free(r->method);
	free(r->authority);
	free(r);
}

static void end_active(struct relay *r)
{
	r->active = false;
	if (r->link && (*r->link = r->next))
		r->next->link = r->link;
	unref_relay(r);
}

static struct relay *make_relay(struct server *s, lend_request request)
{
	struct lend_ep *ep = s->engine.ep;
	const char *method = lend_request_text(ep, request, LEND_TEXT_METHOD);
	const char *authority = lend_request_text(ep, request, LEND_TEXT_AUTHORITY);
	struct relay *r = calloc(1, sizeof(*r));
	struct lend_pair pair;
	uint32_t at = 0;

	if (!r || !(r->method = strdup(method ? method : ""))) {
		free(r);
		return NULL;
	}
	r->server = s;
	r->request = request;
	r->authority = authority ? strdup(authority) : NULL;
	r->left = lend_request_left(ep, request);
	while (lend_request_metadata(ep, request, &at, &pair))
		pairs_add(&r->sent, &pair);
	r->refs = 1;
	r->active = true;
	__atomic_add_fetch(&s->engine.owed, 1, __ATOMIC_RELAXED);
	grpc_metadata_array_init(&r->initial);
	grpc_metadata_array_init(&r->trailing);
	r->details = grpc_empty_slice();
	return r;
}

/* --- Lend's side ------------------------------------------------------------------------------ */

static const struct lend_metadata *made_of(const grpc_metadata_array *array,
					   struct lend_metadata **made)
{
	(void)metadata_to_lend(array->metadata, array->count, made);
	return *made;
}

static void begin_stream(struct relay *r)
{
	struct lend_metadata *made;

	if (r->began)
		return;
	r->began = true;
	if (made_of(&r->initial, &made))
		(void)lend_stream_begin(r->server->engine.ep, &r->stream, made);
	lend_metadata_free(made);
}

static void answer_relay(struct relay *r)
{
	struct lend_ep *ep = r->server->engine.ep;
	struct lend_metadata *initial = NULL, *trailing = NULL;
	char *details = text_of_slice(r->details);
	struct lend_reply_head head = {.trailing = made_of(&r->trailing, &trailing),
				       .message = details && *details ? details : NULL};
	struct lend_buf *reply = !r->streams && r->in ? bytes_to_lend(ep, r->in) : NULL;

	r->answered = true;
	if (!r->began)
		head.initial = made_of(&r->initial, &initial);
	if (r->streams)
		(void)lend_stream_end_with(ep, &r->stream, (enum lend_status)r->status, &head);
	else if (head.initial || head.trailing || head.message)
		(void)lend_reply_with(ep, r->request, (enum lend_status)r->status, reply, &head);
	else
		(void)lend_reply(ep, r->request, (enum lend_status)r->status, reply);
	lend_metadata_free(initial);
	lend_metadata_free(trailing);
	free(details);
	if (!r->streams)
		end_active(r);
}

/* Passes a reply message on, as far as there is credit. */
static void write_reply(struct relay *r)
{
	struct lend_ep *ep = r->server->engine.ep;
	int rc;

	if (!r->unsent && r->in) {
		r->unsent = bytes_to_lend(ep, r->in);
		grpc_byte_buffer_destroy(r->in);
		r->in = NULL;
		r->cancel |= !r->unsent;
	}
	if (!r->unsent)
		return;
	begin_stream(r);
	rc = lend_stream_write(ep, &r->stream, r->unsent);
	if (rc == -EAGAIN)
		return;
	if (rc < 0)
		lend_buf_give(ep, r->unsent);
	r->unsent = NULL;
	r->cancel |= rc < 0;
}

static void read_request(struct relay *r)
{
	struct lend_buf *buf;
	int rc;

	if (r->out || r->no_requests || r->answered)
		return;
	rc = lend_stream_read(r->server->engine.ep, &r->stream, &buf);
	r->no_requests = rc == -ENODATA;
	if (rc < 0)
		return;
	r->out = bytes_to_grpc(buf);
	lend_buf_give(r->server->engine.ep, buf);
}

/* Does what can be done on Lend's side, and has the steps started that can start. */
static void advance_relay(struct relay *r)
{
	if (r->streams && r->active && !r->receives.running && !r->opened.running)
		write_reply(r);
	if (r->streams && r->active)
		read_request(r);
	if (r->streams)
		queue_relay(r);
	if (!r->active || r->answered || !r->ended)
		return;
	if (!r->streams || (r->no_replies && !r->in && !r->unsent))
		answer_relay(r);
}

void relay_end_step(grpc_completion_queue_functor *functor, int ok)
{
	struct step *step = (struct step *)functor;
	struct relay *r = step->relay;
	struct engine *e = &r->server->engine;

	(void)ok;
	engine_enter(e);
	step->running = false;
	if (step == &r->sends) {
		grpc_byte_buffer_destroy(r->sending);
		r->sending = NULL;
	}
	r->no_replies |= step == &r->receives && !r->in;
	r->ended |= step == &r->closed;
	advance_relay(r);
	unref_relay(r);
	(void)lend_poll(e->ep);
	engine_leave(e);
}

/* A batch may have metadata that gRPC does not permit. */
void relay_fail_step(struct relay *r, struct step *step)
{
	struct engine *e = &r->server->engine;

	engine_enter(e);
	step->running = false;
	if (!r->ended)
		r->status = GRPC_STATUS_INTERNAL;
	r->ended = r->no_replies = r->closing = r->cancel = true;
	advance_relay(r);
	unref_relay(r);
	engine_leave(e);
}

static void start_steps(struct engine_task *task)
{
	struct relay *r = (struct relay *)task;
	struct engine *e = &r->server->engine;
	unsigned steps;

	engine_enter(e);
	r->queued = false;
	while ((steps = relay_choose_steps(r))) {
		engine_leave(e);
		relay_run_steps(r, steps);
		engine_enter(e);
		r->opened_call = true;
	}
	unref_relay(r);
	engine_leave(e);
}

/* --- handlers --------------------------------------------------------------------------------- */

static void stream_ready(struct lend_stream *stream)
{
	advance_relay((void *)((char *)stream - offsetof(struct relay, stream)));
}

static void stream_ended(struct lend_stream *stream)
{
	struct relay *r = (void *)((char *)stream - offsetof(struct relay, stream));

	lend_buf_give(r->server->engine.ep, r->unsent);
	r->unsent = NULL;
	r->cancel |= !r->ended;
	queue_relay(r);
	end_active(r);
}

/* Calls whose caller no longer waits are cancelled. */
static void look_at_calls(struct lend_alarm *alarm)
{
	struct server *s = (void *)((char *)alarm - offsetof(struct server, alarm));

	for (struct relay *r = s->calls; r; r = r->next)
		if (!r->cancel && lend_request_cancelled(s->engine.ep, r->request)) {
			r->cancel = true;
			queue_relay(r);
		}
	s->alarmed = false;
	if (s->calls)
		server_look_later(s, look_at_calls);
}

static void add_to_calls(struct server *s, struct relay *r)
{
	r->next = s->calls;
	r->link = &s->calls;
	if (r->next)
		r->next->link = &r->next;
	s->calls = r;
	server_look_later(s, look_at_calls);
}

void relay_call(lend_request request, const struct lend_buf *bytes, void *server)
{
	struct server *s = server;
	struct relay *r = s->closing ? NULL : make_relay(s, request);

	if (!r) {
		lend_refuse(s->engine.ep, request, LEND_UNAVAILABLE);
		return;
	}
	r->sending = bytes_to_grpc(bytes);
	add_to_calls(s, r);
	queue_relay(r);
}

void relay_stream(lend_request request, void *server)
{
	struct server *s = server;
	struct relay *r = s->closing ? NULL : make_relay(s, request);

	if (!r) {
		lend_refuse(s->engine.ep, request, LEND_UNAVAILABLE);
		return;
	}
	r->streams = true;
	r->stream = (struct lend_stream){
	    .readable = stream_ready, .writable = stream_ready, .ended = stream_ended};
	if (lend_stream_accept(s->engine.ep, request, &r->stream) < 0)
		end_active(r);
	else
		queue_relay(r);
}
