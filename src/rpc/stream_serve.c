/* stream_serve - the calls of peers' streams: those that open a stream, and those with a note of
 * it. Part of stream_table.h. Layer: rpc. Threads: the endpoint's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/heads.h"
#include "rpc/stream_table.h"
#include "sys/last_error.h"

void lend_stream_marker(lend_request request, const struct lend_buf *bytes, void *arg)
{
	(void)request, (void)bytes, (void)arg;
}

/* Copies the note of a call: its bytes may change. */
static bool read_note(struct lend_note *note, const struct lend_buf *bytes)
{
	if (bytes->len < sizeof(*note))
		return false;
	memcpy(note, bytes->data, sizeof(*note));
	return lend_note_valid(note);
}

/* Takes the bytes behind the note as a buffer; NULL: there is none. */
static struct lend_buf *take_message(struct lend_ep *ep, lend_request request)
{
	struct lend_buf *message = lend_request_take(ep, request);

	if (!message)
		return NULL;
	message->data = (char *)message->data + sizeof(struct lend_note);
	message->len -= (uint32_t)sizeof(struct lend_note);
	message->cap -= (uint32_t)sizeof(struct lend_note);
	return message;
}

/* Keeps the head of the server's first message. Returns false without memory. */
static bool keep_first_head(struct lend_stream_rec *s, lend_request request)
{
	const struct lend_req *req = lend_serve_find(s->ep, request);
	uint32_t len;

	if (!s->opener || s->first_head || !req || !req->head ||
	    !lend_head_text(req->head->bytes, LEND_HEAD_INITIAL))
		return true;
	len = lend_head_length(req->head->bytes, LEND_HEAD_MAX, LEND_HEAD_MAX);
	s->first_head = malloc(len);
	if (!s->first_head)
		return false;
	s->user->head_of_first = memcpy(s->first_head, req->head->bytes, len);
	return true;
}

/* Hands a note to its stream. Returns the status of the answer. */
static enum lend_status apply_note(struct lend_stream_rec *s, lend_request request,
				   const struct lend_note *note, uint32_t len)
{
	bool message = note->kind == LEND_NOTE_MESSAGE;
	bool compressed = lend_request_text(s->ep, request, LEND_TEXT_COMPRESSED);
	struct lend_buf *bytes = message ? take_message(s->ep, request) : NULL;
	enum lend_arrival arrival;
	uint32_t entry = 0;

	if (message && (!bytes || (note->at == 0 && !keep_first_head(s, request)))) {
		lend_buf_give(s->ep, bytes);
		return LEND_RESOURCE_EXHAUSTED;
	}
	arrival = lend_duplex_arrived(&s->duplex, note, len, &entry);
	if (arrival == LEND_ARRIVAL_KEEP) {
		s->duplex.in[entry].tag = (uintptr_t)bytes;
		s->compressed &= (uint16_t) ~(1u << entry);
		s->compressed |= (uint16_t)(compressed << entry);
	} else {
		lend_buf_give(s->ep, bytes);
	}
	return arrival == LEND_ARRIVAL_FORGED ? LEND_FAILED_PRECONDITION : LEND_OK;
}

static void answer_note(struct lend_stream_rec *s, lend_request request)
{
	uint64_t taken;

	s->pinned = true;
	if (lend_duplex_peek(&s->duplex) != LEND_TAKING_NONE && s->user->readable)
		s->user->readable(s->user);
	s->pinned = false;
	taken = lend_duplex_report(&s->duplex);
	(void)lend_reply_copy(s->ep, request, LEND_OK, &taken, sizeof(taken));
	lend_stream_advance(s);
}

void lend_stream_note(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_ep *ep = ((struct lend_streams *)arg)->ep;
	enum lend_status status = LEND_INVALID_ARGUMENT;
	struct lend_stream_rec *s = NULL;
	struct lend_note note;

	if (read_note(&note, bytes)) {
		s = lend_streams_find(ep, lend_request_session(ep, request), note.stream,
				      note.to_opener);
		/* It may not be open yet, or not any more. */
		status = s && !s->duplex.deaf
			     ? apply_note(s, request, &note, bytes->len - (uint32_t)sizeof(note))
			     : LEND_NOT_FOUND;
	}
	if (status == LEND_OK)
		answer_note(s, request);
	else
		(void)lend_refuse(ep, request, status);
}

void lend_stream_opens(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_stream_method *m = arg;
	struct lend_streams *all = m->ep->streams;
	struct lend_note note;

	if (!read_note(&note, bytes) || note.kind != LEND_NOTE_OPEN) {
		(void)lend_refuse(m->ep, request, LEND_INVALID_ARGUMENT);
		return;
	}
	all->opening = request;
	all->opening_number = note.stream;
	m->handler(request, m->arg);
	if (all->opening.id) /* the handler did not accept it */
		(void)lend_refuse(m->ep, request, LEND_UNIMPLEMENTED);
	all->opening.id = 0;
}

/* Finds the record of a method, or makes one. */
static struct lend_stream_method *method_of(struct lend_ep *ep, uint32_t method)
{
	struct lend_streams *all = lend_streams_of(ep);
	struct lend_stream_method *m = all ? all->methods : NULL;

	while (m && m->method != method)
		m = m->next;
	if (m)
		return m;
	m = all ? calloc(1, sizeof(*m)) : NULL;
	if (!m)
		return NULL;
	*m = (struct lend_stream_method){.ep = all->ep, .method = method, .next = all->methods};
	return all->methods = m;
}

static int no_memory(void)
{
	return lend_fail(ENOMEM, "no memory to serve streams");
}

/* Sets the handler of a method if rc, of serving it, is 0. Returns rc. */
static int set_handler(struct lend_stream_method *m, int rc, lend_stream_handler_fn *handler,
		       void *arg)
{
	if (rc == 0) {
		m->handler = handler;
		m->arg = arg;
	}
	return rc;
}

int lend_serve_stream(struct lend_ep *ep, uint32_t method, lend_stream_handler_fn *handler,
		      void *arg)
{
	struct lend_stream_method *m = method_of(ep, method);
	lend_handler_fn *opens = handler ? lend_stream_opens : NULL;

	return m ? set_handler(m, lend_serve(ep, method, opens, m, LEND_OPENS_STREAMS), handler,
			       arg)
		 : no_memory();
}

/* Checks the flags of the two functions below. */
static int check_flags(unsigned flags)
{
	return flags & ~(unsigned)LEND_ANY_ENCODING
		   ? lend_fail(EINVAL, "flags 0x%x: of streams LEND_ANY_ENCODING is known", flags)
		   : 0;
}

int lend_serve_stream_name(struct lend_ep *ep, const char *name, lend_stream_handler_fn *handler,
			   void *arg, unsigned flags)
{
	struct lend_stream_method *m = method_of(ep, lend_method_number(name));
	int rc = m ? check_flags(flags) : no_memory();

	if (rc == 0)
		rc = lend_serve_name(ep, name, handler ? lend_stream_opens : NULL, m,
				     flags | LEND_OPENS_STREAMS);
	return set_handler(m, rc, handler, arg);
}

int lend_serve_stream_any(struct lend_ep *ep, lend_stream_handler_fn *handler, void *arg,
			  unsigned flags)
{
	struct lend_streams *all = lend_streams_of(ep);
	int rc = all ? check_flags(flags) : no_memory();

	if (rc == 0)
		rc = lend_serve_any(ep, handler ? lend_stream_opens : NULL, &all->any,
				    flags | LEND_OPENS_STREAMS);
	return set_handler(&all->any, rc, handler, arg);
}

int lend_stream_accept(struct lend_ep *ep, lend_request request, struct lend_stream *stream)
{
	struct lend_streams *all = ep->streams;
	struct lend_req *req = lend_serve_find(ep, request);
	struct lend_stream_rec *s;
	lend_session session;

	if (!all || !req || all->opening.id != request.id)
		return lend_fail(ESTALE, "accept a stream inside its handler, once");
	if (stream->state)
		return lend_fail(EALREADY, "this stream is open: use a new zeroed one");
	session = lend_request_session(ep, request);
	if (lend_streams_find(ep, session, all->opening_number, false))
		return lend_fail(EEXIST, "the peer has another stream with this number");
	stream->priority = (uint8_t)(req->class + 1u);
	s = lend_streams_add(all, session, all->opening_number, stream, false);
	if (!s)
		return -ENOMEM;
	s->request = request;
	req->handler = lend_stream_marker;
	req->arg = s;
	all->opening.id = 0;
	return 0;
}
