/* call_head - heads of the requests that this endpoint sends.
 *
 * A call carries its method's name until its session's server has run a handler for it. Only then
 * does the number alone mean this name there: servers never give a number to another name.
 * Layer: rpc. Threads: the endpoint's. Ownership: the endpoint owns the names, each session a bit
 * for each of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lend/carrier.h"
#include "rpc/heads.h"
#include "rpc/call_spans.h"
#include "sys/last_error.h"
#include "util/method_hash.h"

enum { NAMES_MAX = 4096 }; /* names of an endpoint; calls of others always carry theirs */

uint32_t lend_method_number(const char *name)
{
	return lend_method_hash(name, strlen(name));
}

/* Returns the entry of a name, added if it is missing; NULL: it has none. */
static const struct lend_method *enter_name(struct lend_ep *ep, uint32_t number, const char *name)
{
	struct lend_method *entry = lend_methods_find(&ep->called, number);
	char *copy;

	if (entry)
		return strcmp(entry->name, name) ? NULL : entry;
	copy = ep->called.n < NAMES_MAX ? strdup(name) : NULL;
	entry = copy ? lend_methods_add(&ep->called, number) : NULL;
	if (!entry) {
		free(copy);
		return NULL;
	}
	entry->name = copy;
	entry->index = ep->called.n; /* from 1 on */
	return entry;
}

static bool is_known(const struct lend_session_rec *s, uint32_t index)
{
	if (index < 64)
		return s->known >> index & 1;
	return s->known_more && s->known_more[index / 64] >> index % 64 & 1;
}

/* Sets the number of a call with a name. Returns whether the request has to carry the name. */
static bool needs_name(struct lend_ep *ep, const struct lend_session_rec *s, struct lend_call *call,
		       struct lend_call_priv *p)
{
	const char *name = call->head->name;
	const struct lend_method *entry =
	    call->method ? lend_methods_find(&ep->called, call->method) : NULL;

	if (!entry || strcmp(entry->name, name) != 0) {
		call->method = lend_method_number(name);
		entry = enter_name(ep, call->method, name);
	}
	if (!entry)
		return true;
	p->flags |= entry->index << LEND_CALL_NAME;
	return !is_known(s, entry->index);
}

/* Returns whether what a session carries can be read by processes of this user only, or is a
 * gateway's, which decides by itself. */
static bool is_private(struct lend_ep *ep, const struct lend_session_rec *s)
{
	struct lend_io_peer_info info = {.uid = -1};
	uint8_t incarnation[16];
	struct lend_io *io;
	uint32_t at;

	if (s->route)
		return true;
	if (s->state == LEND_SESSION_PENDING)
		return lend_carrier_traits(s->address) & LEND_CARRIER_USER;
	if (lend_core_session_peer(ep->core, s->core, &at, incarnation) < 0 ||
	    LEND_PEER_CARRIER(at) >= ep->n_carriers)
		return false;
	io = ep->carrier[LEND_PEER_CARRIER(at)].io;
	io->ops->peer_info(io, LEND_PEER_INDEX(at), &info);
	return info.uid == geteuid();
}

static bool is_empty(const struct lend_metadata *metadata)
{
	return !metadata || metadata->w.entries == 0;
}

static int put_head(struct lend_ep *ep, struct lend_buf *buf, const struct lend_call *call,
		    const struct lend_call_head *head, bool named, uint32_t span)
{
	uint32_t most = ep->config.head_max;
	struct lend_head_writer w = lend_head_begin(buf->data, buf->cap < most ? buf->cap : most);

	if (named)
		lend_head_add(&w, LEND_HEAD_METHOD, NULL, head->name, strlen(head->name));
	if (head->authority)
		lend_head_add(&w, LEND_HEAD_AUTHORITY, NULL, head->authority,
			      strlen(head->authority));
	if (head->encoding)
		lend_head_add(&w, LEND_HEAD_ENCODING, NULL, head->encoding, strlen(head->encoding));
	lend_metadata_put(&w, LEND_HEAD_INITIAL, head->metadata);
	if (head->opens_stream)
		lend_head_add(&w, LEND_HEAD_STREAM, NULL, NULL, 0);
	if (head->compress)
		lend_head_add(&w, LEND_HEAD_COMPRESSED, NULL, NULL, 0);
	if (span)
		lend_trace_put(ep, span, call, &w);
	buf->len = lend_head_end(&w);
	return buf->len ? 0 : -EINVAL;
}

int lend_call_head_make(struct lend_ep *ep, const struct lend_session_rec *s,
			struct lend_call *call, struct lend_call_priv *p, struct lend_buf **message)
{
	static const struct lend_call_head none;
	const struct lend_call_head *head = call->head ? call->head : &none;
	uint32_t span = p->flags & LEND_CALL_TRACED ? p->span : 0;
	bool named = head->name && needs_name(ep, s, call, p);
	struct lend_buf *buf;
	uint32_t room = 4 + (head->opens_stream + head->compress) * lend_head_text_room("");

	*message = call->request;
	if (head->metadata && head->metadata->secret && !is_private(ep, s))
		return lend_fail(EACCES, "authorization metadata go in clear here: use shm:, or "
					 "http2: with TLS");
	p->flags |= head->any_encoding ? LEND_CALL_ENCODED : 0;
	if (!named && !head->authority && !head->encoding && is_empty(head->metadata) &&
	    !head->opens_stream && !head->compress && !span)
		return 0;
	room += named ? lend_head_text_room(head->name) : 0;
	room += lend_head_text_room(head->authority) + lend_head_text_room(head->encoding);
	room += head->metadata ? head->metadata->w.len : 0;
	room += span ? LEND_TRACE_ENTRY : 0;
	buf = lend_bufs_take(ep->bufs, room);
	if (!buf)
		return lend_fail(ENOMEM, "no buffer for a head of %u bytes", room);
	if (put_head(ep, buf, call, head, named, span) < 0) {
		lend_bufs_give(ep->bufs, buf);
		return lend_head_refused(ep, room);
	}
	buf->next = call->request;
	*message = buf;
	p->flags |= LEND_CALL_HEAD;
	return 0;
}

struct lend_buf *lend_call_head_free(struct lend_ep *ep, struct lend_buf *request,
				     struct lend_buf *message)
{
	if (!message || message == request || message->next != request)
		return message;
	message->next = NULL;
	lend_bufs_give(ep->bufs, message);
	return request;
}

void lend_call_head_answered(struct lend_session_rec *s, const struct lend_call *call,
			     uint32_t index)
{
	if (!s || !index)
		return;
	/* These may stand for a reply that could not be sent, with a head that asked for the name.
	 */
	if (call->ran != LEND_RAN_YES || call->status == LEND_RESOURCE_EXHAUSTED ||
	    call->status == LEND_INTERNAL)
		return;
	if (index < 64)
		s->known |= UINT64_C(1) << index;
	else if (s->known_more || (s->known_more = calloc(NAMES_MAX / 64 + 1, sizeof(uint64_t))))
		s->known_more[index / 64] |= UINT64_C(1) << index % 64;
}
