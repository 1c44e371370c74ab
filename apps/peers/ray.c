/* ray - requests are put into Ray's object store by the client and read there by the server, each a
 * driver of one Ray node that the server starts. A flag in shared memory announces a request, with
 * Ray's reference behind it. ray.py.in loads this as a library, and makes the calls of Ray.
 * Layer: apps/peers. Threads: one per process, and Ray's own. */
#include "apps/peers/ray.h"

#include <string.h>

#include "apps/common/options.h"
#include "apps/peers/shared_slots.h"

enum { REFERENCE_MAX = 1024 };

struct reference {
	uint64_t len;
	char bytes[REFERENCE_MAX - sizeof(uint64_t)];
};

static struct peer_slots slots; /* this process's side */
static const struct peer_ray *ray;

static struct reference *reference_at(unsigned slot)
{
	return (struct reference *)(void *)slots.shared->bytes + slot;
}

static void check_call(bool fine)
{
	if (!fine)
		app_die("a call of Ray failed: its lines are above");
}

void *peer_server_open(const struct peer_job *job, struct peer_pipe *channel)
{
	char address[PEER_ADDRESS_MAX] = "";

	if (peer_is_echo(job))
		app_bad("ray passes requests only: --reply 8");
	check_call(ray->open(job->request * job->window, address, sizeof(address)));
	peer_send_text(channel, address, strlen(address) + 1);
	peer_slots_make(&slots, job, channel, sizeof(struct reference) * job->window);
	return &slots;
}

void peer_server_turn(void *server)
{
	(void)server;
	for (unsigned i = 0; i < slots.job->window; i++) {
		struct iovec part = {NULL, slots.job->request};

		if (!peer_slots_is_asked(&slots, i))
			continue;
		part.iov_base = ray->get(i, reference_at(i)->bytes, reference_at(i)->len);
		check_call(part.iov_base != NULL);
		peer_serve(slots.job, &part, 1, slots.shared->slot[i].sum);
		peer_slots_answer(&slots, i);
	}
}

void *peer_client_open(const struct peer_job *job, struct peer_pipe *channel)
{
	char address[PEER_ADDRESS_MAX];

	peer_receive_text(channel, address, sizeof(address));
	check_call(ray->open(0, address, sizeof(address)));
	peer_slots_map(&slots, job, channel, sizeof(struct reference) * job->window);
	return &slots;
}

int peer_client_start(void *client, unsigned slot, const void *request)
{
	struct reference *to = reference_at(slot);

	(void)client;
	to->len = ray->put(slot, request, slots.job->request, to->bytes, sizeof(to->bytes));
	check_call(to->len > 0);
	peer_slots_ask(&slots, slot);
	return 0;
}

void peer_client_turn(void *client)
{
	(void)client;
	peer_slots_end_answered(&slots);
}

void peer_close(void *side)
{
	(void)side;
	ray->close();
	peer_slots_unmap(&slots);
}

const struct peer peer_this = {"ray", {{.name = "plasma"}}, false};

int main(int argc, char **argv); /* of peer.c, which this library does not export */

int peer_ray_run(const struct peer_ray *calls, int argc, char **argv)
{
	ray = calls;
	return main(argc, argv);
}
