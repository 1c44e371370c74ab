/* lend/grpc.h - services of .proto files: the stubs of protoc-c over calls.
 *
 * Messages are standard protobuf. Long bytes, strings and packed numbers are sent from where they
 * are; over shm only from memory that peers can read, such as lend_malloc_shared()'s, and copied
 * once from other memory. Received bytes stay in the message. Methods are called by name,
 * "/package.Service/Method". Link with `pkg-config --libs lend-grpc`.
 *
 * Threads: the endpoint's. */
#ifndef LEND_GRPC_H
#define LEND_GRPC_H

#include <protobuf-c/protobuf-c.h>

#include <lend/mem.h>
#include <lend/metadata.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* lend_pb_serve(3) - serve the methods of a .proto service.
 *
 * protoc-c generates a structure with a function for each method, which gets the request and a
 * closure. It answers with closure(&reply, closure_data), once, before it returns or later.
 *
 * Threads: the endpoint's. */

/* Returns the number of the method with this path, such as "/shop.Cart/Add".
 * Returns: the number, never one of Lend's own.
 * Ownership: borrows path.
 * Threads: any.
 * Source: FNV-1a. */
uint32_t lend_pb_number(const char *path);
/* Serves all methods of a service from now on. The function of a method gets a request,
 * valid until the function returns; bytes are read-only, and over shm the caller can change them.
 * A request that is no message of the method's type ends INVALID_ARGUMENT, not run; one that needs
 * more than 64 MiB to decode ends RESOURCE_EXHAUSTED, not run.
 * Returns: 0; -EEXIST: another method that this endpoint serves has the same number; -EINVAL: the
 * descriptor is not of protobuf-c 1; -ENOMEM: no memory.
 * Ownership: borrows service until lend_close(ep). lend_pb_end(ep) frees its memory. */
int lend_pb_serve(struct lend_ep *ep, ProtobufCService *service);
/* Serves a method of a service that is served in worker threads from now on, as LEND_SLOW does: its
 * function may block, and runs several times at once. It answers from its own thread or the
 * endpoint's; lend_pb_reply() copies.
 * Returns: 0; -ENOENT: the endpoint does not serve this method of the service; or an error of
 * lend_serve().
 * Ownership: borrows service and method, such as "Add". */
int lend_pb_slow(struct lend_ep *ep, const ProtobufCService *service, const char *method);
/* Serves all methods also for clients with lend_pb_client_refs(): values of a request that travel
 * by reference are mapped, or fetched, before the method's function gets them.
 * Returns: as lend_pb_serve(); or an error of lend_serve_args().
 * Ownership: borrows service as lend_pb_serve(); borrows mem, a client of ep, until its
 * lend_mem_close(), which ends this. */
int lend_pb_serve_refs(struct lend_ep *ep, ProtobufCService *service, struct lend_mem *mem);
/* Frees what lend_pb_serve() allocated for an endpoint, after its lend_close(). */
void lend_pb_end(struct lend_ep *ep);
/* Answers a request as its closure does, without a copy of long bytes. closure(reply) copies them
 * once. reply NULL: status INTERNAL, as with closure(NULL).
 * Ownership: takes closure_data; borrows reply, and the bytes of its members until release(arg)
 * runs, once, possibly before this function returns. release NULL: until lend_close(). */
void lend_pb_reply(void *closure_data, const ProtobufCMessage *reply, void (*release)(void *arg),
		   void *arg);
/* Answers a unary request with the bytes of a message that is encoded already, such as the reply of
 * another call.
 * Ownership: takes closure_data and encoded. */
void lend_pb_reply_buf(void *closure_data, struct lend_buf *encoded);
/* Answers a request with a status, no message, and a text that explains it, as lend_reply_why().
 * Ownership: takes closure_data; borrows why. */
void lend_pb_fail(void *closure_data, enum lend_status status, const char *why);
/* Returns the request behind a closure, for its deadline, its session or as a parent of calls.
 * Returns: the request.
 * Ownership: borrows closure_data. */
lend_request lend_pb_request(const void *closure_data);

/* Sets metadata for the reply of a request, before it is answered. Of a stream, the initial ones go
 * with the first message that is sent afterwards. The metadata of the request:
 * lend_request_metadata() of lend_pb_request().
 * Ownership: borrows closure_data, and head until the request is answered. */
void lend_pb_reply_head(void *closure_data, const struct lend_reply_head *head);

/* Returns whether the message that a function runs for, or a stream's closure, was compressed, as
 * LEND_TEXT_COMPRESSED. Of a unary reply: lend_call_text() of lend_pb_call().
 * Returns: true: it was.
 * Ownership: borrows closure_data, or a stream. */
bool lend_pb_compressed(const void *closure_data);

/* lend_pb_stream(3) - streaming methods of a .proto service.
 *
 * protoc-c's descriptors do not have the kinds of methods: lend_pb_kinds() reads them from what
 * protoc wrote, or the program lists them. The stubs are the same; their functions run more often:
 *
 *   server  The method's function runs for each message of the client, and with NULL at the end of
 *           a client's stream. Each closure(&reply, closure_data) sends a message. If the server
 *           streams, closure(NULL, closure_data) ends the stream with OK; if not, the first reply
 *           does. lend_pb_fail() ends it with another status.
 *   client  The generated function opens the stream and sends its message, NULL: none yet. More of
 *           them: lend_pb_send(), then lend_pb_finish(). The closure runs for each message of a
 *           server's stream, and last with NULL and lend_pb_status(). If only the client streams,
 * it runs once, with the reply or with NULL.
 *
 * A stream is the closure_data of a server's function, or what lend_pb_opened() returns. Messages
 * arrive in order, each once. lend/stream.h has the number that may be under way: lend_pb_send()
 * refuses more, and a closure then ends the stream with RESOURCE_EXHAUSTED. A stream that is paused
 * gives no credit. So memory is bounded.
 *
 * A stream ends at the client, before its last message, with INTERNAL: the server sent a malformed
 * message, or not one reply where there is one; CANCELLED; DEADLINE_EXCEEDED; UNAVAILABLE: the
 * session has ended; UNIMPLEMENTED, not run: the server does not have this method, or not as a
 * stream; RESOURCE_EXHAUSTED: no memory; INVALID_ARGUMENT: the client sent a malformed message, or
 * not one where there is one; or with the function's own.
 *
 * Threads: the endpoint's. */

/* Which sides of a method send any number of messages. */
enum lend_pb_kind {
	LEND_PB_UNARY = 0,         /* neither: each sends one */
	LEND_PB_CLIENT_STREAM = 1, /* the client */
	LEND_PB_SERVER_STREAM = 2, /* the server */
	LEND_PB_BOTH_STREAM = 3,   /* both */
};
/* Reads the kinds of a service's methods, in their order, from len bytes that protoc
 * --descriptor_set_out wrote for the .proto file.
 * Returns: 0; -ENOENT: the set does not have all of the service's methods.
 * Ownership: borrows descriptor and set; kinds has room for descriptor->n_methods.
 * Threads: any. */
int lend_pb_kinds(const ProtobufCServiceDescriptor *descriptor, const void *set, size_t len,
		  enum lend_pb_kind *kinds);
/* Serves all methods of a service as lend_pb_serve(), each as its kind. A streaming one cannot be
 * lend_pb_slow(): -EINVAL.
 * Returns: as lend_pb_serve().
 * Ownership: as lend_pb_serve(); borrows kinds until it returns. */
int lend_pb_serve_kinds(struct lend_ep *ep, ProtobufCService *service,
			const enum lend_pb_kind *kinds);
/* Calls the methods of a client from now on as their kinds. The timeout of lend_pb_client_set() is
 * a stream's too; 0: none.
 * Ownership: borrows client, and kinds until it is destroyed, which is due when its streams have
 * ended. */
void lend_pb_client_kinds(ProtobufCService *client, const enum lend_pb_kind *kinds);
/* Returns the stream that the last generated function of a streaming method opened.
 * Returns: the stream; NULL: it was not opened, and the closure has run.
 * Ownership: the stream is the client's until its closure has run for the last time. */
void *lend_pb_opened(const ProtobufCService *client);
/* Sends a message. release NULL: copies its bytes. Otherwise long ones are sent from where they
 * are, and release(arg) runs once when none is in use; after a failure it does not run.
 * Returns: 0; -EAGAIN: the peer must read first, events.writable follows; -EPIPE: the stream is
 * over, or its direction has ended; -EMSGSIZE: longer than the peer takes; -EINVAL: not a message
 * of the method's type; -ENOMEM: no memory.
 * Ownership: borrows message, and the bytes of its members until release(arg) runs. */
int lend_pb_send(void *stream, const ProtobufCMessage *message, void (*release)(void *arg),
		 void *arg);
/* Sets whether messages are sent with compress from now on. A client that sets it in
 * lend_pb_client_head() sends the first one of a stream so. Of a unary reply: lend_pb_reply_head().
 * Ownership: borrows stream. */
void lend_pb_compress(void *stream, bool compress);
/* Checks for credit. A server that sends a reply for each message pauses its stream while there is
 * none.
 * Returns: what lend_pb_send() returns for a short message.
 * Ownership: borrows stream. */
int lend_pb_check(void *stream);
/* Ends the client's direction after the last message.
 * Returns: as lend_stream_finish().
 * Ownership: borrows stream. */
int lend_pb_finish(void *stream);
/* Ends a stream at once, with CANCELLED.
 * Ownership: borrows stream. */
void lend_pb_cancel(void *stream);
/* Stops reading messages, or goes on: the function or closure may then run before it returns. The
 * one that runs now may pause its stream.
 * Ownership: borrows stream. */
void lend_pb_pause(void *stream, bool paused);
/* Functions of a stream; unused ones are NULL. */
struct lend_pb_events {
	/* A message that lend_pb_send() refused with -EAGAIN would be taken now. */
	void (*writable)(void *stream, void *arg);
	/* The stream is over, also when the client cancelled it: the last function that runs. The
	 * stream is gone when it returns. Without this function, a server's stays until it is
	 * answered, which has no effect then. */
	void (*ended)(void *stream, void *arg);
	void *arg; /* the application's */
};
/* Sets the functions of a stream.
 * Ownership: borrows stream; copies events. */
void lend_pb_on(void *stream, const struct lend_pb_events *events);

/* lend_pb_health(3) - health of services, for stock gRPC clients.
 *
 * An endpoint that listens on an http2: address serves grpc.health.v1.Health and server reflection,
 * grpc.reflection.v1 and v1alpha, from its first lend_pb_serve() or lend_pb_serve_kinds() on. So
 * load balancers can check it, and grpcurl needs no .proto file. A service of the program with one
 * of these names replaces it.
 *
 * Reflection makes its descriptors from protoc-c's: a package is one file. Names of oneofs,
 * defaults, comments, extensions and most options are not in them.
 *
 * Threads: the endpoint's. */

/* Sets whether a service, such as "shop.Cart", serves; "": the server. Clients that watch it are
 * notified. Every service that lend_pb_serve() serves does, at first. An endpoint without an http2:
 * address serves health and reflection from this call on.
 * Returns: 0; -ENOMEM: no memory; or an error of lend_pb_serve().
 * Ownership: borrows service until it returns. lend_pb_end(ep) frees what it allocates. */
int lend_pb_health(struct lend_ep *ep, const char *service, bool serving);

/* lend_pb_client(3) - call the methods of a .proto service.
 *
 * protoc-c generates a function for each method, which takes the client, a request and a closure.
 *
 * Threads: the endpoint's. */

/* Makes a client of a service at the other end of a session. Each call of a generated function runs
 * its closure once: with the reply, or with NULL and the reason in lend_pb_status(). If the call
 * cannot be started, that is before the function returns. The reply is valid until the closure
 * returns.
 * Returns: 0; -EINVAL: the descriptor is not of protobuf-c 1; -ENOMEM: no memory.
 * Ownership: *client is the caller's until protobuf_c_service_destroy(), which a closure may call,
 * too; it is freed when its calls have ended, at the latest in lend_close(). A call borrows the
 * bytes of its request until the closure runs. */
int lend_pb_client(struct lend_ep *ep, lend_session session,
		   const ProtobufCServiceDescriptor *descriptor, ProtobufCService **client);
/* Returns the status of the call that runs its closure now.
 * Returns: the status; outside of closures that of the last call that ended.
 * Ownership: borrows client. */
enum lend_status lend_pb_status(const ProtobufCService *client);
/* Returns the text with which the server explained the status, in the closure of a call.
 * Returns: as lend_call_why().
 * Ownership: borrows client; the text is the endpoint's until the closure returns. */
const char *lend_pb_why(const ProtobufCService *client);
/* Sets what the calls of a client have in common from now on: the fields timeout, priority,
 * zero_rtt and parent of call.
 * Ownership: borrows client and call until the function returns. */
void lend_pb_client_set(ProtobufCService *client, const struct lend_call *call);

/* Lets long bytes, strings and packed numbers of a client's requests travel by reference, as
 * LEND_ARG_AUTO arguments do: lent by the caller or put on a memory node, where that costs less.
 * The message is the same protobuf, in pieces: each is in the message or a reference. A server
 * without lend_pb_serve_refs() gets all in one message. mem NULL: no longer. set: len bytes that
 * protoc --include_imports --descriptor_set_out wrote for the .proto file; bytes fields with the
 * option (lend.by_ref) of lend/lend.proto then travel by reference however short. len 0: none.
 * Returns: 0; -ENOMEM: no memory, nothing changed.
 * Ownership: borrows mem, of the same endpoint, until the client is destroyed; borrows set until
 * the function returns. */
int lend_pb_client_refs(ProtobufCService *client, struct lend_mem *mem, const void *set,
			size_t len);

/* Sets authority, metadata and encoding of a client's calls from now on; the name is the method's.
 * Calls with arguments by reference carry none.
 * Ownership: borrows client; copies head, and borrows its texts and metadata until the next one is
 * set. */
void lend_pb_client_head(ProtobufCService *client, const struct lend_call_head *head);
/* Iterates over the metadata of the reply in the closure of a call, or in the last one of a stream:
 * *at is 0 before the first call.
 * Returns: true: *pair is the next pair, of the trailing metadata or of the initial ones; false:
 * there are no more.
 * Ownership: borrows client; the pair is the client's until the closure returns. */
bool lend_pb_metadata(const ProtobufCService *client, bool trailing, uint32_t *at,
		      struct lend_pair *pair);
/* Returns the call that runs its closure now, for lend_call_metadata().
 * Returns: the call; NULL: it was not started, or there is none.
 * Ownership: borrows client; the call is the client's until the closure returns. */
const struct lend_call *lend_pb_call(const ProtobufCService *client);

/* A message that is encoded already. */
struct lend_pb_bytes {
	ProtobufCMessage base; /* what lend_pb_encoded() returns */
	uint64_t reserved[4];  /* the library's */
};
/* Makes a message of its encoded bytes, to be used where a message of its type is expected: as a
 * request or reply, or as a member of one. Its bytes are sent as they are: one buffer for any
 * number of calls.
 * Returns: &message->base.
 * Ownership: borrows message and bytes as long as it is used.
 * Threads: any. */
ProtobufCMessage *lend_pb_encoded(struct lend_pb_bytes *message, const void *bytes, size_t len);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
