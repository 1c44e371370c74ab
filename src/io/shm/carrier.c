/* shm/carrier - datagrams between processes of one host, through rings in shared memory.
 *
 * Layer: io. One thread's. Received datagrams are lent in their slots. Sent ones are copied into
 * slots, or lent in place (send.h). A turn makes no system call, except that it polls the sockets
 * about every 100 us.
 */
#include "io/builtin.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/shm/send.h"
#include "io/shm/poll.h"
#include "sys/shared_arena.h"
#include "sys/clock.h"
#include "sys/mapfile.h"
#include "sys/last_error.h"
#include "util/bits.h"

static struct lend_shm *self(struct lend_io *io)
{
	return (struct lend_shm *)(void *)io;
}

/* Does not sleep right after a handshake message: three of them are exchanged, and a call
 * follows. A sleep and a wake-up would take each side longer than all of that. */
static bool shm_arm(struct lend_io *io)
{
	struct lend_shm *s = self(io);

	if (s->soon == 0 || lend_clock_now() >= s->soon) {
		s->soon = 0;
		if (s->makes)
			(void)lend_shm_make_rings(s); /* the next client waits less */
		return lend_shm_arm(s);
	}
	(void)sched_yield();
	lend_shm_poll_sockets(s);
	return false;
}

static int shm_fd(struct lend_io *io)
{
	return self(io)->epoll;
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
	if (lend_shm_find(s, addr.host) == NULL) {
		err = lend_shm_dial(s, addr.host);
		if (err != -EINPROGRESS)
			return err;
	}
	lend_shm_poll_sockets(s);
	p = lend_shm_find(s, addr.host);
	if (p == NULL || p->state == LEND_SHM_CONNECTING)
		return -EINPROGRESS;
	if (p->state == LEND_SHM_FAILED)
		return lend_shm_take_error(s, p);
	*peer = lend_shm_index(s, p);
	return 0;
}

static void shm_peer_info(struct lend_io *io, uint32_t peer, struct lend_io_peer_info *info)
{
	struct lend_shm *s = self(io);

	*info = (struct lend_io_peer_info){.uid = -1};
	if (peer >= s->top || !lend_shm_is_live(&s->peer[peer]))
		return;
	if (!s->peer[peer].uid_known && s->peer[peer].sock >= 0) {
		s->peer[peer].uid = lend_rendezvous_uid(s->peer[peer].sock);
		s->peer[peer].uid_known = true;
	}
	if (s->peer[peer].sock >= 0)
		info->uid = s->peer[peer].uid;
	if (s->peer[peer].name[0] != '\0')
		(void)snprintf(info->address, sizeof(info->address), "shm:%s", s->peer[peer].name);
}

static const void *shm_peer_memory(struct lend_io *io, uint32_t peer, uint64_t *len)
{
	struct lend_shm *s = self(io);

	*len = LEND_ARENA_LEN;
	return peer < s->top && s->peer[peer].state >= LEND_SHM_UP ? s->peer[peer].memory : NULL;
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
	lend_unix_listener_close(&s->listener);
	lend_shm_free_rings(s);
	(void)munmap(s->bell, LEND_BELL_LEN);
	(void)close(s->bell_fd);
	(void)close(s->epoll);
	if (s->ahead >= 0)
		(void)close(s->ahead);
	free(s);
}

static const struct lend_io_ops ops = {
    .rx = lend_shm_op_rx,
    .rx_done = lend_shm_op_rx_done,
    .tx = lend_shm_op_tx,
    .flush = lend_shm_op_flush,
    .fd = shm_fd,
    .arm = shm_arm,
    .resolve = shm_resolve,
    .pin = lend_shm_op_pin,
    .peer_info = shm_peer_info,
    .peer_memory = shm_peer_memory,
    .name = shm_name,
    .close = shm_close,
};

static int open_listener(struct lend_shm *s, const char *listen)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = LEND_SHM_PEERS};
	struct lend_addr addr;
	int err;

	s->listener.fd = -1;
	if (listen == NULL)
		return 0;
	if (!lend_mapfile_len_allowed(LEND_SHM_LINK_LEN))
		return lend_fail(
		    EFBIG,
		    "shm: the rings of a client are %zu bytes of a file, beyond ulimit -f; "
		    "raise it",
		    LEND_SHM_LINK_LEN);
	err = lend_addr_parse(listen, &addr);
	if (err == 0)
		err = lend_rendezvous_open(&s->listener, addr.host);
	if (err != 0)
		return err;
	memcpy(s->name, addr.host, sizeof(s->name));
	s->name[sizeof(s->name) - 1] = '\0';
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener.fd, &ev) == 0)
		return 0;
	err = errno;
	lend_unix_listener_close(&s->listener);
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
	s->io.cheap_poll = true;
	lend_shm_connect_ahead(s, config->listen == NULL ? config->peer : NULL);
	s->shares = config->shares && lend_arena_fd() >= 0;
	s->poll_sockets = lend_shm_poll_sockets;
	s->free_connection = lend_shm_free_connection;
	s->io.path = (struct lend_path){.mtu = LEND_RING_MTU,
					.lossless = true,
					.checked = true,
					.proven = true,
					.shares = s->shares ? LEND_PLACE_MIN : 0};
	if (config->mtu != 0)
		s->io.path.mtu = lend_min_u32(config->mtu, LEND_RING_MTU);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0) {
		err = lend_fail(errno, "shm: no epoll: %s; raise ulimit -n", strerror(errno));
		goto out_carrier;
	}
	err = lend_rendezvous_memory(LEND_BELL_LEN, &s->bell_fd, &bell);
	if (err != 0) {
		(void)lend_fail(-err, "shm: no shared memory: %s; raise ulimit %s", strerror(-err),
				err == -EFBIG    ? "-f"
				: err == -EMFILE ? "-n"
						 : "-v");
		goto out_epoll;
	}
	s->bell = bell;
	err = open_listener(s, config->listen);
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
	if (s->ahead >= 0)
		(void)close(s->ahead);
	free(s);
	return err;
}
