/* lend/grpc.h - services of .proto files: the stubs of protoc-c over calls.
 *
 * Messages are standard protobuf. Long bytes, strings and packed numbers are sent from where they
 * are; over shm only from memory that peers can read, such as lend_malloc_shared()'s, and copied
 * once from other memory. Received bytes stay in the message. Methods are
 * called by name, "/package.Service/Method". Unary methods
 * only. Link with `pkg-config --libs lend-grpc`.
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
/* Answers a request with a status, no message, and a text that explains it, as lend_reply_why().
 * Ownership: takes closure_data; borrows why. */
void lend_pb_fail(void *closure_data, enum lend_status status, const char *why);
/* Returns the request behind a closure, for its deadline, its session or as a parent of calls.
 * Returns: the request.
 * Ownership: borrows closure_data. */
lend_request lend_pb_request(const void *closure_data);

/* Sets metadata for the reply of a request, before it is answered. The metadata of the request:
 * lend_request_metadata() of lend_pb_request().
 * Ownership: borrows closure_data, and head until the request is answered. */
void lend_pb_reply_head(void *closure_data, const struct lend_reply_head *head);

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
 * Ownership: *client is the caller's until protobuf_c_service_destroy(), which is due when its
 * calls have ended; lend_close() ends them. A call borrows the bytes of its request until the
 * closure runs. */
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
 * Ownership: borrows mem, of the same endpoint, until the client is destroyed; borrows set until
 * the function returns. */
void lend_pb_client_refs(ProtobufCService *client, struct lend_mem *mem, const void *set,
			 size_t len);

/* Sets authority, metadata and encoding of a client's calls from now on; the name is the method's.
 * Calls with arguments by reference carry none.
 * Ownership: borrows client; copies head, and borrows its texts and metadata until the next one is
 * set. */
void lend_pb_client_head(ProtobufCService *client, const struct lend_call_head *head);
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
