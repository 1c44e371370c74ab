/* udp/carrier - kernel UDP: sends and receives bursts of datagrams, joined where the kernel splits
 * them.
 *
 * Layer: io. One thread's. The kernel copies datagrams both ways, so nothing is lent after tx().
 * Receive buffers are used from the first one on, so a carrier with little traffic touches only
 * one.
 */
#include "io/udp/udp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io/addr.h"
#include "io/builtin.h"
#include "sys/last_error.h"

static int udp_resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	struct io_udp *u = lend_udp_self(io);
	struct sockaddr_storage to;
	struct lend_udp_key key;
	struct lend_addr addr;
	int32_t index;
	int err = lend_addr_parse(address, &addr);

	if (err != 0)
		return err;
	if (addr.scheme != LEND_SCHEME_UDP || addr.port == 0)
		return lend_fail(EINVAL, "%.80s: no peer address; write udp:HOST:PORT", address);
	err = lend_udp_lookup(address, AF_UNSPEC, &to);
	if (err != 0)
		return err;
	if (u->family == AF_INET && to.ss_family != AF_INET)
		err = lend_udp_lookup(address, AF_INET, &to);
	if (err != 0)
		return lend_fail(EAFNOSUPPORT, "%s: not reachable by IPv4; listen on udp:[::]:0",
				 address);
	(void)lend_udp_key_from(&key, &to);
	index = lend_udp_peers_find(&u->peers, &key);
	if (index == LEND_UDP_PEER_NONE)
		return lend_fail(ENOSPC, "%s: no room for another peer; close some sessions",
				 address);
	lend_udp_connected_resolved(u, index, &to);
	*peer = (uint32_t)index;
	return 0;
}

static void udp_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	lend_udp_peers_pin(&lend_udp_self(io)->peers, peer, kept);
}

static void udp_peer_info(struct lend_io *io, uint32_t peer, struct lend_io_peer_info *info)
{
	const struct lend_udp_peer *p = lend_udp_peers_at(&lend_udp_self(io)->peers, peer);
	struct sockaddr_storage to;

	*info = (struct lend_io_peer_info){.uid = -1};
	/* Writes an IPv4 address in its own form, whichever socket it came through. */
	if (p != NULL && (lend_udp_key_to(&p->key, AF_INET, &to) != 0 ||
			  lend_udp_key_to(&p->key, AF_INET6, &to) != 0))
		(void)lend_udp_format(&to, info->address, sizeof(info->address));
}

static int udp_name(struct lend_io *io, char *address, size_t cap)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (getsockname(lend_udp_self(io)->fd, (void *)&local, &len) != 0)
		return -errno;
	return lend_udp_format(&local, address, cap);
}

static uint64_t unsent_bytes(int fd)
{
	int bytes = 0;

	return fd >= 0 && ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

/* Counts what the kernel's queueing disciplines and the device's driver hold of these sockets, with
 * the kernel's overhead. Loopback and veth devices pass datagrams on at once. */
static uint64_t udp_queued(struct lend_io *io)
{
	const struct io_udp *u = lend_udp_self(io);

	return unsent_bytes(u->fd) + (u->connected.fd != u->fd ? unsent_bytes(u->connected.fd) : 0);
}

static void udp_close(struct lend_io *io)
{
	struct io_udp *u = lend_udp_self(io);

	lend_udp_connected_close(u);
	if (u->urgent.fd >= 0)
		(void)close(u->urgent.fd);
	(void)close(u->epoll);
	(void)close(u->fd);
	lend_udp_peers_free(&u->peers);
	free(u->rx.memory);
	free(u);
}

static int no_memory(void)
{
	return lend_fail(ENOMEM, "udp: out of memory; free some or raise the limit");
}

static const struct lend_io_ops ops = {
    .rx = lend_udp_rx,
    .rx_done = lend_udp_rx_done,
    .tx = lend_udp_tx,
    .queued = udp_queued,
    .fd = lend_udp_fd,
    .arm = lend_udp_arm,
    .resolve = udp_resolve,
    .pin = udp_pin,
    .peer_info = udp_peer_info,
    .name = udp_name,
    .close = udp_close,
};

int lend_io_udp_open(const struct lend_io_config *config, struct lend_io **io)
{
	struct io_udp *u = calloc(1, sizeof(*u));
	struct lend_udp_socket sock;
	int err;

	if (u == NULL)
		return no_memory();
	u->io.ops = &ops;
	err = lend_udp_socket(config, &sock);
	if (err != 0)
		goto out_carrier;
	u->fd = sock.fd;
	u->family = sock.family;
	u->may_connect = sock.keeps_port;
	u->listens = config->listen != NULL;
	lend_udp_connected_init(u);
	u->urgent.fd = -1;
	u->io.path.mtu = sock.mtu;
	u->io.path.writable = true;
	err = lend_udp_epoll_open(u);
	if (err != 0)
		goto out_socket;
	if (lend_udp_rx_init(u) != 0 || lend_udp_peers_init(&u->peers) != 0) {
		err = no_memory();
		goto out_memory;
	}
	lend_udp_tx_init(u);
	*io = &u->io;
	return 0;

out_memory:
	free(u->rx.memory);
	(void)close(u->epoll);
out_socket:
	(void)close(u->fd);
out_carrier:
	free(u);
	return err;
}
