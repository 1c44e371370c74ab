/* broker_client - the clients of a broker: attach, requests, detach.
 *
 * Opening a carrier of the device takes most of the time of an attach, so the broker keeps spare
 * carriers open. The oldest spare goes to the next client that requests no specific address, and
 * another is opened when the broker is idle. The carrier of a client that has gone is a spare
 * again, unless there are enough: closing one takes as long, and the next client would wait.
 * Layer: broker. One thread's.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "broker/broker_internal.h"
#include "io/carrier_kind.h"
#include "sys/last_error.h"
#include "util/bits.h"

struct lend_broker_client *lend_broker_find(const struct lend_broker *h, uint32_t peer)
{
	for (uint32_t i = 0; i < h->n; i++)
		if (h->client[i]->peer == peer)
			return h->client[i];
	return NULL;
}

int lend_broker_open_device(const struct lend_broker *h, const char *address,
			    struct lend_io **outer)
{
	struct lend_io_config config = {
	    .listen = *address ? address : h->config.device, .eal = h->config.eal, .capture = ""};

	if (*address && !lend_io_same_carrier(address, h->config.device))
		return lend_fail(EINVAL, "%.60s: this broker has %s", address, h->config.device);
	return lend_io_open(&config, outer);
}

static uint32_t spares_wanted(const struct lend_broker *h)
{
	return lend_max_u32(h->config.spares, 1);
}

bool lend_broker_open_spare(struct lend_broker *h)
{
	if (h->spares >= spares_wanted(h) || h->full || h->n + h->spares >= LEND_BROKER_CLIENTS)
		return false;
	h->full = lend_broker_open_device(h, "", &h->spare[h->spares]) < 0;
	h->spares += !h->full;
	return !h->full;
}

/* Returns whether a carrier may open once a spare is closed: the spare has its port, or the
 * device's last queue. */
static bool is_used_up(int rc)
{
	return rc < 0 && rc != -EINVAL && rc != -EADDRNOTAVAIL && rc != -ENOENT;
}

/* Returns a spare, or a carrier opened now. Closes spares while those may be in the way. */
static int take_outer(struct lend_broker *h, const char *address, struct lend_io **outer)
{
	int rc;

	if (!*address && h->spares > 0) {
		*outer = h->spare[0];
		memmove(h->spare, h->spare + 1, --h->spares * sizeof(*h->spare));
		return 0;
	}
	while (is_used_up(rc = lend_broker_open_device(h, address, outer)) && h->spares > 0) {
		struct lend_io *spare = h->spare[--h->spares];

		spare->ops->close(spare);
		h->full = true;
	}
	return rc;
}

bool lend_broker_prepare_client(struct lend_broker *h)
{
	struct lend_mapping memory;

	if (h->next || h->n == LEND_BROKER_CLIENTS ||
	    lend_mapping_map(&memory, sizeof(*h->next)) < 0)
		return h->next != NULL;
	h->next = memory.base;
	memset(h->next, 0, offsetof(struct lend_broker_client, known)); /* makes these pages */
	h->next->memory = memory;
	return true;
}

static struct lend_broker_client *new_client(struct lend_broker *h)
{
	struct lend_broker_client *c;

	if (h->n == LEND_BROKER_CLIENTS || !lend_broker_prepare_client(h))
		return NULL;
	c = h->next;
	h->next = NULL;
	return c;
}

void lend_broker_free_client(struct lend_broker_client *c)
{
	struct lend_mapping memory = c->memory;

	lend_mapping_unmap(&memory);
}

static void attach_client(struct lend_broker *h, uint32_t peer, struct lend_broker_msg *msg)
{
	struct lend_broker_client *c = new_client(h);
	bool any = msg->text[0] == '\0';
	int rc = c ? take_outer(h, msg->text, &c->outer)
		   : lend_fail(ENOSPC, "it has %u clients, or not enough memory; end some", h->n);

	memset(msg->text, 0, sizeof(msg->text));
	if (rc < 0) {
		if (c)
			lend_broker_free_client(c);
		lend_broker_answer(h, peer, msg, rc);
		return;
	}
	c->peer = peer;
	c->any = any;
	h->client[h->n++] = c;
	h->stats.attached++;
	h->shm->ops->pin(h->shm, peer, true);
	msg->mtu = c->outer->path.mtu;
	msg->checked = c->outer->path.checked;
	msg->proven = c->outer->path.proven;
	rc = c->outer->ops->name(c->outer, msg->text, sizeof(msg->text));
	lend_broker_answer(h, peer, msg, rc);
}

/* Returns whether the carrier of a client that has gone is kept for the next one. Twice as many as
 * are opened are kept: another was opened when the client took its own. Peers must see links end.
 */
static bool keeps_outer(const struct lend_broker *h, const struct lend_broker_client *c)
{
	return c->any && h->spares < lend_min_u32(2 * spares_wanted(h), LEND_BROKER_SPARES) &&
	       !(lend_carrier_traits(h->config.device) & LEND_CARRIER_HANGS_UP);
}

/* Makes the carrier of a client that has gone a spare, or closes it. The next client gets what
 * peers still send to the other one, as a server does that starts again at its port. */
static void release_outer(struct lend_broker *h, const struct lend_broker_client *c)
{
	if (!keeps_outer(h, c)) {
		c->outer->ops->close(c->outer);
		return;
	}
	for (uint32_t i = 0; i < c->known_end; i++)
		if (c->known[i])
			c->outer->ops->pin(c->outer, i, false);
	h->spare[h->spares++] = c->outer;
}

void lend_broker_detach(struct lend_broker *h, uint32_t peer)
{
	for (uint32_t i = 0; i < h->n; i++) {
		struct lend_broker_client *c = h->client[i];

		if (c->peer != peer)
			continue;
		h->shm->ops->pin(h->shm, peer, false);
		release_outer(h, c);
		lend_broker_free_client(c);
		h->client[i] = h->client[--h->n];
		h->full = false;
		return;
	}
}

static void unpin_peer(struct lend_broker *h, struct lend_broker_client *c,
		       const struct lend_broker_msg *msg)
{
	h->stats.bad += msg->peer >= LEND_BROKER_PEERS;
	if (msg->peer >= LEND_BROKER_PEERS || !c->known[msg->peer] ||
	    c->seen[msg->peer] != (uint16_t)msg->token)
		return; /* more datagrams came meanwhile; the client sends UNPIN again later */
	c->known[msg->peer] = false;
	c->outer->ops->pin(c->outer, msg->peer, false);
}

void lend_broker_on_message(struct lend_broker *h, uint32_t peer, const void *data, uint32_t len)
{
	struct lend_broker_client *c = lend_broker_find(h, peer);
	struct lend_broker_msg msg;

	h->stats.bad += len != sizeof(msg);
	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	LEND_ONCE(msg);
	msg.text[LEND_BROKER_TEXT - 1] = '\0';
	if (msg.op == LEND_BROKER_OPEN && !c)
		attach_client(h, peer, &msg);
	else if (msg.op == LEND_BROKER_RESOLVE && c && c->asks < LEND_BROKER_WAITING)
		c->ask[c->asks++] = msg;
	else if (msg.op == LEND_BROKER_UNPIN && c)
		unpin_peer(h, c, &msg);
	else
		h->stats.bad++;
}

void lend_broker_resolve(struct lend_broker *h, struct lend_broker_client *c)
{
	for (uint32_t i = 0; i < c->asks;) {
		struct lend_broker_msg *msg = &c->ask[i];
		int rc = c->outer->ops->resolve(c->outer, msg->text, &msg->peer);

		if (rc == 0 && msg->peer >= LEND_BROKER_PEERS)
			rc = lend_fail(ENOSPC, "the broker has no room for another peer");
		if (rc == -EINPROGRESS) {
			i++;
			continue;
		}
		if (rc == 0 && !c->known[msg->peer]) {
			lend_broker_note_peer(c, msg->peer);
			c->outer->ops->pin(c->outer, msg->peer, true);
		}
		lend_broker_answer(h, c->peer, msg, rc);
		*msg = c->ask[--c->asks];
	}
}
