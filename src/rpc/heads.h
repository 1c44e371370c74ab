/* heads - names and metadata before the bytes of messages (wire/head.h).
 *
 *   call_head.c     heads of requests that this endpoint sends: names that a session's server knows
 *   request_head.c  heads of requests that arrive
 *   reply_head.c    replies with heads; the names and metadata of requests
 *   reason.c        heads of replies that arrive
 *   metadata.c      metadata of the application
 *
 * Layer: rpc. Threads: the endpoint's, unless a function states otherwise. */
#ifndef LEND_RPC_HEADS_H
#define LEND_RPC_HEADS_H

#include "lend/metadata.h"
#include "rpc/endpoint.h"
#include "wire/head.h"

struct lend_route;
struct lend_metadata {
	struct lend_head_writer w; /* a head with initial metadata only */
	bool secret;               /* some are credentials: key authorization */
};

/* The head of a request that is being served. */
struct lend_req_head {
	struct lend_req_head *next, **link; /* of ep->heads */
	bool any;                           /* lend_serve_any()'s handler has the request */
	uint32_t span;                      /* slot of its span, see call_spans.h; 0: not traced */
	_Alignas(4) uint8_t bytes[];        /* a valid head */
};

/* Iterates over the pairs of one kind of a valid head, as lend_metadata_next(). */
bool lend_metadata_pair(const uint8_t *head, enum lend_head_kind kind, uint32_t *at,
			struct lend_pair *pair);
/* Appends the pairs of metadata, if there are any, as this kind. */
void lend_metadata_put(struct lend_head_writer *w, enum lend_head_kind kind,
		       const struct lend_metadata *metadata);
/* Returns -E2BIG or -EINVAL, with lend_why() set, for a head of about this many bytes that could
 * not be written. Threads: any. */
int lend_head_refused(const struct lend_ep *ep, uint32_t room);
/* Bytes of a head's entry for a text, at most. NULL: 0. */
uint32_t lend_head_text_room(const char *text);

/* call_head.c */
/* Makes the message of a call with call->head, and state p: its request, possibly behind a head;
 * then the call's flags have LEND_CALL_HEAD. Sets the number of a name. Returns 0 or -errno, with
 * nothing made. */
int lend_call_head_make(struct lend_ep *ep, const struct lend_session_rec *s,
			struct lend_call *call, struct lend_call_priv *p,
			struct lend_buf **message);
/* Returns the request of a message that a call's head was put before, and frees that head. Other
 * messages are returned as they are. */
struct lend_buf *lend_call_head_free(struct lend_ep *ep, struct lend_buf *request,
				     struct lend_buf *message);
/* Notes the end of a call of session s (NULL: gone) whose reply does not ask for its name again.
 * index: of the name; 0: none. */
void lend_call_head_answered(struct lend_session_rec *s, const struct lend_call *call,
			     uint32_t index);

/* request_head.c */
/* Takes the head of a request off its bytes and its event, and finds its method. A request of
 * several parts was gathered. route: serves it instead of the endpoint, or NULL. Returns LEND_OK,
 * or the status to refuse it with and the reason in at most LEND_WHY_ROOM bytes of why. */
enum lend_status lend_req_head_take(struct lend_ep *ep, struct lend_req *req, struct lend_event *ev,
				    const struct lend_route *route,
				    const struct lend_method **method, char *why);
/* Returns UNIMPLEMENTED for a request that opens a stream, or does not, unlike those of its method,
 * and the reason in why. */
enum lend_status lend_req_head_differs(bool opens, char *why);
/* Ends a request's head at the reply. Returns the reply, with a head if the caller has to name the
 * method again; NULL with RESOURCE_EXHAUSTED: no memory for that. */
struct lend_buf *lend_req_head_end(struct lend_ep *ep, struct lend_req *req,
				   enum lend_status *status, struct lend_buf *reply);
/* Frees the heads of all requests. */
void lend_req_heads_close(struct lend_ep *ep);
/* Begins the head of a reply. any: with an empty name, so that the caller goes on to name the
 * method. Threads: any. */
struct lend_head_writer lend_req_head_begin(struct lend_buf *buf, uint32_t cap, bool any);
/* Removes the head, which is in the first segment, from a reply that was made with one. Returns
 * what is left; NULL: nothing. */
struct lend_buf *lend_req_head_cut(struct lend_ep *ep, struct lend_buf *reply);
/* Writes the head of a reply with the first LEND_HEAD_REASON bytes of a text into buf, of
 * LEND_REASON_ROOM bytes. False: buf is NULL, or the text is not UTF-8. Threads: any. */
enum { LEND_REASON_ROOM = LEND_HEAD_REASON + 32 };
/* Bytes for a reason before it is cut: one more than count, so that no character is cut. */
enum { LEND_WHY_ROOM = LEND_HEAD_REASON + 2 };
bool lend_req_head_reason(struct lend_buf *buf, bool any, const char *text);

/* reply_head.c */
/* Makes the head of a reply. Returns -E2BIG, -EINVAL or -ENOMEM as lend_reply_with(), with
 * lend_why() set. */
int lend_reply_head_make(struct lend_ep *ep, lend_request request,
			 const struct lend_reply_head *head, struct lend_buf **made);

/* Answers a request that ran nowhere, or maybe. Threads: the endpoint's. */
int lend_reply_unrun(struct lend_ep *ep, lend_request request, enum lend_status status, bool maybe,
		     const struct lend_reply_head *head);

/* reason.c */
/* Removes the head from the reply of one datagram of an event, and keeps it. flags: of the call's
 * state. False: the head is not valid. */
bool lend_reason_cut(struct lend_ep *ep, struct lend_call *call, uint32_t flags,
		     struct lend_event *ev);
/* Removes the head from the reply of a call that ends, with its state, and keeps it. A head that is
 * not valid makes the status INTERNAL. */
void lend_reason_take(struct lend_ep *ep, struct lend_call *call, const struct lend_call_priv *p);

/* server.c */
/* Answers a request; flags of the core. Takes reply. Threads: any. */
int lend_reply_flags(struct lend_ep *ep, lend_request request, enum lend_status status,
		     unsigned flags, struct lend_buf *reply);
/* Sets what runs when a request is cancelled. NULL: nothing. Threads: the endpoint's. */
void lend_req_forward(struct lend_ep *ep, lend_request request, void (*on_cancel)(void *),
		      void *arg);

#endif
