/* shown_memory - memory that peers' devices read: links of sessions, shows, reads.
 *
 * A call of LEND_METHOD_ONE_SIDED exchanges the halves of a link, and another one reports the end
 * of a read. A show that no peer reports as read is hidden after SHOW_NS. Layer: rpc. Threads: the
 * endpoint's.
 */
#include "rpc/shown_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lend/one_sided.h"
#include "rpc/endpoint.h"
#include "sys/last_error.h"
#include "util/bits.h"

enum { SHOWS_MAX = 256, ENDS = 16, HEAD = 16, KEY = 24, REQUEST = 8 + LEND_IO_HALF };
enum { OP_LINK = 1, OP_READ = 2 }; /* first byte of a request; second byte of OP_LINK: the role */
#define SHOW_NS UINT64_C(10000000000)
#define LINK_NS UINT64_C(5000000000)

_Static_assert((int)LEND_SHOW_RUNS == (int)LEND_IO_RUNS, "one limit");
_Static_assert(HEAD + (int)LEND_IO_RUNS * KEY <= (int)LEND_SHOWN_MAX, "fits");

/* Memory shown to a peer. */
struct show {
	uint64_t id; /* serial << 16 | index; 0: free */
	uint64_t session;
	struct lend_io *io;
	uint32_t shown;
	lend_ns until;
	void (*hidden)(void *arg);
	void *arg;
};

struct lend_one_sided {
	struct lend_ep *ep;
	struct lend_alarm alarm; /* hides shows that were not read */
	uint64_t serial;
	uint32_t n_shows;
	struct show show[SHOWS_MAX];
};

/* A call of LEND_METHOD_ONE_SIDED, until it ends. */
struct note {
	struct lend_call call; /* first */
	struct lend_ep *ep;
	lend_session session;
	uint8_t role; /* OP_LINK; else UINT8_MAX */
};

/* Finds the carrier of a session with one-sided reads, and its peer. NULL: there are none. */
static struct lend_io *find_carrier(struct lend_ep *ep, lend_session session, uint32_t *peer)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);
	uint8_t incarnation[16];
	uint32_t c;

	if (!s || s->state != LEND_SESSION_OPEN ||
	    lend_core_session_peer(ep->core, s->core, peer, incarnation) < 0)
		return NULL;
	c = LEND_PEER_CARRIER(*peer);
	*peer = LEND_PEER_INDEX(*peer);
	return c < ep->n_carriers && !lend_sealing_has(&ep->sealing, c) &&
		       ep->carrier[c].io->one_sided
		   ? ep->carrier[c].io
		   : NULL;
}

static void note_done(struct lend_call *call)
{
	struct note *note = (struct note *)(void *)call;
	const struct lend_buf *reply = call->status == LEND_OK ? call->reply : NULL;
	uint32_t peer;
	struct lend_io *io = find_carrier(note->ep, note->session, &peer);

	if (note->role != UINT8_MAX && io)
		(void)io->one_sided->accept(
		    io, peer, note->role, reply && reply->len == LEND_IO_HALF ? reply->data : NULL);
	if (call->request)
		lend_buf_give(note->ep, call->request);
	if (call->reply)
		lend_buf_give(note->ep, call->reply);
	free(note);
}

/* Sends a request to the peer in the background. False: no memory, or no call is free. */
static bool send_note(struct lend_ep *ep, lend_session session, uint8_t role,
		      const uint8_t bytes[REQUEST])
{
	struct note *note = calloc(1, sizeof(*note));

	if (!note)
		return false;
	*note = (struct note){.ep = ep, .session = session, .role = role};
	note->call.method = LEND_METHOD_ONE_SIDED;
	note->call.timeout = LINK_NS;
	note->call.queue = 1;
	note->call.done = note_done;
	note->call.request = lend_buf_take(ep, REQUEST);
	if (note->call.request) {
		memcpy(note->call.request->data, bytes, REQUEST);
		note->call.request->len = REQUEST;
		if (lend_call_start(ep, session, &note->call) == 0)
			return true;
		lend_buf_give(ep, note->call.request);
	}
	free(note);
	return false;
}

bool lend_one_sided(struct lend_ep *ep, lend_session session, bool reads)
{
	enum lend_io_role role = reads ? LEND_IO_READER : LEND_IO_OWNER;
	uint8_t request[REQUEST] = {OP_LINK, (uint8_t)role};
	uint32_t peer;
	struct lend_io *io = find_carrier(ep, session, &peer);

	if (!io)
		return false;
	if (io->one_sided->is_up(io, peer, role))
		return true;
	if (io->one_sided->offer(io, peer, role, request + 8) == 0 &&
	    !send_note(ep, session, (uint8_t)role, request))
		(void)io->one_sided->accept(io, peer, role, NULL);
	return false;
}

void lend_one_sided_lost(struct lend_ep *ep, lend_session session, bool reads)
{
	uint32_t peer;
	struct lend_io *io = find_carrier(ep, session, &peer);

	if (io)
		(void)io->one_sided->accept(io, peer, reads ? LEND_IO_READER : LEND_IO_OWNER, NULL);
}

static void hide_show(struct lend_one_sided *all, struct show *show)
{
	show->id = 0;
	all->n_shows--;
	show->io->one_sided->hide(show->io, show->shown);
	show->hidden(show->arg);
}

/* Finds what is shown by its id. NULL: it is hidden. */
static struct show *find_show(struct lend_one_sided *all, uint64_t id)
{
	struct show *show = all ? &all->show[id % SHOWS_MAX] : NULL;

	return show && id && show->id == id ? show : NULL;
}

static void set_alarm(struct lend_one_sided *all)
{
	lend_ns first = LEND_NEVER;

	for (uint32_t i = 0; all->n_shows && i < SHOWS_MAX; i++) {
		if (all->show[i].id && all->show[i].until < first)
			first = all->show[i].until;
	}
	lend_alarm_set(all->ep, &all->alarm, first);
}

static void hide_late(struct lend_alarm *alarm)
{
	struct lend_one_sided *all =
	    (struct lend_one_sided *)((char *)alarm - offsetof(struct lend_one_sided, alarm));
	lend_ns now = lend_ep_now(all->ep);

	for (uint32_t i = 0; i < SHOWS_MAX; i++) {
		if (all->show[i].id && all->show[i].until <= now)
			hide_show(all, &all->show[i]);
	}
	set_alarm(all);
}

static struct lend_one_sided *make_all(struct lend_ep *ep)
{
	struct lend_one_sided *all = ep->one_sided ? ep->one_sided : calloc(1, sizeof(*all));

	if (all && !ep->one_sided) {
		all->ep = ep;
		all->alarm.ring = hide_late;
		all->alarm.at = LEND_NEVER;
		ep->one_sided = all;
	}
	return all;
}

static struct show *take_show(struct lend_ep *ep)
{
	struct lend_one_sided *all = make_all(ep);

	if (!all || all->n_shows == SHOWS_MAX)
		return NULL;
	while (all->show[++all->serial % SHOWS_MAX].id)
		continue;
	return &all->show[all->serial % SHOWS_MAX];
}

/* A show, as it travels: id 8, runs 4, zero 4; per run: address 8, length 8, key 4, zero 4. */
static int encode_shown(uint64_t id, const struct lend_io_key *key, uint32_t n, uint8_t *out)
{
	lend_store_u64(out, id);
	lend_store_u64(out + 8, n);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = out + HEAD + i * KEY;

		lend_store_u64(at, key[i].at);
		lend_store_u64(at + 8, key[i].len);
		lend_store_u64(at + 16, key[i].key);
	}
	return (int)(HEAD + n * KEY);
}

/* Decodes a show of `len` bytes; returns its runs, whose lengths make up `total`. 0: malformed. */
static uint32_t decode_shown(const uint8_t *in, size_t len, uint64_t total,
			     struct lend_io_key key[LEND_IO_RUNS])
{
	uint64_t n = len >= HEAD ? lend_load_u64(in + 8) : 0, left = total;

	if (n == 0 || n > LEND_IO_RUNS || len != HEAD + n * KEY)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *at = in + HEAD + i * KEY;
		uint64_t word = lend_load_u64(at + 16);

		key[i] =
		    (struct lend_io_key){lend_load_u64(at), lend_load_u64(at + 8), (uint32_t)word};
		if (word > UINT32_MAX || key[i].len == 0 || key[i].len > left)
			return 0;
		left -= key[i].len;
	}
	return left == 0 ? (uint32_t)n : 0;
}

int lend_show(struct lend_ep *ep, lend_session session, const struct iovec *run, unsigned n,
	      void (*hidden)(void *arg), void *arg, void *shown)
{
	struct lend_io_key key[LEND_IO_RUNS];
	uint32_t peer, number;
	struct lend_io *io = find_carrier(ep, session, &peer);
	struct show *show;
	int rc;

	if (!io)
		return lend_sessions_find(ep, session) ? -ENOTCONN : -ESTALE;
	if (n == 0 || n > LEND_IO_RUNS)
		return -E2BIG;
	show = take_show(ep);
	if (!show)
		return -ENOMEM;
	rc = io->one_sided->show(io, peer, run, n, key, &number);
	if (rc < 0)
		return rc;
	*show = (struct show){.id = ep->one_sided->serial,
			      .session = session.id,
			      .io = io,
			      .shown = number,
			      .until = lend_ep_now(ep) + SHOW_NS,
			      .hidden = hidden,
			      .arg = arg};
	if (ep->one_sided->n_shows++ == 0)
		lend_alarm_set(ep, &ep->one_sided->alarm, show->until);
	return encode_shown(show->id, key, n, shown);
}

void lend_hide(struct lend_ep *ep, const void *shown)
{
	struct show *show = find_show(ep->one_sided, lend_load_u64(shown));

	if (show)
		hide_show(ep->one_sided, show);
}

static void drop_shows(struct lend_ep *ep, lend_session session)
{
	struct lend_one_sided *all = ep->one_sided;

	for (uint32_t i = 0; all && all->n_shows && i < SHOWS_MAX; i++) {
		if (all->show[i].id && all->show[i].session == session.id)
			hide_show(all, &all->show[i]);
	}
}

static void close_shows(struct lend_ep *ep)
{
	struct lend_one_sided *all = ep->one_sided;

	for (uint32_t i = 0; all && all->n_shows && i < SHOWS_MAX; i++) {
		if (all->show[i].id)
			hide_show(all, &all->show[i]);
	}
	ep->one_sided = NULL;
	free(all);
}

static void send_read(struct lend_ep *ep, lend_session session, uint64_t id)
{
	uint8_t request[REQUEST] = {OP_READ};

	lend_store_u64(request + 8, id);
	(void)send_note(ep, session, UINT8_MAX,
			request); /* without it, the show ends after SHOW_NS */
}

int lend_read_start(struct lend_ep *ep, lend_session session, const void *shown, size_t len,
		    const struct iovec *to, unsigned n, struct lend_read *read)
{
	struct lend_io_key key[LEND_IO_RUNS];
	uint64_t total = 0;
	uint32_t peer, n_keys;
	struct lend_io *io = find_carrier(ep, session, &peer);
	int rc;

	for (unsigned i = 0; i < n; i++)
		total += to[i].iov_len;
	n_keys = decode_shown(shown, len, total, key);
	read->session = session;
	read->id = len >= HEAD ? lend_load_u64(shown) : 0;
	read->err = 0;
	rc = n_keys == 0 ? -EINVAL : io ? 0 : -ENOTCONN;
	if (!lend_sessions_find(ep, session))
		return -ESTALE;
	if (rc == 0)
		rc = io->one_sided->read(io, peer, key, n_keys, to, n, read);
	if (rc < 0)
		send_read(ep, session, read->id);
	else
		ep->reads++;
	return rc;
}

static void end_reads(struct lend_ep *ep)
{
	struct lend_io_read_end end[ENDS];

	for (uint32_t c = 0; c < ep->n_carriers; c++) {
		struct lend_io *io = ep->carrier[c].io;
		uint32_t n = io->one_sided ? io->one_sided->ended(io, end, ENDS) : 0;

		for (uint32_t i = 0; i < n; i++) {
			struct lend_read *read = end[i].user;

			ep->reads--;
			ep->ran++;
			read->err = end[i].err;
			send_read(ep, read->session, read->id);
			read->done(read);
		}
	}
}

static void serve_link(struct lend_ep *ep, lend_request request, lend_session session,
		       const uint8_t *bytes)
{
	uint32_t peer;
	struct lend_io *io = find_carrier(ep, session, &peer);
	struct lend_buf *out = io ? lend_buf_take(ep, LEND_IO_HALF) : NULL;
	int rc = -ENOTCONN;

	/* The peer's role is the opposite of this end's. */
	if (out)
		rc = io->one_sided->answer(
		    io, peer, bytes[1] == LEND_IO_READER ? LEND_IO_OWNER : LEND_IO_READER,
		    bytes + 8, out->data);
	if (rc < 0) {
		if (out)
			lend_buf_give(ep, out);
		(void)lend_reply(ep, request,
				 rc == -EINVAL ? LEND_INVALID_ARGUMENT : LEND_RESOURCE_EXHAUSTED,
				 NULL);
		return;
	}
	out->len = LEND_IO_HALF;
	out->next = NULL;
	(void)lend_reply(ep, request, LEND_OK, out);
}

static void serve_note(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_ep *ep = arg;
	lend_session session = lend_request_session(ep, request);
	uint8_t copy[REQUEST]; /* the peer may change its bytes meanwhile */
	struct show *show;

	if (bytes->len != REQUEST) {
		(void)lend_reply(ep, request, LEND_INVALID_ARGUMENT, NULL);
		return;
	}
	memcpy(copy, bytes->data, REQUEST);
	if (copy[0] == OP_LINK && copy[1] <= LEND_IO_READER) {
		serve_link(ep, request, session, copy);
		return;
	}
	show = copy[0] == OP_READ ? find_show(ep->one_sided, lend_load_u64(copy + 8)) : NULL;
	if (show && show->session == session.id)
		hide_show(ep->one_sided, show);
	(void)lend_reply(ep, request, copy[0] == OP_READ ? LEND_OK : LEND_INVALID_ARGUMENT, NULL);
}

int lend_one_sided_serve(struct lend_ep *ep)
{
	static const struct lend_shown_ops shown_ops = {
	    .turn = end_reads, .drop = drop_shows, .close = close_shows};

	ep->shown_ops = &shown_ops;
	return lend_serve(ep, LEND_METHOD_ONE_SIDED, serve_note, ep, LEND_RESERVED);
}
