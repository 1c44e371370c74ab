#include "rpc/stream_table.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/last_error.h"
#include "util/check.h"

static uint32_t bucket_of(lend_session session, uint64_t number, bool opener)
{
	uint64_t mix = (session.id ^ number << 1 ^ opener) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(mix >> 56) % LEND_STREAM_BUCKETS;
}

/* Makes the calls that are due again, and ends what is over. A stream's functions may end it, and
 * add others, but never end another one at once. */
static void look_at_all(struct lend_alarm *alarm)
{
	struct lend_streams *all =
	    (struct lend_streams *)((char *)alarm - offsetof(struct lend_streams, alarm));

	for (uint32_t i = 0; i < LEND_STREAM_BUCKETS; i++)
		for (struct lend_stream_rec *s = all->bucket[i], *next; s; s = next) {
			next = s->next;
			lend_stream_advance(s);
		}
}

struct lend_stream_rec *lend_streams_find(struct lend_ep *ep, lend_session session, uint64_t number,
					  bool opener)
{
	struct lend_stream_rec *s = ep->streams->bucket[bucket_of(session, number, opener)];

	while (s && (s->session.id != session.id || s->number != number || s->opener != opener))
		s = s->next;
	return s;
}

struct lend_stream_rec *lend_streams_add(struct lend_streams *all, lend_session session,
					 uint64_t number, struct lend_stream *user, bool opener)
{
	struct lend_stream_rec **head = &all->bucket[bucket_of(session, number, opener)];
	struct lend_session_rec *rec = lend_sessions_find_any(all->ep, session);
	struct lend_stream_rec *s = calloc(1, sizeof(*s));

	if (!s) {
		lend_fail(ENOMEM, "no memory for a stream");
		return NULL;
	}
	s->user = user;
	s->ep = all->ep;
	s->session = session;
	s->number = number;
	s->opener = opener;
	for (uint32_t i = 0; i < LEND_STREAM_CALLS; i++)
		s->call[i].stream = s;
	lend_duplex_init(&s->duplex);
	s->next = *head;
	*head = s;
	if (rec && opener)
		rec->streams++;
	user->state = s;
	user->status = LEND_UNKNOWN;
	user->ran = LEND_RAN_NO;
	return s;
}

static void take_out(struct lend_stream_rec *s)
{
	struct lend_session_rec *session = lend_sessions_find_any(s->ep, s->session);
	struct lend_stream_rec **at =
	    &s->ep->streams->bucket[bucket_of(s->session, s->number, s->opener)];

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->user->state = NULL;
	if (session && s->opener)
		session->streams--;
}

void lend_streams_remove(struct lend_stream_rec *s)
{
	take_out(s);
	free(s);
}

void lend_streams_wake(struct lend_streams *all, lend_ns at)
{
	if (at < all->alarm.at)
		lend_alarm_set(all->ep, &all->alarm, at);
}

/* Gives back what is left, and runs the application's last function. */
static void end_stream(struct lend_stream_rec *s)
{
	struct lend_stream *user = s->user;

	lend_stream_drop(s);
	for (uint32_t i = 0; i < LEND_STREAM_CALLS; i++)
		lend_buf_give(s->ep, s->call[i].call.request);
	take_out(s);
	user->status = s->status;
	user->why = s->why;
	user->head_of_reply = s->head;
	lend_buf_give(s->ep, s->answer);
	if (user->ended)
		user->ended(user);
	free(s->head);
	free(s->first_head);
	lend_metadata_free(s->initial);
	free(s);
}

void lend_stream_settle(struct lend_stream_rec *s)
{
	if (!s->over || s->pinned || lend_duplex_is_busy(&s->duplex))
		return;
	if (lend_duplex_peek(&s->duplex) == LEND_TAKING_END)
		end_stream(s);
}

/* The server's request was cancelled, or its session has ended. */
static void note_cancelled(struct lend_ep *ep, struct lend_req *req)
{
	struct lend_stream_rec *s = req->arg;

	if (!ep->streams || req->handler != lend_stream_marker || s->over)
		return;
	s->cancelled = true;
	lend_stream_abort(s, LEND_CANCELLED);
	if (!s->pinned)
		lend_stream_settle(s);
}

/* Ends all streams of an endpoint that closes. */
static void close_streams(struct lend_ep *ep)
{
	struct lend_streams *all = ep->streams;

	if (!all)
		return;
	for (uint32_t i = 0; i < LEND_STREAM_BUCKETS; i++)
		while (all->bucket[i]) {
			struct lend_stream_rec *s = all->bucket[i];

			s->status = LEND_UNAVAILABLE;
			end_stream(s);
		}
	while (all->methods) {
		struct lend_stream_method *m = all->methods;

		all->methods = m->next;
		free(m);
	}
	free(all);
	ep->streams = NULL;
}

struct lend_streams *lend_streams_of(struct lend_ep *ep)
{
	struct lend_streams *all = ep->streams;

	if (all)
		return all;
	all = calloc(1, sizeof(*all));
	if (!all || lend_serve(ep, LEND_METHOD_STREAM, lend_stream_note, all, LEND_RESERVED) < 0) {
		free(all);
		return NULL;
	}
	all->ep = all->any.ep = ep;
	ep->streams_cancelled = note_cancelled;
	ep->streams_close = close_streams;
	all->alarm.ring = look_at_all;
	all->alarm.at = LEND_NEVER;
	return ep->streams = all;
}
