/* inproc_relay - one call or stream that arrived by Lend, as a call in process.
 *
 * A handler runs in a turn, where gRPC must not be called: it leaves a task. The end of a call runs
 * in the program's thread that sent the status, which enters the engine and answers.
 * Layer: preload. Threads: any; fields are used inside engine_enter() or in a turn, and by gRPC
 * while a step that names them runs. */
#ifndef LEND_PRELOAD_INPROC_RELAY_H
#define LEND_PRELOAD_INPROC_RELAY_H

#include "preload/inproc_server.h"

/* A batch at gRPC. */
struct step {
	grpc_completion_queue_functor functor;
	struct relay *relay;
	bool running;
};

struct relay {
	struct engine_task task; /* starts the steps that can start */
	struct server *server;
	struct relay *next, **link; /* calls of the server */
	lend_request request;
	struct lend_stream stream;
	unsigned refs; /* Lend's, the task's while it is queued, one of each step that runs */
	bool streams;  /* a stream, not a call */
	bool active;   /* Lend has the stream, or waits for the answer */
	bool opens, opened_call; /* gRPC's call is being made; is made */
	bool queued, closing, no_requests, no_replies, ended, answered, began, cancel, cancelled;
	grpc_call *call;
	char *method, *authority;
	lend_ns left;
	struct pairs sent;
	struct step opened, sends, receives, closed;
	grpc_byte_buffer *out, *sending; /* requests: waits for the step sends; is in it */
	grpc_byte_buffer *in;            /* a reply */
	struct lend_buf *unsent;         /* a reply that has no credit */
	grpc_metadata_array initial, trailing;
	grpc_status_code status;
	grpc_slice details;
};

/* inproc_steps.c: marks the steps that can start now as running, and returns them. */
unsigned relay_choose_steps(struct relay *r);
/* Starts them, outside engine_enter(). */
void relay_run_steps(struct relay *r, unsigned steps);
/* inproc_relay.c: a step has ended, by gRPC's callback; gRPC refuses to start it. */
void relay_end_step(grpc_completion_queue_functor *functor, int ok);
void relay_fail_step(struct relay *r, struct step *step);

#endif
