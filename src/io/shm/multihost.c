/* multihost - datagrams between hosts through rings in memory that all of them map (shm:NAME@PATH).
 *
 * The rings and their rules are those of shm; multihost_memory.c and multihost_link.c make the
 * connections. There is no wake-up between hosts, so there is no fd: a waiting thread sleeps for
 * short times. An orderly end is reported as gone, a crash is not: the core detects it by a
 * timeout, as on a network, so the path is not lossless. The path is not checked below the core
 * either: multihost_link.c describes what a host that was stopped may do to a ring that was taken
 * from it. Layer: io. One thread's.
 */
#include "io/builtin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/shm/send.h"
#include "io/shm/multihost_memory.h"
#include "io/shm/poll.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/bits.h"
#include "util/check.h"

#define WATCH_NS  UINT64_C(1000000)   /* between two checks of all peers */
#define REJOIN_NS UINT64_C(100000000) /* between two attempts to join again */
#define JOIN_NS   (LEND_MULTIHOST_STALE_NS + LEND_MULTIHOST_STALE_NS / 2)

struct io_multihost {
	struct lend_shm shm;
	struct lend_multihost pod;
	lend_ns watched;  /* time of the last check of all peers */
	lend_ns rejoined; /* time of the last attempt to join again */
	uint32_t knocks;  /* value of our end's knocks, as last seen */
	char path[LEND_ADDR_PATH_MAX + 1];
	struct {
		struct lend_multihost_link_id link_id;
		bool kept; /* whether the peer was pinned once */
	} with[LEND_SHM_PEERS];
};

static struct io_multihost *self(struct lend_io *io)
{
	return (struct io_multihost *)(void *)io;
}

static void part_peer(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct io_multihost *io = (struct io_multihost *)(void *)s;
	uint32_t i = lend_shm_index(s, p);

	if (p->state != LEND_SHM_FREE)
		lend_multihost_link_leave(&io->pod, &io->with[i].link_id);
	io->with[i].kept = false;
}

static void bring_up(struct io_multihost *io, struct lend_shm_peer *p, uint32_t bit)
{
	const struct lend_multihost_link_id *tie = &io->with[lend_shm_index(&io->shm, p)].link_id;

	p->bit = bit;
	p->bell = &io->pod.at->end[tie->end].bell;
	lend_shm_pair(p, lend_multihost_link_pair(&io->pod, tie->link), NULL, tie->server);
	lend_shm_set_state(&io->shm, p, LEND_SHM_UP);
	lend_shm_make_hot(&io->shm, p);
}

/* Accepts clients that request a connection. */
static void accept_clients(struct io_multihost *io)
{
	struct lend_multihost_link_id tie;

	for (uint32_t link = 0; lend_multihost_link_next(&io->pod, &link, &tie);) {
		struct lend_shm_peer *p = lend_shm_take_entry(&io->shm);
		uint32_t bit = lend_multihost_link_bell_bit(&io->pod, &tie), i;

		if (p == NULL || bit >= LEND_SHM_PEERS ||
		    lend_multihost_allocate(&io->pod, tie.link) != 0) {
			io->shm.io.stats.peers_refused++;
			lend_multihost_link_leave(&io->pod, &tie);
			continue;
		}
		i = lend_shm_index(&io->shm, p);
		io->with[i].link_id = tie;
		if (lend_multihost_link_accept(&io->pod, &tie, i))
			bring_up(io, p, bit);
	}
}

/* Checks whether the server has accepted or refused our connect. */
static void check_connecting(struct io_multihost *io, struct lend_shm_peer *p)
{
	const struct lend_multihost_link_id *tie = &io->with[lend_shm_index(&io->shm, p)].link_id;
	uint32_t bits = lend_multihost_link_bits(&io->pod, tie), bit;

	if ((bits & LEND_LINK_SERVER_LEFT) != 0) {
		lend_shm_fail(&io->shm, p, ECONNRESET);
	} else if ((bits & LEND_LINK_UP) != 0) {
		bit = lend_multihost_link_bell_bit(&io->pod, tie);
		if (bit < LEND_SHM_PEERS)
			bring_up(io, p, bit);
		else
			lend_shm_fail(&io->shm, p, EPROTO);
	}
}

/* Returns whether the other side left, or its end has another owner now. */
static bool has_left(const struct io_multihost *io, const struct lend_multihost_link_id *tie)
{
	uint32_t left = tie->server ? LEND_LINK_CLIENT_LEFT : LEND_LINK_SERVER_LEFT;

	return (lend_multihost_link_bits(&io->pod, tie) & left) != 0 ||
	       atomic_load_explicit(&io->pod.at->end[tie->end].owner, memory_order_acquire) !=
		   tie->owner;
}

static void watch_links(struct io_multihost *io)
{
	for (uint32_t i = 0; i < io->shm.top; i++) {
		struct lend_shm_peer *p = &io->shm.peer[i];

		if (p->state == LEND_SHM_UP && has_left(io, &io->with[i].link_id))
			lend_shm_hang_up(&io->shm, p);
	}
}

static void take_bell(struct io_multihost *io)
{
	io->shm.bell = &io->pod.at->end[io->pod.me].bell;
	io->knocks = 0;
}

/* Joins again after our end was taken while we were stopped. Our number is not in the memory any
 * more, and our peers leave when they see that. Tries only once per call, because a longer wait
 * would block the event loop. */
static void rejoin_pod(struct io_multihost *io, lend_ns now)
{
	if (now - io->rejoined < REJOIN_NS)
		return;
	io->rejoined = now;
	if (lend_multihost_join(&io->pod, io->shm.name, 0) == 0)
		take_bell(io);
}

static void attend_pod(struct lend_shm *s)
{
	struct io_multihost *io = (struct io_multihost *)(void *)s;
	lend_ns now = lend_clock_now();
	bool due = now - io->watched >= WATCH_NS;
	uint32_t knocks;

	if (due) {
		io->watched = now;
		watch_links(io);
		if (!lend_multihost_heartbeat(&io->pod)) {
			io->pod.number = 0;
			rejoin_pod(io, now);
		}
	}
	knocks = atomic_load(&io->pod.at->end[io->pod.me].knocks);
	/* Now and then also without a knock, because any process can overwrite that field. */
	if (io->pod.number != 0 && (knocks != io->knocks || (due && s->socket_polls % 64 == 0))) {
		io->knocks = knocks;
		accept_clients(io);
	}
	if (s->half == 0)
		return;
	for (uint32_t i = 0; i < s->top; i++) {
		if (s->peer[i].state == LEND_SHM_CONNECTING)
			check_connecting(io, &s->peer[i]);
	}
	lend_shm_expire(s);
}

static bool pod_arm(struct lend_io *io)
{
	struct lend_shm *s = &self(io)->shm;

	for (uint32_t k = 0; k < s->hot_n; k++) {
		if (lend_ring_ready(&s->peer[s->hot[k]].rx))
			return false;
	}
	return true;
}

static int pod_fd(struct lend_io *io)
{
	(void)io;
	return -1;
}

static void pod_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	if (peer < self(io)->shm.top && kept)
		self(io)->with[peer].kept = true;
	lend_shm_op_pin(io, peer, kept);
}

static int dial_peer(struct io_multihost *io, const char *name)
{
	struct lend_shm_peer *p;
	uint64_t owner;
	uint32_t end = lend_multihost_find(&io->pod, name, &owner), i;
	int err;

	if (end != LEND_MULTIHOST_NONE &&
	    lend_multihost_owner_state(&io->pod, end, owner) == LEND_MULTIHOST_DEAD) {
		lend_multihost_evict(&io->pod, end, owner);
		end = LEND_MULTIHOST_NONE;
	}
	if (end == LEND_MULTIHOST_NONE)
		return lend_fail(
		    ECONNREFUSED,
		    "shm:%s@%s: no server listens there; start it, or name the memory that it uses",
		    name, io->path);
	p = lend_shm_take_entry(&io->shm);
	if (p == NULL)
		return lend_fail(ENOSPC, "shm:%s@%s: %d peers already; open another endpoint", name,
				 io->path, LEND_SHM_PEERS);
	i = lend_shm_index(&io->shm, p);
	err = lend_multihost_link_request(&io->pod, end, owner, i, &io->with[i].link_id);
	if (err != 0)
		return err == -EAGAIN ? -EINPROGRESS : err;
	memcpy(p->name, name, strlen(name) + 1);
	lend_shm_set_state(&io->shm, p, LEND_SHM_CONNECTING);
	return -EINPROGRESS;
}

/* Finds the entry of a name. A peer that was pinned once and is not any more may have been lost by
 * a timeout, perhaps because of its ring. Its entry is released, so the connect gets another ring.
 */
static struct lend_shm_peer *find_peer(struct io_multihost *io, const char *name)
{
	struct lend_shm_peer *p = lend_shm_find(&io->shm, name);

	if (p == NULL || p->pins > 0 || !io->with[lend_shm_index(&io->shm, p)].kept ||
	    io->shm.lent > 0)
		return p;
	lend_shm_release(&io->shm, p);
	return NULL;
}

static int pod_resolve(struct lend_io *base, const char *address, uint32_t *peer)
{
	struct io_multihost *io = self(base);
	struct lend_shm_peer *p;
	struct lend_addr addr;
	int err = lend_addr_parse(address, &addr);

	if (err != 0)
		return err;
	if (addr.scheme != LEND_SCHEME_SHM || strcmp(addr.path, io->path) != 0)
		return lend_fail(EINVAL, "%.80s: not in this memory; write shm:NAME@%s", address,
				 io->path);
	if (io->pod.number == 0)
		return -EINPROGRESS;
	if (find_peer(io, addr.host) == NULL) {
		err = dial_peer(io, addr.host);
		if (err != -EINPROGRESS)
			return err;
	}
	attend_pod(&io->shm);
	p = lend_shm_find(&io->shm, addr.host);
	if (p == NULL || p->state == LEND_SHM_CONNECTING)
		return -EINPROGRESS;
	if (p->state == LEND_SHM_FAILED)
		return lend_shm_take_error(&io->shm, p);
	*peer = lend_shm_index(&io->shm, p);
	return 0;
}

static void multihost_peer_info(struct lend_io *base, uint32_t peer, struct lend_io_peer_info *info)
{
	struct io_multihost *io = self(base);
	int n;

	*info = (struct lend_io_peer_info){.uid = -1};
	if (peer >= io->shm.top || !lend_shm_is_live(&io->shm.peer[peer]))
		return;
	if (io->shm.peer[peer].name[0] == '\0')
		return;
	n = snprintf(info->address, sizeof(info->address), "shm:%s@%s", io->shm.peer[peer].name,
		     io->path);
	/* The name fits: it was parsed from a text of this length. */
	LEND_CHECK(n > 0 && (size_t)n < sizeof(info->address));
}

static int pod_name(struct lend_io *base, char *address, size_t cap)
{
	struct io_multihost *io = self(base);
	bool named = io->shm.name[0] != '\0';
	int n = snprintf(address, cap, "%s%s%s%s", named ? "shm:" : "", io->shm.name,
			 named ? "@" : "", named ? io->path : "");

	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}

static void pod_close(struct lend_io *base)
{
	struct io_multihost *io = self(base);

	for (uint32_t i = 0; i < io->shm.top; i++)
		lend_shm_release(&io->shm, &io->shm.peer[i]);
	lend_multihost_leave(&io->pod);
	lend_multihost_unmap(&io->pod);
	free(io);
}

static const struct lend_io_ops ops = {
    .rx = lend_shm_op_rx,
    .rx_done = lend_shm_op_rx_done,
    .tx = lend_shm_op_tx,
    .fd = pod_fd,
    .arm = pod_arm,
    .resolve = pod_resolve,
    .pin = pod_pin,
    .peer_info = multihost_peer_info,
    .name = pod_name,
    .close = pod_close,
};

int lend_io_multihost_open(const struct lend_io_config *config, struct lend_io **io)
{
	struct io_multihost *p;
	struct lend_addr addr;
	int err = lend_addr_parse(config->listen != NULL ? config->listen : config->peer, &addr);

	if (err != 0)
		return err;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return lend_fail(ENOMEM, "shm: out of memory; free some or raise the limit");
	p->shm.io.ops = &ops;
	p->shm.io.cheap_poll = true;
	p->shm.io.path = (struct lend_path){.mtu = LEND_RING_MTU, .proven = true};
	if (config->mtu != 0)
		p->shm.io.path.mtu = lend_min_u32(config->mtu, LEND_RING_MTU);
	p->shm.poll_sockets = attend_pod;
	p->shm.free_connection = part_peer;
	p->shm.epoll = p->shm.bell_fd = p->shm.listener.fd = -1;
	memcpy(p->path, addr.path, sizeof(p->path));
	err = lend_multihost_map(&p->pod, p->path);
	if (err != 0)
		goto out_carrier;
	if (config->listen != NULL)
		memcpy(p->shm.name, addr.host, LEND_ADDR_NAME_MAX);
	err = lend_multihost_join(&p->pod, p->shm.name, JOIN_NS);
	if (err != 0)
		goto out_memory;
	p->rejoined = lend_clock_now();
	take_bell(p);
	*io = &p->shm.io;
	return 0;

out_memory:
	lend_multihost_unmap(&p->pod);
out_carrier:
	free(p);
	return err;
}
