/* posix - the lower bound of passing by reference on one host: requests are written into POSIX
 * shared memory and read there; a flag per request announces them. Layer: apps/peers. Threads: one
 * per process. */
#include <string.h>

#include "apps/common/options.h"
#include "apps/peers/shared_slots.h"

static struct peer_slots slots; /* this process's side */

static uint64_t bytes_of(const struct peer_job *job)
{
	if (peer_is_echo(job))
		app_bad("posix passes requests only: --reply 8");
	return job->request * job->window;
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	peer_slots_make(&slots, job, channel, bytes_of(job));
	return &slots;
}

void peer_server_turn(void *server)
{
	struct peer_slots *s = server;

	for (unsigned i = 0; i < s->job->window; i++) {
		struct iovec part = {s->shared->bytes + i * s->job->request, s->job->request};

		if (!peer_slots_is_asked(s, i))
			continue;
		peer_serve(s->job, &part, 1, s->shared->slot[i].sum);
		peer_slots_answer(s, i);
	}
}

void peer_server_close(void *server)
{
	peer_slots_unmap(server);
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	peer_slots_map(&slots, job, channel, bytes_of(job));
	return &slots;
}

void *peer_client_place(void *client, unsigned slot)
{
	struct peer_slots *s = client;

	return s->shared->bytes + slot * s->job->request;
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	struct peer_slots *s = client;
	unsigned char *place = peer_client_place(client, slot);

	if (request != place)
		memcpy(place, request, s->job->request);
	peer_slots_ask(s, slot);
	return 0;
}

void peer_client_turn(void *client)
{
	peer_slots_end_answered(client);
}

void peer_client_close(void *client)
{
	peer_slots_unmap(client);
}

const struct peer peer_this = {"posix", {{.name = "shm"}}, false};
