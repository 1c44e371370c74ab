#include "broker/broker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "broker/broker_internal.h"
#include "sys/last_error.h"

enum { SLEEP_US = 50, SLEEP_MS = 100, IDLE_TURNS = 4096 };

uint32_t lend_broker_turn(struct lend_broker *h)
{
	uint32_t n = lend_broker_from_clients(h);

	for (uint32_t i = 0; i < h->n; i++) {
		n += lend_broker_to_client(h, h->client[i]);
		lend_broker_resolve(h, h->client[i]);
	}
	h->idle = n > 0 ? 0 : h->idle + 1;
	if (h->idle % IDLE_TURNS == IDLE_TURNS - 1) /* a new client sends more requests first */
		(void)lend_broker_open_spare(h);
	return n;
}

/* Prepares a carrier for the sleep. False: it has no fd, or is not ready to sleep; poll it again
 * soon. */
static bool prepare_sleep(struct lend_io *io, struct pollfd *fd)
{
	fd->fd = io->ops->fd(io);
	fd->events = POLLIN;
	return fd->fd >= 0 && io->ops->arm(io);
}

void lend_broker_wait(struct lend_broker *h)
{
	const struct timespec delay = {.tv_nsec = SLEEP_US * 1000};
	const struct timespec sleep = {.tv_nsec = SLEEP_MS * 1000000};
	struct pollfd fd[LEND_BROKER_CLIENTS + 1];
	bool all = true;

	if (!prepare_sleep(h->shm, &fd[0]))
		return; /* a client sent a datagram, or is new and will send one soon */
	if (lend_broker_open_spare(h))
		return; /* it took long: datagrams may have come */
	(void)lend_broker_prepare_client(h);
	for (uint32_t i = 0; i < h->n; i++) {
		all = prepare_sleep(h->client[i]->outer, &fd[i + 1]) && all;
		all = all && h->client[i]->asks == 0;
	}
	(void)ppoll(fd, h->n + 1, all ? &sleep : &delay, NULL);
}

int lend_broker_open(const struct lend_broker_config *config, struct lend_broker **broker)
{
	struct lend_broker *h = calloc(1, sizeof(*h));
	char address[LEND_BROKER_TEXT];
	struct lend_io_config shm = {.listen = address, .capture = ""};
	int rc;

	if (!h)
		return lend_fail(ENOMEM, "no memory for a broker");
	h->config = *config;
	(void)snprintf(address, sizeof(address), "shm:%s", config->name);
	rc = lend_broker_open_device(h, "", &h->first);
	if (rc < 0)
		goto out_memory;
	rc = lend_io_open(&shm, &h->shm);
	if (rc < 0)
		goto out_device;
	while (lend_broker_open_spare(h))
		;
	*broker = h;
	return 0;

out_device:
	h->first->ops->close(h->first);
out_memory:
	free(h);
	return rc;
}

void lend_broker_stats(const struct lend_broker *h, struct lend_broker_stats *stats)
{
	*stats = h->stats;
	stats->clients = h->n;
}

void lend_broker_close(struct lend_broker *h)
{
	while (h->n > 0)
		lend_broker_detach(h, h->client[0]->peer);
	while (h->spares > 0) {
		struct lend_io *spare = h->spare[--h->spares];

		spare->ops->close(spare);
	}
	if (h->next)
		lend_broker_free_client(h->next);
	h->shm->ops->close(h->shm);
	h->first->ops->close(h->first);
	free(h);
}
