/* queue - completion queues: operations of native calls that end, and the threads that wait for
 * them.
 *
 * pending -> finished (in a turn) -> delivered: taken by a thread that waits in this library, or
 * posted to gRPC's queue with an empty batch. An empty batch always succeeds, so it carries no
 * result: in a queue of events it is a wake-up, in a queue of callbacks it runs post_callback().
 * Layer: preload. Threads: any; fields are under engine_lock. */
#ifndef LEND_PRELOAD_QUEUE_H
#define LEND_PRELOAD_QUEUE_H

#include "preload/engine.h"
#include "preload/real.h"
#include "preload/records.h"

struct queue {
	struct table_node node;
	grpc_completion_queue *queue;
	grpc_cq_completion_type kind;
	struct engine *serves; /* the endpoint of the server that has this queue; or NULL */
	struct engine *calls;  /* the endpoint of its native calls; or NULL */
	struct batch *ready, **ready_end; /* ended, in a queue of events */
	struct batch *plucked;            /* not taken yet, in a queue of tags */
	unsigned pending;                 /* batches that are not delivered */
	unsigned blocked, wakes;          /* threads in gRPC's wait; wake-ups for them */
	unsigned looks;                   /* polls without a look at gRPC's queue */
	bool leads;                       /* a thread runs turns for this queue */
	bool shut;                        /* the program shut it down; gRPC's function follows */
};

/* Operations that the program started together, of one native call. */
struct batch {
	struct batch *next;
	struct batch *earlier; /* the batch that the call started before, not ended */
	struct carried *call;
	struct queue *queue;
	void *tag;
	unsigned left;        /* bits of operations that have not ended */
	bool has_status;      /* a batch with a status succeeds in any case */
	bool ok, done, moved; /* result; ended; continued by gRPC */
	bool plucks;          /* a thread waits for it */
	struct engine_task task;
	grpc_completion_queue_functor functor;
	size_t n;
	grpc_op op[];
};

struct queue *queue_find(grpc_completion_queue *queue);
/* Under the lock: a batch was started, or is continued by gRPC. */
void queue_add(struct engine *e, struct batch *b);
void queue_move(struct engine *e, struct batch *b);
/* Under the lock: a batch has ended. */
void queue_deliver(struct engine *e, struct batch *b);

#endif
