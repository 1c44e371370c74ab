/* io_shm - datagrams between processes of one host, through rings in shared memory.
 *
 * Layer: io. One thread's. Received datagrams are lent in their slots; sent ones are copied into
 * slots, so nothing of the caller's is read after tx(). A turn makes no system call but one look at
 * the sockets every 20 us or so.
 */
#include "io/carriers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/shm_poll.h"
#include "sys/why.h"
#include "util/bits.h"

static struct lend_shm *self(struct lend_io *io)
{
	return (struct lend_shm *)(void *)io;
}

static uint32_t shm_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	return lend_shm_rx(self(io), in, cap);
}

static void shm_rx_done(struct lend_io *io)
{
	lend_shm_rx_done(self(io));
}

static bool shm_arm(struct lend_io *io)
{
	return lend_shm_arm(self(io));
}

static void copy_in(unsigned char *to, const struct lend_bufs *bufs, const struct lend_out *out)
{
	memcpy(to, out->head, out->head_len);
	to += out->head_len;
	for (uint32_t i = 0; i < out->n; i++) {
		/* Nothing to copy may mean nowhere to copy from. */
		if (out->piece[i].len > 0)
			memcpy(to, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
		to += out->piece[i].len;
	}
	if (out->tail_len > 0)
		memcpy(to, out->tail, out->tail_len);
}

static enum lend_sent send_one(struct lend_shm *s, const struct lend_bufs *bufs,
			       const struct lend_out *out)
{
	struct lend_shm_peer *p = &s->peer[out->peer];
	uint32_t len = lend_out_len(out);

	if (out->peer >= s->top || p->state != LEND_SHM_UP || len > s->io.path.mtu) {
		s->io.stats.tx_dead++;
		return LEND_SENT_DEAD;
	}
	p->starved = !lend_ring_room(&p->tx);
	if (p->starved) {
		s->io.stats.tx_full++;
		return LEND_SENT_FULL;
	}
	copy_in(lend_ring_reserve(&p->tx, len), bufs, out);
	lend_ring_commit(&p->tx, len);
	return LEND_SENT;
}

/* After the fence: a receiver that does not poll this ring gets its bell rung, and is woken if it
 * sleeps. Woken first, and then others are told that it was: who stops in between holds up nobody.
 * By then it may sleep again, under another number. */
static void announce(struct lend_shm_peer *p)
{
	uint64_t bit = UINT64_C(1) << p->bit % 64;
	uint32_t sleep;

	if (atomic_load_explicit(&p->tx.ring->polled, memory_order_relaxed) != 0)
		return;
	(void)atomic_fetch_or_explicit(&p->bell->word[p->bit / 64], bit, memory_order_seq_cst);
	sleep = atomic_load_explicit(&p->bell->asleep, memory_order_seq_cst);
	if (sleep == 0)
		return;
	lend_meet_wake(p->sock);
	(void)atomic_compare_exchange_strong_explicit(&p->bell->asleep, &sleep, 0,
						      memory_order_seq_cst, memory_order_relaxed);
}

static void shm_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct lend_shm *s = self(io);
	uint32_t last = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++)
		out[i].sent = send_one(s, bufs, &out[i]);
	/* One fence for the burst: all is published before we look who polls. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < n; i++) {
		if (out[i].sent != LEND_SENT || out[i].peer == last)
			continue;
		last = out[i].peer;
		announce(&s->peer[last]);
	}
}

static bool shm_flush(struct lend_io *io, uint32_t buf)
{
	(void)io;
	(void)buf;
	return true;
}

static int shm_fd(struct lend_io *io)
{
	return self(io)->epoll;
}

static int shm_reg(struct lend_io *io, void *memory, size_t len)
{
	(void)io;
	(void)memory;
	(void)len;
	return 0;
}

static struct lend_shm_peer *find(struct lend_shm *s, const char *name)
{
	for (uint32_t i = 0; i < s->top; i++) {
		struct lend_shm_peer *p = &s->peer[i];

		if (strcmp(p->name, name) == 0 &&
		    (p->state == LEND_SHM_CALLING || p->state == LEND_SHM_UP ||
		     p->state == LEND_SHM_FAILED))
			return p;
	}
	return NULL;
}

static int tell_failure(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct lend_shm_peer was = *p;

	lend_shm_release(s, p);
	if (was.err == EPROTO && was.version != 0 && was.version != LEND_MEET_VERSION)
		return lend_fail(
		    EPROTO, "shm:%s: speaks version %u, we speak %d; bring both to one release",
		    was.name, was.version, LEND_MEET_VERSION);
	if (was.err == ETIMEDOUT)
		return lend_fail(ETIMEDOUT,
				 "shm:%s: does not answer; see whether its process is stopped",
				 was.name);
	if (was.err == ECONNRESET)
		return lend_fail(ECONNREFUSED, "shm:%s: hung up; see whether its process is well",
				 was.name);
	return lend_fail(was.err, "shm:%s: refused us: %s; bring both to one release", was.name,
			 strerror(was.err));
}

static int shm_resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	struct lend_shm *s = self(io);
	struct lend_shm_peer *p;
	struct lend_addr addr;
	int err = lend_addr_parse(address, &addr);

	if (err != 0)
		return err;
	if (addr.scheme != LEND_SCHEME_SHM)
		return lend_fail(EINVAL, "%.80s: not reached by shm; write shm:NAME", address);
	if (find(s, addr.host) == NULL) {
		err = lend_shm_dial(s, addr.host);
		if (err != -EINPROGRESS)
			return err;
	}
	lend_shm_attend(s);
	p = find(s, addr.host);
	if (p == NULL || p->state == LEND_SHM_CALLING)
		return -EINPROGRESS;
	if (p->state == LEND_SHM_FAILED)
		return tell_failure(s, p);
	*peer = (uint32_t)(p - s->peer);
	return 0;
}

static void shm_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	struct lend_shm *s = self(io);

	if (peer >= s->top || s->peer[peer].state == LEND_SHM_FREE)
		return;
	if (kept)
		s->peer[peer].pins++;
	else if (s->peer[peer].pins > 0)
		s->peer[peer].pins--;
	if (s->gone > 0 && s->lent == 0)
		lend_shm_drop_gone(s);
}

static void shm_who(struct lend_io *io, uint32_t peer, struct lend_io_who *who)
{
	struct lend_shm *s = self(io);

	*who = (struct lend_io_who){.uid = -1};
	if (peer >= s->top || !lend_shm_is_live(&s->peer[peer]))
		return;
	if (s->peer[peer].sock >= 0)
		who->uid = lend_meet_uid(s->peer[peer].sock);
	if (s->peer[peer].name[0] != '\0')
		(void)snprintf(who->address, sizeof(who->address), "shm:%s", s->peer[peer].name);
}

static int shm_name(struct lend_io *io, char *address, size_t cap)
{
	struct lend_shm *s = self(io);
	int n = snprintf(address, cap, "%s%s", s->name[0] != '\0' ? "shm:" : "", s->name);

	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}

static void shm_close(struct lend_io *io)
{
	struct lend_shm *s = self(io);

	for (uint32_t i = 0; i < s->top; i++)
		lend_shm_release(s, &s->peer[i]);
	lend_meet_close(&s->door);
	(void)munmap(s->bell, LEND_BELL_LEN);
	(void)close(s->bell_fd);
	(void)close(s->epoll);
	free(s);
}

static const struct lend_io_ops ops = {
    .rx = shm_rx,
    .rx_done = shm_rx_done,
    .tx = shm_tx,
    .flush = shm_flush,
    .fd = shm_fd,
    .arm = shm_arm,
    .reg = shm_reg,
    .resolve = shm_resolve,
    .pin = shm_pin,
    .who = shm_who,
    .name = shm_name,
    .close = shm_close,
};

static int open_door(struct lend_shm *s, const char *listen)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = LEND_SHM_PEERS};
	struct lend_addr addr;
	int err;

	s->door.fd = -1;
	if (listen == NULL)
		return 0;
	err = lend_addr_parse(listen, &addr);
	if (err == 0)
		err = lend_meet_open(&s->door, addr.host);
	if (err != 0)
		return err;
	memcpy(s->name, addr.host, sizeof(s->name));
	s->name[sizeof(s->name) - 1] = '\0';
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->door.fd, &ev) == 0)
		return 0;
	err = errno;
	lend_meet_close(&s->door);
	return lend_fail(err, "shm: %s; raise ulimit -n", strerror(err));
}

int lend_io_shm_open(const struct lend_io_config *config, struct lend_io **io)
{
	struct lend_shm *s = calloc(1, sizeof(*s));
	void *bell;
	int err;

	if (s == NULL)
		return lend_fail(ENOMEM, "shm: out of memory; free some or raise the limit");
	s->io.ops = &ops;
	s->io.path = (struct lend_path){
	    .mtu = LEND_RING_MTU, .lossless = true, .checked = true, .proven = true};
	if (config->mtu != 0)
		s->io.path.mtu = lend_min_u32(config->mtu, LEND_RING_MTU);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0) {
		err = lend_fail(errno, "shm: no epoll: %s; raise ulimit -n", strerror(errno));
		goto out_carrier;
	}
	err = lend_meet_memory(LEND_BELL_LEN, &s->bell_fd, &bell);
	if (err != 0) {
		(void)lend_fail(-err, "shm: no shared memory: %s; raise the limits",
				strerror(-err));
		goto out_epoll;
	}
	s->bell = bell;
	err = open_door(s, config->listen);
	if (err != 0)
		goto out_bell;
	*io = &s->io;
	return 0;

out_bell:
	(void)munmap(s->bell, LEND_BELL_LEN);
	(void)close(s->bell_fd);
out_epoll:
	(void)close(s->epoll);
out_carrier:
	free(s);
	return err;
}
