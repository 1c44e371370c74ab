/* idle - calls of gRPC that serve again. See carried.h.
 *
 * A call of gRPC to which no operation was ever passed is as good as a new one of the same method,
 * queue and endless deadline. A program that destroys its queues leaves calls that fit no more: a
 * full list without a fitting call is let go.
 * Layer: preload. Threads: any, inside engine_enter(). */
#include <stdlib.h>

#include "preload/carried.h"

/* Of a channel. gRPC C++ allocates from the arena of its call, which grows with each use. */
enum { IDLE_MAX = 64, USES_MAX = 16 };

static void free_copy(grpc_op *op)
{
	for (size_t i = 0; op && i < op->data.send_initial_metadata.count; i++) {
		grpc_slice_unref(op->data.send_initial_metadata.metadata[i].key);
		grpc_slice_unref(op->data.send_initial_metadata.metadata[i].value);
	}
	free(op);
}

static void free_results(struct carried *c)
{
	free_copy(c->initial_copy);
	pairs_free(&c->initial);
	pairs_free(&c->trailing);
	grpc_byte_buffer_destroy(c->inbox);
	free(c->details);
	free(c->cancel_details);
}

void carried_free(struct carried *c)
{
	free_results(c);
	channel_unref(c->channel);
	free(c->method);
	free(c->authority);
	free(c);
}

bool idle_keep(struct carried *c)
{
	struct channel *channel = c->channel;

	if (!c->handle || c->state != CARRIED_ENDED || c->active || c->undelivered ||
	    c->uses >= USES_MAX || channel->closed || channel->n_idle == IDLE_MAX)
		return false;
	free_results(c);
	*c = (struct carried){.call = c->call,
			      .channel = channel,
			      .queue = c->queue,
			      .next_idle = channel->idle,
			      .handle = c->handle,
			      .cq = c->cq,
			      .uses = c->uses + 1,
			      .method = c->method,
			      .authority = c->authority,
			      .deadline = LEND_NEVER,
			      .refs = 1,
			      .cancel_status = GRPC_STATUS_OK};
	channel->idle = c;
	channel->n_idle++;
	return true;
}

struct carried *idle_detach(struct channel *channel)
{
	struct carried *list = channel->idle;

	channel->idle = NULL;
	channel->n_idle = 0;
	return list;
}

struct carried *idle_take(struct channel *channel, const grpc_completion_queue *cq,
			  const void *handle, struct carried **stale)
{
	struct carried **at = &channel->idle, *c;

	while (*at && ((*at)->cq != cq || (*at)->handle != handle))
		at = &(*at)->next_idle;
	c = *at;
	if (c) {
		*at = c->next_idle;
		channel->n_idle--;
	} else if (channel->n_idle == IDLE_MAX) {
		*stale = idle_detach(channel);
	}
	return c;
}

void idle_release(struct carried *list)
{
	struct carried *c = list, *next;

	for (; c; c = next) {
		next = c->next_idle;
		real_grpc()->grpc_call_unref(c->call);
		engine_enter(&channel_engine);
		carried_free(c);
		engine_leave(&channel_engine);
	}
}
