/* copy - the floor under all bandwidths: one core copies each request to where it is read.
 * Layer: apps/peers. Threads: one. */
#include <stdlib.h>
#include <string.h>

#include "apps/common/args.h"
#include "apps/peers/fifo.h"

struct copier {
	const struct peer_job *job;
	struct peer_fifo fifo;
	const void *from[PEER_WINDOW_MAX];
	void *to[PEER_WINDOW_MAX];
};

static void *open_copier(const struct peer_job *job, struct peer_door *door)
{
	struct copier *c = calloc(1, sizeof(*c));

	(void)door;
	if (!c)
		app_die("no memory; give a smaller --window");
	c->job = job;
	for (unsigned i = 0; i < job->window; i++) {
		c->to[i] = malloc(job->request);
		if (!c->to[i])
			app_die("no memory; give a smaller --request");
	}
	return c;
}

static int start(void *client, unsigned slot, const void *request)
{
	struct copier *c = client;

	c->from[slot] = request;
	peer_fifo_push(&c->fifo, slot);
	return 0;
}

static void turn(void *client)
{
	struct copier *c = client;
	unsigned slot = peer_fifo_pop(&c->fifo);
	struct iovec part = {.iov_base = c->to[slot], .iov_len = c->job->request};
	char sum[PEER_SUM_LEN];

	memcpy(c->to[slot], c->from[slot], c->job->request);
	if (peer_is_echo(c->job)) {
		peer_end(slot, &part, 1);
		return;
	}
	peer_serve(c->job, &part, 1, sum);
	peer_end_at(slot, sum, sizeof(sum));
}

static void close_copier(void *client)
{
	struct copier *c = client;

	for (unsigned i = 0; i < c->job->window; i++)
		free(c->to[i]);
	free(c);
}

int main(int argc, char **argv)
{
	static const struct peer peer = {
	    .name = "memcpy",
	    .lane = {{.name = "memory", .one_thread = true, .no_answer = true}},
	    .open = open_copier,
	    .start = start,
	    .turn = turn,
	    .close = close_copier,
	};

	return peer_main(&peer, argc, argv);
}
