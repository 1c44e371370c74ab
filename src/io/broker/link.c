#include "io/broker/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/bits.h"

enum { LOOSE_KEPT = 512 };

bool lend_broker_send(struct lend_broker_link *h, struct lend_broker_msg *msg)
{
	const struct lend_broker_tail tail = {.peer = LEND_BROKER_CONTROL};
	struct lend_out out = {.head = msg,
			       .head_len = sizeof(*msg),
			       .tail = &tail,
			       .tail_len = sizeof(tail),
			       .peer = h->broker};
	struct lend_bufs none = {NULL, 0};

	msg->version = LEND_BROKER_VERSION;
	h->shm->ops->tx(h->shm, &none, &out, 1);
	return out.sent == LEND_SENT;
}

static void handle_answer(struct lend_broker_link *h, const struct lend_broker_msg *msg)
{
	if (msg->op == LEND_BROKER_OPEN) {
		h->opened = *msg;
		return;
	}
	for (struct lend_broker_pending *a = h->ask; a < h->ask + LEND_BROKER_PENDING_MAX; a++) {
		if (!a->address[0] || a->token != msg->token || a->rc != -EINPROGRESS)
			continue;
		a->rc = msg->rc == -EINPROGRESS || msg->rc > 0 ? -EPROTO : msg->rc;
		a->peer = msg->peer;
		memcpy(a->why, msg->text, sizeof(a->why));
	}
}

void lend_broker_queue_unpin(struct lend_broker_link *h, uint32_t peer)
{
	if (h->pins[peer] || h->queued[peer] || h->loose_n == LEND_BROKER_LOOSE)
		return; /* no room: the broker keeps it pinned until its next datagram */
	h->loose[(h->loose_first + h->loose_n++) % LEND_BROKER_LOOSE] = peer;
	h->queued[peer] = true;
}

/* Turns a datagram from the broker into one of the device's peer, for the user: removes the tail.
 * False: it is not for the user. */
bool lend_broker_take(struct lend_broker_link *h, struct lend_in *in)
{
	struct lend_broker_msg msg;
	struct lend_broker_tail tail;

	h->lost = h->lost || in->gone;
	if (in->gone)
		return false;
	h->io.stats.rx_bad += in->len < sizeof(tail);
	if (in->len < sizeof(tail))
		return false;
	in->len -= (uint32_t)sizeof(tail);
	memcpy(&tail, (const char *)in->data + in->len, sizeof(tail));
	LEND_ONCE(tail);
	if (tail.peer < LEND_BROKER_PEERS) {
		in->peer = tail.peer;
		in->ecn = tail.ecn;
		in->gone = tail.what;
		in->addr_len = 0;
		h->seen[tail.peer] = tail.n;
		lend_broker_queue_unpin(h, tail.peer);
		return true;
	}
	if (tail.peer != LEND_BROKER_CONTROL || in->len != sizeof(msg)) {
		h->io.stats.rx_bad++;
		return false;
	}
	memcpy(&msg, in->data, sizeof(msg));
	LEND_ONCE(msg);
	msg.text[LEND_BROKER_TEXT - 1] = '\0';
	handle_answer(h, &msg);
	return false;
}

/* Unpins the oldest of loose[] while it holds more than LOOSE_KEPT. When the ring is full,
 * later. */
void lend_broker_send_unpins(struct lend_broker_link *h)
{
	while (h->loose_n > LOOSE_KEPT) {
		uint32_t peer = h->loose[h->loose_first];
		struct lend_broker_msg msg = {
		    .op = LEND_BROKER_UNPIN, .peer = peer, .token = h->seen[peer]};

		if (!h->pins[peer] && !h->lost && !lend_broker_send(h, &msg))
			return;
		h->queued[peer] = false;
		h->loose_first = (h->loose_first + 1) % LEND_BROKER_LOOSE;
		h->loose_n--;
	}
}

uint32_t lend_broker_take_waiting(struct lend_broker_link *h, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	while (h->first && n < cap) {
		struct lend_broker_waiting *s = h->first;

		h->first = s->next;
		in[n++] = s->in;
		s->next = h->given;
		h->given = s;
	}
	if (!h->first)
		h->last = &h->first;
	return n;
}

/* Receives replies, while nothing is lent. Other datagrams are copied and wait for rx(). */
void lend_broker_pump(struct lend_broker_link *h)
{
	struct lend_in in[LEND_BROKER_BURST];
	uint32_t n;

	if (h->lent || h->first || h->given)
		return;
	n = h->shm->ops->rx(h->shm, in, LEND_BROKER_BURST);
	for (uint32_t i = 0; i < n; i++) {
		struct lend_broker_waiting *s =
		    lend_broker_take(h, &in[i]) ? malloc(sizeof(*s) + in[i].len) : NULL;

		if (!s)
			continue; /* none for the user; or no memory: lost, as in a network */
		s->next = NULL;
		s->in = in[i];
		s->in.data = s->data;
		if (in[i].len)
			memcpy(s->data, in[i].data, in[i].len);
		*h->last = s;
		h->last = &s->next;
	}
	if (n > 0)
		h->shm->ops->rx_done(h->shm);
}
