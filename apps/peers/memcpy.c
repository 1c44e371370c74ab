/* memcpy - the lower bound for all bandwidths: one CPU copies each request to the memory where it
 * is read.
 * Layer: apps/peers. Threads: one, for both ends. */
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/peers/fifo.h"

/* Both ends: asked holds the waiting requests, answered their answers. */
static struct {
	const struct peer_job *job;
	struct peer_fifo asked, answered;
	const void *from[PEER_WINDOW_MAX];
	void *to[PEER_WINDOW_MAX];
	char sum[PEER_WINDOW_MAX][PEER_SUM_LEN];
} both;

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	(void)channel;
	both.job = job;
	for (unsigned i = 0; i < job->window; i++) {
		both.to[i] = malloc(job->request);
		if (!both.to[i])
			app_die("no memory; give a smaller --request or --window");
	}
	return &both;
}

void peer_server_turn(void *server)
{
	(void)server;
	while (!peer_fifo_is_empty(&both.asked)) {
		unsigned slot = peer_fifo_pop(&both.asked);
		struct iovec part = {.iov_base = both.to[slot], .iov_len = both.job->request};

		memcpy(both.to[slot], both.from[slot], both.job->request);
		peer_serve(both.job, &part, 1, peer_is_echo(both.job) ? NULL : both.sum[slot]);
		peer_fifo_push(&both.answered, slot);
	}
}

void peer_server_close(void *server)
{
	(void)server;
	for (unsigned i = 0; i < both.job->window; i++)
		free(both.to[i]);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	(void)job;
	(void)channel;
	return &both;
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	(void)client;
	both.from[slot] = request;
	peer_fifo_push(&both.asked, slot);
	return 0;
}

void peer_client_turn(void *client)
{
	(void)client;
	for (unsigned n = both.answered.end - both.answered.first; n > 0; n--) {
		unsigned slot = peer_fifo_pop(&both.answered);
		bool echo = peer_is_echo(both.job);

		peer_end_at(slot, echo ? both.to[slot] : both.sum[slot], both.job->reply);
	}
}

void peer_client_close(void *client)
{
	(void)client;
}

const struct peer peer_this = {"memcpy", {{.name = "memory", .one_thread = true}}, false};
