/* broker/carrier - a device that a broker on this host owns: broker:NAME, broker:NAME/ADDRESS.
 *
 * A process that opens a DPDK device itself waits for EAL, and owns the device alone. The broker
 * (src/broker) has opened the device already. This carrier is one shm link to it. A tail on each
 * datagram names the peer of the device. ADDRESS is an address of the device: the one to listen at,
 * or to resolve. Layer: io. One thread's.
 */
#include "io/builtin.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/broker/link.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/bits.h"

#define SPIN_NS UINT64_C(10000)      /* poll before a sleep: others may use this CPU */
#define OPEN_NS UINT64_C(5000000000) /* the broker may have to start a device */

static struct lend_broker_link *self(struct lend_io *io)
{
	return (struct lend_broker_link *)(void *)io;
}

/* Parses broker:NAME/ADDRESS; the address may be missing. */
static int parse_address(const char *text, char name[LEND_ADDR_NAME_MAX + 1], const char **address)
{
	const char *at = text + strlen("broker:");
	size_t n = strcspn(at, "/");

	if (n == 0 || n > LEND_ADDR_NAME_MAX || (at[n] && strlen(at + n) > LEND_BROKER_TEXT))
		return lend_fail(EINVAL, "%.80s: write broker:NAME, or broker:NAME/ADDRESS", text);
	memcpy(name, at, n);
	name[n] = '\0';
	*address = at[n] ? at + n + 1 : "";
	return 0;
}

static uint32_t broker_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct lend_broker_link *h = self(io);
	uint32_t n, kept = 0;

	if (h->first)
		return lend_broker_take_waiting(h, in, cap);
	n = h->shm->ops->rx(h->shm, in, lend_min_u32(cap, LEND_BROKER_BURST));
	for (uint32_t i = 0; i < n; i++)
		if (lend_broker_take(h, &in[i]))
			in[kept++] = in[i];
	if (n > 0 && kept == 0)
		h->shm->ops->rx_done(h->shm);
	h->lent = kept > 0;
	return kept;
}

static void free_given(struct lend_broker_link *h)
{
	while (h->given) {
		struct lend_broker_waiting *s = h->given;

		h->given = s->next;
		free(s);
	}
}

static void broker_rx_done(struct lend_io *io)
{
	struct lend_broker_link *h = self(io);

	free_given(h);
	if (h->lent)
		h->shm->ops->rx_done(h->shm);
	h->lent = false;
	if (!h->first) /* otherwise some stashed datagrams were not returned yet */
		lend_broker_send_unpins(h);
}

/* Appends our tail behind the datagram's own. False: it is too long. */
static bool append_tail(struct lend_broker_link *h, uint32_t i, const struct lend_out *out,
			struct lend_out *with)
{
	const struct lend_broker_tail tail = {.peer = out->peer, .what = out->class};

	if (lend_out_len(out) > h->io.path.mtu)
		return false;
	LEND_CHECK(out->tail_len <= UINT8_MAX - sizeof(tail));
	*with = *out;
	if (out->tail_len)
		memcpy(h->tail[i], out->tail, out->tail_len);
	memcpy(h->tail[i] + out->tail_len, &tail, sizeof(tail));
	with->tail = h->tail[i];
	with->tail_len = (uint8_t)(out->tail_len + sizeof(tail));
	with->peer = h->broker;
	return true;
}

static void broker_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct lend_broker_link *h = self(io);
	struct lend_out with[LEND_BROKER_BURST];
	uint64_t full = h->io.stats.tx_full;
	uint32_t done, k;

	for (done = 0; done < n && h->io.stats.tx_full == full; done += k) {
		for (k = 0; k < LEND_BROKER_BURST && done + k < n &&
			    append_tail(h, k, &out[done + k], &with[k]);)
			k++;
		if (k > 0)
			h->shm->ops->tx(h->shm, bufs, with, k);
		for (uint32_t i = 0; i < k; i++) {
			out[done + i].sent = with[i].sent;
			h->io.stats.tx_full += with[i].sent == LEND_SENT_FULL;
		}
		if (k < LEND_BROKER_BURST && done + k < n) {
			out[done + k++].sent = LEND_SENT_DEAD;
			h->io.stats.tx_dead++;
		}
	}
	for (; done < n; done++) { /* a burst of our user's is several of the ring's */
		out[done].sent = LEND_SENT_FULL;
		h->io.stats.tx_full++;
	}
}

static bool broker_flush(struct lend_io *io, uint32_t buf)
{
	return lend_io_flush(self(io)->shm, buf);
}

static int broker_fd(struct lend_io *io)
{
	return self(io)->shm->ops->fd(self(io)->shm);
}

static bool broker_arm(struct lend_io *io)
{
	return !self(io)->first && self(io)->shm->ops->arm(self(io)->shm);
}

static int begin_resolve(struct lend_broker_link *h, const char *address)
{
	struct lend_broker_msg msg = {.op = LEND_BROKER_RESOLVE, .token = ++h->token};
	struct lend_broker_pending *a = h->ask;

	while (a < h->ask + LEND_BROKER_PENDING_MAX && a->address[0])
		a++;
	if (a == h->ask + LEND_BROKER_PENDING_MAX)
		return -EINPROGRESS; /* when others have ended */
	memcpy(msg.text, address, strlen(address));
	if (!lend_broker_send(h, &msg))
		return -EINPROGRESS;
	memcpy(a->address, msg.text, sizeof(a->address));
	a->token = msg.token;
	a->rc = -EINPROGRESS;
	return -EINPROGRESS;
}

static int broker_resolve(struct lend_io *io, const char *text, uint32_t *peer)
{
	struct lend_broker_link *h = self(io);
	char name[LEND_ADDR_NAME_MAX + 1];
	const char *address;
	struct lend_broker_pending *a = h->ask;
	int rc = parse_address(text, name, &address);

	if (rc < 0)
		return rc;
	if (!*address || strcmp(name, h->name) != 0 || strlen(address) >= LEND_BROKER_TEXT)
		return lend_fail(EINVAL, "%.80s: write broker:%s/ADDRESS, as the server prints it",
				 text, h->name);
	if (h->lost)
		return lend_fail(ECONNRESET, "broker:%s is gone; start lend-broker and this again",
				 h->name);
	lend_broker_pump(h);
	while (a < h->ask + LEND_BROKER_PENDING_MAX && strcmp(a->address, address) != 0)
		a++;
	if (a == h->ask + LEND_BROKER_PENDING_MAX)
		return begin_resolve(h, address);
	if (a->rc == -EINPROGRESS)
		return -EINPROGRESS;
	rc = a->rc;
	*peer = a->peer;
	a->address[0] = '\0';
	if (rc < 0)
		return lend_fail(-rc, "broker:%s: %s", h->name, a->why);
	return *peer < LEND_BROKER_PEERS ? 0 : -EPROTO;
}

static void broker_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	struct lend_broker_link *h = self(io);

	if (peer >= LEND_BROKER_PEERS)
		return;
	if (kept)
		h->pins[peer]++;
	else if (h->pins[peer] > 0 && --h->pins[peer] == 0)
		lend_broker_queue_unpin(h, peer);
}

static void broker_peer_info(struct lend_io *io, uint32_t peer, struct lend_io_peer_info *info)
{
	(void)io;
	(void)peer;
	*info = (struct lend_io_peer_info){.uid = -1};
}

static int broker_name(struct lend_io *io, char *address, size_t cap)
{
	struct lend_broker_link *h = self(io);
	int n = h->outer[0] ? snprintf(address, cap, "broker:%s/%s", h->name, h->outer)
			    : snprintf(address, cap, "%s", "");

	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}

static void broker_close(struct lend_io *io)
{
	struct lend_broker_link *h = self(io);

	*h->last = h->given;
	h->given = h->first;
	free_given(h);
	h->shm->ops->close(h->shm);
	free(h);
}

static const struct lend_io_ops ops = {
    .rx = broker_rx,
    .rx_done = broker_rx_done,
    .tx = broker_tx,
    .flush = broker_flush,
    .fd = broker_fd,
    .arm = broker_arm,
    .resolve = broker_resolve,
    .pin = broker_pin,
    .peer_info = broker_peer_info,
    .name = broker_name,
    .close = broker_close,
};

/* Waits for a message of the broker, at most 1 ms: not all progress is signalled by the fd. */
static void await_message(struct lend_broker_link *h, lend_ns began)
{
	const struct timespec most = {.tv_nsec = 1000000};
	struct pollfd fd = {.fd = broker_fd(&h->io), .events = POLLIN};

	if (lend_clock_now() - began > SPIN_NS && h->shm->ops->arm(h->shm))
		(void)ppoll(&fd, 1, &most, NULL);
}

static int connect_broker(struct lend_broker_link *h, const char *shm, const char *address,
			  bool listens)
{
	struct lend_broker_msg msg = {.op = LEND_BROKER_OPEN, .listens = listens};
	lend_ns began = lend_clock_now();
	int rc;

	while ((rc = h->shm->ops->resolve(h->shm, shm, &h->broker)) == -EINPROGRESS &&
	       lend_clock_now() - began < OPEN_NS)
		await_message(h, began);
	if (rc < 0)
		return lend_fail(-rc, "broker:%s: no broker answers; start lend-broker --name %s",
				 h->name, h->name);
	h->shm->ops->pin(h->shm, h->broker, true);
	memcpy(msg.text, address, strlen(address));
	if (!lend_broker_send(h, &msg))
		h->lost = true;
	for (lend_broker_pump(h); !h->opened.op && !h->lost && lend_clock_now() - began < OPEN_NS;
	     lend_broker_pump(h))
		await_message(h, began);
	if (!h->opened.op)
		return lend_fail(ETIMEDOUT,
				 "broker:%s: the broker does not answer; see whether it is stopped",
				 h->name);
	if (h->opened.version != LEND_BROKER_VERSION)
		return lend_fail(EPROTO, "broker:%s: not a broker of this version; start its own",
				 h->name);
	if (h->opened.rc < 0)
		return lend_fail(-h->opened.rc, "broker:%s: %s", h->name, h->opened.text);
	memcpy(h->outer, h->opened.text, listens ? sizeof(h->outer) : 0);
	h->io.path = (struct lend_path){
	    .mtu = lend_min_u32(h->opened.mtu,
				h->shm->path.mtu - (uint32_t)sizeof(struct lend_broker_tail)),
	    .checked = h->opened.checked,
	    .proven = h->opened.proven};
	return 0;
}

int lend_io_broker_open(const struct lend_io_config *config, struct lend_io **io)
{
	const char *text = config->listen ? config->listen : config->peer, *address;
	char shm[LEND_ADDR_NAME_MAX + 8];
	struct lend_io_config inner = {.peer = shm, .capture = ""};
	struct lend_broker_link *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return lend_fail(ENOMEM, "no memory for a link to a broker");
	h->io.ops = &ops;
	h->last = &h->first;
	rc = parse_address(text, h->name, &address);
	(void)snprintf(shm, sizeof(shm), "shm:%s", h->name);
	if (rc == 0)
		rc = lend_io_shm_open(&inner, &h->shm);
	if (rc < 0) {
		free(h);
		return rc;
	}
	rc = connect_broker(h, shm, config->listen ? address : "", config->listen != NULL);
	if (rc < 0) {
		broker_close(&h->io);
		return rc;
	}
	if (config->mtu)
		h->io.path.mtu = lend_min_u32(config->mtu, h->io.path.mtu);
	*io = &h->io;
	return 0;
}
