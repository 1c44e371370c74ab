/* udp/tx - joins datagrams to messages for the kernel.
 *
 * Datagrams for one peer with the same length and class go to the kernel as one message
 * (UDP_SEGMENT), so they cost one pass through its layers. The device, or the kernel before it,
 * splits them again. The kernel gathers the pieces, so nothing is lent after tx(). A route may not
 * take joined datagrams of some length: it is narrower than they are long, or its device computes
 * no checksums. Then the first such message fails, and these datagrams are sent one by one from
 * then on. Layer: io. One thread's.
 */
#include "io/udp/udp.h"

#include <errno.h>
#include <linux/pkt_sched.h>
#include <netinet/udp.h>
#include <string.h>

#include "io/builtin.h"
#include "io/udp/route.h"
#include "util/traffic_class.h"

enum {
	RUN_MAX = 64,      /* datagrams that every kernel can join */
	RUN_BYTES = 65487, /* limit of their total bytes, also over IPv6 */
};

/* Returns the run that a datagram may join: the latest of its peer, if it fits there. In an
 * earlier run it would overtake older datagrams. */
static struct lend_udp_run *run_for(struct lend_udp_tx *tx, const struct lend_udp_run *one)
{
	for (uint32_t m = tx->runs; m-- > 0;) {
		struct lend_udp_run *run = &tx->run[m];

		if (run->peer != one->peer)
			continue;
		return !run->closed && run->tos == one->tos && run->len >= one->len &&
			       run->n < RUN_MAX && run->bytes + one->len <= RUN_BYTES
			   ? run
			   : NULL;
	}
	return NULL;
}

/* Queries the route when two datagrams could first be joined. Most peers never get two at once. */
static bool way_joins(struct io_udp *u, uint32_t peer)
{
	const struct lend_udp_peer *p = lend_udp_peers_at(&u->peers, peer);
	struct sockaddr_storage to;

	if (!p->route_known) {
		(void)lend_udp_key_to(&p->key, lend_udp_key_is_v4(&p->key) ? AF_INET : AF_INET6,
				      &to);
		lend_udp_peers_set_joined_max(&u->peers, peer,
					      lend_udp_route_takes_gso(&to) ? UINT16_MAX : 0);
	}
	return p->joined_max > 0;
}

/* Puts datagram i into a run. False: it can never be sent. */
static bool sort_datagram(struct io_udp *u, const struct lend_out *out, uint32_t i)
{
	struct lend_udp_tx *tx = &u->tx;
	const struct lend_udp_peer *peer = lend_udp_peers_at(&u->peers, out->peer);
	struct lend_udp_run *run, one = {.peer = out->peer,
					 .len = lend_out_len(out),
					 .n = 1,
					 .tos = lend_class_tos(out->class),
					 .first = (uint8_t)i,
					 .last = (uint8_t)i};

	if (peer == NULL || one.len > u->io.path.mtu ||
	    (u->family == AF_INET && !lend_udp_key_is_v4(&peer->key)))
		return false;
	one.bytes = one.len;
	one.closed = !tx->joins || one.len > peer->joined_max || one.len == 0;
	run = one.closed ? NULL : run_for(tx, &one);
	if (run == NULL || !way_joins(u, out->peer)) {
		tx->run[tx->runs++] = one;
		return true;
	}
	tx->next[run->last] = (uint8_t)i;
	run->last = (uint8_t)i;
	run->n++;
	run->bytes += one.len;
	run->closed = one.len < run->len;
	return true;
}

static uint32_t gather_pieces(const struct lend_bufs *bufs, const struct lend_out *out,
			      struct iovec *iov)
{
	uint32_t n = 0;

	iov[n++] = (struct iovec){(void *)(uintptr_t)out->head, out->head_len};
	for (uint32_t i = 0; i < out->n; i++)
		iov[n++] = (struct iovec){lend_piece_data(bufs, &out->piece[i]), out->piece[i].len};
	if (out->tail_len > 0)
		iov[n++] = (struct iovec){(void *)(uintptr_t)out->tail, out->tail_len};
	return n;
}

static bool may_prioritise(struct lend_udp_tx *tx)
{
	if (!tx->asked)
		tx->prioritises = lend_udp_takes_priority();
	tx->asked = true;
	return tx->prioritises;
}

/* Adds the class's TOS, and the priority by which the host's own queues (pfifo_fast, prio, mqprio)
 * sort: they do not read class selectors. Class NORMAL uses the socket's own TOS and needs no
 * control data. IPv6 sockets use IPv4's option for mapped IPv4 addresses. */
static void mark_class(struct lend_udp_tx *tx, struct msghdr *msg, const struct lend_udp_key *to,
		       uint8_t tos)
{
	bool six = !lend_udp_key_is_v4(to);

	if (tos == 0)
		return;
	lend_udp_control_add(msg, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS,
			     tos | LEND_ECN_CAPABLE, sizeof(int));
	if (may_prioritise(tx))
		lend_udp_control_add(msg, SOL_SOCKET, SO_PRIORITY,
				     tos >= LEND_TOS_URGENT ? TC_PRIO_INTERACTIVE : TC_PRIO_BULK,
				     sizeof(int));
}

/* Returns whether the run may use the connected socket. A listener's connected socket is a separate
 * one: only a burst of a single message can use it. */
static bool uses_connected(const struct io_udp *u, const struct lend_udp_key *key)
{
	return (u->connected.fd == u->fd || u->tx.runs == 1) && lend_udp_connected_has(u, key);
}

/* Builds the kernel's message of run m out of pieces from *iov on. */
static void prepare_message(struct io_udp *u, const struct lend_bufs *bufs,
			    const struct lend_out *out, uint32_t m, struct iovec **iov)
{
	struct lend_udp_tx *tx = &u->tx;
	const struct lend_udp_run *run = &tx->run[m];
	const struct lend_udp_key *key = &lend_udp_peers_at(&u->peers, run->peer)->key;
	struct msghdr *msg = &tx->msg[m].msg_hdr;
	uint32_t i = run->first;

	*msg = (struct msghdr){.msg_iov = *iov, .msg_control = tx->control[m]};
	if (!uses_connected(u, key)) {
		msg->msg_name = &tx->to[m];
		msg->msg_namelen = lend_udp_key_to(key, u->family, &tx->to[m]);
	}
	mark_class(tx, msg, key, run->tos);
	if (run->n > 1)
		lend_udp_control_add(msg, IPPROTO_UDP, UDP_SEGMENT, (int)run->len,
				     sizeof(uint16_t));
	for (uint32_t k = 0; k < run->n; k++, i = tx->next[i])
		*iov += gather_pieces(bufs, &out[i], *iov);
	msg->msg_iovlen = (size_t)(*iov - msg->msg_iov);
}

/* Copies its bytes into one piece. 0: too many. */
static size_t flatten_message(struct lend_udp_tx *tx, const struct msghdr *msg)
{
	size_t len = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (len + msg->msg_iov[i].iov_len > LEND_UDP_FLAT)
			return 0;
		memcpy(tx->flat + len, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		len += msg->msg_iov[i].iov_len;
	}
	return len;
}

/* Sends one message. A short one goes without a struct msghdr, which the kernel would have to
 * fetch and check. */
static ssize_t send_one(struct io_udp *u, const struct msghdr *msg)
{
	size_t len = msg->msg_controllen == 0 ? flatten_message(&u->tx, msg) : 0;
	int fd = msg->msg_name == NULL ? u->connected.fd : u->fd;

	if (len == 0)
		return sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendto(fd, u->tx.flat, len, MSG_DONTWAIT | MSG_NOSIGNAL, msg->msg_name,
		      msg->msg_namelen);
}

static int send_some(struct io_udp *u, struct mmsghdr *msg, uint32_t n)
{
	if (n > 1)
		return sendmmsg(u->fd, msg, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return send_one(u, &msg->msg_hdr) < 0 ? -1 : 1;
}

static bool is_full(int err)
{
	return err == EAGAIN || err == ENOBUFS || err == ENOMEM;
}

/* Sends messages [0, n). Returns how many were sent, or lost as any datagram may be. The kernel
 * stops at the first one that it refuses. If the socket is full, the rest has to wait. Any other
 * *err concerns that one message. */
static uint32_t send_all(struct io_udp *u, struct mmsghdr *msg, uint32_t n, int *err)
{
	uint32_t done = 0, tries = 0;

	*err = 0;
	while (done < n) {
		int sent = send_some(u, msg + done, n - done);

		if (sent > 0) {
			done += (uint32_t)sent;
			continue;
		}
		/* Perhaps the error of an earlier datagram: a second error is this one's. */
		if (lend_udp_is_stale(errno) && tries++ == 0)
			continue;
		*err = errno;
		break;
	}
	return done;
}

/* Returns whether the route or its device refuses joined datagrams of that length. */
static bool is_unjoinable(int err)
{
	return err == EINVAL || err == EMSGSIZE || err == EIO || err == EOPNOTSUPP;
}

/* Marks n datagrams of a run, from i on, as full: the caller offers them again. */
static void mark_full(struct io_udp *u, struct lend_out *out, uint32_t i, uint32_t n)
{
	u->io.stats.tx_full += n;
	for (; n > 0; n--, i = u->tx.next[i])
		out[i].sent = LEND_SENT_FULL;
}

/* Sends the datagrams of a run one by one. False: the socket is full; the rest is marked as
 * full. */
static bool send_apart(struct io_udp *u, struct lend_out *out, uint32_t m)
{
	const struct lend_udp_run *run = &u->tx.run[m];
	struct mmsghdr one = {.msg_hdr = u->tx.msg[m].msg_hdr};
	uint32_t i = run->first;
	int err;

	one.msg_hdr.msg_controllen = 0;
	mark_class(&u->tx, &one.msg_hdr, &lend_udp_peers_at(&u->peers, run->peer)->key, run->tos);
	for (uint32_t k = 0; k < run->n; k++, i = u->tx.next[i]) {
		one.msg_hdr.msg_iovlen = 1u + out[i].n + (out[i].tail_len > 0);
		if (send_all(u, &one, 1, &err) == 0 && is_full(err)) {
			mark_full(u, out, i, run->n - k);
			return false;
		}
		one.msg_hdr.msg_iov += one.msg_hdr.msg_iovlen;
	}
	return true;
}

/* A message that the kernel refuses for good is lost, like any other datagram. */
static void send_runs(struct io_udp *u, struct lend_out *out)
{
	struct lend_udp_tx *tx = &u->tx;
	bool room = true;
	uint32_t m = 0;
	int err;

	while (room && m < tx->runs) {
		m += send_all(u, tx->msg + m, tx->runs - m, &err);
		if (m == tx->runs || is_full(err))
			break;
		if (tx->run[m].n > 1 && is_unjoinable(err)) {
			lend_udp_peers_set_joined_max(&u->peers, tx->run[m].peer,
						      tx->run[m].len - 1);
			room = send_apart(u, out, m);
		}
		m++;
	}
	for (; m < tx->runs; m++)
		mark_full(u, out, tx->run[m].first, tx->run[m].n);
}

void lend_udp_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct io_udp *u = lend_udp_self(io);
	struct iovec *iov = u->tx.iov;

	for (; n > LEND_UDP_BURST; n -= LEND_UDP_BURST, out += LEND_UDP_BURST)
		lend_udp_tx(io, bufs, out, LEND_UDP_BURST);
	if (n == 1 && lend_udp_single_tx(u, bufs, out))
		return;
	u->tx.runs = 0;
	for (uint32_t i = 0; i < n; i++) {
		bool good = sort_datagram(u, &out[i], i);

		out[i].sent = good ? LEND_SENT : LEND_SENT_DEAD;
		u->io.stats.tx_dead += !good;
	}
	for (uint32_t m = 0; m < u->tx.runs; m++)
		prepare_message(u, bufs, out, m, &iov);
	send_runs(u, out);
}

void lend_udp_tx_init(struct io_udp *u)
{
	int off = 0;

	u->tx.joins = setsockopt(u->fd, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof(off)) == 0;
	u->io.path.joins = u->tx.joins;
}
