/* peer_window - bytes of short requests that may be in flight to a peer, an address with all its
 * sessions. Requests of one datagram need no grant, so without a limit many senders overflow the
 * receiver's port.
 *
 * The window begins with the bytes that the peer lets a session send before a grant. It grows while
 * calls wait for it: by the bytes answered before the first reduction; after it by a message per
 * round trip, at most an eighth of each answered message. A second without a reduction ends that.
 *
 * The receiver reports ECN marks and missing numbers within LEND_REPORT. Marks reduce the window as
 * in DCTCP, to half a datagram at least. Losses halve it, to LEAST bytes at least; one loss among
 * 32 datagrams counts as random. A missing request is lost after a round trip and the reordering
 * window (reorder.h). Then it waits for the window again, before requests that were never sent.
 *
 * One request may always be in flight. If it is longer than the window, the next one is sent that
 * much later: a window of half a datagram is one datagram in two round trips. So the load is
 * bounded for any number of senders.
 *
 * Calls that wait are in the queue of their session (request_window.h); sessions take turns, a
 * message each. After a reduction, the requests of a backlog go one class lower, so that switches
 * let the requests of other senders overtake them: requests of a quarter of a datagram and more, of
 * class NORMAL or less urgent.
 *
 * The common path compares with `limit` only. That is the window, or 0 while calls wait.
 *
 * Layer: core (pure). In the arena, an entry per peer. Entries without a session are kept until
 * they are needed for another peer, and used again within 10 s. */
#ifndef LEND_CORE_PEER_WINDOW_H
#define LEND_CORE_PEER_WINDOW_H

#include "core/arena.h"
#include "util/traffic_class.h"

static inline struct lend_peer *lend_peer_of(struct lend_core *c, const struct lend_sess *s)
{
	return (struct lend_peer *)(void *)((char *)c + ((size_t)s->peer_line << 6));
}

void lend_peers_init(struct lend_core *c);
/* Finds or makes the entry of a new session's peer. */
void lend_peer_join(struct lend_core *c, struct lend_sess *s);
/* Sets the first window, after the parameters of the session are known. */
void lend_peer_begin(struct lend_core *c, const struct lend_sess *s);
void lend_peer_leave(struct lend_core *c, struct lend_sess *s);

/* Charges a request of len bytes; false: it must wait. */
bool lend_peer_charge(struct lend_core *c, const struct lend_sess *s, uint32_t len);
/* Lets the calls in the session's queue wait for the window, and sends those that it has room for.
 */
void lend_peer_wait(struct lend_core *c, struct lend_sess *s);
/* Sends calls that wait, while the window has room. */
void lend_peer_serve(struct lend_core *c, struct lend_peer *p);
/* Grows the window by an answered request while calls wait, and serves them. */
void lend_peer_grow(struct lend_core *c, const struct lend_sess *s, uint32_t len);
/* Returns len bytes of an answered request. */
static inline void lend_peer_release(struct lend_core *c, const struct lend_sess *s, uint32_t len)
{
	struct lend_peer *p = lend_peer_of(c, s);

	p->used -= len;
	if (p->waiting.n)
		lend_peer_grow(c, s, len);
}

/* Notes datagrams that were reported, and how many of them had an ECN mark. */
void lend_peer_reported(struct lend_core *c, const struct lend_sess *s, uint64_t came,
			uint32_t marked);
/* Notes that a reply arrived with an ECN mark: this end asked for too much. */
void lend_peer_reply_marked(struct lend_core *c, const struct lend_sess *s);
/* Notes lost requests; the longest has len bytes. */
void lend_peer_lost(struct lend_core *c, const struct lend_sess *s, uint32_t n, uint32_t len);
/* Returns the class of a request's datagrams. */
static inline uint8_t lend_peer_class(struct lend_core *c, const struct lend_sess *s, uint8_t class)
{
	bool yields = class >= LEND_CLASS_NORMAL && class < LEND_CLASSES - 1;

	return (uint8_t)(class + (yields && lend_peer_of(c, s)->slow > c->now));
}

/* Judges the requests in flight by the last report: those missing for too long are lost. While
 * calls wait, those that have arrived leave the window. */
void lend_requests_judge(struct lend_core *c, struct lend_sess *s);
/* Returns whether the last report calls for that. */
static inline bool lend_requests_uncertain(struct lend_core *c, const struct lend_sess *s)
{
	uint64_t below = s->acked > 64 ? UINT64_MAX : (UINT64_C(1) << (s->acked - 1) % 64) - 1;

	return c->used[0] && s->calls && s->acked && !s->lossless &&
	       (~s->acked_map & below || lend_peer_of(c, s)->waiting.n);
}

/* Sends a PING if it is time: its answer shows whether requests are still missing. Returns when to
 * call it again. */
lend_ns lend_requests_ask(struct lend_core *c, struct lend_sess *s);
/* Handles a request whose retransmission was not answered either. */
void lend_request_timeout(struct lend_core *c, struct lend_sess *s, struct lend_call_rec *k);

#endif
