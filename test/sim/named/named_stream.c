/* named_stream - streams: both ends write, read and stop by a script, and the oracles: in order,
 * once, within credit, the end last, nothing left. Layer: test/sim. */
#include <errno.h>
#include <string.h>

#include "lend/stream.h"
#include "rpc/stream_table.h"
#include "sim/memory/mem_bytes.h"
#include "sim/named/named.h"
#include "sys/last_error.h"

enum { OPENER, SERVER, ENDS, MESSAGES = 40, METHOD = 40, TIMEOUT_MS = 60 };

struct end {
	struct lend_stream stream; /* first */
	uint32_t id, node, life, side;
	uint32_t wants, written, read;
	uint32_t len[MESSAGES];
	lend_ns reads_from; /* it does not read before this time; LEND_NEVER: only at the end */
	bool open, over, cancelled, eof;
};
static struct stream {
	struct end end[ENDS];
	bool runs, finished, answered;
	enum lend_status status; /* given by the server */
	uint32_t sent;           /* messages of the server when it ended */
} streams[NAMED_STREAMS];
static uint32_t streams_n;

static bool is_free(const struct end *e)
{
	return e->open && !e->over && named_is_free(e->node) && lent->node[e->node].life == e->life;
}

static const struct end *peer_of(const struct end *e)
{
	return &streams[e->id].end[!e->side];
}

static uint64_t version_of(const struct end *e, uint32_t message)
{
	return (uint64_t)1 << 30 | (uint64_t)(e->id * ENDS + e->side) << 16 | message;
}

/* The reader has bounded memory, and the writer obeys: what is not read, but the last message, is
 * below the limit. */
static void check_credit(const struct end *e)
{
	uint32_t read = peer_of(e)->read;
	uint64_t bytes = 0;

	LENT_CHECK(e->written - read <= LEND_STREAM_WINDOW,
		   "stream %u: %u messages are written and not read", e->id, e->written - read);
	for (uint32_t i = read; i + 1 < e->written; i++)
		bytes += e->len[i];
	LENT_CHECK(bytes < LEND_STREAM_BYTES, "stream %u: %lu bytes are written and not read",
		   e->id, (unsigned long)bytes);
}

/* Writes the next message. False: not now, or not any more. */
static bool write_one(struct end *e)
{
	struct lend_ep *ep = lent->node[e->node].ep;
	uint32_t len = e->len[e->written];
	struct lend_buf *b = lend_buf_take(ep, len);
	int rc;

	LENT_CHECK(b, "no buffer for a message");
	mem_fill(b->data, version_of(e, e->written), 0, len);
	b->len = len;
	rc = lend_stream_write(ep, &e->stream, b);
	if (rc == 0) {
		e->written++;
		check_credit(e);
		return true;
	}
	lend_buf_give(ep, b);
	LENT_CHECK(rc == -EAGAIN || rc == -EPIPE, "stream %u: a write fails with %d", e->id, rc);
	named_sums.full += rc == -EAGAIN;
	return false;
}

static void end_by_server(struct end *e, enum lend_status status)
{
	struct stream *s = &streams[e->id];

	if (lend_stream_end(lent->node[e->node].ep, &e->stream, status,
			    named_text(version_of(e, 0))) < 0)
		return;
	s->answered = true;
	s->status = status;
	s->sent = e->written;
}

static void write_some(struct end *e)
{
	struct stream *s = &streams[e->id];

	while (e->written < e->wants && lent_below(LENT_NAMED, 8) && write_one(e))
		continue;
	if (e->written < e->wants)
		return;
	if (e->side == OPENER && !s->finished && e->stream.state)
		s->finished = lend_stream_finish(lent->node[e->node].ep, &e->stream) == 0;
	if (e->side == SERVER && e->eof && !s->answered)
		end_by_server(e, LEND_OK);
}

static void check_message(const struct end *e, const struct lend_buf *b)
{
	const struct end *from = peer_of(e);
	uint64_t version = version_of(from, e->read);
	uint32_t at = 0;

	LENT_CHECK(e->read < from->written, "stream %u: a message that was not written", e->id);
	for (; b; at += b->len, b = b->next)
		LENT_CHECK(mem_match(b->data, version, at, b->len) == b->len,
			   "stream %u: end %u reads other bytes than those of message %u", e->id,
			   e->side, e->read);
	LENT_CHECK(at == from->len[e->read], "stream %u: message %u has %u bytes", e->id, e->read,
		   at);
	named_sums.messages++;
}

/* No message follows. */
static void note_eof(struct end *e)
{
	const struct stream *s = &streams[e->id];
	const struct end *from = peer_of(e);

	if (e->eof)
		return;
	e->eof = true;
	if (e->side == OPENER) {
		LENT_CHECK(e->cancelled || e->stream.status != LEND_UNKNOWN,
			   "stream %u: the end is read before the status is known", e->id);
		return;
	}
	if (e->stream.status != LEND_UNKNOWN || s->answered) /* it is over here */
		return;
	LENT_CHECK(s->finished && e->read == from->written,
		   "stream %u: the half-close is read after %u of %u messages", e->id, e->read,
		   from->written);
	named_sums.half_closed++;
}

static void read_some(struct end *e)
{
	struct lend_ep *ep = lent->node[e->node].ep;
	struct lend_buf *b;
	int rc = -EAGAIN;

	while (lent->now >= e->reads_from && lent_below(LENT_NAMED, 8) &&
	       (rc = lend_stream_read(ep, &e->stream, &b)) == 0) {
		check_message(e, b);
		lend_buf_give(ep, b);
		e->read++;
	}
	LENT_CHECK(rc == 0 || rc == -EAGAIN || rc == -ENODATA, "stream %u: a read fails with %d",
		   e->id, rc);
	if (rc == -ENODATA)
		note_eof(e);
}

static void on_readable(struct lend_stream *stream)
{
	struct end *e = (struct end *)stream;

	LENT_CHECK(!e->over, "stream %u: readable after its end", e->id);
	if (lent_below(LENT_NAMED, 4) == 0) /* a turn later */
		return;
	read_some(e);
	write_some(e);
}

static void on_writable(struct lend_stream *stream)
{
	struct end *e = (struct end *)stream;

	LENT_CHECK(!e->over, "stream %u: writable after its end", e->id);
	write_some(e);
}

/* The server's status is known only after all its messages, and with its text. */
static void check_status(const struct end *e)
{
	static const uint32_t fine = 1 << LEND_CANCELLED | 1 << LEND_DEADLINE_EXCEEDED |
				     1 << LEND_RESOURCE_EXHAUSTED | 1 << LEND_UNAVAILABLE;
	const struct stream *s = &streams[e->id];
	enum lend_status status = e->stream.status;
	const char *text = status == LEND_OK ? "" : named_text(version_of(peer_of(e), 0));

	if (status == LEND_UNIMPLEMENTED &&
	    !named_reads(peer_of(e)->node, LEND_FEATURE_REQUEST_HEADS))
		return;
	if (!s->answered || status != s->status) {
		LENT_CHECK(fine >> status & 1, "stream %u ends with %d", e->id, status);
		named_sums.lost += status == LEND_UNAVAILABLE;
		return;
	}
	LENT_CHECK(e->cancelled || e->read == s->sent, "stream %u: ends after %u of %u messages",
		   e->id, e->read, s->sent);
	LENT_CHECK(strcmp(e->stream.why, text) == 0, "stream %u: the text of its status is %s",
		   e->id, e->stream.why);
	named_sums.whole++;
}

static void on_ended(struct lend_stream *stream)
{
	struct end *e = (struct end *)stream;

	LENT_CHECK(e->open && !e->over, "stream %u: end %u ends twice", e->id, e->side);
	LENT_CHECK(!stream->state, "stream %u: it is over, and has a record", e->id);
	lent_trace("stream %u: end %u of node %u is over, status %d", e->id, e->side, e->node,
		   stream->status);
	e->over = true;
	if (e->side == OPENER)
		check_status(e);
}

static void draw_end(struct end *e, uint32_t id, uint32_t side, uint32_t node)
{
	static const uint32_t most[] = {1, 100, 3000, 3000, 120000};
	uint64_t kind = lent_below(LENT_NAMED, 4);

	memset(e, 0, sizeof(*e));
	e->id = id;
	e->side = side;
	e->node = node;
	e->wants = kind < 2 ? (uint32_t)kind : (uint32_t)lent_below(LENT_NAMED, MESSAGES + 1);
	for (uint32_t i = 0; i < MESSAGES; i++)
		e->len[i] = (uint32_t)lent_below(LENT_NAMED, most[lent_below(LENT_NAMED, 5)] + 1);
	if (lent_below(LENT_NAMED, 2))
		e->reads_from = lent->now + lent_below(LENT_NAMED, 20 * LENT_MS);
	if (lent_below(LENT_NAMED, 16) == 0)
		e->reads_from = LEND_NEVER;
	e->stream.readable = on_readable;
	e->stream.writable = on_writable;
	e->stream.ended = on_ended;
}

static void accept_stream(lend_request request, void *arg)
{
	struct stream *s = arg;
	struct end *e = &s->end[SERVER];
	struct lent_node *n = &lent->node[e->node];

	LENT_CHECK(!s->runs, "stream %u is opened twice", e->id);
	s->runs = true;
	if (lent_below(LENT_NAMED, 16) == 0) {
		s->answered = true;
		s->status = LEND_PERMISSION_DENIED;
		(void)lend_reply_why(n->ep, request, s->status, named_text(version_of(e, 0)));
		return;
	}
	LENT_CHECK(lend_stream_accept(n->ep, request, &e->stream) == 0,
		   "stream %u is not accepted: %s", e->id, lend_why());
	e->open = true;
	e->life = n->life;
	write_some(e);
}

void named_stream_birth(uint32_t node)
{
	for (uint32_t i = 0; i < NAMED_STREAMS; i++)
		LENT_CHECK(lend_serve_stream(lent->node[node].ep, METHOD + i, accept_stream,
					     &streams[i]) == 0,
			   "node %u does not serve streams: %s", node, lend_why());
}

/* Ends of a stream that are not those of its script. */
static void draw_faults(uint32_t id)
{
	enum named_what what = (enum named_what)(NAMED_CUT + lent_below(LENT_NAMED, 3));

	if (lent_below(LENT_NAMED, 2))
		named_at(lent->now + lent_below(LENT_NAMED,
						lent_below(LENT_NAMED, 2) ? LENT_MS : 15 * LENT_MS),
			 what, id);
}

static void open_stream(void)
{
	uint32_t node = (uint32_t)lent_below(LENT_NAMED, lent->plan.nodes), id = streams_n;
	uint32_t to =
	    (node + 1 + (uint32_t)lent_below(LENT_NAMED, lent->plan.nodes - 1)) % lent->plan.nodes;
	enum lent_kind kind = lent_odds(LENT_NAMED, lent->plan.udp_ppm) ? LENT_UDP : LENT_SHM;
	struct end *e = &streams[id].end[OPENER];
	lend_session session;

	if (!named_is_free(node) || id == NAMED_STREAMS ||
	    !named_reads(node, LEND_FEATURE_REQUEST_HEADS))
		return;
	session = lent_node_session(node, to, kind);
	if (!session.id)
		return;
	streams_n++;
	memset(&streams[id], 0, sizeof(streams[id]));
	draw_end(e, id, OPENER, node);
	draw_end(&streams[id].end[SERVER], id, SERVER, to);
	e->life = lent->node[node].life;
	e->open = true;
	e->stream.method = METHOD + id;
	e->stream.timeout = lent_odds(LENT_NAMED, lent->plan.deadline_ppm)
				? 1 + lent_below(LENT_NAMED, 10 * LENT_MS)
				: TIMEOUT_MS * LENT_MS;
	lent_trace("stream %u: node %u to node %u", id, node, to);
	e->open = lend_stream_open(lent->node[node].ep, session, &e->stream) == 0;
	named_sums.streams += e->open;
	draw_faults(id);
}

static void cancel_end(struct end *e)
{
	if (!is_free(e))
		return;
	e->cancelled = true;
	lend_stream_cancel(lent->node[e->node].ep, &e->stream);
	named_sums.cuts++;
}

void named_stream_event(enum named_what what, uint32_t stream)
{
	struct stream *s = &streams[stream];

	if (what == NAMED_OPEN)
		open_stream();
	else if (what == NAMED_CUT)
		cancel_end(&s->end[OPENER]);
	else if (what == NAMED_HANG_UP)
		cancel_end(&s->end[SERVER]);
	else if (is_free(&s->end[SERVER]) && !s->answered)
		end_by_server(&s->end[SERVER], LEND_ABORTED);
}

/* The applications act outside of turns, too. */
void named_stream_step(void)
{
	for (uint32_t i = 0; i < streams_n * ENDS; i++) {
		struct end *e = &streams[i / ENDS].end[i % ENDS];

		if (!is_free(e) || lent_below(LENT_NAMED, 8))
			continue;
		read_some(e);
		if (is_free(e))
			write_some(e);
	}
}

void named_stream_heal(void)
{
	for (uint32_t i = 0; i < streams_n * ENDS; i++)
		streams[i / ENDS].end[i % ENDS].reads_from = 0;
}

void named_stream_check_end(void)
{
	for (uint32_t i = 0; i < streams_n * ENDS; i++) {
		const struct end *e = &streams[i / ENDS].end[i % ENDS];

		LENT_CHECK(!e->open || e->over,
			   "stream %u: end %u has not ended: wrote %u of %u, read %u of %u", e->id,
			   e->side, e->written, e->wants, e->read, peer_of(e)->written);
	}
	for (uint32_t i = 0; i < lent->plan.nodes; i++)
		for (uint32_t k = 0; k < LEND_STREAM_BUCKETS; k++)
			LENT_CHECK(!lent->node[i].ep->streams->bucket[k],
				   "node %u has a stream that is over", i);
	streams_n = 0;
}
