/* broker/carrier - a device that a broker on this host owns: hostd:NAME, hostd:NAME/ADDRESS.
 *
 * A process that opens a DPDK device itself waits for EAL, and owns the device alone. The broker
 * (src/hostd) has opened the device already. This carrier is one shm link to it. A tail on each
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

#define SPIN_NS UINT64_C(10000)      /* then sleep: other processes may use this CPU */
#define OPEN_NS UINT64_C(5000000000) /* the broker may have to start a device */

static struct lend_hostd_link *self(struct lend_io *io)
{
	return (struct lend_hostd_link *)(void *)io;
}

/* Parses hostd:NAME/ADDRESS; the address may be missing. */
static int parse(const char *text, char name[LEND_ADDR_NAME_MAX + 1], const char **address)
{
	const char *at = text + strlen("hostd:");
	size_t n = strcspn(at, "/");

	if (n == 0 || n > LEND_ADDR_NAME_MAX || (at[n] && strlen(at + n) > LEND_HOSTD_TEXT))
		return lend_fail(EINVAL, "%.80s: write hostd:NAME, or hostd:NAME/ADDRESS", text);
	memcpy(name, at, n);
	name[n] = '\0';
	*address = at[n] ? at + n + 1 : "";
	return 0;
}

static uint32_t hostd_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct lend_hostd_link *h = self(io);
	uint32_t n, kept = 0;

	if (h->first)
		return lend_hostd_unstash(h, in, cap);
	n = h->shm->ops->rx(h->shm, in, lend_min_u32(cap, LEND_HOSTD_BURST));
	for (uint32_t i = 0; i < n; i++)
		if (lend_hostd_take(h, &in[i]))
			in[kept++] = in[i];
	if (n > 0 && kept == 0)
		h->shm->ops->rx_done(h->shm);
	h->lent = kept > 0;
	return kept;
}

static void free_given(struct lend_hostd_link *h)
{
	while (h->given) {
		struct lend_hostd_stash *s = h->given;

		h->given = s->next;
		free(s);
	}
}

static void hostd_rx_done(struct lend_io *io)
{
	struct lend_hostd_link *h = self(io);

	free_given(h);
	if (h->lent)
		h->shm->ops->rx_done(h->shm);
	h->lent = false;
	if (!h->first) /* else some stashed datagrams were not returned yet */
		lend_hostd_let_go(h);
}

/* Appends our tail behind the datagram's own. False: it is too long. */
static bool wrap(struct lend_hostd_link *h, uint32_t i, const struct lend_out *out,
		 struct lend_out *with)
{
	const struct lend_hostd_tail tail = {.peer = out->peer, .what = out->class};

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

static void hostd_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct lend_hostd_link *h = self(io);
	struct lend_out with[LEND_HOSTD_BURST];
	uint64_t full = h->io.stats.tx_full;
	uint32_t done, k;

	for (done = 0; done < n && h->io.stats.tx_full == full; done += k) {
		for (k = 0;
		     k < LEND_HOSTD_BURST && done + k < n && wrap(h, k, &out[done + k], &with[k]);)
			k++;
		if (k > 0)
			h->shm->ops->tx(h->shm, bufs, with, k);
		for (uint32_t i = 0; i < k; i++) {
			out[done + i].sent = with[i].sent;
			h->io.stats.tx_full += with[i].sent == LEND_SENT_FULL;
		}
		if (k < LEND_HOSTD_BURST && done + k < n) {
			out[done + k++].sent = LEND_SENT_DEAD;
			h->io.stats.tx_dead++;
		}
	}
	for (; done < n; done++) { /* a burst of our user's is several of the ring's */
		out[done].sent = LEND_SENT_FULL;
		h->io.stats.tx_full++;
	}
}

static bool hostd_flush(struct lend_io *io, uint32_t buf)
{
	return lend_io_flush(self(io)->shm, buf);
}

static int hostd_fd(struct lend_io *io)
{
	return self(io)->shm->ops->fd(self(io)->shm);
}

static bool hostd_arm(struct lend_io *io)
{
	return !self(io)->first && self(io)->shm->ops->arm(self(io)->shm);
}

static int begin(struct lend_hostd_link *h, const char *address)
{
	struct lend_hostd_msg msg = {.op = LEND_HOSTD_RESOLVE, .token = ++h->token};
	struct lend_hostd_ask *a = h->ask;

	while (a < h->ask + LEND_HOSTD_ASKS && a->address[0])
		a++;
	if (a == h->ask + LEND_HOSTD_ASKS)
		return -EINPROGRESS; /* when others have ended */
	memcpy(msg.text, address, strlen(address));
	if (!lend_hostd_say(h, &msg))
		return -EINPROGRESS;
	memcpy(a->address, msg.text, sizeof(a->address));
	a->token = msg.token;
	a->rc = -EINPROGRESS;
	return -EINPROGRESS;
}

static int hostd_resolve(struct lend_io *io, const char *text, uint32_t *peer)
{
	struct lend_hostd_link *h = self(io);
	char name[LEND_ADDR_NAME_MAX + 1];
	const char *address;
	struct lend_hostd_ask *a = h->ask;
	int rc = parse(text, name, &address);

	if (rc < 0)
		return rc;
	if (!*address || strcmp(name, h->name) != 0 || strlen(address) >= LEND_HOSTD_TEXT)
		return lend_fail(EINVAL, "%.80s: write hostd:%s/ADDRESS, as the server prints it",
				 text, h->name);
	if (h->lost)
		return lend_fail(ECONNRESET, "hostd:%s is gone; start lend-hostd and this again",
				 h->name);
	lend_hostd_pump(h);
	while (a < h->ask + LEND_HOSTD_ASKS && strcmp(a->address, address) != 0)
		a++;
	if (a == h->ask + LEND_HOSTD_ASKS)
		return begin(h, address);
	if (a->rc == -EINPROGRESS)
		return -EINPROGRESS;
	rc = a->rc;
	*peer = a->peer;
	a->address[0] = '\0';
	if (rc < 0)
		return lend_fail(-rc, "hostd:%s: %s", h->name, a->why);
	return *peer < LEND_HOSTD_PEERS ? 0 : -EPROTO;
}

static void hostd_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	struct lend_hostd_link *h = self(io);

	if (peer >= LEND_HOSTD_PEERS)
		return;
	if (kept)
		h->pins[peer]++;
	else if (h->pins[peer] > 0 && --h->pins[peer] == 0)
		lend_hostd_loosen(h, peer);
}

static void hostd_who(struct lend_io *io, uint32_t peer, struct lend_io_who *who)
{
	(void)io;
	(void)peer;
	*who = (struct lend_io_who){.uid = -1};
}

static int hostd_name(struct lend_io *io, char *address, size_t cap)
{
	struct lend_hostd_link *h = self(io);
	int n = h->outer[0] ? snprintf(address, cap, "hostd:%s/%s", h->name, h->outer)
			    : snprintf(address, cap, "%s", "");

	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}

static void hostd_close(struct lend_io *io)
{
	struct lend_hostd_link *h = self(io);

	*h->last = h->given;
	h->given = h->first;
	free_given(h);
	h->shm->ops->close(h->shm);
	free(h);
}

static const struct lend_io_ops ops = {
    .rx = hostd_rx,
    .rx_done = hostd_rx_done,
    .tx = hostd_tx,
    .flush = hostd_flush,
    .fd = hostd_fd,
    .arm = hostd_arm,
    .resolve = hostd_resolve,
    .pin = hostd_pin,
    .who = hostd_who,
    .name = hostd_name,
    .close = hostd_close,
};

/* Waits for a message of the broker, at most 1 ms: not all progress is signalled by the fd. */
static void await(struct lend_hostd_link *h, lend_ns began)
{
	const struct timespec most = {.tv_nsec = 1000000};
	struct pollfd fd = {.fd = hostd_fd(&h->io), .events = POLLIN};

	if (lend_clock_now() - began > SPIN_NS && h->shm->ops->arm(h->shm))
		(void)ppoll(&fd, 1, &most, NULL);
}

static int meet(struct lend_hostd_link *h, const char *shm, const char *address, bool listens)
{
	struct lend_hostd_msg msg = {.op = LEND_HOSTD_OPEN, .listens = listens};
	lend_ns began = lend_clock_now();
	int rc;

	while ((rc = h->shm->ops->resolve(h->shm, shm, &h->broker)) == -EINPROGRESS &&
	       lend_clock_now() - began < OPEN_NS)
		await(h, began);
	if (rc < 0)
		return lend_fail(-rc, "hostd:%s: no broker answers; start lend-hostd --name %s",
				 h->name, h->name);
	h->shm->ops->pin(h->shm, h->broker, true);
	memcpy(msg.text, address, strlen(address));
	if (!lend_hostd_say(h, &msg))
		h->lost = true;
	for (lend_hostd_pump(h); !h->opened.op && !h->lost && lend_clock_now() - began < OPEN_NS;
	     lend_hostd_pump(h))
		await(h, began);
	if (!h->opened.op)
		return lend_fail(ETIMEDOUT,
				 "hostd:%s: the broker does not answer; see whether it is stopped",
				 h->name);
	if (h->opened.version != LEND_HOSTD_VERSION)
		return lend_fail(EPROTO, "hostd:%s: not a broker of this version; start its own",
				 h->name);
	if (h->opened.rc < 0)
		return lend_fail(-h->opened.rc, "hostd:%s: %s", h->name, h->opened.text);
	memcpy(h->outer, h->opened.text, listens ? sizeof(h->outer) : 0);
	h->io.path = (struct lend_path){
	    .mtu = lend_min_u32(h->opened.mtu,
				h->shm->path.mtu - (uint32_t)sizeof(struct lend_hostd_tail)),
	    .checked = h->opened.checked,
	    .proven = h->opened.proven};
	return 0;
}

int lend_io_hostd_open(const struct lend_io_config *config, struct lend_io **io)
{
	const char *text = config->listen ? config->listen : config->peer, *address;
	char shm[LEND_ADDR_NAME_MAX + 8];
	struct lend_io_config inner = {.peer = shm, .capture = ""};
	struct lend_hostd_link *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return lend_fail(ENOMEM, "no memory for a link to a broker");
	h->io.ops = &ops;
	h->last = &h->first;
	rc = parse(text, h->name, &address);
	(void)snprintf(shm, sizeof(shm), "shm:%s", h->name);
	if (rc == 0)
		rc = lend_io_shm_open(&inner, &h->shm);
	if (rc < 0) {
		free(h);
		return rc;
	}
	rc = meet(h, shm, config->listen ? address : "", config->listen != NULL);
	if (rc < 0) {
		hostd_close(&h->io);
		return rc;
	}
	if (config->mtu)
		h->io.path.mtu = lend_min_u32(config->mtu, h->io.path.mtu);
	*io = &h->io;
	return 0;
}
