/* inproc_steps - the batches of a call in process. See inproc_relay.h. */
#include <grpc/impl/codegen/propagation_bits.h>

#include "preload/inproc_relay.h"

static void mark_step(struct relay *r, struct step *step)
{
	*step = (struct step){.functor = {.functor_run = relay_end_step, .inlineable = 1},
			      .relay = r,
			      .running = true};
	r->refs++;
}

static void start_step(struct relay *r, struct step *step, const grpc_op *ops, size_t n)
{
	if (real_grpc()->grpc_call_start_batch(r->call, ops, n, &step->functor, NULL) !=
	    GRPC_CALL_OK)
		relay_fail_step(r, step);
}

static grpc_op send_initial(struct relay *r)
{
	grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};

	op.data.send_initial_metadata.metadata = r->sent.at;
	op.data.send_initial_metadata.count = r->sent.n;
	return op;
}

static grpc_op receive_status(struct relay *r)
{
	grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};

	op.data.recv_status_on_client.status = &r->status;
	op.data.recv_status_on_client.status_details = &r->details;
	op.data.recv_status_on_client.trailing_metadata = &r->trailing;
	return op;
}

static grpc_op receive_initial(struct relay *r)
{
	grpc_op op = {.op = GRPC_OP_RECV_INITIAL_METADATA};

	op.data.recv_initial_metadata.recv_initial_metadata = &r->initial;
	return op;
}

static grpc_op receive_message(struct relay *r)
{
	grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

	op.data.recv_message.recv_message = &r->in;
	return op;
}

static grpc_op send_message(struct relay *r)
{
	grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};

	op.data.send_message.send_message = r->sending;
	return op;
}

static void make_call(struct relay *r)
{
	gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
	grpc_slice method = grpc_slice_from_static_string(r->method), host;

	if (r->left != LEND_NEVER)
		deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
					gpr_time_from_nanos((int64_t)r->left, GPR_TIMESPAN));
	host = grpc_slice_from_static_string(r->authority ? r->authority : "");
	r->call = real_grpc()->grpc_channel_create_call(
	    r->server->channel, NULL, GRPC_PROPAGATE_DEFAULTS, r->server->queue, method,
	    r->authority ? &host : NULL, deadline, NULL);
}

static void start_unary(struct relay *r)
{
	const grpc_op ops[] = {
	    send_initial(r),    send_message(r),    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
	    receive_initial(r), receive_message(r), receive_status(r)};

	start_step(r, &r->closed, ops, sizeof(ops) / sizeof(ops[0]));
}

static void start_stream(struct relay *r)
{
	const grpc_op ops[] = {send_initial(r), receive_initial(r)};

	start_step(r, &r->opened, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Steps that can start now. The status is asked for after the last message: the in-process
 * transport drops messages that are not asked for when it has delivered a status. */
enum { OPENS = 1, SENDS = 2, CLOSES = 4, RECEIVES = 8, CANCELS = 16, ENDS = 32 };

unsigned relay_choose_steps(struct relay *r)
{
	unsigned steps = 0;

	if (r->opens && !r->opened_call)
		return 0; /* the thread that makes the call goes on with these */
	if (!r->opens) {
		r->opens = true;
		mark_step(r, r->streams ? &r->opened : &r->closed);
		return OPENS;
	}
	if (r->cancel && !r->cancelled && !r->ended)
		steps |= CANCELS;
	r->cancelled |= r->cancel;
	if (!r->streams)
		return steps;
	if (!r->sends.running && !r->ended && (r->out || (r->no_requests && !r->closing))) {
		steps |= r->out ? SENDS : CLOSES;
		r->closing = !r->out;
		r->sending = r->out;
		r->out = NULL;
		mark_step(r, &r->sends);
	}
	if (!r->receives.running && !r->no_replies && !r->in && !r->unsent) {
		steps |= RECEIVES;
		mark_step(r, &r->receives);
	}
	if (r->no_replies && !r->ended && !r->opened.running && !r->closed.relay) {
		steps |= ENDS;
		mark_step(r, &r->closed);
	}
	return steps;
}

void relay_run_steps(struct relay *r, unsigned steps)
{
	const grpc_op close = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
	grpc_op op;

	if (steps & OPENS) {
		make_call(r);
		if (r->streams)
			start_stream(r);
		else
			start_unary(r);
	}
	if (steps & SENDS) {
		op = send_message(r);
		start_step(r, &r->sends, &op, 1);
	}
	if (steps & CLOSES)
		start_step(r, &r->sends, &close, 1);
	if (steps & RECEIVES) {
		op = receive_message(r);
		start_step(r, &r->receives, &op, 1);
	}
	if (steps & ENDS) {
		op = receive_status(r);
		start_step(r, &r->closed, &op, 1);
	}
	if (steps & CANCELS)
		(void)real_grpc()->grpc_call_cancel(r->call, NULL);
}
