/* broker_forward - forwards datagrams between a broker's clients and its device, unchanged except
 * for a tail. Layer: broker. One thread's.
 */
#include <stdio.h>
#include <string.h>

#include "broker/broker_internal.h"
#include "sys/last_error.h"
#include "util/bits.h"

enum { TRIES = 64, HEAD = 255 };

/* Datagrams in a row for one client's device carrier. */
struct row {
	struct lend_broker_client *to;
	uint32_t n;
};

/* Moves the datagrams that were refused as full to the front. Returns how many. */
static uint32_t keep_refused(struct lend_broker *h, uint32_t n)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++)
		if (h->out[i].sent == LEND_SENT_FULL)
			h->out[left++] = h->out[i];
	return left;
}

/* Sends a burst. Datagrams refused as full are retried TRIES times and then lost, so that a
 * client that does not poll does not block the others. */
static void send_burst(struct lend_broker *h, struct lend_io *to, uint32_t n)
{
	struct lend_bufs bufs = {h->seg, LEND_BROKER_TURN};
	uint32_t left = n;

	for (int tries = 0; left > 0 && tries < TRIES; tries++) {
		to->ops->tx(to, &bufs, h->out, left);
		left = keep_refused(h, left);
	}
	h->stats.full += left;
	for (uint32_t i = 0; i < n; i++)
		while (h->seg[i].len > HEAD && !lend_io_flush(to, i))
			;
}

/* Makes the i-th datagram of a burst from these bytes. The first of them become its head, which
 * is copied at once. */
static struct lend_out *put_datagram(struct lend_broker *h, uint32_t i, const void *data,
				     uint32_t len, uint32_t peer)
{
	struct lend_out *o = &h->out[i];
	uint32_t head = lend_min_u32(len, HEAD);

	if (len == 0)
		data = h; /* memcpy() of 0 bytes needs a valid address, too */
	h->seg[i] = (struct lend_seg){(void *)(uintptr_t)data, len, len, 0, 0};
	*o = (struct lend_out){.head = data, .head_len = (uint8_t)head, .peer = peer};
	o->n = len > head;
	o->piece[0] = (struct lend_piece){i, head, len - head};
	return o;
}

void lend_broker_answer(struct lend_broker *h, uint32_t peer, struct lend_broker_msg *msg, int rc)
{
	const struct lend_broker_tail tail = {.peer = LEND_BROKER_CONTROL};
	struct lend_out *o;

	msg->version = LEND_BROKER_VERSION;
	msg->rc = rc;
	if (rc < 0)
		(void)snprintf(msg->text, sizeof(msg->text), "%s", lend_why_text());
	o = put_datagram(h, 0, msg, sizeof(*msg), peer);
	o->tail = &tail;
	o->tail_len = sizeof(tail);
	send_burst(h, h->shm, 1);
}

static void hand_on(struct lend_broker *h, struct row *row)
{
	if (row->n > 0)
		send_burst(h, row->to->outer, row->n);
	row->n = 0;
}

/* Adds a datagram of a client to the row, or sends the row first if it is for another carrier. */
static void take_datagram(struct lend_broker *h, const struct lend_in *in, struct row *row)
{
	struct lend_broker_client *c = lend_broker_find(h, in->peer);
	struct lend_broker_tail tail;
	uint32_t len = in->len - (uint32_t)sizeof(tail);

	if (in->gone) {
		hand_on(h, row);
		lend_broker_detach(h, in->peer);
		return;
	}
	if (in->len < sizeof(tail)) {
		h->stats.bad++;
		return;
	}
	memcpy(&tail, (const char *)in->data + len, sizeof(tail));
	LEND_ONCE(tail);
	if (tail.peer == LEND_BROKER_CONTROL) {
		hand_on(h, row);
		lend_broker_on_message(h, in->peer, in->data, len);
		return;
	}
	if (!c || tail.peer >= LEND_BROKER_PEERS || !c->known[tail.peer] ||
	    len > c->outer->path.mtu) {
		h->stats.bad++;
		return;
	}
	if (row->to != c)
		hand_on(h, row);
	row->to = c;
	put_datagram(h, row->n++, in->data, len, tail.peer)->class = tail.what & 7;
	h->stats.from_clients++;
}

uint32_t lend_broker_from_clients(struct lend_broker *h)
{
	struct lend_in in[LEND_BROKER_TURN];
	uint32_t n = h->shm->ops->rx(h->shm, in, LEND_BROKER_TURN);
	struct row row = {.n = 0};

	for (uint32_t i = 0; i < n; i++)
		take_datagram(h, &in[i], &row);
	hand_on(h, &row);
	if (n > 0)
		h->shm->ops->rx_done(h->shm);
	return n;
}

uint32_t lend_broker_to_client(struct lend_broker *h, struct lend_broker_client *c)
{
	struct lend_in in[LEND_BROKER_TURN];
	uint32_t n = c->outer->ops->rx(c->outer, in, LEND_BROKER_TURN), run = 0;
	uint32_t most = h->shm->path.mtu - (uint32_t)sizeof(struct lend_broker_tail);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t peer = in[i].peer;
		struct lend_out *o;

		if (peer >= LEND_BROKER_PEERS || in[i].len > most) {
			h->stats.bad++;
			continue;
		}
		if (!c->known[peer] && !in[i].gone) {
			c->outer->ops->pin(c->outer, peer, true);
			lend_broker_note_peer(c, peer);
		}
		o = put_datagram(h, run, in[i].data, in[i].len, c->peer);
		h->tail[run] =
		    (struct lend_broker_tail){peer, ++c->seen[peer], in[i].ecn, in[i].gone};
		o->tail = &h->tail[run++];
		o->tail_len = sizeof(*h->tail);
	}
	h->stats.to_clients += run;
	if (run > 0)
		send_burst(h, h->shm, run);
	if (n > 0)
		c->outer->ops->rx_done(c->outer);
	return n;
}
