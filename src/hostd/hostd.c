#include "hostd/hostd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/hostd_msg.h"
#include "io/io.h"
#include "sys/why.h"
#include "util/bits.h"

enum { BURST = 64, CLIENTS = 256, ASKS = 64, TRIES = 64, HEAD = 255, NAP_US = 50, SLEEP_MS = 100 };

/* A carrier of the device, and who has it. */
struct client {
	struct lend_io *outer;
	uint32_t peer; /* of our shm */
	struct lend_hostd_msg ask[ASKS];
	uint32_t asks;
	bool known[LEND_HOSTD_PEERS];    /* kept for it */
	uint16_t seen[LEND_HOSTD_PEERS]; /* datagrams that came from each */
};

struct lend_hostd {
	struct lend_hostd_config config;
	struct lend_io *shm;
	struct lend_io *first; /* keeps the device started while nobody uses it */
	struct client *client[CLIENTS];
	uint32_t n; /* of them, side by side */
	struct lend_hostd_stats stats;
	struct lend_seg seg[BURST];
	struct lend_out out[BURST];
	struct lend_hostd_tail tail[BURST];
};

static struct client *find(const struct lend_hostd *h, uint32_t peer)
{
	for (uint32_t i = 0; i < h->n; i++)
		if (h->client[i]->peer == peer)
			return h->client[i];
	return NULL;
}

/* Those that were refused as full, side by side: how many. */
static uint32_t refused(struct lend_hostd *h, uint32_t n)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++)
		if (h->out[i].sent == LEND_SENT_FULL)
			h->out[left++] = h->out[i];
	return left;
}

/* Hands a burst on; what is full is tried again for a while, and then lost, so that nobody who does
 * not look holds up the others. */
static void send(struct lend_hostd *h, struct lend_io *to, uint32_t n)
{
	struct lend_bufs bufs = {h->seg, BURST};
	uint32_t left = n;

	for (int tries = 0; left > 0 && tries < TRIES; tries++) {
		to->ops->tx(to, &bufs, h->out, left);
		left = refused(h, left);
	}
	h->stats.full += left;
	for (uint32_t i = 0; i < n; i++)
		while (h->seg[i].len > HEAD && !lend_io_flush(to, i))
			;
}

/* The i-th of a burst: these bytes, the first of them copied at once. */
static void put(struct lend_hostd *h, uint32_t i, const void *data, uint32_t len, uint32_t peer)
{
	struct lend_out *o = &h->out[i];
	uint32_t head = lend_min_u32(len, HEAD);

	h->seg[i] = (struct lend_seg){(void *)(uintptr_t)data, len, len, 0};
	*o = (struct lend_out){.head = data, .head_len = (uint8_t)head, .peer = peer};
	o->n = len > head;
	o->piece[0] = (struct lend_piece){i, head, len - head};
}

static void answer(struct lend_hostd *h, uint32_t peer, struct lend_hostd_msg *msg, int rc)
{
	const struct lend_hostd_tail tail = {.peer = LEND_HOSTD_CONTROL};

	msg->version = LEND_HOSTD_VERSION;
	msg->rc = rc;
	if (rc < 0)
		(void)snprintf(msg->text, sizeof(msg->text), "%s", lend_why_text());
	put(h, 0, msg, sizeof(*msg), peer);
	h->out[0].tail = &tail;
	h->out[0].tail_len = sizeof(tail);
	send(h, h->shm, 1);
}

static int open_outer(const struct lend_hostd *h, const char *address, struct lend_io **outer)
{
	struct lend_io_config config = {
	    .listen = *address ? address : h->config.device, .eal = h->config.eal, .capture = ""};

	if (*address && !lend_io_same_carrier(address, h->config.device))
		return lend_fail(EINVAL, "%.60s: this broker has %s", address, h->config.device);
	return lend_io_open(&config, outer);
}

static void attach(struct lend_hostd *h, uint32_t peer, struct lend_hostd_msg *msg)
{
	struct client *c = h->n < CLIENTS ? calloc(1, sizeof(*c)) : NULL;
	int rc = c ? open_outer(h, msg->text, &c->outer)
		   : lend_fail(ENOSPC, "it has %u clients, or no memory; end some", h->n);

	memset(msg->text, 0, sizeof(msg->text));
	if (rc < 0) {
		free(c);
		answer(h, peer, msg, rc);
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
	answer(h, peer, msg, rc);
}

static void detach(struct lend_hostd *h, uint32_t peer)
{
	for (uint32_t i = 0; i < h->n; i++) {
		struct client *c = h->client[i];

		if (c->peer != peer)
			continue;
		h->shm->ops->pin(h->shm, peer, false);
		c->outer->ops->close(c->outer);
		free(c);
		h->client[i] = h->client[--h->n];
		return;
	}
}

static void unpin(struct lend_hostd *h, struct client *c, const struct lend_hostd_msg *msg)
{
	h->stats.bad += msg->peer >= LEND_HOSTD_PEERS;
	if (msg->peer >= LEND_HOSTD_PEERS || !c->known[msg->peer] ||
	    c->seen[msg->peer] != (uint16_t)msg->token)
		return; /* more came meanwhile, and the client will say it again */
	c->known[msg->peer] = false;
	c->outer->ops->pin(c->outer, msg->peer, false);
}

static void control(struct lend_hostd *h, uint32_t peer, const void *data, uint32_t len)
{
	struct client *c = find(h, peer);
	struct lend_hostd_msg msg;

	h->stats.bad += len != sizeof(msg);
	if (len != sizeof(msg))
		return;
	memcpy(&msg, data, sizeof(msg));
	msg.text[LEND_HOSTD_TEXT - 1] = '\0';
	if (msg.op == LEND_HOSTD_OPEN && !c)
		attach(h, peer, &msg);
	else if (msg.op == LEND_HOSTD_RESOLVE && c && c->asks < ASKS)
		c->ask[c->asks++] = msg;
	else if (msg.op == LEND_HOSTD_UNPIN && c)
		unpin(h, c, &msg);
	else
		h->stats.bad++;
}

/* Addresses take their time; each is asked for again until there is an answer. */
static void resolve(struct lend_hostd *h, struct client *c)
{
	for (uint32_t i = 0; i < c->asks;) {
		struct lend_hostd_msg *msg = &c->ask[i];
		int rc = c->outer->ops->resolve(c->outer, msg->text, &msg->peer);

		if (rc == 0 && msg->peer >= LEND_HOSTD_PEERS)
			rc = lend_fail(ENOSPC, "the broker has no number for one more peer");
		if (rc == -EINPROGRESS) {
			i++;
			continue;
		}
		if (rc == 0 && !c->known[msg->peer]) {
			c->known[msg->peer] = true;
			c->outer->ops->pin(c->outer, msg->peer, true);
		}
		answer(h, c->peer, msg, rc);
		*msg = c->ask[--c->asks];
	}
}

/* One for the device: where it goes; false: nowhere. */
static bool is_for(struct lend_hostd *h, const struct client *c, const struct lend_in *in,
		   struct lend_hostd_tail *tail)
{
	uint32_t len = in->len - (uint32_t)sizeof(*tail);
	bool fine =
	    c && tail->peer < LEND_HOSTD_PEERS && c->known[tail->peer] && len <= c->outer->path.mtu;

	h->stats.bad += !fine;
	return fine;
}

/* From the clients: runs of one client are one burst. */
static uint32_t from_clients(struct lend_hostd *h)
{
	struct lend_in in[BURST];
	uint32_t n = h->shm->ops->rx(h->shm, in, BURST), run = 0;
	struct client *to = NULL;

	for (uint32_t i = 0; i < n; i++) {
		struct lend_hostd_tail tail = {0};
		uint32_t len = in[i].len - (uint32_t)sizeof(tail);
		struct client *c = find(h, in[i].peer);

		if (run > 0 && (c != to || in[i].gone || run == BURST)) {
			send(h, to->outer, run);
			run = 0;
		}
		if (in[i].gone) {
			detach(h, in[i].peer);
			continue;
		}
		h->stats.bad += in[i].len < sizeof(tail);
		if (in[i].len < sizeof(tail))
			continue;
		memcpy(&tail, (const char *)in[i].data + len, sizeof(tail));
		if (tail.peer == LEND_HOSTD_CONTROL) {
			if (run > 0)
				send(h, to->outer, run);
			run = 0;
			control(h, in[i].peer, in[i].data, len);
			continue;
		}
		if (!is_for(h, c, &in[i], &tail))
			continue;
		to = c;
		put(h, run, in[i].data, len, tail.peer);
		h->out[run++].class = tail.what & 7;
		h->stats.from_clients++;
	}
	if (run > 0)
		send(h, to->outer, run);
	if (n > 0)
		h->shm->ops->rx_done(h->shm);
	return n;
}

static uint32_t to_client(struct lend_hostd *h, struct client *c)
{
	struct lend_in in[BURST];
	uint32_t n = c->outer->ops->rx(c->outer, in, BURST), run = 0;
	uint32_t most = h->shm->path.mtu - (uint32_t)sizeof(struct lend_hostd_tail);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t peer = in[i].peer;

		if (peer >= LEND_HOSTD_PEERS || in[i].len > most) {
			h->stats.bad++;
			continue;
		}
		if (!c->known[peer] && !in[i].gone)
			c->outer->ops->pin(c->outer, peer, true);
		c->known[peer] = c->known[peer] || !in[i].gone;
		put(h, run, in[i].data, in[i].len, c->peer);
		h->tail[run] =
		    (struct lend_hostd_tail){peer, ++c->seen[peer], in[i].ecn, in[i].gone};
		h->out[run].tail = &h->tail[run];
		h->out[run++].tail_len = sizeof(h->tail[run]);
	}
	h->stats.to_clients += run;
	if (run > 0)
		send(h, h->shm, run);
	if (n > 0)
		c->outer->ops->rx_done(c->outer);
	return n;
}

uint32_t lend_hostd_turn(struct lend_hostd *h)
{
	uint32_t n = from_clients(h);

	for (uint32_t i = 0; i < h->n; i++) {
		n += to_client(h, h->client[i]);
		resolve(h, h->client[i]);
	}
	return n;
}

/* A carrier that has no fd, or was not ready to sleep, is looked at again soon. */
static bool arm(struct lend_io *io, struct pollfd *fd)
{
	fd->fd = io->ops->fd(io);
	fd->events = POLLIN;
	return fd->fd >= 0 && io->ops->arm(io);
}

void lend_hostd_wait(struct lend_hostd *h)
{
	const struct timespec nap = {.tv_nsec = NAP_US * 1000}, *most = &nap;
	const struct timespec sleep = {.tv_nsec = SLEEP_MS * 1000000};
	struct pollfd fd[CLIENTS + 1];
	bool all = arm(h->shm, &fd[0]);

	for (uint32_t i = 0; i < h->n; i++) {
		all = arm(h->client[i]->outer, &fd[i + 1]) && all;
		all = all && h->client[i]->asks == 0;
	}
	if (all)
		most = &sleep;
	(void)ppoll(fd, h->n + 1, most, NULL);
}

int lend_hostd_open(const struct lend_hostd_config *config, struct lend_hostd **hostd)
{
	struct lend_hostd *h = calloc(1, sizeof(*h));
	char address[LEND_HOSTD_TEXT];
	struct lend_io_config shm = {.listen = address, .capture = ""};
	int rc;

	if (!h)
		return lend_fail(ENOMEM, "no memory for a broker");
	h->config = *config;
	(void)snprintf(address, sizeof(address), "shm:%s", config->name);
	rc = open_outer(h, "", &h->first);
	if (rc < 0)
		goto out_memory;
	rc = lend_io_open(&shm, &h->shm);
	if (rc < 0)
		goto out_device;
	*hostd = h;
	return 0;

out_device:
	h->first->ops->close(h->first);
out_memory:
	free(h);
	return rc;
}

void lend_hostd_stats(const struct lend_hostd *h, struct lend_hostd_stats *stats)
{
	*stats = h->stats;
	stats->clients = h->n;
}

void lend_hostd_close(struct lend_hostd *h)
{
	while (h->n > 0)
		detach(h, h->client[0]->peer);
	h->shm->ops->close(h->shm);
	h->first->ops->close(h->first);
	free(h);
}
