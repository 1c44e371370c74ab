/* queue - see queue.h. */
#include "preload/queue.h"

#include <stddef.h>
#include <stdlib.h>

#include "preload/carried.h"

/* One turn of a waiting thread, after which it looks at gRPC's queue; and how many such turns
 * without an event until it sleeps there. Polls without a deadline look each time in so many. */
enum { SLICE_NS = 50000, SLICES = 20, LOOKS = 64 };

static struct table queues = {.lock = PTHREAD_MUTEX_INITIALIZER};
static char wake_tag;

struct queue *queue_find(grpc_completion_queue *queue)
{
	return table_find(&queues, queue);
}

static grpc_completion_queue *add_queue(grpc_completion_queue *cq, grpc_cq_completion_type kind)
{
	struct queue *q = cq && real_grpc()->active ? calloc(1, sizeof(*q)) : NULL;

	if (q) {
		q->queue = cq;
		q->kind = kind;
		q->ready_end = &q->ready;
		table_put(&queues, cq, &q->node);
	}
	return cq;
}

void queue_add(struct engine *e, struct batch *b)
{
	struct queue *q = b->queue;

	q->pending++;
	q->calls = e;
	e->pending++;
	if (q->kind == GRPC_CQ_PLUCK) {
		b->next = q->plucked;
		q->plucked = b;
		return;
	}
	if (q->kind == GRPC_CQ_CALLBACK || (q->blocked && !q->leads))
		engine_hand_over(e);
	if (q->kind == GRPC_CQ_CALLBACK)
		e->unwatched++;
}

static void unlink_plucked(struct queue *q, const struct batch *b)
{
	struct batch **at = &q->plucked;

	while (*at && *at != b)
		at = &(*at)->next;
	if (*at)
		*at = b->next;
}

/* Returns whether the program's shutdown of the queue must be passed on now. */
static bool end_pending(struct queue *q)
{
	return --q->pending == 0 && q->shut;
}

static void shut_queue(struct queue *q)
{
	pthread_mutex_unlock(&engine_lock);
	real_grpc()->grpc_completion_queue_shutdown(q->queue);
	pthread_mutex_lock(&engine_lock);
}

/* Starts the batch at gRPC. A thread that waits for it goes on to wait there, and frees it. */
static void continue_batch(struct engine_task *task)
{
	struct batch *b = (void *)((char *)task - offsetof(struct batch, task));
	struct queue *q = b->queue;

	(void)carried_start_at_grpc(b->call, b->op, b->n, b->tag);
	pthread_mutex_lock(&engine_lock);
	carried_delivered(b->call);
	b->moved = true;
	if (q->kind == GRPC_CQ_PLUCK && !b->plucks)
		unlink_plucked(q, b);
	if (q->calls->sleepers)
		pthread_cond_broadcast(&q->calls->changed);
	if (end_pending(q))
		shut_queue(q);
	if (!b->plucks)
		free(b);
	pthread_mutex_unlock(&engine_lock);
}

void queue_move(struct engine *e, struct batch *b)
{
	e->pending--;
	if (b->queue->kind == GRPC_CQ_CALLBACK)
		e->unwatched--;
	b->task.run = continue_batch;
	engine_add_task(e, &b->task);
}

static void run_callback(grpc_completion_queue_functor *functor, int ok)
{
	struct batch *b = (void *)((char *)functor - offsetof(struct batch, functor));
	grpc_completion_queue_functor *user = b->tag;

	ok = b->ok;
	free(b);
	user->functor_run(user, ok);
}

/* gRPC's queue has an event that was pending. */
static void end_post(struct queue *q)
{
	bool shut;

	pthread_mutex_lock(&engine_lock);
	shut = end_pending(q);
	pthread_mutex_unlock(&engine_lock);
	if (shut)
		real_grpc()->grpc_completion_queue_shutdown(q->queue);
}

/* The program learns of the end only by this, so its call is alive until then. */
static void post_callback(struct engine_task *task)
{
	struct batch *b = (void *)((char *)task - offsetof(struct batch, task));
	struct queue *q = b->queue;

	(void)real_grpc()->grpc_call_start_batch(b->call->call, NULL, 0, &b->functor, NULL);
	end_post(q);
}

struct wake {
	struct engine_task task;
	struct queue *queue;
	grpc_call *call;
};

static void post_wake(struct engine_task *task)
{
	struct wake *w = (struct wake *)task;

	(void)real_grpc()->grpc_call_start_batch(w->call, NULL, 0, &wake_tag, NULL);
	real_grpc()->grpc_call_unref(w->call);
	end_post(w->queue);
	free(w);
}

static void wake_blocked(struct engine *e, struct queue *q, grpc_call *call)
{
	struct wake *w;

	if (q->blocked <= q->wakes || !(w = malloc(sizeof(*w))))
		return;
	q->wakes++;
	q->pending++;
	*w = (struct wake){.task = {.run = post_wake}, .queue = q, .call = call};
	real_grpc()->grpc_call_ref(call);
	engine_add_task(e, &w->task);
}

void queue_deliver(struct engine *e, struct batch *b)
{
	struct queue *q = b->queue;

	e->pending--;
	b->done = true;
	carried_delivered(b->call);
	if (q->kind == GRPC_CQ_CALLBACK) {
		e->unwatched--;
		b->functor.functor_run = run_callback;
		b->functor.inlineable = ((grpc_completion_queue_functor *)b->tag)->inlineable;
		b->task.run = post_callback;
		engine_add_task(e, &b->task);
	}
	if (q->kind != GRPC_CQ_NEXT)
		return;
	b->next = NULL;
	*q->ready_end = b;
	q->ready_end = &b->next;
	if (!q->leads)
		wake_blocked(e, q, b->call->call);
}

static bool take_ready(struct queue *q, grpc_event *event)
{
	struct batch *b = q->ready;

	if (!b)
		return false;
	q->ready = b->next;
	if (!q->ready)
		q->ready_end = &q->ready;
	*event = (grpc_event){.type = GRPC_OP_COMPLETE, .success = b->ok, .tag = b->tag};
	free(b);
	if (end_pending(q))
		shut_queue(q);
	return true;
}

/* A deadline on the clock of engine_now(). */
static lend_ns deadline_of(gpr_timespec deadline)
{
	return carried_deadline(deadline);
}

/* Waits in gRPC's queue, with the lock released. False: the event is this library's wake-up. */
static bool wait_in_grpc(struct queue *q, gpr_timespec deadline, bool blocks, grpc_event *event)
{
	bool woken;

	q->blocked += blocks;
	pthread_mutex_unlock(&engine_lock);
	*event = real_grpc()->grpc_completion_queue_next(q->queue, deadline, NULL);
	pthread_mutex_lock(&engine_lock);
	q->blocked -= blocks;
	woken = event->type == GRPC_OP_COMPLETE && event->tag == &wake_tag;
	if (woken)
		q->wakes--;
	return !woken;
}

/* Waits there while the engine's thread runs the turns. A server's engine ends with its server. */
static bool sleep_in_grpc(struct queue *q, struct engine *e, gpr_timespec deadline,
			  grpc_event *event)
{
	bool got;

	if (!e)
		return wait_in_grpc(q, deadline, true, event);
	engine_hand_over(e);
	e->handed++;
	got = wait_in_grpc(q, deadline, true, event);
	if (e == q->serves || e == q->calls)
		e->handed--;
	return got;
}

static struct engine *engine_of(const struct queue *q)
{
	return q->serves ? q->serves : q->pending ? q->calls : NULL;
}

/* Runs turns for the queue for a while, and looks for an event of either kind. */
static bool lead_turn(struct queue *q, struct engine *e, lend_ns until, grpc_event *event)
{
	bool led;

	if (q->leads)
		return false;
	q->leads = true;
	led = engine_turn(e, until);
	q->leads = false;
	return led && (take_ready(q, event) ||
		       (wait_in_grpc(q, gpr_inf_past(GPR_CLOCK_MONOTONIC), false, event) &&
			event->type != GRPC_QUEUE_TIMEOUT));
}

/* A poll without a deadline. */
static grpc_event poll_queue(struct queue *q, struct engine *e)
{
	grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};

	if (take_ready(q, &event))
		return event;
	if (e && !q->leads) {
		q->leads = true;
		(void)engine_turn(e, 0);
		q->leads = false;
		if (take_ready(q, &event) || (++q->looks % LOOKS && q->pending && !q->serves))
			return event;
	}
	if (!wait_in_grpc(q, gpr_inf_past(GPR_CLOCK_MONOTONIC), false, &event))
		event = (grpc_event){.type = GRPC_QUEUE_TIMEOUT};
	return event;
}

static grpc_event wait_queue(struct queue *q, gpr_timespec deadline)
{
	lend_ns until = deadline_of(deadline), now;
	grpc_event event;
	struct engine *e;

	for (unsigned slices = 0;; slices++) {
		if (take_ready(q, &event))
			return event;
		e = engine_of(q);
		now = engine_now();
		if (now >= until && slices == 0)
			return poll_queue(q, e);
		if (e && slices < SLICES && now < until &&
		    !(q->leads || (e->turning && !e->by_thread))) {
			/* The first turn does not wait: gRPC's queue may have an event already. */
			now = slices == 0 ? 0 : now + SLICE_NS < until ? now + SLICE_NS : until;
			if (lead_turn(q, e, now, &event))
				return event;
			continue;
		}
		if (sleep_in_grpc(q, e, deadline, &event))
			return event;
		slices = 0;
	}
}

REPLACES grpc_event grpc_completion_queue_next(grpc_completion_queue *cq, gpr_timespec deadline,
					       void *reserved)
{
	struct queue *q = real_grpc()->active ? queue_find(cq) : NULL;
	grpc_event event;

	if (!q)
		return real_grpc()->grpc_completion_queue_next(cq, deadline, reserved);
	carried_decide();
	pthread_mutex_lock(&engine_lock);
	event = wait_queue(q, deadline);
	pthread_mutex_unlock(&engine_lock);
	return event;
}

static struct batch *find_tag(const struct queue *q, const void *tag)
{
	struct batch *b = q->plucked;

	while (b && b->tag != tag)
		b = b->next;
	return b;
}

/* Waits for a batch: false: a time passed. */
static bool wait_batch(struct engine *e, const struct batch *b, lend_ns until)
{
	while (!b->done && !b->moved && engine_now() < until)
		if (!engine_turn(e, until) && !b->done && !b->moved)
			engine_sleep(e, until);
	return b->done || b->moved;
}

/* Takes the end of a native batch. False: gRPC has the tag. */
static bool pluck_batch(struct queue *q, void *tag, gpr_timespec deadline, grpc_event *event)
{
	struct batch *b = find_tag(q, tag);
	bool moved;

	*event = (grpc_event){.type = GRPC_QUEUE_TIMEOUT};
	if (!b)
		return false;
	b->plucks = true;
	if (!wait_batch(q->calls, b, deadline_of(deadline))) {
		b->plucks = false;
		return true;
	}
	moved = b->moved;
	*event = (grpc_event){.type = GRPC_OP_COMPLETE, .success = b->ok, .tag = tag};
	unlink_plucked(q, b);
	free(b);
	if (!moved && end_pending(q))
		shut_queue(q);
	return !moved;
}

REPLACES grpc_event grpc_completion_queue_pluck(grpc_completion_queue *cq, void *tag,
						gpr_timespec deadline, void *reserved)
{
	struct queue *q = real_grpc()->active ? queue_find(cq) : NULL;
	grpc_event event;
	bool native;

	if (!q)
		return real_grpc()->grpc_completion_queue_pluck(cq, tag, deadline, reserved);
	pthread_mutex_lock(&engine_lock);
	native = pluck_batch(q, tag, deadline, &event);
	pthread_mutex_unlock(&engine_lock);
	return native ? event
		      : real_grpc()->grpc_completion_queue_pluck(cq, tag, deadline, reserved);
}

REPLACES void grpc_completion_queue_shutdown(grpc_completion_queue *cq)
{
	struct queue *q = real_grpc()->active ? queue_find(cq) : NULL;
	bool now = true;

	if (q) {
		pthread_mutex_lock(&engine_lock);
		q->shut = true;
		q->serves = NULL;
		now = q->pending == 0;
		pthread_mutex_unlock(&engine_lock);
	}
	if (now)
		real_grpc()->grpc_completion_queue_shutdown(cq);
}

REPLACES void grpc_completion_queue_destroy(grpc_completion_queue *cq)
{
	free(table_remove(&queues, cq));
	real_grpc()->grpc_completion_queue_destroy(cq);
}

REPLACES grpc_completion_queue *
grpc_completion_queue_create(const grpc_completion_queue_factory *factory,
			     const grpc_completion_queue_attributes *attributes, void *reserved)
{
	return add_queue(real_grpc()->grpc_completion_queue_create(factory, attributes, reserved),
			 attributes->cq_completion_type);
}

REPLACES grpc_completion_queue *grpc_completion_queue_create_for_next(void *reserved)
{
	return add_queue(real_grpc()->grpc_completion_queue_create_for_next(reserved),
			 GRPC_CQ_NEXT);
}

REPLACES grpc_completion_queue *grpc_completion_queue_create_for_pluck(void *reserved)
{
	return add_queue(real_grpc()->grpc_completion_queue_create_for_pluck(reserved),
			 GRPC_CQ_PLUCK);
}

REPLACES grpc_completion_queue *
grpc_completion_queue_create_for_callback(grpc_completion_queue_functor *shutdown, void *reserved)
{
	return add_queue(real_grpc()->grpc_completion_queue_create_for_callback(shutdown, reserved),
			 GRPC_CQ_CALLBACK);
}
