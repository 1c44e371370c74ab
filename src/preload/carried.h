/* carried - calls of the program that Lend carries.
 *
 * WAITING -> CALL or STREAM -> ENDED; WAITING or CALL -> GRPC
 *
 * The first batches show the kind: one message, its end and the status together are a unary call,
 * as gRPC C++ makes it; all others are streams. A call that did not run for want of a native peer
 * goes on at gRPC, which has its real call, with the batches as they were started. A stream's
 * initial metadata may be a batch of their own, which ends at once: gRPC then gets a copy of them
 * with the next batch.
 * Layer: preload. Threads: any, inside engine_enter() or a turn. */
#ifndef LEND_PRELOAD_CARRIED_H
#define LEND_PRELOAD_CARRIED_H

#include "lend/stream.h"
#include "preload/slices.h"
#include "preload/channel.h"
#include "preload/queue.h"

enum carried_state { CARRIED_WAITING, CARRIED_CALL, CARRIED_STREAM, CARRIED_ENDED, CARRIED_GRPC };

struct carried {
	struct table_node node;
	grpc_call *call;
	struct channel *channel;
	struct queue *queue;
	struct carried *next_idle;
	const void *handle;        /* the method, if gRPC's call may serve again; or NULL */
	grpc_completion_queue *cq; /* that of gRPC's call */
	unsigned uses;             /* by calls of the program */
	char *method, *authority;
	lend_ns deadline;
	enum carried_state state;
	unsigned refs;        /* the program's */
	unsigned undelivered; /* batches */
	bool active;          /* lend_call or lend_stream is the runtime's */
	bool got_initial, got_end, failed_before_message;
	unsigned sent;         /* batches that ended, but initial_copy: gRPC cannot repeat them */
	grpc_op *initial_copy; /* initial metadata, a batch that ended; or NULL */
	bool copy_used;        /* gRPC has them */
	struct batch *batches; /* not ended; the newest is first */
	struct batch *message, *close, *recv_initial, *recv_message, *recv_status; /* pending */
	const grpc_op *initial_op, *message_op, *recv_message_op;
	grpc_byte_buffer *inbox; /* a message that the program has not asked for yet */
	struct pairs initial, trailing;
	grpc_status_code status;
	char *details;                  /* text of the status; NULL: none */
	grpc_status_code cancel_status; /* status of a cancellation by the program */
	char *cancel_details;
	struct lend_alarm alarm; /* waits for the batch that shows the kind */
	struct lend_call lend_call;
	struct lend_stream lend_stream;
};

/* Converts a deadline to the clock of engine_now(). */
lend_ns carried_deadline(gpr_timespec deadline);
/* Under the lock: one batch less. May free the call. */
void carried_delivered(struct carried *c);

/* Ends the use of a record that no list has. */
void carried_free(struct carried *c);

/* idle.c: calls that have ended and that gRPC has never seen serve again: making and freeing one
 * takes gRPC longer than Lend carries it. Inside engine_enter(): keeps the call. False: it is not
 * as new. */
bool idle_keep(struct carried *c);
/* Inside engine_enter(): returns a kept call for the same method and queue, as new; or NULL. stale:
 * calls to release. */
struct carried *idle_take(struct channel *channel, const grpc_completion_queue *cq,
			  const void *handle, struct carried **stale);
/* Inside engine_enter(): lets all go. Returns them, for idle_release() outside. */
struct carried *idle_detach(struct channel *channel);
void idle_release(struct carried *list);

/* The thread is about to wait for an event: the call that it started last, if its kind is open, is
 * unary. */
void carried_decide(void);

/* carried_run.c: starts the call or stream. Returns 0, or -errno: gRPC must carry it. */
int carried_open(struct carried *c, bool unary);
/* Does what the pending operations need and the stream permits. */
void carried_advance(struct carried *c);
/* carried.c: ends operations of a batch. */
void carried_end(struct carried *c, struct batch *b, unsigned bits, bool ok);
/* Lets gRPC carry the call, which did not run. */
void carried_move(struct carried *c);
/* Starts operations of a call that gRPC carries, the first time with initial_copy. Returns gRPC's
 * result. Threads: any, outside engine_enter(). */
grpc_call_error carried_start_at_grpc(struct carried *c, const grpc_op *ops, size_t n, void *tag);

#endif
