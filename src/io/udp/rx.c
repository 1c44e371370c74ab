/* udp/rx - splits the kernel's messages into datagrams.
 *
 * Where the kernel can (UDP_GRO), it passes up datagrams for one socket from one sender as one
 * message, as joined by the sender or by the device's queue. Then many datagrams cost one pass
 * through its layers. A message with more datagrams than the caller asked for is split later,
 * before anything else is received. While messages come one at a time, the receive asks for one:
 * a recvmmsg() for several takes longer even then. Layer: io. One thread's.
 */
#include "io/udp/udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdlib.h>

#include "util/bits.h"
#include "util/traffic_class.h"

enum {
	DATAGRAM = 256,     /* the least memory in bytes that each datagram costs the kernel */
	SMALL = 1280,       /* bytes of the buffer that a short one costs: skb, head, rounded up */
	LEAST_ROOM = 64,    /* short datagrams that the smallest buffer holds */
	JOINED_MAX = 65536, /* bytes of a message, never reached */
	FAIR = 8,           /* one rx() in this number begins with datagrams that are not urgent */
};

/* Receives up to n messages into msg[]. Returns how many, or -1. */
static int receive_once(struct io_udp *u, struct mmsghdr *msg, uint32_t n)
{
	ssize_t len;

	if (n > 1)
		return recvmmsg(u->rx.fd, msg, n, MSG_DONTWAIT, NULL);
	len = recvmsg(u->rx.fd, &msg->msg_hdr, MSG_DONTWAIT);
	msg->msg_len = (unsigned)len;
	return len < 0 ? -1 : 1;
}

static int receive_messages(struct io_udp *u, uint32_t first, uint32_t n)
{
	int got = -1;

	for (uint32_t i = first; i < first + n; i++) {
		u->rx.msg[i].msg_hdr.msg_namelen = sizeof(u->rx.from[i]);
		u->rx.msg[i].msg_hdr.msg_controllen = sizeof(u->rx.control[i]);
	}
	for (int tries = 0; tries < 8; tries++) {
		got = receive_once(u, &u->rx.msg[first], n);
		if (got >= 0 || !lend_udp_is_stale(errno))
			break;
	}
	return got;
}

/* Takes a quarter of the room away after drops: datagrams cost the socket more than SMALL, or more
 * peers send. Gives 1/64 back at each query without drops. */
static void adapt_room(struct io_udp *u, bool dropped)
{
	uint32_t room = u->io.path.room;

	room = dropped ? lend_max_u32(room - room / 4, LEAST_ROOM) : room + room / 64 + 1;
	u->io.path.room = lend_min_u32(room, u->rx.room);
}

/* Adds the datagrams that the kernel dropped from this socket's full buffer. The kernel is queried
 * each time that drops_from bytes were received. */
static void count_drops(struct io_udp *u, struct lend_udp_backlog *backlog)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(u->rx.fd, SOL_SOCKET, SO_MEMINFO, info, &len) != 0)
		return;
	adapt_room(u, info[SK_MEMINFO_DROPS] != backlog->drops);
	u->io.stats.rx_missed += info[SK_MEMINFO_DROPS] - backlog->drops;
	backlog->drops = info[SK_MEMINFO_DROPS];
}

static void note_queued(struct io_udp *u, uint32_t n, uint32_t bytes, bool empty)
{
	struct lend_udp_backlog *backlog =
	    &u->rx.backlog[u->rx.fd == u->urgent.fd ? 2 : u->rx.fd != u->fd];

	backlog->queued += n * DATAGRAM + bytes;
	if (backlog->queued > u->rx.drops_from)
		count_drops(u, backlog);
	else if (!empty)
		return;
	backlog->queued = 0;
}

/* Adapts the number of messages to ask for. One full receive is no batch yet: a receiver that polls
 * fast enough gets each datagram alone. */
static void adapt_batch(struct lend_udp_rx *rx, uint32_t asked, uint32_t got)
{
	if (got < asked) {
		rx->ask = lend_max_u32(1, got);
		rx->full = 0;
	} else if (++rx->full > 1) {
		rx->ask = lend_min_u32(4 * rx->ask, LEND_UDP_BURST);
	}
}

void lend_udp_rx_note(struct io_udp *u, uint32_t asked, uint32_t n, uint32_t bytes)
{
	if (lend_udp_connected_note_receive(u, n)) {
		note_queued(u, n, bytes, n < asked);
		adapt_batch(&u->rx, asked, n);
	}
	if (n > 0)
		lend_udp_epoll_note_busy(u);
}

/* Receives up to rx.ask messages, as far as there is room. */
static void refill_messages(struct io_udp *u, uint32_t cap)
{
	uint32_t n = lend_min_u32(lend_min_u32(u->rx.ask, cap), LEND_UDP_BURST - u->rx.n);
	int got = n > 0 ? receive_messages(u, u->rx.n, n) : 0;
	uint32_t came = got > 0 ? (uint32_t)got : 0, bytes = 0;

	for (uint32_t i = 0; i < came; i++)
		bytes += u->rx.msg[u->rx.n + i].msg_len;
	u->rx.n += came;
	lend_udp_rx_note(u, n, came, bytes);
}

/* Returns the sender of message i. NONE: it is invalid or refused, and was counted. */
static int32_t sender_of(struct io_udp *u, uint32_t i)
{
	struct lend_udp_key *key = &u->rx.key[i];
	int32_t peer;

	if (!lend_udp_key_from(key, &u->rx.from[i])) {
		u->io.stats.rx_foreign++;
		return LEND_UDP_PEER_NONE;
	}
	peer = lend_udp_peers_find(&u->peers, key);
	u->io.stats.peers_refused += peer == LEND_UDP_PEER_NONE;
	if (u->rx.fd == u->fd)
		lend_udp_connected_note_sender(u, peer);
	return peer;
}

/* Reads what all datagrams of message i have in common. False: the message is dropped. */
static bool open_message(struct io_udp *u, uint32_t i, struct lend_in *like)
{
	struct lend_udp_rx *rx = &u->rx;
	struct mmsghdr *msg = &rx->msg[i];
	uint8_t tos;
	uint32_t len = lend_udp_control(&msg->msg_hdr, &tos);
	int32_t peer;

	lend_udp_urgent_note(u, tos, msg->msg_len);
	len = len == 0 || len > msg->msg_len ? msg->msg_len : len;
	if (msg->msg_hdr.msg_flags & MSG_TRUNC || len > u->io.path.mtu) {
		u->io.stats.rx_truncated++;
		return false;
	}
	peer = sender_of(u, i);
	if (peer == LEND_UDP_PEER_NONE)
		return false;
	*like = (struct lend_in){.len = len,
				 .peer = (uint32_t)peer,
				 .ecn = (tos & 3) == LEND_ECN_MARKED,
				 .addr = &rx->key[i],
				 .addr_len = sizeof(rx->key[i])};
	return true;
}

/* Splits message i from *offset on into up to cap datagrams. *offset is 0 when the message is
 * used up. An empty message is one datagram. */
static uint32_t split_message(struct io_udp *u, uint32_t i, uint32_t *offset, struct lend_in *in,
			      uint32_t cap)
{
	uint32_t total = u->rx.msg[i].msg_len, n = 0;
	const char *data = u->rx.iov[i].iov_base;
	struct lend_in like;
	bool good = open_message(u, i, &like);

	while (good && n < cap) {
		in[n] = like;
		in[n].data = data + *offset;
		in[n].len = lend_min_u32(like.len, total - *offset);
		*offset += in[n++].len;
		good = *offset < total;
	}
	if (!good)
		*offset = 0;
	return n;
}

/* Receives from the urgent socket, one message at a time. rx.fd must be that socket. */
static uint32_t take_fast(struct io_udp *u, struct lend_in *in, uint32_t cap)
{
	struct lend_udp_urgent *f = &u->urgent;
	int got;

	if (f->offset == 0) {
		got = f->lent ? 0 : receive_messages(u, LEND_UDP_URGENT, 1);
		note_queued(u, got > 0, got > 0 ? u->rx.msg[LEND_UDP_URGENT].msg_len : 0, got <= 0);
		if (got <= 0)
			return 0;
	}
	f->lent = true;
	return split_message(u, LEND_UDP_URGENT, &f->offset, in, cap);
}

static uint32_t receive_fast(struct io_udp *u, struct lend_in *in, uint32_t cap)
{
	int fd = u->rx.fd;
	uint32_t n;

	u->rx.fd = u->urgent.fd;
	n = take_fast(u, in, cap);
	u->rx.fd = fd;
	return n;
}

uint32_t lend_udp_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct io_udp *u = lend_udp_self(io);
	uint32_t n = 0;

	lend_udp_single_done(u);
	/* Returns urgent datagrams alone, so that they are answered before long ones are copied.
	 * One rx() of FAIR starts with the others, so that they are not starved. */
	if (lend_udp_urgent_must_poll(u) && ++u->urgent.turns % FAIR != 0)
		n = receive_fast(u, in, cap);
	if (n > 0)
		return n;
	if (u->rx.at == u->rx.n) {
		u->rx.fd = lend_udp_connected_choose(u);
		if (lend_udp_single_may_rx(u, cap))
			return lend_udp_single_rx(u, in);
		refill_messages(u, cap);
	}
	while (n < cap && u->rx.at < u->rx.n) {
		n += split_message(u, u->rx.at, &u->rx.offset, in + n, cap - n);
		u->rx.at += u->rx.offset == 0;
	}
	return n;
}

void lend_udp_rx_done(struct lend_io *io)
{
	struct io_udp *u = lend_udp_self(io);

	lend_udp_single_done(u);
	if (u->rx.at == u->rx.n)
		u->rx.at = u->rx.n = 0;
	u->urgent.lent = u->urgent.offset > 0;
}

static uint32_t room_of(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	(void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len);
	return (uint32_t)bytes;
}

int lend_udp_rx_init(struct io_udp *u)
{
	struct lend_udp_rx *rx = &u->rx;
	int on = 1;
	bool joined = setsockopt(u->fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0;
	uint32_t len = joined ? JOINED_MAX : u->io.path.mtu;

	rx->ask = 1;
	rx->drops_from = room_of(u->fd) / 8;
	rx->room = lend_max_u32(room_of(u->fd) / SMALL, LEAST_ROOM);
	u->io.path.room = rx->room;
	/* The distance is one cache line more than a power of two, so that first lines do not
	 * share a cache set. */
	rx->slot = (uint32_t)lend_align_up(len, 64) + 64;
	rx->memory = calloc(LEND_UDP_SLOTS, rx->slot);
	if (rx->memory == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < LEND_UDP_SLOTS; i++) {
		rx->iov[i] = (struct iovec){rx->memory + (size_t)i * rx->slot, len};
		rx->msg[i].msg_hdr = (struct msghdr){.msg_name = &rx->from[i],
						     .msg_iov = &rx->iov[i],
						     .msg_iovlen = 1,
						     .msg_control = rx->control[i]};
	}
	return 0;
}
