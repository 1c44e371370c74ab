/* lend/metadata.h - methods with names, and metadata of calls.
 *
 * A method may have a name, such as "/shop.Cart/Add", instead of a number. Calls carry the name
 * until the server has answered it once in their session; after that, they carry a hash of it. The
 * server compares names, so a call never runs the handler of another name.
 *
 * A call and its reply may carry metadata, as in gRPC: pairs of a key and a value. A key has 1 to
 * 255 of the characters a-z 0-9 _ . -. Its value is printable ASCII, or any bytes if the key ends
 * in "-bin". Keys may repeat; the order is kept. Names, texts and metadata of one message have at
 * most config.head_max bytes.
 *
 * A peer of a release without names gets none: calls that need them end UNIMPLEMENTED, not run. */
#ifndef LEND_METADATA_H
#define LEND_METADATA_H

#include <lend/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Metadata to send: made by lend_metadata_new(). */
struct lend_metadata;

/* lend_metadata(3) - pairs of keys and values.
 *
 * Threads: any; one thread at a time uses a struct lend_metadata. */

/* One pair. A zero byte follows the value. */
struct lend_pair {
	const char *key;   /* a C string */
	const void *value; /* ASCII, or any bytes if key ends in "-bin" */
	size_t len;        /* bytes of value */
};
/* Makes metadata without pairs.
 * Returns: the metadata; NULL: no memory.
 * Ownership: the caller's until lend_metadata_free(). Any number of calls may send them. */
struct lend_metadata *lend_metadata_new(void);
/* Frees metadata; NULL does nothing. Calls and replies that were started have a copy.
 * Ownership: takes metadata. */
void lend_metadata_free(struct lend_metadata *metadata);
/* Appends a pair. Those with the key "authorization" go to processes of this user over shm, and
 * over TLS; other calls are refused, see lend_call_start().
 * Returns: 0; -EINVAL: a character that a key or its value cannot have; -E2BIG: more than 8 KiB
 * together; -ENOMEM: no memory.
 * Ownership: borrows key and value. */
int lend_metadata_add(struct lend_metadata *metadata, const char *key, const void *value,
		      size_t len);
/* Iterates over the pairs: *at is 0 before the first call.
 * Returns: true: *pair is the next one; false: there are no more.
 * Ownership: the pair is the metadata's, until they are changed or freed. */
bool lend_metadata_next(const struct lend_metadata *metadata, uint32_t *at, struct lend_pair *pair);

/* lend_serve_name(3) - serve methods by name, and answer with metadata.
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* Texts of a message, UTF-8. */
enum lend_text {
	LEND_TEXT_METHOD = 1,    /* name of the method */
	LEND_TEXT_AUTHORITY = 2, /* the server that the caller asked for */
	LEND_TEXT_MESSAGE = 3,   /* explains a status, for people */
	LEND_TEXT_ENCODING = 4,  /* compression of the message's bytes, such as "gzip" */
	/* "" if a stock gRPC peer sent the message compressed, or a sender of Lend set compress.
	 * The bytes are not. Of a request that opens a stream: its messages may be. */
	LEND_TEXT_COMPRESSED = 8,
};
/* More flags of lend_serve_name() and lend_serve_any(). */
enum {
	/* The handler gets requests with any encoding, and decodes them. Without it, an encoding
	 * other than "identity" ends UNIMPLEMENTED, not run. */
	LEND_ANY_ENCODING = 8,
};
/* Returns the number of a name. A call of the number runs the handler of the name.
 * Returns: the number, never one of Lend's own.
 * Ownership: borrows name.
 * Threads: any.
 * Source: FNV-1a. */
uint32_t lend_method_number(const char *name);
/* Serves a method with a name, as lend_serve(). A name keeps its number until lend_close(), also
 * without a handler.
 * Returns: 0; -EEXIST: a method with another name, or without one, has its number; -EINVAL: as
 * lend_serve(), or the name is empty, longer than 1024 bytes or not UTF-8; -ENOMEM: no memory;
 * -EAGAIN: no thread.
 * Ownership: borrows name until it returns, arg until the handler is replaced or lend_close(). */
int lend_serve_name(struct lend_ep *ep, const char *name, lend_handler_fn *handler, void *arg,
		    unsigned flags);
/* Serves every name that has no handler: see LEND_TEXT_METHOD. Calls of numbers do not reach it.
 * handler NULL ends it.
 * Returns: as lend_serve().
 * Ownership: borrows arg until the handler is replaced or lend_close(). */
int lend_serve_any(struct lend_ep *ep, lend_handler_fn *handler, void *arg, unsigned flags);
/* Returns a text of a request that was not answered yet. The name of the method is also known when
 * the call carried only its number.
 * Returns: the text; NULL: the request has none, or was answered.
 * Ownership: the request's until it is answered.
 * Threads: the endpoint's, and that of a LEND_SLOW handler. */
const char *lend_request_text(struct lend_ep *ep, lend_request request, enum lend_text text);
/* Iterates over the metadata of a request that was not answered yet: *at is 0 before the first
 * call.
 * Returns: true: *pair is the next one; false: there are no more, or it was answered.
 * Ownership: the pair is the request's until it is answered.
 * Threads: the endpoint's, and that of a LEND_SLOW handler. */
bool lend_request_metadata(struct lend_ep *ep, lend_request request, uint32_t *at,
			   struct lend_pair *pair);
/* Texts and metadata of a reply; unused ones are NULL. */
struct lend_reply_head {
	const struct lend_metadata *initial;  /* about the message */
	const struct lend_metadata *trailing; /* about the status */
	const char *message;                  /* explains the status: UTF-8 */
	const char *encoding;                 /* compression of the reply's bytes */
	bool compress; /* to a stock client that takes gzip; native carriers send the bytes */
};
/* Answers a request as lend_reply(), with metadata. A caller that reads no metadata gets the reply
 * without them.
 * Returns: as lend_reply(); -E2BIG: head has more than config.head_max bytes; -EINVAL: a text of it
 * is not UTF-8; -ENOMEM: no buffer for it. These three end the call: INTERNAL, or without a buffer
 * RESOURCE_EXHAUSTED.
 * Ownership: takes reply in any case; borrows head.
 * Threads: the endpoint's, and that of a LEND_SLOW handler. */
int lend_reply_with(struct lend_ep *ep, lend_request request, enum lend_status status,
		    struct lend_buf *reply, const struct lend_reply_head *head);

/* lend_call_head(3) - call methods by name, with metadata.
 *
 * Threads: the endpoint's. */

/* Name and metadata of a call: see struct lend_call. Set unused fields to zero. A call that carries
 * any of them is no 0-RTT call. */
struct lend_call_head {
	const char *name;      /* the method; NULL: the number in struct lend_call */
	const char *authority; /* the server as the application names it; NULL: none */
	const char *encoding;  /* compression of the request's bytes; NULL: none */
	const struct lend_metadata *metadata; /* NULL: none */
	/* True: the reply may have any encoding. False: another than "identity" makes the status
	 * INTERNAL. */
	bool any_encoding;
	/* To a stock server the request goes with gzip; native carriers send the bytes. Of a
	 * stream: so may messages, see lend_stream.compress. */
	bool compress;
	bool opens_stream; /* the runtime's */
};
/* Returns a text of the reply of a call that has ended. Valid in the call's done, and after
 * lend_call_sync(). A server can write anything into it.
 * Returns: the text; NULL: there is none.
 * Ownership: borrows call; the text is the endpoint's until another call ends. */
const char *lend_call_text(struct lend_ep *ep, const struct lend_call *call, enum lend_text text);
/* Iterates over the metadata of the reply of a call that has ended: *at is 0 before the first call.
 * Valid as lend_call_text().
 * Returns: true: *pair is the next pair, of the trailing metadata or of the initial ones; false:
 * there are no more.
 * Ownership: borrows call; the pair is the endpoint's until another call ends. */
bool lend_call_metadata(struct lend_ep *ep, const struct lend_call *call, bool trailing,
			uint32_t *at, struct lend_pair *pair);
/* Lets texts and metadata of the reply to one call be read from another instead, while they are
 * valid: for a library that makes a call of its own for its user's.
 * Ownership: borrows neither; from may be gone afterwards. */
void lend_call_pass_head(struct lend_ep *ep, const struct lend_call *from,
			 const struct lend_call *to);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
