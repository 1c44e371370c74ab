/* io_udp - kernel UDP: bursts by recvmmsg and sendmmsg, scattered pieces gathered by the kernel.
 *
 * Layer: io. One thread's. Datagrams are copied by the kernel both ways, so nothing is lent after
 * tx(). The receive buffers are used from the first one on: a quiet carrier touches one.
 */
#include "io/carriers.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/addr.h"
#include "io/carriers.h"
#include "io/io.h"
#include "io/udp_peers.h"
#include "io/udp_sock.h"
#include "sys/why.h"
#include "util/bits.h"
#include "util/check.h"
#include "util/class.h"

enum {
	BURST = 64,
	PIECES = 6,     /* head, four pieces, tail */
	DATAGRAM = 256, /* bytes of the kernel's that each costs, or more */
};

struct io_udp {
	struct lend_io io;
	int fd;
	int family;
	uint32_t lent;       /* receive buffers in the caller's hands: [0, lent) */
	uint32_t drops;      /* of the socket, when last asked */
	uint32_t drops_from; /* asked once as many bytes were queued: an eighth of what fits */
	uint32_t queued;     /* bytes received since the socket was last empty */
	uint32_t slot;       /* bytes from one receive buffer to the next */
	char *memory;        /* BURST buffers, touched as they are used */
	struct lend_udp_peers peers;
	struct mmsghdr rx[BURST];
	struct iovec rx_iov[BURST];
	struct sockaddr_storage rx_from[BURST];
	struct lend_udp_key rx_key[BURST];
	struct mmsghdr tx[BURST];
	struct iovec tx_iov[BURST][PIECES];
	struct sockaddr_storage tx_to[BURST];
	struct lend_out *tx_out[BURST]; /* which datagram a message is */
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} tx_tos[BURST];
	char rx_tos[BURST][LEND_UDP_MARK_SPACE];
};

static struct io_udp *self(struct lend_io *io)
{
	return (struct io_udp *)(void *)io;
}

/* Errors that an earlier datagram's ICMP answer left on the socket: they tell nothing about this
 * call. */
static bool is_stale_error(int err)
{
	return err == EINTR || err == ECONNREFUSED || err == EHOSTUNREACH || err == ENETUNREACH ||
	       err == EHOSTDOWN || err == EPROTO;
}

static int receive(struct io_udp *u, uint32_t first, uint32_t n)
{
	int got = -1;

	for (uint32_t i = first; i < first + n; i++) {
		u->rx[i].msg_hdr.msg_namelen = sizeof(u->rx_from[i]);
		u->rx[i].msg_hdr.msg_controllen = sizeof(u->rx_tos[i]);
	}
	for (int tries = 0; tries < 8; tries++) {
		got = recvmmsg(u->fd, u->rx + first, n, MSG_DONTWAIT, NULL);
		if (got >= 0 || !is_stale_error(errno))
			break;
	}
	return got;
}

static bool accept_one(struct io_udp *u, uint32_t i, struct lend_in *in)
{
	int32_t peer;

	if (u->rx[i].msg_hdr.msg_flags & MSG_TRUNC) {
		u->io.stats.rx_truncated++;
		return false;
	}
	if (!lend_udp_key_from(&u->rx_key[i], &u->rx_from[i])) {
		u->io.stats.rx_foreign++;
		return false;
	}
	peer = lend_udp_peers_find(&u->peers, &u->rx_key[i]);
	if (peer == LEND_UDP_PEER_NONE) {
		u->io.stats.peers_refused++;
		return false;
	}
	*in = (struct lend_in){.data = u->rx_iov[i].iov_base,
			       .len = u->rx[i].msg_len,
			       .peer = (uint32_t)peer,
			       .ecn = lend_udp_is_marked(&u->rx[i].msg_hdr),
			       .addr = &u->rx_key[i],
			       .addr_len = sizeof(u->rx_key[i])};
	return true;
}

/* What the kernel dropped for want of room. It is asked when a train of datagrams that may have
 * been long enough for that has ended. */
static void count_drops(struct io_udp *u)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(u->fd, SOL_SOCKET, SO_MEMINFO, info, &len) != 0)
		return;
	u->io.stats.rx_missed += info[SK_MEMINFO_DROPS] - u->drops;
	u->drops = info[SK_MEMINFO_DROPS];
}

static void note_queued(struct io_udp *u, uint32_t first, int got, bool empty)
{
	for (int i = 0; i < got; i++)
		u->queued += DATAGRAM + u->rx[first + (uint32_t)i].msg_len;
	if (!empty)
		return;
	if (u->queued > u->drops_from)
		count_drops(u);
	u->queued = 0;
}

static uint32_t udp_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct io_udp *u = self(io);
	uint32_t first = u->lent, n = 0;
	int got;

	cap = lend_min_u32(cap, BURST - first);
	if (cap == 0)
		return 0;
	got = receive(u, first, cap);
	for (int i = 0; i < got; i++)
		n += accept_one(u, first + (uint32_t)i, &in[n]);
	if (got > 0)
		u->lent = first + (uint32_t)got;
	note_queued(u, first, got, got < (int)cap);
	return n;
}

static void udp_rx_done(struct lend_io *io)
{
	self(io)->lent = 0;
}

/* Class NORMAL has the socket's own TOS, and costs nothing. Sockets of IPv6 take IPv4's for
 * addresses that stand for one. */
static void mark_class(struct io_udp *u, const struct lend_udp_key *to, uint8_t class, uint32_t m)
{
	struct msghdr *msg = &u->tx[m].msg_hdr;
	bool six = !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)to->ip);
	int tos = lend_class_tos(class) | LEND_ECN_CAPABLE;

	msg->msg_control = tos != LEND_ECN_CAPABLE ? &u->tx_tos[m] : NULL;
	msg->msg_controllen = msg->msg_control ? sizeof(u->tx_tos[m].bytes) : 0;
	if (!msg->msg_control)
		return;
	u->tx_tos[m].head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(tos)),
					     .cmsg_level = six ? IPPROTO_IPV6 : IPPROTO_IP,
					     .cmsg_type = six ? IPV6_TCLASS : IP_TOS};
	memcpy(CMSG_DATA(&u->tx_tos[m].head), &tos, sizeof(tos));
}

/* Makes message m of a datagram; false: it can never be sent. */
static bool prepare(struct io_udp *u, const struct lend_bufs *bufs, struct lend_out *out,
		    uint32_t m)
{
	const struct lend_udp_peer *peer = lend_udp_peers_at(&u->peers, out->peer);
	struct iovec *iov = u->tx_iov[m];
	struct msghdr *msg = &u->tx[m].msg_hdr;
	uint32_t n = 0;

	if (peer == NULL || lend_out_len(out) > u->io.path.mtu)
		return false;
	msg->msg_namelen = lend_udp_key_to(&peer->key, u->family, &u->tx_to[m]);
	if (msg->msg_namelen == 0)
		return false;
	mark_class(u, &peer->key, out->class, m);
	iov[n++] = (struct iovec){(void *)(uintptr_t)out->head, out->head_len};
	for (uint32_t i = 0; i < out->n; i++)
		iov[n++] = (struct iovec){lend_piece_data(bufs, &out->piece[i]), out->piece[i].len};
	if (out->tail_len > 0)
		iov[n++] = (struct iovec){(void *)(uintptr_t)out->tail, out->tail_len};
	msg->msg_iovlen = n;
	u->tx_out[m] = out;
	return true;
}

/* Sends messages [0, n) and marks their datagrams. The kernel stops at the first one it refuses: a
 * full socket stops all, anything else concerns that datagram alone, which is lost like any other.
 */
static void send_all(struct io_udp *u, uint32_t n)
{
	uint32_t done = 0, tries = 0;

	while (done < n) {
		int sent = sendmmsg(u->fd, u->tx + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent > 0) {
			done += (uint32_t)sent;
			continue;
		}
		if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
			break;
		/* Perhaps an earlier one's error: a second time it is this one's. */
		if (is_stale_error(errno) && tries++ == 0)
			continue;
		tries = 0;
		done++;
	}
	for (uint32_t m = 0; m < n; m++)
		u->tx_out[m]->sent = m < done ? LEND_SENT : LEND_SENT_FULL;
	u->io.stats.tx_full += n - done;
}

static void udp_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct io_udp *u = self(io);
	uint32_t m = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!prepare(u, bufs, &out[i], m)) {
			out[i].sent = LEND_SENT_DEAD;
			u->io.stats.tx_dead++;
			continue;
		}
		if (++m == BURST) {
			send_all(u, m);
			m = 0;
		}
	}
	if (m > 0)
		send_all(u, m);
}

static bool udp_flush(struct lend_io *io, uint32_t buf)
{
	(void)io;
	(void)buf;
	return true;
}

static int udp_fd(struct lend_io *io)
{
	return self(io)->fd;
}

static bool udp_arm(struct lend_io *io)
{
	struct pollfd p = {.fd = self(io)->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

static int udp_reg(struct lend_io *io, void *memory, size_t len)
{
	(void)io;
	(void)memory;
	(void)len;
	return 0;
}

static int udp_resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	struct io_udp *u = self(io);
	struct sockaddr_storage to;
	struct lend_udp_key key;
	struct lend_addr addr;
	int32_t index;
	int err = lend_addr_parse(address, &addr);

	if (err != 0)
		return err;
	if (addr.scheme != LEND_SCHEME_UDP || addr.port == 0)
		return lend_fail(EINVAL, "%.80s: nothing to send to; write udp:HOST:PORT", address);
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
		return lend_fail(ENOSPC, "%s: no room for more peers; close some sessions",
				 address);
	*peer = (uint32_t)index;
	return 0;
}

static void udp_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	lend_udp_peers_pin(&self(io)->peers, peer, kept);
}

static void udp_who(struct lend_io *io, uint32_t peer, struct lend_io_who *who)
{
	const struct lend_udp_peer *p = lend_udp_peers_at(&self(io)->peers, peer);
	struct sockaddr_storage to;

	*who = (struct lend_io_who){.uid = -1};
	/* An IPv4 address in its own form, whichever socket it came by. */
	if (p != NULL && (lend_udp_key_to(&p->key, AF_INET, &to) != 0 ||
			  lend_udp_key_to(&p->key, AF_INET6, &to) != 0))
		(void)lend_udp_format(&to, who->address, sizeof(who->address));
}

static int udp_name(struct lend_io *io, char *address, size_t cap)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (getsockname(self(io)->fd, (void *)&local, &len) != 0)
		return -errno;
	return lend_udp_format(&local, address, cap);
}

static void udp_close(struct lend_io *io)
{
	struct io_udp *u = self(io);

	(void)close(u->fd);
	lend_udp_peers_free(&u->peers);
	free(u->memory);
	free(u);
}

static const struct lend_io_ops ops = {
    .rx = udp_rx,
    .rx_done = udp_rx_done,
    .tx = udp_tx,
    .flush = udp_flush,
    .fd = udp_fd,
    .arm = udp_arm,
    .reg = udp_reg,
    .resolve = udp_resolve,
    .pin = udp_pin,
    .who = udp_who,
    .name = udp_name,
    .close = udp_close,
};

static void wire_messages(struct io_udp *u)
{
	for (uint32_t i = 0; i < BURST; i++) {
		u->rx_iov[i] = (struct iovec){u->memory + (size_t)i * u->slot, u->io.path.mtu};
		u->rx[i].msg_hdr = (struct msghdr){.msg_name = &u->rx_from[i],
						   .msg_iov = &u->rx_iov[i],
						   .msg_iovlen = 1,
						   .msg_control = u->rx_tos[i]};
		u->tx[i].msg_hdr =
		    (struct msghdr){.msg_name = &u->tx_to[i], .msg_iov = u->tx_iov[i]};
	}
}

static uint32_t room_of(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	(void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len);
	return (uint32_t)bytes;
}

int lend_io_udp_open(const struct lend_io_config *config, struct lend_io **io)
{
	struct io_udp *u = calloc(1, sizeof(*u));
	int err;

	if (u == NULL)
		return lend_fail(ENOMEM, "udp: out of memory; free some or raise the limit");
	u->io.ops = &ops;
	err = lend_udp_socket(config, &u->fd, &u->family, &u->io.path.mtu);
	if (err != 0)
		goto out_carrier;
	u->drops_from = room_of(u->fd) / 8;
	/* One line more than a power of two apart, so that first lines do not share a cache set. */
	u->slot = (uint32_t)lend_align_up(u->io.path.mtu, 64) + 64;
	u->memory = calloc(BURST, u->slot);
	err = u->memory == NULL ? -ENOMEM : lend_udp_peers_init(&u->peers);
	if (err != 0)
		goto out_memory;
	wire_messages(u);
	*io = &u->io;
	return 0;

out_memory:
	free(u->memory);
	(void)lend_fail(ENOMEM, "udp: out of memory; free some or raise the limit");
	(void)close(u->fd);
out_carrier:
	free(u);
	return err;
}
