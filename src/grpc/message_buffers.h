/* message_buffers - messages to and from chains of message buffers.
 *
 * Owns the memory that messages are decoded into. Layer: grpc. Threads: the endpoint's. */
#ifndef LEND_GRPC_MESSAGE_BUFFERS_H
#define LEND_GRPC_MESSAGE_BUFFERS_H

#include <lend/grpc.h>
#include <lend/mem.h>

#include "pb/decoder.h"

/* Memory for decoded messages or for tables: the first block stays, others are freed. */
struct lend_pb_heap {
	struct lend_pb_blocks blocks;
	struct heap_block *list; /* the newest first */
	size_t used;             /* bytes of the blocks */
	bool busy;               /* a decoded message is in use */
};
void lend_pb_heap_init(struct lend_pb_heap *heap);
/* Frees all blocks but the first. */
void lend_pb_heap_reset(struct lend_pb_heap *heap);
void lend_pb_heap_free(struct lend_pb_heap *heap);
/* Returns memory for one message: the shared one, or own while another message is in it. */
struct lend_pb_heap *lend_pb_heap_begin(struct lend_pb_heap *shared, struct lend_pb_heap *own);
/* Ends the use of what lend_pb_heap_begin() returned. */
void lend_pb_heap_end(struct lend_pb_heap *heap, const struct lend_pb_heap *own);

/* How to encode a message. */
struct lend_pb_sending {
	struct lend_ep *ep;
	lend_session session; /* to the receiver */
	bool copies;          /* all values; otherwise only those that it costs less to copy */
	uint32_t *packed; /* in and out: bytes of the first block that the last message needed */
	void (*release)(void *arg); /* for each value that is not copied; NULL: none */
	void *arg;
	uint64_t ref_min; /* values of so many bytes may be sent by reference; 0: none */
	unsigned wraps;   /* out: values that are not copied: release runs as often */
	uint64_t refs; /* out: bit i: buffer i of the chain is one that may be sent by reference */
	uint64_t marked; /* out: bit i: it has the option (lend.by_ref) */
};
/* The values of one message that are not copied: counts those in use. */
struct lend_pb_lent {
	void (*release)(void *arg);
	void *arg;
	unsigned left;
};
/* Begins to count. NULL: no memory. */
struct lend_pb_lent *lend_pb_lent_begin(struct lend_pb_sending *how, void (*release)(void *arg),
					void *arg);
/* The message was not sent: release will not run. NULL does nothing. */
void lend_pb_lent_keep(struct lend_pb_lent *lent);
/* Ends the counting: release runs when none of these values is in use. NULL does nothing. */
void lend_pb_lent_end(struct lend_pb_lent *lent, unsigned wraps);
/* Encodes a message into a chain. Returns NULL with the reason in *status; release has run
 * wraps times then. */
struct lend_buf *lend_pb_to_buffers(struct lend_pb_sending *how, const struct lend_pb_table *table,
				    const ProtobufCMessage *message, enum lend_status *status);
/* Encodes a message that fits cap bytes. Returns false: it does not, or it cannot be encoded. */
bool lend_pb_to_bytes(const struct lend_pb_table *table, const ProtobufCMessage *message,
		      uint8_t *bytes, size_t cap, struct lend_pb_segment *encoded);
/* Starts a call with a chain as its arguments. Of those that may be sent by reference, the marked
 * ones are lent; for others the client of memory nodes chooses. Returns an error of
 * lend_call_start_argv(). */
int lend_pb_start_args(struct lend_mem *mem, const struct lend_pb_sending *how,
		       struct lend_call *call, struct lend_buf *chain);
/* Decodes the message that the arguments of a request are, one after the other. */
enum lend_status lend_pb_from_args(const struct lend_pb_table *table, const struct lend_arg *arg,
				   int n, struct lend_pb_heap *heap, ProtobufCMessage **message);
/* Decodes a chain. Returns OK, INVALID_ARGUMENT or RESOURCE_EXHAUSTED. */
enum lend_status lend_pb_from_buffers(const struct lend_pb_table *table,
				      const struct lend_buf *chain, struct lend_pb_heap *heap,
				      ProtobufCMessage **message);
/* Writes "/package.Service/Method" and a suffix into path, and returns the method's number. A
 * method with this suffix has requests of arguments. */
#define LEND_PB_ARGS "#args"
enum { LEND_PB_PATH_MAX = 512 };
uint32_t lend_pb_path(const ProtobufCServiceDescriptor *service, unsigned index, const char *suffix,
		      char path[LEND_PB_PATH_MAX]);

#endif
