/* carried - see carried.h. This file has gRPC's functions for calls, and the batches. */
#include "preload/carried.h"

#include <errno.h>
#include <grpc/support/time.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct table calls = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define BIT(op) (1u << (op))
enum {
	SENDS_ALL = BIT(GRPC_OP_SEND_INITIAL_METADATA) | BIT(GRPC_OP_SEND_MESSAGE) |
		    BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT),
	RECEIVES_ALL = BIT(GRPC_OP_RECV_MESSAGE) | BIT(GRPC_OP_RECV_STATUS_ON_CLIENT),
};

/* A second batch follows a first one that leaves the kind of the call open within this time, or
 * before the thread waits for an event. */
static const lend_ns second_batch_ns = 100000000;
enum {
	UNSENT_MAX = 16, /* batches that are sent together */
	OPERATIONS = 8,  /* most that a batch has: one of each kind */
};
static _Thread_local grpc_call *undecided; /* the last such call of this thread; or NULL */

lend_ns carried_deadline(gpr_timespec deadline)
{
	int64_t now_s, ns;
	struct timespec t;

	if (deadline.tv_sec == INT64_MAX)
		return LEND_NEVER;
	if (deadline.tv_sec == INT64_MIN)
		return 0;
	(void)clock_gettime(
	    deadline.clock_type == GPR_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
	if (deadline.clock_type == GPR_TIMESPAN) {
		now_s = 0;
		t.tv_nsec = 0;
	} else {
		now_s = t.tv_sec;
	}
	if (deadline.tv_sec - now_s > INT32_MAX)
		return LEND_NEVER;
	ns = (deadline.tv_sec - now_s) * 1000000000 + deadline.tv_nsec - t.tv_nsec;
	return ns > 0 ? engine_now() + (lend_ns)ns : 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

static void free_unused(struct carried *c)
{
	if (!c->refs && !c->undelivered && !c->active)
		carried_free(c);
}

void carried_delivered(struct carried *c)
{
	c->undelivered--;
	free_unused(c);
}

/* Returns the record of a call that Lend may carry; or NULL. */
static struct carried *add_call(grpc_call *call, struct channel *channel, grpc_completion_queue *cq,
				char *method, char *authority, gpr_timespec deadline)
{
	struct queue *q = queue_find(cq);
	struct carried *c = q && method ? calloc(1, sizeof(*c)) : NULL;
	lend_session session;
	bool native = false;

	if (c) {
		engine_enter(&channel_engine);
		native = channel_session(channel, &session);
		channel->refs += native;
		engine_leave(&channel_engine);
	}
	if (!native) {
		free(c);
		free(method);
		free(authority);
		return NULL;
	}
	c->call = call;
	c->cq = cq;
	c->channel = channel;
	c->queue = q;
	c->method = method;
	c->authority = authority;
	c->deadline = carried_deadline(deadline);
	c->refs = 1;
	c->cancel_status = GRPC_STATUS_OK;
	table_put(&calls, call, &c->node);
	return c;
}

/* Returns gRPC's call of an earlier one; or NULL. */
static grpc_call *reuse_call(struct channel *channel, grpc_completion_queue *cq, const void *handle)
{
	struct carried *c = NULL, *stale = NULL;
	lend_session session;

	engine_enter(&channel_engine);
	if (channel->idle && channel_session(channel, &session))
		c = idle_take(channel, cq, handle, &stale);
	engine_leave(&channel_engine);
	idle_release(stale);
	if (!c)
		return NULL;
	table_put(&calls, c->call, &c->node);
	return c->call;
}

/* A method that the program registered. */
struct registered {
	struct table_node node;
	char *method, *host;
};
static struct table methods = {.lock = PTHREAD_MUTEX_INITIALIZER};

REPLACES void *grpc_channel_register_call(grpc_channel *channel, const char *method,
					  const char *host, void *reserved)
{
	void *handle = real_grpc()->grpc_channel_register_call(channel, method, host, reserved);
	struct registered *r;

	if (!handle || !channel_find(channel) || !(r = calloc(1, sizeof(*r))))
		return handle;
	free(table_remove(&methods, handle));
	r->method = strdup(method);
	r->host = host ? strdup(host) : NULL;
	table_put(&methods, handle, &r->node);
	return handle;
}

/* A call of a request carries the deadline and the cancellation of that request: gRPC's business.
 */
REPLACES grpc_call *grpc_channel_create_call(grpc_channel *channel, grpc_call *parent,
					     uint32_t propagation, grpc_completion_queue *cq,
					     grpc_slice method, const grpc_slice *host,
					     gpr_timespec deadline, void *reserved)
{
	struct channel *c = real_grpc()->active && !parent ? channel_find(channel) : NULL;
	char *name = c ? text_of_slice(method) : NULL;
	char *authority = c && host ? text_of_slice(*host) : NULL;
	grpc_call *call = real_grpc()->grpc_channel_create_call(channel, parent, propagation, cq,
								method, host, deadline, reserved);

	if (c)
		(void)add_call(call, c, cq, name, authority, deadline);
	return call;
}

REPLACES grpc_call *grpc_channel_create_registered_call(grpc_channel *channel, grpc_call *parent,
							uint32_t propagation,
							grpc_completion_queue *cq, void *handle,
							gpr_timespec deadline, void *reserved)
{
	struct channel *c = real_grpc()->active && !parent ? channel_find(channel) : NULL;
	struct registered *r = c ? table_find(&methods, handle) : NULL;
	bool lasting = r && carried_deadline(deadline) == LEND_NEVER;
	grpc_call *call = lasting ? reuse_call(c, cq, handle) : NULL;
	struct carried *made;

	if (call)
		return call;
	call = real_grpc()->grpc_channel_create_registered_call(channel, parent, propagation, cq,
								handle, deadline, reserved);
	made =
	    r ? add_call(call, c, cq, strdup(r->method), r->host ? strdup(r->host) : NULL, deadline)
	      : NULL;
	if (made && lasting && made->queue->kind != GRPC_CQ_PLUCK) /* a queue of one call */
		made->handle = handle;
	return call;
}

/* No second batch has followed: the call is unary. */
static void open_alone(struct lend_alarm *alarm)
{
	struct carried *c = (void *)((char *)alarm - offsetof(struct carried, alarm));

	if (carried_open(c, true) < 0)
		carried_move(c);
}

static bool is_undecided(const struct carried *c)
{
	return c->state == CARRIED_WAITING && c->alarm.at && c->alarm.at != LEND_NEVER;
}

static void decide_unary(struct carried *c)
{
	lend_alarm_set(channel_engine.ep, &c->alarm, LEND_NEVER);
	open_alone(&c->alarm);
}

static void cancel_native(struct carried *c)
{
	if (is_undecided(c))
		decide_unary(c); /* which ends it */
	if (c->state == CARRIED_CALL && c->active)
		lend_call_cancel(channel_engine.ep, &c->lend_call);
	if (c->state == CARRIED_STREAM && c->active)
		lend_stream_cancel(channel_engine.ep, &c->lend_stream);
	if (c->active)
		(void)lend_poll(channel_engine.ep);
}

static void cancel_call(struct carried *c, grpc_status_code status, const char *details)
{
	engine_enter(&channel_engine);
	c->handle = NULL;
	if (c->state != CARRIED_GRPC && c->state != CARRIED_ENDED &&
	    c->cancel_status == GRPC_STATUS_OK) {
		c->cancel_status = status;
		c->cancel_details = strdup(details);
		cancel_native(c);
	}
	engine_leave(&channel_engine);
}

static struct carried *native_call(const grpc_call *call)
{
	return real_grpc()->active ? table_find(&calls, call) : NULL;
}

void carried_decide(void)
{
	struct carried *c = undecided ? native_call(undecided) : NULL;

	undecided = NULL;
	if (!c)
		return;
	engine_enter(&channel_engine);
	if (is_undecided(c))
		decide_unary(c);
	engine_leave(&channel_engine);
}

REPLACES grpc_call_error grpc_call_cancel(grpc_call *call, void *reserved)
{
	struct carried *c = native_call(call);

	if (c)
		cancel_call(c, GRPC_STATUS_CANCELLED, "CANCELLED");
	return real_grpc()->grpc_call_cancel(call, reserved);
}

REPLACES grpc_call_error grpc_call_cancel_with_status(grpc_call *call, grpc_status_code status,
						      const char *description, void *reserved)
{
	struct carried *c = native_call(call);

	if (c)
		cancel_call(c, status, description);
	return real_grpc()->grpc_call_cancel_with_status(call, status, description, reserved);
}

REPLACES void grpc_call_ref(grpc_call *call)
{
	struct carried *c = native_call(call);

	if (c)
		__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	real_grpc()->grpc_call_ref(call);
}

REPLACES void grpc_call_unref(grpc_call *call)
{
	struct carried *c = native_call(call);
	bool kept = false;

	if (c && __atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) == 1) {
		(void)table_remove(&calls, call);
		engine_enter(&channel_engine);
		if (c->active)
			cancel_native(c);
		if (is_undecided(c))
			lend_alarm_set(channel_engine.ep, &c->alarm, LEND_NEVER);
		c->refs = 0;
		kept = idle_keep(c);
		if (!kept)
			free_unused(c);
		engine_leave(&channel_engine);
	} else if (c) {
		__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL);
	}
	if (!kept)
		real_grpc()->grpc_call_unref(call);
}

REPLACES int grpc_call_failed_before_recv_message(const grpc_call *call)
{
	const struct carried *c = native_call(call);

	return c && c->state != CARRIED_GRPC
		   ? c->failed_before_message
		   : real_grpc()->grpc_call_failed_before_recv_message(call);
}

/* Credentials of a call need a channel that proves its peer: gRPC decides. */
REPLACES grpc_call_error grpc_call_set_credentials(grpc_call *call, grpc_call_credentials *creds)
{
	struct carried *c = native_call(call);

	if (c)
		c->handle = NULL;
	if (c && c->state == CARRIED_WAITING)
		c->state = CARRIED_GRPC;
	return real_grpc()->grpc_call_set_credentials(call, creds);
}

/* --- batches ---------------------------------------------------------------------------------- */

static void unlink_batch(struct carried *c, const struct batch *b)
{
	struct batch **at = &c->batches;

	while (*at != b)
		at = &(*at)->earlier;
	*at = b->earlier;
}

void carried_end(struct carried *c, struct batch *b, unsigned bits, bool ok)
{
	if (!ok && !b->has_status)
		b->ok = false;
	b->left &= ~bits;
	if (b->left)
		return;
	unlink_batch(c, b);
	c->sent++;
	b->next = NULL;
	*channel_engine.finished_end = b;
	channel_engine.finished_end = &b->next;
}

void carried_move(struct carried *c)
{
	struct batch *b = c->batches, *first = NULL, *earlier;

	c->state = CARRIED_GRPC;
	c->message = c->close = c->recv_initial = c->recv_message = c->recv_status = NULL;
	for (; b; b = earlier) {
		earlier = b->earlier;
		b->earlier = first;
		first = b;
	}
	c->batches = NULL;
	for (b = first; b; b = b->earlier)
		queue_move(&channel_engine, b);
}

grpc_call_error carried_start_at_grpc(struct carried *c, const grpc_op *ops, size_t n, void *tag)
{
	grpc_op all[OPERATIONS + 1];

	if (!c->initial_copy || n > OPERATIONS ||
	    __atomic_exchange_n(&c->copy_used, true, __ATOMIC_RELAXED))
		return real_grpc()->grpc_call_start_batch(c->call, ops, n, tag, NULL);
	all[0] = *c->initial_copy;
	memcpy(all + 1, ops, n * sizeof(*ops));
	return real_grpc()->grpc_call_start_batch(c->call, all, n + 1, tag, NULL);
}

static struct batch *make_batch(struct carried *c, const grpc_op *ops, size_t n, void *tag)
{
	struct batch *b = malloc(sizeof(*b) + n * sizeof(b->op[0]));

	if (!b)
		return NULL;
	memset(b, 0, sizeof(*b));
	b->call = c;
	b->queue = c->queue;
	b->tag = tag;
	b->ok = true;
	b->n = n;
	memcpy(b->op, ops, n * sizeof(b->op[0]));
	for (size_t i = 0; i < n; i++)
		b->left |= BIT(ops[i].op);
	b->has_status = b->left & BIT(GRPC_OP_RECV_STATUS_ON_CLIENT);
	return b;
}

/* Notes the operations of a batch as pending. */
static void note_operations(struct carried *c, struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		const grpc_op *op = &b->op[i];

		switch (op->op) {
		case GRPC_OP_SEND_INITIAL_METADATA:
			c->initial_op = op;
			break;
		case GRPC_OP_SEND_MESSAGE:
			c->message = b;
			c->message_op = op;
			break;
		case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
			c->close = b;
			break;
		case GRPC_OP_RECV_INITIAL_METADATA:
			c->recv_initial = b;
			break;
		case GRPC_OP_RECV_MESSAGE:
			c->recv_message = b;
			c->recv_message_op = op;
			break;
		case GRPC_OP_RECV_STATUS_ON_CLIENT:
			c->recv_status = b;
			break;
		case GRPC_OP_SEND_STATUS_FROM_SERVER:
		case GRPC_OP_RECV_CLOSE_ON_SERVER:
			break;
		}
	}
}

/* Decides on the kind of a call, and opens it. With initial metadata read apart, a unary call and a
 * stream of replies begin with equal batches, and differ in the second one. Only a unary call may
 * have no second batch before the metadata arrive. */
static int open_by_kind(struct carried *c, const struct batch *b)
{
	bool sends = (b->left & SENDS_ALL) == SENDS_ALL;
	bool all = (b->left & RECEIVES_ALL) == RECEIVES_ALL;

	if (b->earlier) {
		if (undecided == c->call)
			undecided = NULL; /* it may serve again before this thread waits */
		lend_alarm_set(channel_engine.ep, &c->alarm, LEND_NEVER);
		return carried_open(c, all);
	}
	if (sends && !all && b->left & BIT(GRPC_OP_RECV_INITIAL_METADATA)) {
		undecided = c->call;
		c->alarm.ring = open_alone;
		lend_alarm_set(channel_engine.ep, &c->alarm,
			       lend_now(channel_engine.ep) + second_batch_ns);
		engine_hand_over(&channel_engine);
		return 0;
	}
	return carried_open(c, sends && all);
}

/* Sends the operations that were started. A thread that waits for its batch does so itself. While
 * the program has events to take, it is about to start more, which can share a datagram. */
static void send_started(const struct queue *q)
{
	if (q->kind == GRPC_CQ_PLUCK || (q->ready && ++channel_engine.unsent < UNSENT_MAX))
		return;
	channel_engine.unsent = 0;
	(void)lend_poll(channel_engine.ep);
}

static void start_batch(struct carried *c, struct batch *b)
{
	b->earlier = c->batches;
	c->batches = b;
	c->undelivered++;
	queue_add(&channel_engine, b);
	note_operations(c, b);
	if (c->state == CARRIED_WAITING && c->initial_op && open_by_kind(c, b) < 0) {
		carried_move(c);
		return;
	}
	carried_advance(c);
	send_started(c->queue);
}

/* Returns whether Lend takes the batch. */
static bool take_batch(struct carried *c, const grpc_op *ops, size_t n, void *tag)
{
	struct batch *b = make_batch(c, ops, n, tag);
	bool takes;

	engine_enter(&channel_engine);
	takes = b && c->state != CARRIED_GRPC;
	if (takes)
		start_batch(c, b);
	else
		free(b);
	engine_leave(&channel_engine);
	return takes;
}

REPLACES grpc_call_error grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t n,
					       void *tag, void *reserved)
{
	struct carried *c = n ? native_call(call) : NULL;

	if (c && c->state != CARRIED_GRPC && take_batch(c, ops, n, tag))
		return GRPC_CALL_OK;
	if (c && !reserved)
		return carried_start_at_grpc(c, ops, n, tag);
	return real_grpc()->grpc_call_start_batch(call, ops, n, tag, reserved);
}
