/* hostd_client - the clients of a broker: attach, requests, detach.
 *
 * Opening a carrier of the device takes most of the time of an attach, so the broker
 * keeps one spare carrier open. The spare goes to the next client that requests no specific
 * address, and another is opened when the broker is idle. Layer: hostd. One thread's.
 */
#include <errno.h>
#include <string.h>

#include "hostd/broker_internal.h"
#include "sys/last_error.h"
#include "util/bits.h"

struct lend_hostd_client *lend_hostd_find(const struct lend_hostd *h, uint32_t peer)
{
	for (uint32_t i = 0; i < h->n; i++)
		if (h->client[i]->peer == peer)
			return h->client[i];
	return NULL;
}

int lend_hostd_outer(const struct lend_hostd *h, const char *address, struct lend_io **outer)
{
	struct lend_io_config config = {
	    .listen = *address ? address : h->config.device, .eal = h->config.eal, .capture = ""};

	if (*address && !lend_io_same_carrier(address, h->config.device))
		return lend_fail(EINVAL, "%.60s: this broker has %s", address, h->config.device);
	return lend_io_open(&config, outer);
}

void lend_hostd_provide(struct lend_hostd *h)
{
	if (h->spare || h->full || h->n == LEND_HOSTD_CLIENTS)
		return;
	h->full = lend_hostd_outer(h, "", &h->spare) < 0;
	if (h->full)
		h->spare = NULL;
}

/* Returns the spare, or a carrier opened now. If opening fails, closes the spare and tries
 * again, because the spare may have used up a limit of the device. */
static int take_outer(struct lend_hostd *h, const char *address, struct lend_io **outer)
{
	int rc;

	if (!*address && h->spare) {
		*outer = h->spare;
		h->spare = NULL;
		return 0;
	}
	rc = lend_hostd_outer(h, address, outer);
	if (rc == 0 || !h->spare)
		return rc;
	h->spare->ops->close(h->spare);
	h->spare = NULL;
	h->full = true;
	return lend_hostd_outer(h, address, outer);
}

static struct lend_hostd_client *new_client(const struct lend_hostd *h)
{
	struct lend_hostd_client *c;
	struct lend_heap memory;

	if (h->n == LEND_HOSTD_CLIENTS || lend_heap_map(&memory, sizeof(*c)) < 0)
		return NULL;
	c = memory.base;
	c->memory = memory;
	return c;
}

static void free_client(struct lend_hostd_client *c)
{
	struct lend_heap memory = c->memory;

	lend_heap_unmap(&memory);
}

static void attach(struct lend_hostd *h, uint32_t peer, struct lend_hostd_msg *msg)
{
	struct lend_hostd_client *c = new_client(h);
	int rc = c ? take_outer(h, msg->text, &c->outer)
		   : lend_fail(ENOSPC, "it has %u clients, or not enough memory; end some", h->n);

	memset(msg->text, 0, sizeof(msg->text));
	if (rc < 0) {
		if (c)
			free_client(c);
		lend_hostd_answer(h, peer, msg, rc);
		return;
	}
	c->peer = peer;
	h->client[h->n++] = c;
	h->stats.attached++;
	h->shm->ops->pin(h->shm, peer, true);
	msg->mtu = c->outer->path.mtu;
	msg->checked = c->outer->path.checked;
	msg->proven = c->outer->path.proven;
	rc = c->outer->ops->name(c->outer, msg->text, sizeof(msg->text));
	lend_hostd_answer(h, peer, msg, rc);
}

void lend_hostd_detach(struct lend_hostd *h, uint32_t peer)
{
	for (uint32_t i = 0; i < h->n; i++) {
		struct lend_hostd_client *c = h->client[i];

		if (c->peer != peer)
			continue;
		h->shm->ops->pin(h->shm, peer, false);
		c->outer->ops->close(c->outer);
		free_client(c);
		h->client[i] = h->client[--h->n];
		h->full = false;
		return;
	}
}

static void unpin(struct lend_hostd *h, struct lend_hostd_client *c,
		  const struct lend_hostd_msg *msg)
{
	h->stats.bad += msg->peer >= LEND_HOSTD_PEERS;
	if (msg->peer >= LEND_HOSTD_PEERS || !c->known[msg->peer] ||
	    c->seen[msg->peer] != (uint16_t)msg->token)
		return; /* more datagrams came meanwhile; the client sends UNPIN again later */
	c->known[msg->peer] = false;
	c->outer->ops->pin(c->outer, msg->peer, false);
}

void lend_hostd_heed(struct lend_hostd *h, uint32_t peer, const void *data, uint32_t len)
{
	struct lend_hostd_client *c = lend_hostd_find(h, peer);
	struct lend_hostd_msg msg;

	h->stats.bad += len != sizeof(msg);
	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	LEND_ONCE(msg);
	msg.text[LEND_HOSTD_TEXT - 1] = '\0';
	if (msg.op == LEND_HOSTD_OPEN && !c)
		attach(h, peer, &msg);
	else if (msg.op == LEND_HOSTD_RESOLVE && c && c->asks < LEND_HOSTD_WAITING)
		c->ask[c->asks++] = msg;
	else if (msg.op == LEND_HOSTD_UNPIN && c)
		unpin(h, c, &msg);
	else
		h->stats.bad++;
}

void lend_hostd_resolve(struct lend_hostd *h, struct lend_hostd_client *c)
{
	for (uint32_t i = 0; i < c->asks;) {
		struct lend_hostd_msg *msg = &c->ask[i];
		int rc = c->outer->ops->resolve(c->outer, msg->text, &msg->peer);

		if (rc == 0 && msg->peer >= LEND_HOSTD_PEERS)
			rc = lend_fail(ENOSPC, "the broker has no room for another peer");
		if (rc == -EINPROGRESS) {
			i++;
			continue;
		}
		if (rc == 0 && !c->known[msg->peer]) {
			c->known[msg->peer] = true;
			c->outer->ops->pin(c->outer, msg->peer, true);
		}
		lend_hostd_answer(h, c->peer, msg, rc);
		*msg = c->ask[--c->asks];
	}
}
